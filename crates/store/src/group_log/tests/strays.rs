use super::*;

/// A topic with two partitions in several files, and one that stays known.
fn filled() -> MemFs {
    let (fs, group, logs) = create();
    for n in 0..20 {
        logs[0].append(&produced(5, 0, n, &[&value("orders", n.into())]), &client()).unwrap();
        fill(&logs[1], 1);
        if n == 12 {
            logs[1].raise_log_start(Offset(3), Offset(5)).unwrap();
            group.checkpoint().unwrap();
        }
    }
    fs
}

/// The metadata knows the other topic alone.
fn open_without(fs: &MemFs) -> (GroupLog, GroupReport) {
    open_with(fs, &live()[2..], false)
}

#[test]
fn records_that_the_metadata_does_not_know_stay_and_are_served_when_it_does_again() {
    let fs = filled();
    for round in 0..3 {
        let (group, report) = open_without(&fs);
        assert_eq!((report.unknown, group.stray_count()), (2, 2), "{report:?}");
        let log = make(&group, &live()[2]);
        fill(&log, 30);
        log.raise_log_start(log.log_end(), log.log_end()).unwrap();
        assert_eq!(group.remove_unneeded().unwrap(), 0);
        match round {
            0 => group.checkpoint().unwrap(),
            1 => group.close().unwrap(),
            _ => {}
        }
    }
    let (group, report) = open(&fs);
    assert_eq!((report.unknown, group.stray_count()), (0, 0));
    let [first, second] = [0, 1].map(|index| group.partition(TopicId([7; 16]), PartitionIndex(index)).unwrap());
    expect_filled(&first, 0..20);
    expect_filled(&second, 3..20);
    assert_eq!(first.producers()[0].last_sequence, 19);
    assert_eq!(put(&first, &["next"]).base_offset, Offset(20));
}

#[test]
fn they_go_when_they_are_as_old_as_others_may_get() {
    let (group, _) = open_without(&filled());
    let files = group.file_count();
    group.expire_strays(TimestampMs(NOW.0 + 5000), -1).unwrap();
    group.expire_strays(TimestampMs(NOW.0 + 5000), 5000).unwrap();
    assert_eq!((group.stray_count(), group.remove_unneeded().unwrap()), (2, 0));
    // Where the disk is too full, sooner.
    group.hide_strays_before(Position(4096));
    assert_eq!((group.stray_count(), group.remove_unneeded().unwrap()), (2, 2));
    group.expire_strays(TimestampMs(NOW.0 + 5001), 5000).unwrap();
    assert_eq!((group.stray_count(), group.remove_unneeded().unwrap()), (0, files - 2));
    assert_eq!(group.size_bytes(), 0);
}

#[test]
fn a_topic_that_was_deleted_keeps_no_file_at_the_next_start() {
    let fs = filled();
    let (group, _) = open(&fs);
    group.delete(&[0, 1].map(|index| (TopicId([7; 16]), PartitionIndex(index)))).unwrap();
    group.checkpoint().unwrap();
    drop(group);
    for _ in 0..2 {
        let (group, _) = open_without(&fs);
        assert_eq!(group.stray_count(), 0);
        drop(group);
        // All entries are read again.
        fs.remove_dir_all(&Path::new(FOLDER).join("index")).unwrap_or_default();
    }
    let (group, _) = open_without(&fs);
    assert!(group.remove_unneeded().unwrap() > 2);
    assert_eq!(group.size_bytes(), 0);
}

#[test]
fn a_cut_takes_the_strays_behind_it_along() {
    let fs = filled();
    let (group, _) = open_without(&fs);
    let log = make(&group, &live()[2]);
    fill(&log, 3);
    let at = log.position_of(Offset(1)).unwrap().unwrap();
    group.truncate_to(at).unwrap();
    assert_eq!((group.stray_count(), group.remove_unneeded().unwrap()), (2, 0), "they lie before it");
    group.truncate_to(Position(2048)).unwrap();
    assert_eq!(group.stray_count(), 0);
}
