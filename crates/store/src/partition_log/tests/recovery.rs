use super::*;
use mainstem_env::{CrashPolicy, Fs};

fn kill(fs: &MemFs) -> MemFs {
    fs.crash(CrashPolicy::Everything)
}

fn flip(fs: &MemFs, path: &Path, at: usize) {
    let mut bytes = fs.read_all(path).unwrap();
    bytes[at] ^= 0xff;
    fs.atomic_write(path, &bytes).unwrap();
}

#[test]
fn a_clean_log_is_opened_without_a_scan_and_goes_on() {
    let (fs, log) = create(small());
    fill(&log, 50);
    log.close().unwrap();
    let (log, recovery) = open(&fs, clean(), small());
    assert_eq!(recovery, LogRecovery::default());
    expect_filled(&log, 0..50);
    fill(&log, 50);
    expect_filled(&log, 0..100);
}

#[test]
fn nothing_is_scanned_after_a_kill_if_nothing_was_written_since_the_checkpoint() {
    let (fs, log) = create(small());
    fill(&log, 50);
    log.flush_blocking().unwrap();
    let entry = log.prepare_checkpoint().unwrap();
    assert_eq!(entry.recovery_point, Offset(50));
    let facts = OpenFacts { recovery_point: Some(entry.recovery_point), ..OpenFacts::default() };
    let (log, recovery) = open(&kill(&fs), facts, small());
    assert_eq!(recovery, LogRecovery::default());
    expect_filled(&log, 0..50);
}

#[test]
fn a_scan_begins_in_the_segment_of_the_recovery_point() {
    let (fs, log) = create(small());
    fill(&log, 50);
    log.flush_blocking().unwrap();
    let point = log.prepare_checkpoint().unwrap().recovery_point;
    fill(&log, 1);
    let facts = OpenFacts { recovery_point: Some(point), ..OpenFacts::default() };
    let (log, recovery) = open(&kill(&fs), facts, small());
    assert_eq!((recovery.logs, recovery.segments_scanned), (1, 1));
    expect_filled(&log, 0..51);
}

#[test]
fn a_scan_begins_at_a_snapshot_in_the_middle_of_a_segment() {
    let (fs, log) = create(LogConfig { segment_bytes: 1 << 20, ..small() });
    fill(&log, 100);
    log.state.lock().unsynced.appended(1 << 30);
    let point = log.prepare_checkpoint().unwrap().recovery_point;
    assert_eq!(point, Offset(100));
    fill(&log, 3);
    let facts = OpenFacts { recovery_point: Some(point), ..OpenFacts::default() };
    let (again, recovery) = open(&kill(&fs), facts, LogConfig { segment_bytes: 1 << 20, ..small() });
    assert_eq!(recovery.segments_scanned, 1);
    assert!(recovery.bytes_scanned < 500, "{recovery:?}");
    expect_filled(&again, 0..103);
    // The index is as if it had never been interrupted.
    log.close().unwrap();
    again.close().unwrap();
    let other = kill(&fs);
    let _ = other;
    let indexes = |log: &PartitionLog| {
        let read = |suffix| log.fs().read_all(&log.file(Offset(0), suffix)).unwrap();
        (read(names::INDEX), read(names::TIME_INDEX))
    };
    assert_eq!(indexes(&log), indexes(&again));
}

#[test]
fn a_torn_or_damaged_tail_is_cut_and_what_follows_is_parked() {
    let (fs, log) = create(small());
    fill(&log, 50);
    let bases: Vec<_> = log.state.lock().segments.bases().collect();
    let broken = kill(&fs);
    // In the last batch of the third segment.
    let path = log.file(bases[2], names::LOG);
    flip(&broken, &path, broken.read_all(&path).unwrap().len() - 3);
    let (again, recovery) = open(&broken, OpenFacts::default(), small());
    // The later segments, and what was cut.
    assert!(recovery.bytes_cut > 0 && recovery.segments_parked == bases.len() - 3 + 1, "{recovery:?}");
    expect_filled(&again, 0..bases[3].0 - 1);
    let names: Vec<_> = broken.read_dir(Path::new(FOLDER)).unwrap().into_iter().map(|entry| entry.name).collect();
    assert!(names.iter().any(|name| name.to_str().unwrap().ends_with(".log.parked")));
    assert_eq!(put(&again, &["next"]).base_offset, bases[3].plus(-1));
    let torn = kill(&fs);
    let path = log.file(*bases.last().unwrap(), names::LOG);
    let len = torn.read_all(&path).unwrap().len() as u64;
    torn.open(&path, &mainstem_env::OpenOptions::read_write()).unwrap().set_len(len - 1).unwrap();
    let (again, recovery) = open(&torn, OpenFacts::default(), small());
    assert!(recovery.bytes_cut > 0);
    expect_filled(&again, 0..49);
}

#[test]
fn lost_and_damaged_index_files_are_made_again() {
    for clean_stop in [true, false] {
        let (fs, log) = create(small());
        fill(&log, 50);
        log.close().unwrap();
        let contents = |fs: &MemFs| {
            let entries = fs.read_dir(Path::new(FOLDER)).unwrap();
            let files = entries.into_iter().filter(|entry| entry.name.to_str().unwrap().ends_with("index"));
            files.map(|e| (e.name.clone(), fs.read_all(&Path::new(FOLDER).join(&e.name)).unwrap())).collect::<Vec<_>>()
        };
        let before = contents(&fs);
        for (name, _) in &before {
            fs.remove_file(&Path::new(FOLDER).join(name)).unwrap();
        }
        let facts = OpenFacts { clean: clean_stop, ..OpenFacts::default() };
        let (again, recovery) = open(&fs, facts, small());
        assert!(recovery.indexes_rebuilt > 0);
        expect_filled(&again, 0..50);
        again.close().unwrap();
        assert_eq!(contents(&fs), before);
        // Half a file of the active segment.
        let base = again.state.lock().segments.active().base;
        let path = again.file(base, names::INDEX);
        fs.open(&path, &mainstem_env::OpenOptions::read_write()).unwrap().set_len(4).unwrap();
        let (again, _) = open(&fs, facts, small());
        expect_filled(&again, 0..50);
        again.close().unwrap();
    }
}

#[test]
fn an_index_that_kafka_preallocated_and_did_not_trim_is_read() {
    let (fs, log) = create(LogConfig { segment_bytes: 1 << 20, ..small() });
    fill(&log, 50);
    log.close().unwrap();
    for suffix in [names::INDEX, names::TIME_INDEX] {
        let path = log.file(Offset(0), suffix);
        let file = fs.open(&path, &mainstem_env::OpenOptions::read_write()).unwrap();
        file.set_len(10 * 1024 * 1024 / 12 * 12).unwrap();
    }
    let (log, recovery) = open(&fs, clean(), LogConfig { segment_bytes: 1 << 20, ..small() });
    assert_eq!(recovery.segments_scanned, 0);
    fill(&log, 50);
    expect_filled(&log, 0..100);
    log.close().unwrap();
    assert!(fs.read_all(&log.file(Offset(0), names::INDEX)).unwrap().len() < 1000);
}

#[test]
fn a_damaged_epoch_file_is_made_again_from_the_batches() {
    let (fs, log) = create(small());
    for epoch in 0..4 {
        let context = AppendContext { leader_epoch: LeaderEpoch(epoch), ..client() };
        (0..9).for_each(|_| {
            log.append(&batch(&["some value of some length"]), &context).unwrap();
        });
    }
    log.close().unwrap();
    let path = Path::new(FOLDER).join(crate::formats::epoch_checkpoint::FILE_NAME);
    let before = fs.read_all(&path).unwrap();
    assert_eq!(before, b"0\n4\n0 0\n1 9\n2 18\n3 27\n");
    for damage in [&b""[..], b"0\n9\n1 1\n"] {
        fs.atomic_write(&path, damage).unwrap();
        let (log, recovery) = open(&fs, clean(), small());
        assert!(recovery.segments_scanned > 0);
        assert_eq!(log.end_offset_for_epoch(LeaderEpoch(1)), (LeaderEpoch(1), Offset(18)));
        log.close().unwrap();
        assert_eq!(fs.read_all(&path).unwrap(), before);
    }
}

#[test]
fn a_compaction_that_was_interrupted_is_finished_or_undone() {
    let (fs, log) = create(small());
    fill(&log, 30);
    log.close().unwrap();
    let bases: Vec<_> = log.state.lock().segments.bases().collect();
    // The first two segments were compacted into one, which holds the last batch of each alone.
    let mut compacted = Vec::new();
    for base in &bases[..2] {
        let bytes = fs.read_all(&log.file(*base, names::LOG)).unwrap();
        compacted.extend_from_slice(Batches::new(&bytes).last().unwrap().unwrap().as_bytes());
    }
    let folder = Path::new(FOLDER);
    let swap = folder.join("00000000000000000000.log.swap");
    fs.atomic_write(&swap, &compacted).unwrap();
    fs.atomic_write(&folder.join("00000000000000000000.index.swap"), b"").unwrap();
    let undone = fs.crash(CrashPolicy::Everything);
    undone.atomic_write(&folder.join("00000000000000000000.timeindex.cleaned"), b"").unwrap();
    let config = LogConfig { cleanup_compact: true, ..small() };
    let (log, _) = open(&undone, clean(), config.clone());
    expect_filled(&log, 0..30);
    let (log, _) = open(&fs, clean(), config);
    let offsets: Vec<_> = all_records(&log).into_iter().map(|(offset, _)| offset).collect();
    let expected: Vec<_> = [bases[1].0 - 1].into_iter().chain(bases[2].0 - 1..30).collect();
    assert_eq!(offsets, expected);
    let names = fs.read_dir(folder).unwrap();
    assert!(names.iter().all(|entry| !entry.name.to_str().unwrap().ends_with("swap")));
}

#[test]
fn orphans_are_removed() {
    let (fs, log) = create(small());
    fill(&log, 30);
    log.close().unwrap();
    for name in ["00000000000000000999.index", "00000000000000000999.snapshot", "00000000000000000007.timeindex"] {
        fs.atomic_write(&Path::new(FOLDER).join(name), b"").unwrap();
    }
    open(&fs, clean(), small());
    let names = fs.read_dir(Path::new(FOLDER)).unwrap();
    assert!(names.iter().all(|entry| !entry.name.to_str().unwrap().contains("999")));
}

/// One transaction that was aborted: a record, and its marker.
fn abort_one(log: &PartitionLog) {
    let producer = || BatchBuilder::new().producer(ProducerId(7), ProducerEpoch(0), 0).transactional();
    let mut builder = producer();
    builder.append(NOW, Some(b"k"), Some(b"aborted"), &[]);
    log.append(&Bytes::from(builder.build().unwrap()), &client()).unwrap();
    let mut marker = BatchBuilder::new().producer(ProducerId(7), ProducerEpoch(0), -1).transactional();
    let end = mainstem_record::ControlRecord::EndTransaction { committed: false, coordinator_epoch: 1 };
    marker.append_control(NOW, &end);
    let coordinator = AppendContext { origin: Origin::Coordinator, ..client() };
    log.append(&Bytes::from(marker.build().unwrap()), &coordinator).unwrap();
}

#[test]
fn aborted_transactions_before_a_parked_segment_stay_known() {
    let (fs, log) = create(small());
    abort_one(&log);
    fill(&log, 30);
    let bases: Vec<_> = log.state.lock().segments.bases().collect();
    assert!(bases.len() > 3);
    drop(log);
    // A power cut took the second segment; the third does not follow from the first.
    let crashed = kill(&fs);
    crashed.remove_file(&Path::new(FOLDER).join(names::segment_file(bases[1], names::LOG))).unwrap();
    let (log, recovery) = open(&crashed, OpenFacts::default(), small());
    assert_eq!((log.log_end(), recovery.segments_parked), (bases[1], bases.len() - 2));
    assert_eq!(log.aborted_transactions(Offset(0), log.log_end()).unwrap().len(), 1);
}

#[test]
fn what_a_checkpoint_covers_knows_its_aborted_transactions_after_a_power_cut() {
    let (fs, log) = create(small());
    abort_one(&log);
    log.flush_blocking().unwrap();
    let recovery_point = log.prepare_checkpoint().unwrap().recovery_point;
    assert_eq!(recovery_point, Offset(2));
    let facts = OpenFacts { recovery_point: Some(recovery_point), ..OpenFacts::default() };
    let (log, _) = open(&fs.crash(CrashPolicy::Nothing), facts, small());
    assert_eq!(log.aborted_transactions(Offset(0), log.log_end()).unwrap().len(), 1);
}

#[test]
fn no_record_is_durable_before_the_id_of_its_topic() {
    for blocking in [true, false] {
        let (fs, log) = create(LogConfig { durability: crate::Durability::Disk, ..small() });
        log.append(&batch(&["first"]), &client()).unwrap();
        if blocking {
            log.flush_blocking().unwrap();
        } else {
            log.env().run_pending_flushes();
        }
        let (log, _) = open(&fs.crash(CrashPolicy::Nothing), OpenFacts::default(), small());
        assert!(log.log_end() == Offset(1) && log.topic_id() == Some(TopicId([7; 16])), "{:?}", log.topic_id());
    }
}
