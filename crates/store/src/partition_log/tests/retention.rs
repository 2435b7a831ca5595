use super::*;
use crate::formats::epoch_checkpoint;
use crate::formats::epoch_checkpoint::FILE_NAME as EPOCH_FILE;
use mainstem_env::{Fault, FaultAction, OpKind};

#[test]
fn by_size_whole_segments_go_and_the_active_one_stays() {
    let (fs, log) = create(small());
    fill(&log, 60);
    let (before, total) = (log.segment_count(), log.size_bytes());
    log.set_config(Arc::new(LogConfig { retention_bytes: (total / 2) as i64, ..small() }));
    let outcome = log.retention_pass(NOW, Offset(60)).unwrap();
    assert!(outcome.segments_removed > 0 && outcome.segments_removed < before);
    assert!(log.size_bytes() >= total / 2 && log.size_bytes() < total / 2 + 1024, "as Kafka: not below the limit");
    assert_eq!(outcome.log_start, log.log_start());
    expect_filled(&log, log.log_start().0..60);
    assert_eq!(log.latest_epoch().unwrap().start_offset, log.log_start());
    log.close().unwrap();
    let (again, _) = open(&fs, clean(), small());
    expect_filled(&again, log.log_start().0..60);
}

#[test]
fn segments_go_although_the_disk_has_no_room_for_longer_names() {
    let (fs, log) = create(LogConfig { file_delete_delay_ms: 3_600_000, ..small() });
    fill(&log, 60);
    log.set_config(Arc::new(LogConfig { retention_bytes: 1500, ..small() }));
    fs.plan_fault(Fault::of(OpKind::Rename, 1).with(FaultAction::NoSpace).on("/0").and_later());
    let outcome = log.retention_pass(NOW, Offset(60)).unwrap();
    assert!(outcome.segments_removed > 0 && fs.faults_met() > 0, "{outcome:?}");
    let first = format!("{:020}", outcome.log_start.0);
    for file in fs.read_dir(Path::new(FOLDER)).unwrap() {
        let name = file.name.to_string_lossy().into_owned();
        assert!(!name.starts_with('0') || (name >= first && !name.ends_with(".deleted")), "{name}");
    }
    fs.clear_faults();
    log.close().unwrap();
    let (again, _) = open(&fs, clean(), small());
    expect_filled(&again, outcome.log_start.0..60);
}

#[test]
fn no_epoch_begins_before_the_log_when_a_kill_came_before_their_file_was_written() {
    let (fs, log) = create(small());
    fill(&log, 60);
    log.prepare_checkpoint().unwrap();
    log.set_config(Arc::new(LogConfig { retention_bytes: 1500, ..small() }));
    let log_start = log.retention_pass(NOW, Offset(60)).unwrap().log_start;
    assert!(log_start > Offset::ZERO);
    drop(log);
    let (again, _) = open(&fs, OpenFacts::default(), small());
    assert_eq!(again.latest_epoch().unwrap().start_offset, log_start);
    again.close().unwrap();
    let written = fs.read_all(&Path::new(FOLDER).join(EPOCH_FILE)).unwrap();
    assert_eq!(epoch_checkpoint::decode(&written).unwrap()[0].start_offset, log_start);
}

#[test]
fn a_producer_is_known_when_its_records_are_gone_also_after_a_power_cut() {
    let appended = || {
        let (fs, log) = create(small());
        log.append(&produced(7, 2, 40, &["once"]), &client()).unwrap();
        fill(&log, 60);
        log.set_config(Arc::new(LogConfig { retention_bytes: 1500, ..small() }));
        (fs, log)
    };
    let seven =
        |log: &PartitionLog| log.producers().iter().map(|p| (p.producer_id.0, p.last_sequence)).collect::<Vec<_>>();
    for seed in 0..20 {
        let (fs, log) = appended();
        assert!(log.retention_pass(NOW, Offset(61)).unwrap().log_start > Offset(1));
        let (again, _) = open(&fs.crash(mainstem_env::CrashPolicy::Torn(seed)), OpenFacts::default(), small());
        assert!(again.log_start() > Offset(1));
        assert_eq!(seven(&again), [(7, 40)], "seed {seed}");
    }
    // No snapshot can be read: what is about to go tells of its producers once more.
    let (fs, log) = appended();
    for offset in listing::Listing::look(&fs, Path::new(FOLDER)).unwrap().snapshots {
        fs.atomic_write(&log.file(offset, names::PRODUCER_SNAPSHOT), b"damaged").unwrap();
    }
    log.retention_pass(NOW, Offset(61)).unwrap();
    let (again, _) = open(&fs.crash(mainstem_env::CrashPolicy::Nothing), OpenFacts::default(), small());
    assert_eq!(seven(&again), [(7, 40)]);
    assert!(again.append(&produced(7, 2, 40, &["once"]), &client()).unwrap().duplicate);
}

#[test]
fn by_time_the_whole_log_can_go_and_offsets_go_on() {
    let (fs, log) = create(small());
    fill(&log, 30);
    log.set_config(Arc::new(LogConfig { retention_ms: 1000, ..small() }));
    assert_eq!(log.retention_pass(TimestampMs(NOW.0 + 1000), Offset(30)).unwrap().segments_removed, 0);
    let outcome = log.retention_pass(TimestampMs(NOW.0 + 1001), Offset(30)).unwrap();
    assert_eq!((outcome.log_start, log.segment_count(), log.size_bytes()), (Offset(30), 1, 0));
    assert_eq!(log.retention_pass(TimestampMs(NOW.0 + 9001), Offset(30)).unwrap().segments_removed, 0);
    fill(&log, 1);
    log.close().unwrap();
    let (log, _) = open(&fs, clean(), small());
    expect_filled(&log, 30..31);
}

#[test]
fn nothing_at_or_above_the_high_watermark_goes() {
    let (_, log) = create(LogConfig { retention_bytes: 0, ..small() });
    fill(&log, 60);
    let outcome = log.retention_pass(NOW, Offset(20)).unwrap();
    assert!(outcome.log_start <= Offset(20) && outcome.segments_removed > 0, "{outcome:?}");
    expect_filled(&log, outcome.log_start.0..60);
}

#[test]
fn compacted_topics_lose_only_what_is_below_the_log_start() {
    let (_, log) = create(LogConfig { cleanup_delete: false, retention_bytes: 0, retention_ms: 0, ..small() });
    fill(&log, 60);
    assert_eq!(log.retention_pass(TimestampMs(NOW.0 * 2), Offset(60)).unwrap().segments_removed, 0);
    log.raise_log_start(Offset(30), Offset(60)).unwrap();
    let outcome = log.retention_pass(NOW, Offset(60)).unwrap();
    assert!(outcome.segments_removed > 0);
    assert_eq!(log.log_start(), Offset(30));
    expect_filled(&log, 30..60);
}

#[test]
fn row_41_the_log_start_rises_within_its_bounds() {
    let (_, log) = create(small());
    fill(&log, 10);
    assert_eq!(log.raise_log_start(Offset(5), Offset(10)).unwrap(), Offset(5));
    assert_eq!(log.raise_log_start(Offset(3), Offset(10)).unwrap(), Offset(5), "at or below: nothing happens");
    assert!(log.raise_log_start(Offset(8), Offset(7)).is_err());
    assert!(log.raise_log_start(Offset(-1), Offset(7)).is_err());
    assert_eq!(log.log_start(), Offset(5));
}

#[test]
fn files_go_after_their_delay() {
    let fs = MemFs::new();
    let clock = Arc::new(ManualClock::at(NOW));
    let env =
        StoreEnv::new(Arc::new(fs.clone()), Arc::clone(&clock) as Arc<dyn Clock>, Arc::new(SeededRng::new(1)), 0, 0);
    let log = create_with(&env.unwrap(), LogConfig { retention_bytes: 0, file_delete_delay_ms: 100, ..small() });
    fill(&log, 40);
    let deleted = || {
        let entries = fs.read_dir(Path::new(FOLDER)).unwrap();
        entries.iter().filter(|entry| entry.name.to_str().unwrap().ends_with(".deleted")).count()
    };
    let outcome = log.retention_pass(NOW, Offset(40)).unwrap();
    assert!(deleted() >= 3 * outcome.segments_removed);
    assert_eq!(log.remove_due_files(), 0);
    clock.advance(std::time::Duration::from_millis(100));
    assert!(log.remove_due_files() >= 3 * outcome.segments_removed);
    assert_eq!(deleted(), 0);
}
