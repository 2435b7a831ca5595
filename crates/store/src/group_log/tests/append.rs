use super::*;
use crate::error::{AppendError, ReadError};
use crate::formats::queue_entry::{self, QueueEntry};

#[test]
fn partitions_share_the_files_and_see_their_own_records() {
    let (fs, group, logs) = create();
    for _ in 0..30 {
        logs.iter().for_each(|log| fill(log, 1));
    }
    logs.iter().for_each(|log| expect_filled(log, 0..30));
    assert!(group.file_count() > 3, "{} files", group.file_count());
    let names: Vec<_> = fs.read_dir(&Path::new(FOLDER).join("commitlog")).unwrap();
    let names: Vec<_> = names.iter().map(|entry| entry.name.to_str().unwrap().to_owned()).collect();
    assert_eq!(names[..3], ["00000000000000000000", "00000000000000002048", "00000000000000004096"]);
}

#[test]
fn the_queue_entry_of_offset_n_is_at_n_times_20() {
    let (fs, group, logs) = create();
    put(&logs[0], &["a", "b", "c"]);
    put(&logs[1], &["other"]);
    put(&logs[0], &["d"]);
    group.checkpoint().unwrap();
    let file = Path::new(FOLDER).join("consumequeue/orders/0/00000000000000000000");
    let entries: Vec<_> = queue_entry::decode(&fs.read_all(&file).unwrap()).collect();
    assert_eq!(entries.len(), 4);
    assert!(entries[..3].iter().all(|entry| *entry == entries[0]), "records of one batch share position and size");
    let first = entries[0].size;
    let other = queue_entry::decode(
        &fs.read_all(&Path::new(FOLDER).join("consumequeue/orders/1/00000000000000000000")).unwrap(),
    )
    .next();
    assert_eq!(other.unwrap().position, Position(first.into()));
    assert_eq!(entries[3].position, Position(u64::from(first + other.unwrap().size)));
}

#[test]
fn tags_are_hashed_as_java_does() {
    let (fs, group, logs) = create();
    let mut builder = BatchBuilder::new();
    builder.append(NOW, None, Some(b"plain"), &[]);
    builder.append(NOW, None, Some(b"tagged"), &[RecordHeader::new("TAGS", Some(b"TagA"))]);
    builder.append(NOW, None, Some(b"negative"), &[RecordHeader::new("TAGS", Some("polygenelubricants".as_bytes()))]);
    logs[0].append(&Bytes::from(builder.build().unwrap()), &client()).unwrap();
    group.checkpoint().unwrap();
    let file = Path::new(FOLDER).join("consumequeue/orders/0/00000000000000000000");
    let tags: Vec<_> =
        queue_entry::decode(&fs.read_all(&file).unwrap()).map(|entry: QueueEntry| entry.tag_hash).collect();
    assert_eq!(tags, [0, 2_598_919, i64::from(i32::MIN)]);
}

#[test]
fn a_record_is_seen_as_soon_as_its_append_returns_also_without_waiting() {
    let (_fs, _group, logs) = create();
    for offset in 0..100 {
        fill(&logs[offset % 2], 1);
        let log = &logs[offset % 2];
        let from = Offset(log.log_end().0 - 1);
        let request = ReadRequest { from, max_bytes: 1 << 20, upper: log.log_end(), min_one_batch: true };
        let found = records(&bytes_of(&log.read_nowait(&request).unwrap()));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].0, from.0);
    }
}

#[test]
fn what_does_not_fit_into_a_file_is_refused_and_nothing_else() {
    let (_fs, _group, logs) = create();
    let large = "x".repeat(2048);
    let error = logs[0].append(&batch_at(NOW.0, &[&large]), &client()).unwrap_err();
    assert!(matches!(error, AppendError::RecordListTooLarge { limit, .. } if limit == 2048 - 64), "{error}");
    let just = "y".repeat(2048 - 64 - 61 - 10);
    put(&logs[0], &[&just]);
    put(&logs[0], &[&just]);
    assert_eq!(all_records(&logs[0]), [(0, just.clone()), (1, just)]);
}

#[test]
fn sequences_epochs_and_transactions_are_those_of_the_partition() {
    let (_fs, _group, logs) = create();
    assert_eq!(logs[0].append(&produced(1, 0, 0, &["a", "b"]), &client()).unwrap().base_offset, Offset(0));
    let again = logs[0].append(&produced(1, 0, 0, &["a", "b"]), &client()).unwrap();
    assert!(again.duplicate && again.base_offset == Offset(0));
    assert!(matches!(
        logs[0].append(&produced(1, 0, 5, &["x"]), &client()),
        Err(AppendError::OutOfOrderSequence { expected: 2, found: 5, .. })
    ));
    assert_eq!(logs[1].append(&produced(1, 0, 7, &["first here"]), &client()).unwrap().base_offset, Offset(0));
    let context = AppendContext { leader_epoch: LeaderEpoch(4), ..client() };
    logs[0].append(&produced(1, 1, 0, &["c"]), &context).unwrap();
    assert_eq!(logs[0].epoch_for_offset(Offset(2)), Some(LeaderEpoch(4)));
    assert_eq!(logs[1].epoch_for_offset(Offset(0)), Some(LeaderEpoch(0)));
}

#[test]
fn reads_are_cut_at_upper_and_at_max_bytes() {
    let (_fs, group, logs) = create();
    fill(&logs[0], 200);
    group.release_idle();
    group.release_idle();
    let read = |from: i64, upper: i64, max_bytes, min_one_batch| {
        let request = ReadRequest { from: Offset(from), max_bytes, upper: Offset(upper), min_one_batch };
        records(&bytes_of(&logs[0].read(&request).unwrap())).iter().map(|(offset, _)| *offset).collect::<Vec<_>>()
    };
    assert_eq!(read(3, 7, 1 << 20, true), [3, 4, 5, 6]);
    assert_eq!(read(3, 3, 1 << 20, true), [0; 0]);
    assert_eq!(read(3, 200, 1, true), [3]);
    assert_eq!(read(3, 200, 1, false), [0; 0]);
    assert_eq!(read(0, 200, 1 << 20, true).len(), 200);
    let request = ReadRequest { from: Offset(201), max_bytes: 1, upper: Offset(500), min_one_batch: true };
    assert!(matches!(logs[0].read(&request), Err(ReadError::OutOfRange { .. })));
}

#[test]
fn a_batch_is_found_by_every_offset_in_it_and_not_shown_below_its_end() {
    let (_fs, group, logs) = create();
    for _ in 0..20 {
        put(&logs[0], &["a", "b", "c", "d", "e"]);
    }
    for release in [false, true] {
        if release {
            group.release_idle();
            group.release_idle();
        }
        for from in 0..100 {
            let request = ReadRequest { from: Offset(from), max_bytes: 1, upper: Offset(100), min_one_batch: true };
            let found = records(&bytes_of(&logs[0].read(&request).unwrap()));
            assert_eq!(found[0].0, from / 5 * 5);
            assert_eq!(found.len(), 5);
            let inside = ReadRequest { upper: Offset(from / 5 * 5 + 4), ..request };
            assert_eq!(logs[0].read(&inside).unwrap().bytes, 0, "offset {from}, released {release}");
        }
    }
}

#[test]
fn large_batches_are_slices_and_small_neighbours_one_piece() {
    let fs = MemFs::new();
    let options = GroupOptions { file_bytes: 1 << 20, ..options() };
    let (group, _) = GroupLog::open(&env_on(&fs), Path::new(FOLDER), options, &live(), true).unwrap();
    let log = make(&group, &live()[0]);
    let large = "l".repeat(40_000);
    for value in ["a", "b", large.as_str(), "c", "d"] {
        put(&log, &[value]);
    }
    let request = ReadRequest { from: Offset(0), max_bytes: 1 << 20, upper: Offset(5), min_one_batch: true };
    let reading = log.read(&request).unwrap();
    assert_eq!(reading.chunks.len(), 3);
    assert!(matches!(reading.chunks[1], ReadChunk::Slice(_)));
    let found: Vec<_> = records(&bytes_of(&reading)).into_iter().map(|(_, value)| value).collect();
    assert_eq!(found, ["a", "b", large.as_str(), "c", "d"]);
}

#[test]
fn records_are_found_by_time_however_disordered() {
    let (_fs, group, logs) = create();
    let times: Vec<i64> = (0..900).map(|n| 1000 + (n * 7919) % 500 + n / 3).collect();
    for (index, time) in times.iter().enumerate() {
        logs[0].append(&batch_at(*time, &["v"]), &client()).unwrap();
        if index % 5 == 0 {
            fill(&logs[1], 1);
        }
    }
    group.release_idle();
    group.release_idle();
    for target in (900..2000).step_by(17) {
        let expected = times.iter().position(|time| *time >= target).map(|offset| offset as i64);
        let found = logs[0].find_by_time(TimestampMs(target), logs[0].log_end()).unwrap();
        assert_eq!(found.map(|found| found.offset.0), expected, "target {target}");
    }
    let newest = *times.iter().max().unwrap();
    let first = times.iter().position(|time| *time == newest).unwrap();
    let found = logs[0].find_max_timestamp(logs[0].log_end()).unwrap().unwrap();
    assert_eq!((found.offset.0, found.timestamp.0), (first as i64, newest));
}

#[test]
fn compressed_batches_are_kept_as_they_are_or_compressed_again() {
    let (_fs, group, _) = create();
    let mut builder = BatchBuilder::new().codec(Codec::Lz4);
    builder.append(NOW, None, Some("value ".repeat(40).as_bytes()), &[RecordHeader::new("TAGS", Some(b"TagA"))]);
    let batch = Bytes::from(builder.build().unwrap());
    let fixed = LogConfig { compression: crate::Compression::Fixed { codec: Codec::None, level: None }, ..config() };
    let log = make(&group, &live_of("fixed", 9, 0, fixed));
    log.append(&batch, &client()).unwrap();
    let request = ReadRequest { from: Offset(0), max_bytes: 1 << 20, upper: Offset(1), min_one_batch: true };
    let bytes = bytes_of(&log.read(&request).unwrap());
    assert_eq!(Batches::new(&bytes).next().unwrap().unwrap().codec(), Some(Codec::None));
}

#[test]
fn a_deleted_topic_is_not_seen_under_its_name_again() {
    let (fs, group, logs) = create();
    logs.iter().for_each(|log| fill(log, 20));
    group.checkpoint().unwrap();
    let keys: Vec<_> = logs[..2].iter().map(|log| log.key()).collect();
    assert_eq!(group.delete(&keys).unwrap(), 2);
    assert!(matches!(logs[0].append(&batch_at(NOW.0, &["late"]), &client()), Err(AppendError::Closed { .. })));
    let again = live_of("orders", 17, 0, config());
    let new = make(&group, &again);
    assert_eq!((new.log_start(), new.log_end()), (Offset(0), Offset(0)));
    fill(&new, 3);
    expect_filled(&new, 0..3);
    drop((new, logs, group));
    for clean in [false, true] {
        let (group, report) = open_with(&fs, &[again.clone(), live_of("thin", 8, 0, config())], clean);
        expect_filled(&group.partition(TopicId([17; 16]), PartitionIndex(0)).unwrap(), 0..3);
        expect_filled(&group.partition(TopicId([8; 16]), PartitionIndex(0)).unwrap(), 0..20);
        assert!(group.partition(TopicId([7; 16]), PartitionIndex(0)).is_none());
        assert_eq!(report.recovery.cut, None);
    }
}
