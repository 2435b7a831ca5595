use super::*;
use mainstem_broker::FetchWaiters;
use mainstem_types::{LeaderEpoch, Offset, PartitionIndex};

fn key(name: &str, partition: i32) -> PartitionKey {
    PartitionKey { topic: TopicReference::Name(name.into()), partition: PartitionIndex(partition) }
}

fn wanted(offset: i64) -> Wanted {
    Wanted {
        fetch_offset: Offset(offset),
        current_leader_epoch: LeaderEpoch::NONE,
        last_fetched_epoch: LeaderEpoch::NONE,
        max_bytes: 1 << 20,
    }
}

fn request(session_id: i32, session_epoch: i32, partitions: &[(PartitionKey, Wanted)]) -> SessionRequest {
    SessionRequest {
        session_id,
        session_epoch,
        by_id: false,
        isolation: Isolation::ReadUncommitted,
        min_bytes: 1,
        partitions: partitions.to_vec(),
        forgotten: Vec::new(),
    }
}

const QUIET: Answered = Answered {
    is_error: false,
    has_records: false,
    has_notice: false,
    high_watermark: Offset(10),
    log_start: Offset(0),
    seen: None,
};

fn finish(cache: &SessionCache, plan: &FetchPlan, answers: &[Answered], now: Duration) -> Finish {
    cache.finish(plan, &plan.partitions, answers, now)
}

fn at(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A session of the partitions `t-0 … t-(count-1)`, told the quiet answer.
fn session(cache: &SessionCache, count: i32, now: Duration) -> i32 {
    let partitions: Vec<_> = (0..count).map(|p| (key("t", p), wanted(0))).collect();
    let plan = cache.begin(request(0, INITIAL_EPOCH, &partitions), now).unwrap();
    finish(cache, &plan, &vec![QUIET; count as usize], now).session_id
}

#[test]
fn a_full_fetch_answers_everything_and_makes_a_session() {
    let cache = SessionCache::new(10);
    let plan = cache.begin(request(0, INITIAL_EPOCH, &[(key("t", 0), wanted(5))]), at(0)).unwrap();
    let finish = finish(&cache, &plan, &[QUIET], at(0));
    assert_ne!(finish.session_id, NO_SESSION);
    assert_eq!(finish.included, [true]);
    assert_eq!(cache.len(), 1);
}

#[test]
fn an_incremental_answer_has_only_what_is_new() {
    let cache = SessionCache::new(10);
    let id = session(&cache, 3, at(0));
    let plan = cache.begin(request(id, 1, &[]), at(1)).unwrap();
    assert_eq!(plan.partitions.len(), 3);
    let watermark = Answered { high_watermark: Offset(11), ..QUIET };
    let start = Answered { log_start: Offset(2), ..QUIET };
    assert_eq!(finish(&cache, &plan, &[QUIET, watermark.clone(), start.clone()], at(1)).included, [false, true, true]);
    let plan = cache.begin(request(id, 2, &[]), at(1)).unwrap();
    assert_eq!(
        finish(&cache, &plan, &[QUIET, watermark.clone(), start.clone()], at(1)).included,
        [false; 3],
        "it knows by now"
    );
}

#[test]
fn after_an_error_the_partition_is_sent_again_when_the_error_is_gone() {
    let cache = SessionCache::new(10);
    let id = session(&cache, 1, at(0));
    let error = Answered { is_error: true, ..QUIET };
    for (epoch, answer, expected) in [(1, error.clone(), true), (2, error, true), (3, QUIET, true), (4, QUIET, false)] {
        let plan = cache.begin(request(id, epoch, &[]), at(0)).unwrap();
        assert_eq!(finish(&cache, &plan, std::slice::from_ref(&answer), at(0)).included, [expected], "epoch {epoch}");
    }
}

#[test]
fn partitions_are_added_changed_and_forgotten() {
    let cache = SessionCache::new(10);
    let id = session(&cache, 2, at(0));
    let mut change = request(id, 1, &[(key("t", 1), wanted(7)), (key("u", 0), wanted(1))]);
    change.forgotten = vec![key("t", 0)];
    let plan = cache.begin(change, at(0)).unwrap();
    let offsets: Vec<_> = plan.partitions.iter().map(|(k, w)| (k.clone(), w.fetch_offset.0)).collect();
    assert_eq!(offsets, [(key("t", 1), 7), (key("u", 0), 1)]);
    assert_eq!(finish(&cache, &plan, &[QUIET, QUIET], at(0)).included, [false, true], "the new one is told once");
}

#[test]
fn a_session_that_forgets_everything_is_gone() {
    let cache = SessionCache::new(10);
    let id = session(&cache, 1, at(0));
    let mut change = request(id, 1, &[]);
    change.forgotten = vec![key("t", 0)];
    let plan = cache.begin(change, at(0)).unwrap();
    assert_eq!(finish(&cache, &plan, &[], at(0)), Finish { session_id: NO_SESSION, included: vec![] });
    assert!(cache.is_empty());
}

#[test]
fn unknown_ids_wrong_epochs_and_mixed_naming_are_told() {
    let cache = SessionCache::new(10);
    assert_eq!(cache.begin(request(99, 1, &[]), at(0)).unwrap_err(), SessionError::NotFound);
    let id = session(&cache, 1, at(0));
    assert_eq!(cache.begin(request(id, 2, &[]), at(0)).unwrap_err(), SessionError::InvalidEpoch);
    let by_id = SessionRequest { by_id: true, ..request(id, 1, &[]) };
    assert_eq!(cache.begin(by_id, at(0)).unwrap_err(), SessionError::TopicIdMix);
    assert!(cache.begin(request(id, 1, &[]), at(0)).is_ok(), "an error does not move the epoch");
}

#[test]
fn the_final_epoch_closes_the_session() {
    let cache = SessionCache::new(10);
    let id = session(&cache, 1, at(0));
    let plan = cache.begin(request(id, FINAL_EPOCH, &[(key("t", 0), wanted(0))]), at(0)).unwrap();
    assert_eq!(finish(&cache, &plan, &[QUIET], at(0)), Finish { session_id: NO_SESSION, included: vec![true] });
    assert!(cache.is_empty());
}

#[test]
fn epochs_wrap_from_the_greatest_to_one() {
    assert_eq!(next_epoch(1), 2);
    assert_eq!(next_epoch(i32::MAX), 1);
}

#[test]
fn a_client_that_asks_for_a_new_session_each_time_does_not_leak() {
    let cache = SessionCache::new(3);
    for second in 0..100 {
        session(&cache, 1, at(second));
    }
    assert_eq!(cache.len(), 3);
    assert_eq!(session(&cache, 1, at(110)), NO_SESSION, "all were used a moment ago");
    assert_ne!(session(&cache, 1, at(500)), NO_SESSION, "an idle one gives way");
    assert_eq!(cache.len(), 3);
}

#[test]
fn a_larger_session_takes_the_place_of_a_smaller_old_one() {
    let cache = SessionCache::new(1);
    let small = session(&cache, 1, at(0));
    let plan = cache.begin(request(small, 1, &[]), at(200)).unwrap();
    finish(&cache, &plan, &[QUIET], at(200));
    assert_eq!(session(&cache, 1, at(201)), NO_SESSION, "the same size does not");
    assert_ne!(session(&cache, 2, at(201)), NO_SESSION);
}

#[test]
fn partitions_that_were_served_go_to_the_end() {
    let cache = SessionCache::new(10);
    let id = session(&cache, 3, at(0));
    let plan = cache.begin(request(id, 1, &[]), at(0)).unwrap();
    let data = Answered { has_records: true, ..QUIET };
    finish(&cache, &plan, &[data, QUIET, QUIET], at(0));
    let plan = cache.begin(request(id, 2, &[]), at(0)).unwrap();
    let order: Vec<_> = plan.partitions.iter().map(|(key, _)| key.partition.0).collect();
    assert_eq!(order, [1, 2, 0]);
}

#[test]
fn what_all_sessions_remember_together_is_bounded() {
    let cache = SessionCache { weight_max: 2_000, ..SessionCache::new(1000) };
    let half = 1_000 - 10;
    let (first, second) = (session(&cache, half, at(0)), session(&cache, half, at(1)));
    assert!(first != NO_SESSION && second != NO_SESSION);
    assert_eq!(session(&cache, 21, at(2)), NO_SESSION, "there is no room");
    assert_ne!(session(&cache, 10, at(2)), NO_SESSION);
    let more: Vec<_> = (half..half + 50).map(|p| (key("t", p), wanted(0))).collect();
    assert_eq!(cache.begin(request(second, 1, &more), at(3)).unwrap_err(), SessionError::NotFound, "it grew too large");
    assert_ne!(session(&cache, 21, at(4)), NO_SESSION, "and is gone");
    let long = "n".repeat(32_000);
    let named: Vec<_> = (0..4).map(|p| (key(&long, p), wanted(0))).collect();
    let plan = cache.begin(request(0, INITIAL_EPOCH, &named), at(5)).unwrap();
    assert_eq!(finish(&cache, &plan, &vec![QUIET; named.len()], at(5)).session_id, NO_SESSION, "names weigh too");
    assert_ne!(session(&cache, half, at(500)), NO_SESSION, "idle ones give way");
}

/// What a look gives that saw all of a partition.
fn saw_all(partition: &Arc<FetchWaiters>) -> Answered {
    let seen = Seen { partition: Arc::clone(partition), changes: partition.changes(), is_all: true };
    Answered { seen: Some(seen), ..QUIET }
}

fn places(plan: &FetchPlan) -> Vec<i32> {
    plan.partitions.iter().map(|(key, _)| key.partition.0).collect()
}

#[test]
fn what_has_nothing_to_tell_is_not_looked_at_until_it_changes() {
    let cache = SessionCache::new(10);
    let id = session(&cache, 3, at(0));
    let logs: [Arc<FetchWaiters>; 3] = Default::default();
    let plan = cache.begin(request(id, 1, &[]), at(0)).unwrap();
    let behind = Seen { is_all: false, ..saw_all(&logs[2]).seen.unwrap() };
    let more = Answered { seen: Some(behind), ..QUIET };
    finish(&cache, &plan, &[saw_all(&logs[0]), saw_all(&logs[1]), more], at(0));

    let plan = cache.begin(request(id, 2, &[]), at(0)).unwrap();
    assert_eq!(places(&plan), [2], "it has more than was answered");
    logs[1].changed();
    assert_eq!(plan.changed().unwrap().len(), 2, "while the fetch waits, too");
    finish(&cache, &plan, &[saw_all(&logs[2])], at(0));

    let plan = cache.begin(request(id, 3, &[(key("t", 0), wanted(0))]), at(0)).unwrap();
    assert_eq!(places(&plan), [1], "the same wish is no change");
    let unsent = Answered { high_watermark: Offset(11), ..saw_all(&logs[1]) };
    plan.saw(&plan.partitions, std::slice::from_ref(&unsent));
    assert_eq!(plan.changed().unwrap().len(), 1, "the client does not know the watermark yet");
    assert_eq!(finish(&cache, &plan, &[unsent], at(0)).included, [true]);

    let plan = cache.begin(request(id, 4, &[(key("t", 2), wanted(1))]), at(0)).unwrap();
    assert_eq!(places(&plan), [2], "another wish is");
    finish(&cache, &plan, &[saw_all(&logs[2])], at(0));

    let committed = SessionRequest { isolation: Isolation::ReadCommitted, ..request(id, 5, &[]) };
    assert_eq!(places(&cache.begin(committed, at(0)).unwrap()), [0, 1, 2]);
}

#[test]
fn a_wait_is_kept_for_the_next_fetch_of_the_same_partitions() {
    let cache = SessionCache::new(10);
    let id = session(&cache, 2, at(0));
    let logs: [Arc<FetchWaiters>; 3] = Default::default();
    let plan = cache.begin(request(id, 1, &[]), at(0)).unwrap();
    let answers = [saw_all(&logs[0]), saw_all(&logs[1])];
    plan.saw(&plan.partitions, &answers);
    let wait = plan.register(&answers);
    assert!(plan.wait.is_none() && plan.is_complete(&wait));
    plan.give_back(wait);

    let mut plan = cache.begin(request(id, 2, &[(key("t", 2), wanted(0))]), at(0)).unwrap();
    let wait = plan.wait.take().unwrap();
    plan.saw(&plan.partitions, &[saw_all(&logs[2])]);
    assert!(!plan.is_complete(&wait), "there is one more");
    plan.give_back(wait);
    let plan = cache.begin(request(id, 3, &[]), at(0)).unwrap();
    assert!(plan.wait.is_none());
    plan.give_back(plan.register(&[]));

    let forgets = SessionRequest { forgotten: vec![key("t", 0)], ..request(id, 4, &[]) };
    let plan = cache.begin(forgets, at(0)).unwrap();
    assert!(plan.wait.is_none(), "there is one less");
}

#[test]
fn what_comes_after_the_partitions_were_chosen_wakes_the_fetch() {
    let is_woken = |plan: &FetchPlan| {
        let wait = plan.wait.as_ref().unwrap();
        let waiting = std::pin::pin!(wait.wait.wait());
        waiting.poll(&mut std::task::Context::from_waker(std::task::Waker::noop())).is_ready()
    };
    let cache = SessionCache::new(10);
    let id = session(&cache, 1, at(0));
    let log: Arc<FetchWaiters> = Arc::default();
    let plan = cache.begin(request(id, 1, &[]), at(0)).unwrap();
    let answers = [saw_all(&log)];
    plan.saw(&plan.partitions, &answers);
    plan.give_back(plan.register(&answers));

    let mut plan = cache.begin(SessionRequest { min_bytes: 100, ..request(id, 2, &[]) }, at(0)).unwrap();
    assert!(plan.partitions.is_empty(), "nothing has changed");
    log.wake(99);
    assert!(!is_woken(&plan));
    log.wake(1);
    assert!(is_woken(&plan));
    log.wake(1);
    let wait = plan.wait.take().unwrap();
    plan.give_back(wait);

    let plan = cache.begin(request(id, 3, &[]), at(0)).unwrap();
    assert_eq!(places(&plan), [0]);
    assert!(!is_woken(&plan), "what came before is looked at");
}
