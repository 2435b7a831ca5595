use super::*;
use crate::error::AppendError;
use crate::formats::transaction_index::AbortedTransaction;
use mainstem_env::{Fault, FaultAction, OpenOptions};
use mainstem_record::ControlRecord;

fn append(log: &PartitionLog, id: i64, epoch: i16, sequence: i32, count: usize) -> Result<Appended, AppendError> {
    log.append(&produced(id, epoch, sequence, &vec!["v"; count]), &client())
}

#[test]
fn row_13_the_last_five_batches_are_recognised_with_their_first_offsets() {
    let (_, log) = create(LogConfig::default());
    for n in 0..6 {
        append(&log, 1, 0, n * 2, 2).unwrap();
    }
    for n in 1..6 {
        let again = append(&log, 1, 0, n * 2, 2).unwrap();
        assert_eq!(
            (again.duplicate, again.base_offset, again.last_offset.0),
            (true, Offset(i64::from(n) * 2), i64::from(n) * 2 + 1)
        );
    }
    assert_eq!(log.log_end(), Offset(12));
    // The sixth last is not known any more.
    assert!(matches!(append(&log, 1, 0, 0, 2), Err(AppendError::OutOfOrderSequence { expected: 12, found: 0, .. })));
}

#[test]
fn row_13_a_duplicate_gets_the_append_time_of_the_first() {
    let (_, log) =
        create(LogConfig { timestamp_type: mainstem_record::TimestampType::LogAppendTime, ..LogConfig::default() });
    append(&log, 1, 0, 0, 1).unwrap();
    let later = AppendContext { now: TimestampMs(NOW.0 + 5), ..client() };
    let again = log.append(&produced(1, 0, 0, &["v"]), &later).unwrap();
    assert_eq!((again.duplicate, again.append_time), (true, NOW));
}

#[test]
fn row_14_sequences_must_follow_and_wrap_to_zero() {
    let (_, log) = create(LogConfig::default());
    append(&log, 1, 0, i32::MAX - 1, 2).unwrap();
    append(&log, 1, 0, 0, 1).unwrap();
    assert!(matches!(append(&log, 1, 0, 2, 1), Err(AppendError::OutOfOrderSequence { expected: 1, found: 2, .. })));
    append(&log, 1, 0, 1, 1).unwrap();
    append(&log, 2, 0, i32::MAX, 3).unwrap();
    let again = append(&log, 2, 0, i32::MAX, 3).unwrap();
    assert!(again.duplicate, "a batch that wraps inside is known again");
    append(&log, 2, 0, 2, 1).unwrap();
}

#[test]
fn row_14_a_new_epoch_begins_at_zero_and_row_16_an_older_one_is_fenced() {
    let (_, log) = create(LogConfig::default());
    append(&log, 1, 0, 0, 3).unwrap();
    assert!(matches!(append(&log, 1, 1, 3, 1), Err(AppendError::OutOfOrderSequence { expected: 0, found: 3, .. })));
    append(&log, 1, 1, 0, 1).unwrap();
    assert!(matches!(
        append(&log, 1, 0, 3, 1),
        Err(AppendError::InvalidProducerEpoch { current: ProducerEpoch(1), found: ProducerEpoch(0), .. })
    ));
    assert!(matches!(append(&log, 1, 0, 0, 3), Err(AppendError::InvalidProducerEpoch { .. })), "not a duplicate");
}

#[test]
fn row_15_an_unknown_producer_may_begin_anywhere_also_after_it_expired() {
    let (_, log) = create(LogConfig::default());
    append(&log, 1, 3, 1234, 1).unwrap();
    let day = 24 * 60 * 60 * 1000;
    assert_eq!(log.expire_producers(TimestampMs(NOW.0 + day - 1)), 0);
    assert_eq!(log.expire_producers(TimestampMs(NOW.0 + day)), 1);
    append(&log, 1, 3, 99, 1).unwrap();
}

#[test]
fn producers_survive_a_clean_stop_and_a_kill() {
    let (fs, log) = create(small());
    for n in 0..30 {
        append(&log, 1, 0, n, 1).unwrap();
        append(&log, 2, 4, n, 1).unwrap();
    }
    let before = log.producers();
    let killed = fs.crash(mainstem_env::CrashPolicy::Everything);
    let (log2, _) = open(&killed, OpenFacts::default(), small());
    assert_eq!(log2.producers(), before);
    for n in 25..30 {
        assert!(append(&log2, 1, 0, n, 1).unwrap().duplicate, "after a kill all five are known");
    }
    log.close().unwrap();
    let (log3, recovery) = open(&fs, clean(), small());
    assert_eq!(recovery.segments_scanned, 0);
    assert_eq!(log3.producers(), before);
    assert!(append(&log3, 1, 0, 29, 1).unwrap().duplicate);
    append(&log3, 1, 0, 30, 1).unwrap();
    assert!(matches!(append(&log3, 2, 4, 31, 1), Err(AppendError::OutOfOrderSequence { .. })));
}

#[test]
fn a_damaged_snapshot_is_made_up_for_by_the_log() {
    let (fs, log) = create(small());
    for n in 0..40 {
        append(&log, 1, 0, n, 1).unwrap();
    }
    log.close().unwrap();
    let listing = listing::Listing::read(&fs, Path::new(FOLDER)).unwrap();
    assert!(listing.snapshots.len() > 2);
    for offset in listing.snapshots {
        let path = log.file(offset, names::PRODUCER_SNAPSHOT);
        let mut bytes = fs.read_all(&path).unwrap();
        bytes[8] ^= 1;
        fs.atomic_write(&path, &bytes).unwrap();
    }
    let (log, _) = open(&fs, clean(), small());
    assert_eq!(log.producers()[0].last_sequence, 39);
}

fn transactional(id: i64, sequence: i32) -> Bytes {
    let mut builder = BatchBuilder::new().producer(ProducerId(id), ProducerEpoch(0), sequence).transactional();
    builder.append(NOW, None, Some(b"in a transaction"), &[]);
    Bytes::from(builder.build().unwrap())
}

fn marker(id: i64, committed: bool) -> Bytes {
    let mut builder = BatchBuilder::new().producer(ProducerId(id), ProducerEpoch(0), -1).transactional();
    builder.append_control(NOW, &ControlRecord::EndTransaction { committed, coordinator_epoch: 3 });
    Bytes::from(builder.build().unwrap())
}

#[test]
fn row_22_transactions_hold_the_last_stable_offset_and_aborts_are_found_again() {
    let (fs, log) = create(small());
    let coordinator = AppendContext { origin: Origin::Coordinator, ..client() };
    put(&log, &["plain"]);
    log.append(&transactional(1, 0), &client()).unwrap(); // 1
    log.append(&transactional(2, 0), &client()).unwrap(); // 2
    assert_eq!(log.first_unstable_offset(Offset(3)), Some(Offset(1)));
    assert!(matches!(append(&log, 1, 0, 1, 1), Err(AppendError::InvalidTransactionState { .. })));
    log.append(&marker(1, false), &coordinator).unwrap(); // 3
    assert_eq!(log.first_unstable_offset(Offset(3)), Some(Offset(1)), "the marker is not below the high watermark");
    assert_eq!(log.first_unstable_offset(Offset(4)), Some(Offset(2)));
    log.append(&marker(2, true), &coordinator).unwrap(); // 4
    assert_eq!(log.first_unstable_offset(Offset(5)), None);
    let aborted = AbortedTransaction {
        producer_id: ProducerId(1),
        first_offset: Offset(1),
        last_offset: Offset(3),
        last_stable_offset: Offset(2),
    };
    assert_eq!(log.aborted_transactions(Offset(0), Offset(5)).unwrap(), [aborted]);
    assert_eq!(log.aborted_transactions(Offset(4), Offset(5)).unwrap(), []);
    assert_eq!(log.aborted_transactions(Offset(0), Offset(1)).unwrap(), []);
    fill(&log, 20);
    log.append(&transactional(3, 0), &client()).unwrap();
    let open_at = log.log_end().0 - 1;
    for (fs, facts) in [(fs.crash(mainstem_env::CrashPolicy::Everything), OpenFacts::default()), {
        log.close().unwrap();
        (fs, clean())
    }] {
        let (log, _) = open(&fs, facts, small());
        assert_eq!(log.aborted_transactions(Offset(0), Offset(5)).unwrap(), [aborted]);
        assert_eq!(log.first_unstable_offset(log.log_end()), Some(Offset(open_at)));
    }
}

#[test]
fn an_abort_without_a_descriptor_for_its_index_ends_no_log_and_is_seen_everywhere() {
    let coordinator = AppendContext { origin: Origin::Coordinator, ..client() };
    for action in [FaultAction::NoDescriptor, FaultAction::NoSpace] {
        let (fs, log) = create(small());
        let fails_next = || fs.plan_fault(Fault::any(1).with(action).on(names::TRANSACTION_INDEX));
        let mut aborted = Vec::new();
        let mut abort = |log: &PartitionLog, fails: bool| {
            let first = log.append(&transactional(1, aborted.len() as i32), &client()).unwrap().base_offset;
            fs.clear_faults();
            let met = fs.faults_met();
            fails.then(&fails_next);
            aborted.push((first, log.append(&marker(1, false), &coordinator).unwrap().base_offset));
            assert_eq!(fs.faults_met() > met, fails, "{action:?}");
            let found = log.aborted_transactions(Offset(0), log.log_end()).unwrap();
            let found: Vec<_> = found.iter().map(|entry| (entry.first_offset, entry.last_offset)).collect();
            assert_eq!(found, aborted, "{action:?}");
        };
        for fails in [false, true, true] {
            abort(&log, fails);
        }
        assert!(log.failure().is_none(), "{action:?}: {:?}", log.failure());
        // What is not in the index is in no checkpoint, and its segment is not sealed.
        log.flush_blocking().unwrap();
        fails_next();
        log.prepare_checkpoint().unwrap_err();
        fails_next();
        log.roll(&mut log.state.lock(), Offset(6)).unwrap_err();
        assert!(log.failure().is_none() && log.segment_count() == 1, "{action:?}");
        let killed = fs.crash(mainstem_env::CrashPolicy::Nothing);
        // A write without room may leave a part of an entry.
        let index = log.file(Offset(0), names::TRANSACTION_INDEX);
        let entry = fs.read_all(&index).unwrap();
        fs.open(&index, &OpenOptions::create()).unwrap().write_all_at(&entry[..10], entry.len() as u64).unwrap();
        assert_eq!(log.aborted_transactions(Offset(0), log.log_end()).unwrap().len(), 3);
        abort(&log, false);
        log.flush_blocking().unwrap();
        assert_eq!(log.prepare_checkpoint().unwrap().recovery_point, Offset(8));
        fill(&log, 20);
        assert!(log.segment_count() > 1);
        log.close().unwrap();
        for (fs, facts, known) in [(killed, OpenFacts::default(), 3), (fs, clean(), 4)] {
            let (log, _) = open(&fs, facts, small());
            let found = log.aborted_transactions(Offset(0), log.log_end()).unwrap();
            assert_eq!(found.len(), known, "{action:?}");
        }
    }
}

#[test]
fn an_open_transaction_keeps_its_producer_from_expiring() {
    let (_, log) = create(LogConfig::default());
    log.append(&transactional(1, 0), &client()).unwrap();
    assert_eq!(log.expire_producers(TimestampMs(i64::MAX)), 0);
}
