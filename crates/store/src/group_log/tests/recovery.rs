use super::*;
use crate::ReadError;

fn expect_all(group: &GroupLog, count: i64) {
    for live in live() {
        expect_filled(&group.partition(live.topic_id, live.name.partition).unwrap(), 0..count);
    }
}

fn filled(count: usize) -> (MemFs, GroupLog, Vec<Arc<GroupPartition>>) {
    let (fs, group, logs) = create();
    for _ in 0..count {
        logs.iter().for_each(|log| fill(log, 1));
    }
    (fs, group, logs)
}

#[test]
fn after_an_orderly_stop_nothing_is_read_again() {
    let (fs, group, _) = filled(40);
    group.close().unwrap();
    drop(group);
    let (group, report) = open_with(&fs, &live(), true);
    assert_eq!((report.recovery.segments_scanned, report.bytes_replayed, report.views_rebuilt), (0, 0, 0));
    expect_all(&group, 40);
    let log = group.partition(TopicId([7; 16]), PartitionIndex(1)).unwrap();
    assert_eq!(log.durable_end(), Offset(40));
    fill(&log, 5);
    expect_filled(&log, 0..45);
}

#[test]
fn a_killed_process_loses_nothing_and_reads_from_the_checkpoint_on() {
    let (fs, group, logs) = filled(40);
    group.checkpoint().unwrap();
    let before = group.size_bytes();
    logs.iter().for_each(|log| fill(log, 3));
    let after = group.size_bytes();
    drop((logs, group));
    let (group, report) = open(&fs);
    expect_all(&group, 43);
    assert_eq!(report.bytes_replayed, after - before);
}

#[test]
fn each_view_can_be_deleted_and_is_made_again() {
    for view in
        ["consumequeue", "consumequeue/orders/0", "index", "checkpoint", "consumequeue/thin/0/00000000000000000320"]
    {
        for clean in [false, true] {
            let (fs, group, logs) = filled(40);
            group.close().unwrap();
            drop((logs, group));
            let path = Path::new(FOLDER).join(view);
            match fs.metadata(&path).unwrap().unwrap().is_dir {
                true => fs.remove_dir_all(&path).unwrap(),
                false => fs.remove_file(&path).unwrap(),
            }
            let (group, report) = open_with(&fs, &live(), clean);
            expect_all(&group, 40);
            let found = group.find_by_key(TopicId([7; 16]), &KeyQuery::new("k", 100)).unwrap().records;
            assert_eq!(found.len(), 80, "{view}, clean {clean}: {report:?}");
            drop(group);
            let (group, _) = open(&fs);
            expect_all(&group, 40);
        }
    }
}

#[test]
fn views_that_ran_ahead_are_cut() {
    let (fs, group, logs) = filled(40);
    group.close().unwrap();
    drop((logs, group));
    // A power cut took the last entries of the commit log, which no checkpoint covers: here, all files but the
    // checkpoint are ahead.
    let checkpoint = fs.read_all(&Path::new(FOLDER).join("checkpoint")).unwrap();
    let (group, _) = open_with(&fs, &live(), true);
    let position = group.end_position().0;
    for partition in group.partitions() {
        put(&partition, &["to be lost", "to be lost too"]);
    }
    group.close().unwrap();
    drop(group);
    fs.atomic_write(&Path::new(FOLDER).join("checkpoint"), &checkpoint).unwrap();
    let dir = Path::new(FOLDER).join("commitlog");
    for entry in fs.read_dir(&dir).unwrap() {
        let base: u64 = entry.name.to_str().unwrap().parse().unwrap();
        let path = dir.join(entry.name);
        if base > position {
            fs.remove_file(&path).unwrap();
        } else if base + 2048 > position {
            fs.open(&path, &mainstem_env::OpenOptions::read_write()).unwrap().set_len(position - base).unwrap();
        }
    }
    let (group, report) = open(&fs);
    expect_all(&group, 40);
    assert_eq!(report.views_rebuilt, 0, "{report:?}");
    for partition in group.partitions() {
        assert_eq!(put(&partition, &["new"]).base_offset, Offset(40));
    }
    assert_eq!(group.find_by_key(TopicId([7; 16]), &KeyQuery::new("k", 200)).unwrap().records.len(), 82);
}

#[test]
fn a_damaged_tail_is_cut_and_what_is_before_stays() {
    let (fs, group, logs) = filled(10);
    let kept = group.end_position().0;
    put(&logs[0], &["damaged"]);
    drop((logs, group));
    let dir = Path::new(FOLDER).join("commitlog");
    let last = fs.read_dir(&dir).unwrap().pop().unwrap();
    let base: u64 = last.name.to_str().unwrap().parse().unwrap();
    let file = fs.open(&dir.join(last.name), &mainstem_env::OpenOptions::read_write()).unwrap();
    file.write_all_at(b"?", kept.max(base) - base + 50).unwrap();
    drop(file);
    let (group, report) = open(&fs);
    assert!(report.recovery.cut.is_some(), "{report:?}");
    expect_all(&group, 10);
    assert_eq!(group.end_position(), Position(kept.max(base)));
}

#[test]
fn damage_inside_costs_one_batch_alone() {
    let (fs, group, logs) = filled(40);
    group.close().unwrap();
    drop((logs, group));
    let file = Path::new(FOLDER).join("commitlog/00000000000000002048");
    fs.open(&file, &mainstem_env::OpenOptions::read_write()).unwrap().write_all_at(b"??", 300).unwrap();
    fs.remove_dir_all(&Path::new(FOLDER).join("consumequeue")).unwrap();
    let (group, report) = open(&fs);
    assert_eq!(report.damaged.len(), 1, "{report:?}");
    let mut lost = 0;
    for live in live() {
        let log = group.partition(live.topic_id, live.name.partition).unwrap();
        assert_eq!(log.log_end(), Offset(40));
        for offset in 0..40 {
            let request =
                ReadRequest { from: Offset(offset), max_bytes: 1 << 20, upper: Offset(40), min_one_batch: true };
            match log.read(&request) {
                Ok(reading) => {
                    assert_eq!(records(&bytes_of(&reading))[0], (offset, value(&live.name.topic, offset)));
                }
                Err(ReadError::Corrupt { .. }) => lost += 1,
                Err(other) => panic!("{other}"),
            }
        }
        assert_eq!(put(&log, &["next"]).base_offset, Offset(40));
    }
    assert_eq!(lost, 1);
}

#[test]
fn a_damaged_checkpoint_is_reported_and_the_one_before_serves() {
    let (fs, group, logs) = filled(10);
    group.checkpoint().unwrap();
    logs.iter().for_each(|log| fill(log, 3));
    logs[0].raise_log_start(Offset(5), Offset(13)).unwrap();
    group.checkpoint().unwrap();
    drop((logs, group));
    let path = Path::new(FOLDER).join("checkpoint");
    fs.open(&path, &mainstem_env::OpenOptions::read_write()).unwrap().write_all_at(b"?", 60).unwrap();
    let (group, report) = open(&fs);
    assert_eq!(report.unreadable.len(), 1);
    expect_all(&group, 13);
    // Of the second generation nothing is known: DeleteRecords was in it alone.
    assert_eq!(group.partition(TopicId([7; 16]), PartitionIndex(0)).unwrap().log_start(), Offset(0));
}

#[test]
fn producers_epochs_and_the_log_start_survive() {
    let (fs, group, logs) = create();
    for n in 0..30 {
        let context = AppendContext { leader_epoch: LeaderEpoch(n / 10), ..client() };
        logs[0].append(&produced(5, 1, n, &["v"]), &context).unwrap();
        if n == 20 {
            logs[0].raise_log_start(Offset(4), Offset(20)).unwrap();
            group.checkpoint().unwrap();
        }
    }
    drop((logs, group));
    let (group, _) = open(&fs);
    let log = group.partition(TopicId([7; 16]), PartitionIndex(0)).unwrap();
    assert_eq!(log.log_start(), Offset(4));
    assert_eq!(log.producers()[0].last_sequence, 29);
    assert_eq!(log.end_offset_for_epoch(LeaderEpoch(1)), (LeaderEpoch(1), Offset(20)));
    assert!(log.append(&produced(5, 1, 29, &["v"]), &client()).unwrap().duplicate);
    assert_eq!(log.find_by_time(NOW, log.log_end()).unwrap().unwrap().offset, Offset(4));
}

#[test]
fn a_partition_whose_last_records_are_gone_is_made_again_once_and_not_at_each_start() {
    let (fs, group, logs) = filled(10);
    group.checkpoint().unwrap();
    let kept = group.end_position().0;
    fill(&logs[0], 10);
    logs[0].raise_log_start(Offset(20), Offset(20)).unwrap();
    group.close().unwrap();
    drop((logs, group));
    // Durable entries are lost: those that the checkpoint tells of, too.
    let dir = Path::new(FOLDER).join("commitlog");
    for entry in fs.read_dir(&dir).unwrap() {
        let base: u64 = entry.name.to_str().unwrap().parse().unwrap();
        let path = dir.join(entry.name);
        if base >= kept {
            fs.remove_file(&path).unwrap();
        } else if base + 2048 > kept {
            fs.open(&path, &mainstem_env::OpenOptions::read_write()).unwrap().set_len(kept - base).unwrap();
        }
    }
    let ends = |group: &GroupLog| {
        let log = group.partition(TopicId([7; 16]), PartitionIndex(0)).unwrap();
        (log.log_start(), log.log_end())
    };
    let (group, report) = open(&fs);
    assert!(report.recovery.shorter_than_checkpoint, "{report:?}");
    assert_eq!(ends(&group), (Offset(20), Offset(20)));
    group.close().unwrap();
    drop(group);
    let (group, report) = open_with(&fs, &live(), true);
    assert_eq!((report.views_rebuilt, report.bytes_replayed), (0, 0), "{report:?}");
    assert_eq!(ends(&group), (Offset(20), Offset(20)));
    let log = group.partition(TopicId([7; 16]), PartitionIndex(0)).unwrap();
    assert!(all_records(&log).is_empty());
    assert_eq!(put(&log, &["next"]).base_offset, Offset(20));
    assert_eq!(all_records(&log), [(20, "next".to_owned())]);
}
