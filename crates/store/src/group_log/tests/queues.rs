//! When consume queues are written, and by whom.

use super::*;
use mainstem_env::CrashPolicy;
use std::sync::atomic::{AtomicBool, Ordering};

fn open_limited(fs: &MemFs, queue_bytes: usize) -> GroupLog {
    let options = GroupOptions { file_bytes: 1 << 16, queue_bytes, ..options() };
    GroupLog::open(&env_on(fs), Path::new(FOLDER), options, &live(), false).unwrap().0
}

fn logs_of(group: &GroupLog) -> Vec<Arc<GroupPartition>> {
    live().iter().map(|live| make(group, live)).collect()
}

fn queue_exists(fs: &MemFs, name: &str) -> bool {
    fs.metadata(&Path::new(FOLDER).join("consumequeue").join(name)).unwrap().is_some()
}

#[test]
fn appends_write_no_queue_and_the_checkpoint_does() {
    let fs = MemFs::new();
    let group = open_limited(&fs, 1 << 20);
    let logs = logs_of(&group);
    fill(&logs[0], 400);
    group.write_queues();
    assert!(!queue_exists(&fs, "orders"), "there is memory for all of it");
    expect_filled(&logs[0], 0..400);
    group.checkpoint().unwrap();
    assert!(queue_exists(&fs, "orders/0/00000000000000000000"));
    expect_filled(&logs[0], 0..400);
}

#[test]
fn large_queues_are_written_when_memory_is_short_and_small_ones_wait() {
    let fs = MemFs::new();
    let group = open_limited(&fs, 40 * 100);
    let logs = logs_of(&group);
    fill(&logs[0], 120);
    fill(&logs[2], 2);
    group.write_queues();
    assert!(queue_exists(&fs, "orders/0") && !queue_exists(&fs, "thin"));
    let state = logs[0].state.lock();
    assert_eq!(state.queue.written(), Offset(120));
    assert!(state.queue.bytes() <= 40 * 100 / 4, "{} bytes stay", state.queue.bytes());
    drop(state);
    logs.iter().zip([120, 0, 2]).for_each(|(log, count)| expect_filled(log, 0..count));
}

#[test]
fn memory_is_bounded_although_nobody_but_appends_writes_queues() {
    let fs = MemFs::new();
    let limit = 40 * 50;
    let group = open_limited(&fs, limit);
    let logs = logs_of(&group);
    let bytes = || logs.iter().map(|log| log.state.lock().queue.bytes()).sum::<usize>();
    for n in 0..2000 {
        // One topic gets the most.
        fill(&logs[[0, 0, 0, 1, 0, 2][n % 6]], 1);
        assert!(bytes() <= 4 * limit, "{} bytes", bytes());
    }
    let ends: Vec<_> = logs.iter().map(|log| log.log_end().0).collect();
    logs.iter().zip(ends).for_each(|(log, end)| expect_filled(log, 0..end));
    drop(logs);
    let memory = Arc::clone(&group.core.env.queues);
    assert!(memory.is_write_due(1));
    drop(group);
    assert!(!memory.is_write_due(1), "what is dropped takes none");
}

#[test]
fn an_append_writes_into_files_that_are_there_and_leaves_others_to_the_thread_for_views() {
    let fs = MemFs::new();
    let limit = 40 * 50;
    let group = open_limited(&fs, limit);
    let log = &logs_of(&group)[0];
    let written = || log.state.lock().queue.written().0;
    fill(log, 150);
    assert!(log.state.lock().queue.bytes() > 2 * limit, "an append is to write it");
    assert!(written() == 0 && !queue_exists(&fs, "orders/0"), "it creates neither folder nor file");
    group.write_queues();
    assert_eq!(written(), 150);
    let file_entries = log.state.lock().queue.files().end_of_file(0);
    let file_end = log.state.lock().queue.files().end_of_file(149);
    fill(log, 150);
    assert_eq!((written(), file_end - file_entries < 150), (file_end, true), "up to the end of the last file");
    group.write_queues();
    assert_eq!(written(), 300);
    expect_filled(log, 0..300);
}

#[test]
fn tags_count_and_long_batches_are_written_in_pieces() {
    let fs = MemFs::new();
    let group = open_limited(&fs, 1 << 20);
    let logs = logs_of(&group);
    let tag = RecordHeader::new("TAGS", Some(b"red"));
    let mut builder = BatchBuilder::new();
    for _ in 0..3 {
        builder.append(NOW, None, Some(b"v"), &[tag]);
    }
    logs[0].append(&Bytes::from(builder.build().unwrap()), &client()).unwrap();
    assert_eq!(logs[0].state.lock().queue.bytes(), 40 + 3 * 8);
    let values = vec!["v"; 3000];
    for _ in 0..5 {
        put(&logs[1], &values);
    }
    group.checkpoint().unwrap();
    let last = Path::new(FOLDER).join("consumequeue/orders/1").join(format!("{:020}", 14_992 * 20));
    assert_eq!(fs.metadata(&last).unwrap().unwrap().len, 8 * 20);
    group.release_idle();
    group.release_idle();
    assert_eq!(all_records(&logs[1]).len(), 15_000);
}

#[test]
fn queues_are_written_while_others_append_and_read() {
    let fs = MemFs::new();
    let group = open_limited(&fs, 40 * 30);
    let logs = logs_of(&group);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                group.write_queues();
                group.checkpoint().unwrap();
                group.release_idle();
            }
        });
        let appenders: Vec<_> = logs
            .iter()
            .map(|log| {
                scope.spawn(|| {
                    for n in 0..300 {
                        fill(log, 1);
                        let request = ReadRequest {
                            from: Offset(n / 2),
                            max_bytes: 1 << 20,
                            upper: log.log_end(),
                            min_one_batch: true,
                        };
                        let found = records(&bytes_of(&log.read(&request).unwrap()));
                        let offsets = found.iter().map(|(offset, _)| *offset);
                        assert!(offsets.eq(n / 2..=n), "all up to {n}, and at once");
                    }
                })
            })
            .collect();
        appenders.into_iter().for_each(|appender| appender.join().unwrap());
        done.store(true, Ordering::Relaxed);
    });
    drop(logs);
    drop(group);
    let group = open_limited(&fs.crash(CrashPolicy::Everything), 40 * 30);
    logs_of(&group).iter().for_each(|log| expect_filled(log, 0..300));
}

#[test]
fn a_deleted_topic_s_queue_does_not_come_back() {
    let fs = MemFs::new();
    let group = open_limited(&fs, 40);
    let logs = logs_of(&group);
    fill(&logs[2], 20);
    group.write_queues();
    assert!(queue_exists(&fs, "thin/0"));
    group.delete(&[(TopicId([8; 16]), PartitionIndex(0))]).unwrap();
    logs[2].write_queue().unwrap();
    assert!(!queue_exists(&fs, "thin/0"));
}
