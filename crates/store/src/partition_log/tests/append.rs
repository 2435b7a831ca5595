use super::*;
use crate::config::Compression;
use crate::error::AppendError;
use mainstem_env::{Fault, FaultAction, OpKind};
use mainstem_record::{BatchView, ErrorClass, TimestampType};

#[test]
fn row_8_offset_and_epoch_are_stamped_and_the_rest_is_untouched() {
    let (fs, log) = create(LogConfig::default());
    put(&log, &["a", "b"]);
    let sent = batch(&["c"]);
    let appended = log.append(&sent, &AppendContext { leader_epoch: LeaderEpoch(5), ..client() }).unwrap();
    assert_eq!((appended.base_offset, appended.last_offset), (Offset(2), Offset(2)));
    assert_eq!(appended.append_time, TimestampMs::NONE);
    let file = fs.read_all(&log.file(Offset(0), names::LOG)).unwrap();
    let stored = &file[file.len() - sent.len()..];
    let view = BatchView::parse(stored).unwrap();
    assert_eq!((view.header().base_offset, view.header().leader_epoch), (Offset(2), LeaderEpoch(5)));
    assert!(view.crc_is_valid());
    assert_eq!(stored[16..], sent[16..]);
    assert_eq!(log.latest_epoch().unwrap().start_offset, Offset(2));
}

#[test]
fn row_6_log_append_time_sets_the_batch_time_and_is_answered() {
    let (_, log) = create(LogConfig { timestamp_type: TimestampType::LogAppendTime, ..LogConfig::default() });
    let appended = log.append(&batch_at(5, &["a", "b"]), &client()).unwrap();
    assert_eq!(appended.append_time, NOW);
    let reading =
        log.read(&ReadRequest { from: Offset(0), max_bytes: 999, upper: Offset(9), min_one_batch: true }).unwrap();
    let bytes = bytes_of(&reading);
    let view = BatchView::parse(&bytes).unwrap();
    assert!(view.crc_is_valid());
    assert_eq!((view.header().max_timestamp, view.header().timestamp_type()), (NOW, TimestampType::LogAppendTime));
    assert_eq!(view.payload(), &batch_at(5, &["a", "b"])[61..]);
}

#[test]
fn row_3_sizes_and_checksums_are_judged_as_kafka_does() {
    let (_, log) = create(LogConfig { max_message_bytes: 200, ..LogConfig::default() });
    let large = "x".repeat(200);
    match log.append(&batch(&[&large]), &client()) {
        Err(AppendError::Invalid(error)) => assert_eq!(error.class(), ErrorClass::MessageTooLarge),
        other => panic!("{other:?}"),
    }
    log.set_config(Arc::new(LogConfig { segment_bytes: 200, ..LogConfig::default() }));
    assert!(matches!(
        log.append(&batch(&[&large]), &client()),
        Err(AppendError::RecordListTooLarge { limit: 200, .. })
    ));
    let mut damaged = batch(&["a"]).to_vec();
    *damaged.last_mut().unwrap() ^= 1;
    match log.append(&Bytes::from(damaged), &client()) {
        Err(AppendError::Invalid(error)) => assert_eq!(error.class(), ErrorClass::CorruptMessage),
        other => panic!("{other:?}"),
    }
    assert_eq!(log.log_end(), Offset(0));
}

#[test]
fn row_7_batches_are_compressed_again_when_compression_type_says_so() {
    for target in [Codec::None, Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd] {
        let compression = Compression::Fixed { codec: target, level: None };
        let (_, log) = create(LogConfig { compression, ..LogConfig::default() });
        for source in [Codec::None, Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd] {
            log.append(&batch_in(source, &[NOW.0; 3]), &client()).unwrap();
        }
        let request = ReadRequest { from: Offset(0), max_bytes: 1 << 20, upper: Offset(99), min_one_batch: true };
        let bytes = bytes_of(&log.read(&request).unwrap());
        let codecs: Vec<_> = Batches::new(&bytes).map(|view| view.unwrap().codec().unwrap()).collect();
        assert_eq!(codecs, [target; 5]);
        assert_eq!(records(&bytes).len(), 15);
    }
}

#[test]
fn segments_are_rolled_by_size_and_every_file_is_there() {
    let (fs, log) = create(small());
    fill(&log, 40);
    assert!(log.segment_count() > 3, "{}", log.segment_count());
    let listing = listing::Listing::read(&fs, Path::new(FOLDER)).unwrap();
    assert_eq!(listing.segments.len(), log.segment_count());
    for base in &listing.segments {
        assert!(listing.indexes.contains(base) && listing.time_indexes.contains(base));
        let len = fs.read_all(&log.file(*base, names::LOG)).unwrap().len();
        assert!(len <= 1024, "segment {base} has {len} bytes");
    }
    expect_filled(&log, 0..40);
}

#[test]
fn segments_are_rolled_by_the_age_of_their_first_batch() {
    let (_, log) = create(LogConfig { segment_ms: 1000, ..LogConfig::default() });
    log.append(&batch_at(NOW.0, &["a"]), &client()).unwrap();
    log.append(&batch_at(NOW.0 + 1000, &["b"]), &client()).unwrap();
    assert_eq!(log.segment_count(), 1);
    log.append(&batch_at(NOW.0 + 1001, &["c"]), &client()).unwrap();
    assert_eq!(log.segment_count(), 2);
}

#[test]
fn segments_are_rolled_when_the_index_is_full() {
    let (_, log) = create(LogConfig { segment_bytes: 1 << 20, segment_index_bytes: 80, ..small() });
    fill(&log, 50);
    assert!(log.segment_count() > 2);
    expect_filled(&log, 0..50);
}

#[test]
fn segments_are_rolled_before_offsets_get_out_of_reach() {
    let (fs, log) = create(LogConfig::default());
    let far = i64::from(i32::MAX);
    let stamped = |offset| {
        let mut builder = BatchBuilder::new().base_offset(Offset(offset)).leader_epoch(LeaderEpoch(1));
        builder.append(NOW, None, Some(b"v"), &[]);
        Bytes::from(builder.build().unwrap())
    };
    log.append_stamped(&stamped(0), NOW).unwrap();
    log.append_stamped(&stamped(far), NOW).unwrap();
    assert_eq!(log.segment_count(), 1);
    log.append_stamped(&stamped(far + 1), NOW).unwrap();
    assert_eq!(log.segment_count(), 2);
    log.append_stamped(&stamped(3 * far), NOW).unwrap();
    let offsets: Vec<_> = all_records(&log).into_iter().map(|(offset, _)| offset).collect();
    assert_eq!(offsets, [0, far, far + 1, 3 * far]);
    log.close().unwrap();
    let (log, _) = open(&fs, clean(), LogConfig::default());
    assert_eq!(all_records(&log).len(), 4);
}

#[test]
fn stamped_batches_keep_offsets_and_epochs_and_must_ascend() {
    let (_, log) = create(LogConfig::default());
    let stamped = |offset, epoch, count: usize| {
        let mut builder = BatchBuilder::new().base_offset(Offset(offset)).leader_epoch(LeaderEpoch(epoch));
        (0..count).for_each(|_| {
            builder.append(NOW, None, Some(b"v"), &[]);
        });
        builder.build().unwrap()
    };
    let two = [stamped(0, 1, 2), stamped(2, 3, 1)].concat();
    let appended = log.append_stamped(&Bytes::from(two), NOW).unwrap();
    assert_eq!((appended.base_offset, appended.last_offset, log.log_end()), (Offset(0), Offset(2), Offset(3)));
    assert_eq!(log.epoch_for_offset(Offset(1)), Some(LeaderEpoch(1)));
    assert_eq!(log.end_offset_for_epoch(LeaderEpoch(1)), (LeaderEpoch(1), Offset(2)));
    for (offset, epoch) in [(2, 3), (3, 2)] {
        let refused = log.append_stamped(&Bytes::from(stamped(offset, epoch, 1)), NOW);
        assert!(matches!(refused, Err(AppendError::NotNext { .. })), "{refused:?}");
    }
    let reading = log.read(&ReadRequest { from: Offset(2), max_bytes: 99, upper: Offset(3), min_one_batch: true });
    assert_eq!(bytes_of(&reading.unwrap()), stamped(2, 3, 1));
}

#[test]
fn a_full_disk_refuses_one_batch_and_is_not_final() {
    let (fs, log) = create(small());
    fill(&log, 3);
    fs.plan_fault(Fault::of(OpKind::Write, 1).on(".log").with(FaultAction::NoSpace));
    assert!(matches!(log.append(&batch(&["lost"]), &client()), Err(AppendError::DiskFull { .. })));
    assert!(log.failure().is_none());
    fill(&log, 30);
    expect_filled(&log, 0..33);
    // While a roll needs its index files.
    fs.plan_fault(Fault::of(OpKind::Write, 1).on("index").with(FaultAction::NoSpace));
    let mut refused = 0;
    for _ in 0..30 {
        let value = format!("value {:04} {}", log.log_end(), "x".repeat(40));
        match log.append(&batch(&[&value]), &client()) {
            Ok(_) => {}
            Err(AppendError::DiskFull { .. }) => refused += 1,
            Err(other) => panic!("{other:?}"),
        }
    }
    assert!(refused <= 1);
    expect_filled(&log, 0..63 - refused);
}

#[test]
fn durability_disk_is_told_with_the_end_that_a_sync_covered() {
    let fs = MemFs::new();
    let env = env_on(&fs);
    let log = create_with(&env, LogConfig { durability: crate::Durability::Disk, ..small() });
    let told = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&told);
    log.set_durable_listener(Box::new(move |outcome| sink.lock().push(outcome.unwrap())));
    fill(&log, 3);
    assert_eq!(log.durable_end(), Offset(0));
    env.run_pending_flushes();
    assert_eq!((log.durable_end(), told.lock().clone()), (Offset(3), vec![Offset(3)]));
    assert!(log.request_flush(Offset(3)));
    fill(&log, 30);
    env.run_pending_flushes();
    assert_eq!(told.lock().last(), Some(&Offset(33)));
}

#[test]
fn flush_messages_and_flush_ms_ask_for_syncs() {
    let fs = MemFs::new();
    let clock = Arc::new(ManualClock::at(NOW));
    let env = StoreEnv::new(Arc::new(fs), Arc::clone(&clock) as Arc<dyn Clock>, Arc::new(SeededRng::new(1)), 0, 0);
    let env = env.unwrap();
    let log = create_with(&env, LogConfig { flush_messages: 3, flush_ms: 1000, ..LogConfig::default() });
    fill(&log, 2);
    log.flush_if_due();
    assert_eq!(env.run_pending_flushes(), 0);
    fill(&log, 1);
    assert_eq!(env.run_pending_flushes(), 1);
    assert_eq!(log.durable_end(), Offset(3));
    fill(&log, 1);
    clock.advance(std::time::Duration::from_millis(1000));
    log.flush_if_due();
    env.run_pending_flushes();
    assert_eq!(log.durable_end(), Offset(4));
}

#[test]
fn an_idle_log_is_small_and_holds_no_file() {
    assert!(size_of::<PartitionLog>() + size_of::<Journal>() < 2000, "{}", size_of::<PartitionLog>());
}

#[test]
fn extreme_times_roll_by_age_without_overflow() {
    let config = LogConfig {
        segment_ms: i64::MAX - 1,
        timestamp_before_max_ms: i64::MAX,
        timestamp_after_max_ms: i64::MAX,
        ..LogConfig::default()
    };
    let (_, log) = create(config);
    for time_ms in [i64::MAX, 0, i64::MAX] {
        log.append(&batch_at(time_ms, &["x"]), &client()).unwrap();
    }
    assert_eq!((log.log_end(), log.segment_count()), (Offset(3), 1));
}
