//! The rules, one a test.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use bytes::Bytes;
use mainstem_env::{CrashPolicy, Fault, FaultAction, MemFs, OpKind, OpenOptions};
use mainstem_record::{BatchBuilder, ControlRecord};
use mainstem_store::{AppendContext, AppendError, Durability, LogConfig, Origin, ReadError, ReadRequest, TopicLog};
use mainstem_types::{LeaderEpoch, Offset, ProducerEpoch, ProducerId, TimestampMs, TopicId};

use crate::in_every_layout;
use crate::node::*;

in_every_layout! {
    offsets_are_dense_in_each_partition
    reads_give_whole_batches_within_bounds
    records_are_found_by_time
    the_newest_record_is_one_of_those_that_are_left
    producers_are_judged_in_each_partition
    aborted_transactions_are_told
    epochs_are_kept
    durability_os_is_told_of_no_flush_and_disk_is
    durability_changes_while_running
    a_sync_without_a_descriptor_acknowledges_nothing_and_is_tried_again
    the_batch_that_reaches_flush_messages_is_acknowledged_after_the_sync
    flush_messages_changes_while_running
    retention_by_size_and_time_keeps_the_newest
    deleted_records_stay_deleted
    a_cut_takes_the_end
    an_orderly_stop_keeps_everything
    a_killed_process_loses_nothing
    a_damaged_tail_is_cut
    a_deleted_topic_does_not_come_back_under_its_name
}

fn node(layout: Layout) -> Node {
    Node::start(&MemFs::new(), layout)
}

fn offsets_are_dense_in_each_partition(layout: Layout) {
    let node = node(layout);
    for n in 0..20 {
        let appended = put(&node.logs[0], &["a", "b", "c"]);
        assert_eq!((appended.base_offset, appended.last_offset), (Offset(3 * n), Offset(3 * n + 2)));
        assert_eq!(put(&node.logs[1], &["x"]).base_offset, Offset(n));
    }
    let positions = node.logs[0].positions();
    assert_eq!((positions.log_start, positions.log_end), (Offset(0), Offset(60)));
    assert!(node.logs[0].segment_count() > 1 && node.logs[0].size_bytes() > 1000);
}

fn reads_give_whole_batches_within_bounds(layout: Layout) {
    let node = node(layout);
    for _ in 0..25 {
        put(&node.logs[0], &["a", "b", "c", "d"]);
        fill(&node.logs[1], 1);
    }
    let log = &node.logs[0];
    for from in 0..100 {
        let found = read(log, from, 100, 1);
        assert_eq!((found[0].0, found.len()), (from / 4 * 4, 4), "one batch, however small the limit");
        assert!(read(log, from, from / 4 * 4, 1 << 20).is_empty() || from % 4 == 0);
    }
    assert_eq!(read(log, 0, 8, 1 << 20).len(), 8);
    assert!(read(log, 100, 200, 1 << 20).is_empty());
    let beyond = ReadRequest { from: Offset(101), max_bytes: 1, upper: Offset(200), min_one_batch: true };
    assert!(matches!(log.read(&beyond), Err(ReadError::OutOfRange { log_end: Offset(100), .. })));
    let none = ReadRequest { from: Offset(0), max_bytes: 1, upper: Offset(200), min_one_batch: false };
    assert_eq!(log.read(&none).unwrap().bytes, 0);
    // From memory: the same, or nothing.
    let newest = ReadRequest { from: Offset(96), max_bytes: 1 << 20, upper: Offset(100), min_one_batch: true };
    assert_eq!(records(&bytes_of(&log.read_nowait(&newest).unwrap())).len(), 4);
}

fn records_are_found_by_time(layout: Layout) {
    let node = node(layout);
    let times: Vec<i64> = (0..300).map(|n| 1000 + (n * 7919) % 50 + n).collect();
    for time in &times {
        node.logs[0].append(&batch_at(*time, &["v"]), &client()).unwrap();
        fill(&node.logs[1], 1);
    }
    for target in (990..1400).step_by(7) {
        let expected = times.iter().position(|time| *time >= target).map(|offset| offset as i64);
        let found = node.logs[0].find_by_time(TimestampMs(target), Offset(300)).unwrap();
        assert_eq!(found.map(|found| found.offset.0), expected, "time {target}");
    }
    assert_eq!(node.logs[0].find_by_time(TimestampMs(1300), Offset(10)).unwrap(), None, "not below the bound");
    let newest = times.iter().max().unwrap();
    assert_eq!(node.logs[0].find_max_timestamp(Offset(300)).unwrap().unwrap().timestamp.0, *newest);
}

/// Kafka would give the offset of a deleted record here.
fn the_newest_record_is_one_of_those_that_are_left(layout: Layout) {
    let node = node(layout);
    let log = &node.logs[0];
    let times: Vec<i64> = (0..120).map(|n| 10_000 - n * 10 + (n % 7) * 25).collect();
    for pair in times.chunks(2) {
        let mut builder = BatchBuilder::new();
        for time in pair {
            builder.append(TimestampMs(*time), None, Some(&[7; 40]), &[]);
        }
        log.append(&Bytes::from(builder.build().unwrap()), &client()).unwrap();
        fill(&node.logs[1], 1);
    }
    for log_start in [0, 1, 2, 3, 8, 9, 40, 41, 77, 118, 119, 120] {
        log.raise_log_start(Offset(log_start as i64), Offset(120)).unwrap();
        for upper in [120, 119, 101, 60, 41, 10, 3, 1].into_iter().filter(|upper| *upper >= log_start) {
            let left = &times[log_start..upper];
            let newest = left.iter().max();
            let first = newest.and_then(|newest| left.iter().position(|time| time == newest));
            let expected = first.map(|first| ((log_start + first) as i64, left[first]));
            let found = log.find_max_timestamp(Offset(upper as i64)).unwrap();
            assert_eq!(found.map(|found| (found.offset.0, found.timestamp.0)), expected, "{log_start}..{upper}");
        }
    }
}

fn producers_are_judged_in_each_partition(layout: Layout) {
    let node = node(layout);
    let [first, second] = [&node.logs[0], &node.logs[1]];
    first.append(&produced(1, 0, 0, &["a", "b"]), &client()).unwrap();
    let again = first.append(&produced(1, 0, 0, &["a", "b"]), &client()).unwrap();
    assert!(again.duplicate && again.base_offset == Offset(0) && again.last_offset == Offset(1));
    let skipped = first.append(&produced(1, 0, 7, &["x"]), &client());
    assert!(matches!(skipped, Err(AppendError::OutOfOrderSequence { expected: 2, found: 7, .. })));
    second.append(&produced(1, 0, 7, &["unknown here: any sequence"]), &client()).unwrap();
    first.append(&produced(1, 1, 0, &["c"]), &client()).unwrap();
    let fenced = first.append(&produced(1, 0, 2, &["x"]), &client());
    assert!(matches!(fenced, Err(AppendError::InvalidProducerEpoch { .. })));
    assert_eq!(first.producers()[0].epoch, ProducerEpoch(1));
    assert_eq!(first.expire_producers(TimestampMs(NOW.0 + 100_000_000_000)), 1);
}

fn marker(commit: bool) -> Bytes {
    let mut builder = BatchBuilder::new().producer(ProducerId(5), ProducerEpoch(0), -1).transactional();
    builder.append_control(NOW, &ControlRecord::EndTransaction { committed: commit, coordinator_epoch: 3 });
    Bytes::from(builder.build().unwrap())
}

fn aborted_transactions_are_told(layout: Layout) {
    let node = node(layout);
    let log = &node.logs[0];
    let coordinator = AppendContext { origin: Origin::Coordinator, ..client() };
    fill(log, 3);
    for (sequence, commit) in (0..).zip([false, true, false]) {
        let mut builder = BatchBuilder::new().producer(ProducerId(5), ProducerEpoch(0), sequence).transactional();
        builder.append(NOW, None, Some(b"in a transaction"), &[]);
        log.append(&Bytes::from(builder.build().unwrap()), &client()).unwrap();
        let open = log.log_end().0 - 1;
        assert_eq!(log.first_unstable_offset(log.log_end()), Some(Offset(open)));
        log.append(&marker(commit), &coordinator).unwrap();
        assert_eq!(log.first_unstable_offset(log.log_end()), None);
    }
    let told = |from, upper| {
        let found = log.aborted_transactions(Offset(from), Offset(upper)).unwrap();
        found.iter().map(|aborted| (aborted.first_offset.0, aborted.last_offset.0)).collect::<Vec<_>>()
    };
    assert_eq!(told(0, 9), [(3, 4), (7, 8)]);
    assert_eq!(told(0, 7), [(3, 4)]);
    assert_eq!(told(5, 9), [(7, 8)]);
}

fn epochs_are_kept(layout: Layout) {
    let node = node(layout);
    for epoch in [1, 1, 4, 4, 4] {
        let context = AppendContext { leader_epoch: LeaderEpoch(epoch), ..client() };
        node.logs[0].append(&batch_at(NOW.0, &["v"]), &context).unwrap();
    }
    node.logs[0].begin_epoch(LeaderEpoch(6)).unwrap();
    let end = |epoch| node.logs[0].end_offset_for_epoch(LeaderEpoch(epoch));
    assert_eq!(end(1), (LeaderEpoch(1), Offset(2)));
    assert_eq!(end(3), (LeaderEpoch(1), Offset(2)));
    assert_eq!(end(6), (LeaderEpoch(6), Offset(5)));
    assert_eq!(node.logs[0].epoch_for_offset(Offset(2)), Some(LeaderEpoch(4)));
}

fn told(node: &Node) -> Arc<AtomicI64> {
    let told = Arc::new(AtomicI64::new(-1));
    let shared = Arc::clone(&told);
    node.logs[0].set_durable_listener(Box::new(move |end| shared.store(end.unwrap().0, Ordering::SeqCst)));
    told
}

fn durability_os_is_told_of_no_flush_and_disk_is(layout: Layout) {
    let node = node(layout);
    let told = told(&node);
    fill(&node.logs[0], 3);
    node.env.run_pending_flushes();
    assert_eq!(told.load(Ordering::SeqCst), -1);
    node.logs[0].set_config(Arc::new(LogConfig { durability: Durability::Disk, ..config() }));
    fill(&node.logs[0], 2);
    fill(&node.logs[1], 2);
    assert_eq!(told.load(Ordering::SeqCst), -1, "not before the flush");
    node.env.run_pending_flushes();
    assert_eq!(told.load(Ordering::SeqCst), 5);
    assert_eq!(node.logs[0].durable_end(), Offset(5));
}

fn durability_changes_while_running(layout: Layout) {
    let node = node(layout);
    let told = told(&node);
    fill(&node.logs[0], 3);
    node.logs[0].set_config(Arc::new(LogConfig { durability: Durability::Disk, ..config() }));
    assert!(!node.logs[0].request_flush(Offset(3)));
    node.env.run_pending_flushes();
    assert_eq!(told.load(Ordering::SeqCst), 3);
    assert!(node.logs[0].request_flush(Offset(3)));
    assert_eq!(node.logs[1].flush_blocking().unwrap(), Offset(0));
}

fn a_sync_without_a_descriptor_acknowledges_nothing_and_is_tried_again(layout: Layout) {
    let node = node(layout);
    let told = told(&node);
    node.logs[0].set_config(Arc::new(LogConfig { durability: Durability::Disk, ..config() }));
    // Into a second segment, whose name is to be synced.
    fill(&node.logs[0], 40);
    for kind in [OpKind::Open, OpKind::SyncDir] {
        node.fs.plan_fault(Fault::of(kind, 1).with(FaultAction::NoDescriptor).and_later());
    }
    for _ in 0..3 {
        node.env.run_pending_flushes();
        assert!(node.logs[0].flush_blocking().is_err());
        assert_eq!((told.load(Ordering::SeqCst), acknowledged(&node.logs[0])), (-1, 0));
    }
    assert!(node.logs[0].failure().is_none());
    node.fs.clear_faults();
    node.env.run_pending_flushes();
    assert_eq!((told.load(Ordering::SeqCst), acknowledged(&node.logs[0])), (40, 40));
    let node = Node::start(&node.fs.crash(CrashPolicy::Nothing), layout);
    expect_filled(&node.logs[0], 0..40);
}

fn acknowledged(log: &TopicLog) -> i64 {
    let ends = log.ends();
    assert!(ends.acknowledged <= ends.log_end && ends.log_end == log.log_end(), "{ends:?}");
    ends.acknowledged.0
}

fn the_batch_that_reaches_flush_messages_is_acknowledged_after_the_sync(layout: Layout) {
    for durability in [Durability::Os, Durability::Memory] {
        let node = node(layout);
        let told = told(&node);
        let log = &node.logs[0];
        log.set_config(Arc::new(LogConfig { flush_messages: 3, durability, ..config() }));
        fill(log, 2);
        assert_eq!((acknowledged(log), node.env.run_pending_flushes()), (2, 0), "below the count nobody waits");
        fill(log, 1);
        assert_eq!(acknowledged(log), 2, "the third record waits for its sync");
        // What comes before the sync has run waits, too; another partition does not.
        fill(log, 1);
        fill(&node.logs[1], 1);
        assert_eq!((acknowledged(log), acknowledged(&node.logs[1])), (2, 1));
        assert_eq!((told.load(Ordering::SeqCst), log.durable_end()), (-1, Offset(0)));
        node.env.run_pending_flushes();
        assert_eq!((acknowledged(log), told.load(Ordering::SeqCst), log.durable_end()), (4, 4, Offset(4)));
        fill(log, 2);
        assert_eq!(acknowledged(log), 6, "the count begins anew");
        put(log, &["a", "b", "c", "d"]);
        assert_eq!(acknowledged(log), 6, "a batch is acknowledged as a whole");
        node.env.run_pending_flushes();
        assert_eq!((acknowledged(log), log.durable_end()), (10, Offset(10)));
    }
}

fn flush_messages_changes_while_running(layout: Layout) {
    let node = node(layout);
    let log = &node.logs[0];
    let flush_messages = |flush_messages| log.set_config(Arc::new(LogConfig { flush_messages, ..config() }));
    fill(log, 5);
    flush_messages(1);
    assert_eq!(acknowledged(log), 5, "what was acknowledged stays so");
    fill(log, 1);
    assert_eq!(acknowledged(log), 5);
    flush_messages(i64::MAX);
    fill(log, 1);
    assert_eq!(acknowledged(log), 5, "what waits for a sync is not acknowledged without it");
    node.env.run_pending_flushes();
    assert_eq!(acknowledged(log), 7);
    fill(log, 1);
    assert_eq!((acknowledged(log), node.env.run_pending_flushes()), (8, 0));
    // A sync that somebody else asked for counts as well.
    flush_messages(2);
    log.flush_blocking().unwrap();
    fill(log, 1);
    assert_eq!((acknowledged(log), log.durable_end()), (9, Offset(8)));
}

fn retention_by_size_and_time_keeps_the_newest(layout: Layout) {
    let node = node(layout);
    for offset in 0..60 {
        node.logs[0].append(&batch_at(NOW.0 + offset, &[&value(offset)]), &client()).unwrap();
    }
    node.logs[0].set_config(Arc::new(LogConfig { retention_bytes: 3000, ..config() }));
    node.retention(NOW).unwrap();
    let start = node.logs[0].log_start().0;
    assert!(start > 0 && start < 50, "{start}");
    expect_filled(&node.logs[0], start..60);
    assert!(matches!(
        node.logs[0].read(&ReadRequest { from: Offset(0), max_bytes: 1, upper: Offset(60), min_one_batch: true }),
        Err(ReadError::OutOfRange { .. })
    ));
    node.logs[0].set_config(Arc::new(LogConfig { retention_ms: 20, ..config() }));
    node.retention(TimestampMs(NOW.0 + 65)).unwrap();
    let later = node.logs[0].log_start().0;
    assert!(later > start && later <= 46, "{later}");
    expect_filled(&node.logs[0], later..60);
    node.retention(TimestampMs(NOW.0 + 1_000)).unwrap();
    assert_eq!(node.logs[0].log_start(), Offset(60), "the active file too");
    assert_eq!(put(&node.logs[0], &["next"]).base_offset, Offset(60));
}

fn deleted_records_stay_deleted(layout: Layout) {
    let node = node(layout);
    fill(&node.logs[0], 30);
    let log = &node.logs[0];
    assert!(log.raise_log_start(Offset(31), Offset(30)).is_err());
    assert!(log.raise_log_start(Offset(20), Offset(10)).is_err(), "not above the watermark");
    assert_eq!(log.raise_log_start(Offset(20), Offset(30)).unwrap(), Offset(20));
    assert_eq!(log.raise_log_start(Offset(5), Offset(30)).unwrap(), Offset(20));
    expect_filled(log, 20..30);
    assert_eq!(log.find_by_time(NOW, Offset(30)).unwrap().unwrap().offset, Offset(20));
    // What DeleteRecords does before it answers; no other checkpoint follows.
    assert!(node.folder.write_checkpoints_of(&[(log.clone(), Offset(30))])[0].is_ok());
    let fs = node.fs.clone();
    drop(node);
    let node = Node::start(&fs, layout);
    expect_filled(&node.logs[0], 20..30);
    node.logs[0].raise_log_start(Offset(30), Offset(30)).unwrap();
    let fs = node.stop().unwrap();
    assert_eq!(put(&Node::start(&fs, layout).logs[0], &["next"]).base_offset, Offset(30));
}

fn a_cut_takes_the_end(layout: Layout) {
    let node = node(layout);
    for n in 0..30 {
        node.logs[0].append(&produced(1, 0, n, &[&value(i64::from(n))]), &client()).unwrap();
    }
    node.checkpoint().unwrap();
    assert_eq!(node.folder.truncate_to(&node.logs[0], Offset(12)).unwrap(), Offset(12));
    assert_eq!(node.folder.truncate_to(&node.logs[0], Offset(12)).unwrap(), Offset(12));
    expect_filled(&node.logs[0], 0..12);
    assert_eq!(node.logs[0].producers()[0].last_sequence, 11);
    assert!(node.logs[0].durable_end() <= Offset(12));
    node.logs[0].append(&produced(1, 0, 12, &[&value(12)]), &client()).unwrap();
    let fs = node.fs.clone();
    drop(node);
    expect_filled(&Node::start(&fs, layout).logs[0], 0..13);
}

fn an_orderly_stop_keeps_everything(layout: Layout) {
    let mut fs = MemFs::new();
    for round in 1..4 {
        let node = Node::start(&fs, layout);
        fill(&node.logs[0], 15);
        fill(&node.logs[1], 5);
        expect_filled(&node.logs[0], 0..15 * round);
        expect_filled(&node.logs[1], 0..5 * round);
        fs = node.stop().unwrap();
    }
}

fn a_killed_process_loses_nothing(layout: Layout) {
    let fs = MemFs::new();
    for round in 1..5 {
        let node = Node::start(&fs, layout);
        fill(&node.logs[0], 15);
        if round % 2 == 0 {
            node.checkpoint().unwrap();
        }
        fill(&node.logs[1], 5);
        expect_filled(&node.logs[0], 0..15 * round);
        expect_filled(&node.logs[1], 0..5 * round);
    }
}

fn a_damaged_tail_is_cut(layout: Layout) {
    let fs = MemFs::new();
    let node = Node::start(&fs, layout);
    fill(&node.logs[0], 5);
    drop(node);
    let dir = match layout {
        Layout::Partition | Layout::Lazy => "/data/orders-0",
        Layout::Topic => "/data/mainstem/topic-BwcHBwcHBwcHBwcHBwcHBw-0/commitlog",
        Layout::Shared => "/data/mainstem/shared-0/commitlog",
    };
    let mut files = mainstem_env::Fs::read_dir(&fs, dir.as_ref()).unwrap();
    files.retain(|entry| entry.name.to_str().unwrap().trim_end_matches(".log").parse::<u64>().is_ok());
    let path = std::path::Path::new(dir).join(&files.last().unwrap().name);
    let file = mainstem_env::Fs::open(&fs, &path, &OpenOptions::read_write()).unwrap();
    file.write_all_at(b"?", file.len().unwrap() - 20).unwrap();
    drop(file);
    let node = Node::start(&fs, layout);
    expect_filled(&node.logs[0], 0..4);
    fill(&node.logs[0], 3);
    let fs = node.stop().unwrap();
    expect_filled(&Node::start(&fs, layout).logs[0], 0..7);
}

fn a_deleted_topic_does_not_come_back_under_its_name(layout: Layout) {
    let fs = MemFs::new();
    let mut node = Node::start(&fs, layout);
    fill(&node.logs[0], 20);
    node.checkpoint().unwrap();
    let old = node.logs[0].clone();
    node.delete();
    assert!(matches!(old.append(&batch_at(NOW.0, &["late"]), &client()), Err(AppendError::Closed { .. })));
    node.create_again(TopicId([9; 16]));
    assert_eq!(node.logs[0].log_end(), Offset(0));
    fill(&node.logs[0], 2);
    node.retention(NOW).unwrap();
    expect_filled(&node.logs[0], 0..2);
    drop((old, node));
    let node = Node::try_start(&fs, layout, TopicId([9; 16]), config()).unwrap();
    expect_filled(&node.logs[0], 0..2);
    let fs = node.stop().unwrap();
    expect_filled(&Node::try_start(&fs, layout, TopicId([9; 16]), config()).unwrap().logs[0], 0..2);
}
