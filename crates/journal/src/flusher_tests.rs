use super::*;

#[test]
fn a_journal_is_queued_once_and_again_if_somebody_asks_while_it_is_synced() {
    let status = AtomicU8::new(IDLE);
    assert!(mark_requested(&status), "the first request queues it");
    assert!(!mark_requested(&status), "it is in the queue already");
    status.store(RUNNING, Ordering::Release);
    assert!(!mark_requested(&status) && !mark_requested(&status));
    assert!(mark_done(&status), "the sync may have missed what was asked for meanwhile");
    assert_eq!(status.load(Ordering::Acquire), QUEUED);
    status.store(RUNNING, Ordering::Release);
    assert!(!mark_done(&status));
    assert_eq!(status.load(Ordering::Acquire), IDLE);
}
