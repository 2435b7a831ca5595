use super::*;
use crate::AppendContext;
use crate::topic_log::TopicLog;
use bytes::Bytes;
use mainstem_env::{CrashPolicy, Fault, FaultAction, Fs, ManualClock, MemFs, OpKind, SeededRng};
use mainstem_record::BatchBuilder;
use mainstem_types::{LeaderEpoch, NodeId, TimestampMs};

const PATH: &str = "/data";
const NOW: TimestampMs = TimestampMs(1_700_000_000_000);

fn env_on(fs: &MemFs) -> (Arc<StoreEnv>, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::at(NOW));
    let rng = Arc::new(SeededRng::new(fs.mutations()));
    let env = StoreEnv::new(Arc::new(fs.clone()), Arc::clone(&clock) as _, rng, 1 << 20, 0).unwrap();
    (env, clock)
}

fn open_on(fs: &MemFs) -> (DataFolder, FolderReport) {
    DataFolder::open(&env_on(fs).0, Path::new(PATH)).unwrap()
}

fn partition(topic: &str, index: i32) -> TopicPartition {
    TopicPartition::new(topic, PartitionIndex(index))
}

fn config() -> Arc<LogConfig> {
    Arc::new(LogConfig { segment_bytes: 1024, index_interval_bytes: 100, retention_ms: -1, ..LogConfig::default() })
}

fn append(log: &PartitionLog, count: usize) {
    (0..count).for_each(|_| append_batch(log, 1));
}

/// One batch of so many records.
fn append_batch(log: &PartitionLog, records: i64) {
    let mut builder = BatchBuilder::new();
    for offset in log.log_end().0..log.log_end().0 + records {
        builder.append(NOW, None, Some(format!("value {offset} of some length").as_bytes()), &[]);
    }
    let context = AppendContext {
        origin: crate::Origin::Client,
        leader_epoch: LeaderEpoch(0),
        now: NOW,
        zstd_allowed: true,
        unpacked_bytes_max: usize::MAX,
    };
    log.append(&Bytes::from(builder.build().unwrap()), &context).unwrap();
}

fn with_watermarks(logs: &[Arc<PartitionLog>]) -> Vec<(Arc<PartitionLog>, Offset)> {
    logs.iter().map(|log| (Arc::clone(log), log.log_end())).collect()
}

fn names(fs: &MemFs) -> Vec<String> {
    use mainstem_env::Fs;
    fs.read_dir(Path::new(PATH)).unwrap().into_iter().map(|entry| entry.name.into_string().unwrap()).collect()
}

#[test]
fn a_folder_is_used_by_one_process_at_a_time() {
    let fs = MemFs::new();
    let (folder, report) = open_on(&fs);
    assert_eq!(report.stop, StopKind::New);
    match DataFolder::open(&env_on(&fs).0, Path::new(PATH)) {
        Err(OpenError::Locked { holder, .. }) => assert!(holder.contains(&std::process::id().to_string())),
        other => panic!("{other:?}"),
    }
    drop(folder);
    open_on(&fs);
}

#[test]
fn the_reserve_is_given_back_on_a_full_disk_by_whoever_holds_the_folder() {
    let fs = MemFs::new();
    let has_reserve = |fs: &MemFs| names(fs).contains(&reserve::FILE_NAME.to_owned());
    fs.set_free_space(64 << 20);
    let (folder, _) = open_on(&fs);
    fs.plan_fault(Fault::of(OpKind::Allocate, 1).on(reserve::FILE_NAME).with(FaultAction::NoSpace));
    folder.keep_reserve();
    assert!(!has_reserve(&fs), "a file without its space");
    folder.keep_reserve();
    assert!(has_reserve(&fs));
    fs.set_free_space(0);
    assert!(DataFolder::open(&env_on(&fs).0, Path::new(PATH)).is_err());
    assert!(has_reserve(&fs), "it belongs to the first");
    drop(folder);
    open_on(&fs);
    assert!(!has_reserve(&fs));
}

#[test]
fn a_clean_stop_is_recognised_and_leaves_kafka_s_files() {
    use mainstem_env::Fs;
    let fs = MemFs::new();
    let (folder, _) = open_on(&fs);
    let properties = MetaProperties {
        cluster_id: "4L6g3nShT-eMCtK--X86sw".into(),
        node_id: NodeId(1),
        directory_id: Some(TopicId([3; 16])),
    };
    assert_eq!(folder.meta_properties().unwrap(), None);
    folder.write_meta_properties(&properties).unwrap();
    let (metadata, _) = folder.open_metadata_log(config()).unwrap();
    append(&metadata, 5);
    let logs = folder
        .create_logs(&[
            (partition("orders", 0), TopicId([7; 16]), config()),
            (partition("orders", 1), TopicId([7; 16]), config()),
        ])
        .unwrap();
    let logs: Vec<_> = logs.into_iter().map(Result::unwrap).collect();
    append(&logs[0], 30);
    logs[0].raise_log_start(Offset(11), Offset(30)).unwrap();
    let all = with_watermarks(&[metadata, Arc::clone(&logs[0]), Arc::clone(&logs[1])]);
    folder.close(&all, 42).unwrap();
    drop(folder);
    let text = |name: &str| String::from_utf8(fs.read_all(&Path::new(PATH).join(name)).unwrap()).unwrap();
    assert_eq!(text("recovery-point-offset-checkpoint"), "0\n2\norders 0 30\norders 1 0\n");
    assert_eq!(text("replication-offset-checkpoint"), "0\n2\norders 0 30\norders 1 0\n");
    assert_eq!(text("log-start-offset-checkpoint"), "0\n1\norders 0 11\n");
    assert_eq!(text(".kafka_cleanshutdown"), "{\"version\":0,\"brokerEpoch\":42}");
    assert!(!names(&fs).contains(&"abort".to_owned()));
    // After a power cut: everything was durable.
    let fs = fs.crash(CrashPolicy::Nothing);
    let (folder, report) = open_on(&fs);
    assert_eq!(report.stop, StopKind::Clean { broker_epoch: 42 });
    assert_eq!(folder.meta_properties().unwrap(), Some(properties));
    assert_eq!(report.partitions.len(), 2);
    assert_eq!(report.partitions[0].topic_id, Some(TopicId([7; 16])));
    assert!(!names(&fs).contains(&".kafka_cleanshutdown".to_owned()) && names(&fs).contains(&"abort".to_owned()));
    let (log, recovery) = folder.open_log(&report.partitions[0], config()).unwrap();
    assert_eq!((log.log_start(), log.log_end(), recovery), (Offset(11), Offset(30), LogRecovery::default()));
    assert_eq!(folder.high_watermark(&partition("orders", 0)), Some(Offset(30)));
    let (metadata, recovery) = folder.open_metadata_log(config()).unwrap();
    assert_eq!((metadata.log_end(), recovery), (Offset(5), LogRecovery::default()));
    assert_eq!(metadata.topic_id(), Some(TopicId::CLUSTER_METADATA));
}

#[test]
fn a_folder_that_is_given_back_is_as_it_was_found() {
    use mainstem_env::Fs;
    let fs = MemFs::new();
    let (folder, report) = open_on(&fs);
    folder.give_back(&report).unwrap();
    drop(folder);
    let (folder, report) = open_on(&fs.crash(CrashPolicy::Nothing));
    assert!(report.stop == StopKind::New && !folder.has_metadata_log().unwrap());
    drop(folder);
    let (folder, _) = open_on(&fs);
    let (metadata, _) = folder.open_metadata_log(config()).unwrap();
    assert!(folder.has_metadata_log().unwrap());
    folder.close(&with_watermarks(&[metadata]), 42).unwrap();
    drop(folder);
    let (folder, report) = open_on(&fs);
    folder.give_back(&report).unwrap();
    drop(folder);
    let fs = fs.crash(CrashPolicy::Nothing);
    assert!(!fs.exists(&Path::new(PATH).join("abort")).unwrap());
    let (folder, report) = open_on(&fs);
    assert_eq!(report.stop, StopKind::Clean { broker_epoch: 42 });
    drop(folder);
    let (folder, report) = open_on(&fs);
    assert_eq!(report.stop, StopKind::Unclean, "nobody closed it");
    folder.give_back(&report).unwrap();
    drop(folder);
    assert_eq!(open_on(&fs).1.stop, StopKind::Unclean);
}

#[test]
fn an_unclean_stop_is_recognised_and_scans_from_the_checkpoint() {
    let fs = MemFs::new();
    let (folder, _) = open_on(&fs);
    let log = folder.create_log(&partition("orders", 0), TopicId([7; 16]), config()).unwrap();
    append(&log, 50);
    log.flush_blocking().unwrap();
    folder.write_checkpoints(&with_watermarks(&[Arc::clone(&log)]), &|| true).unwrap();
    append(&log, 3);
    let fs = fs.crash(CrashPolicy::Everything);
    let (folder, report) = open_on(&fs);
    assert_eq!(report.stop, StopKind::Unclean);
    let (log, recovery) = folder.open_log(&report.partitions[0], config()).unwrap();
    assert_eq!((log.log_end(), recovery.segments_scanned), (Offset(53), 1));
    // Again, before anything was checkpointed.
    drop((log, folder));
    let (folder, report) = open_on(&fs.crash(CrashPolicy::Nothing));
    assert_eq!(folder.open_log(&report.partitions[0], config()).unwrap().0.log_end(), Offset(53));
}

#[test]
fn checkpoints_end_between_two_logs_when_they_are_told_and_what_the_files_say_stays_true() {
    let fs = MemFs::new();
    let (folder, _) = open_on(&fs);
    let create = |index| folder.create_log(&partition("orders", index), TopicId([7; 16]), config()).unwrap();
    let logs = [create(0), create(1)];
    let write = |looks: usize| {
        let left = std::cell::Cell::new(looks);
        let go_on = || left.replace(left.get().saturating_sub(1)) > 0;
        folder.write_checkpoints(&with_watermarks(&logs), &go_on).unwrap();
    };
    let written = || fs.read_if_present(&Path::new(PATH).join("replication-offset-checkpoint")).unwrap();
    let text = |ends: [i64; 2]| Some(format!("0\n2\norders 0 {}\norders 1 {}\n", ends[0], ends[1]).into_bytes());
    logs.iter().for_each(|log| append(log, 2));
    write(2);
    assert_eq!(written(), text([2, 2]));
    logs.iter().for_each(|log| append(log, 3));
    write(1);
    assert_eq!(written(), text([2, 2]), "one log was looked at, and the stop came");
    write(2);
    assert_eq!(written(), text([5, 5]));
}

#[test]
fn every_entry_is_classified_and_nothing_unknown_is_touched() {
    use mainstem_env::Fs;
    let fs = MemFs::new();
    for name in
        ["orders-0", "a-1.0123-delete", "b-2.0123-future", "c-3.0123-stray", "mainstem", "what", "__cluster_metadata-0"]
    {
        fs.create_dir_all(&Path::new(PATH).join(name)).unwrap();
    }
    for name in ["notes.txt", "meta.properties", "cleaner-offset-checkpoint", "checkpoint.tmp"] {
        fs.atomic_write(&Path::new(PATH).join(name), b"").unwrap();
    }
    fs.atomic_write(&Path::new(PATH).join("recovery-point-offset-checkpoint"), b"0\n1\n").unwrap();
    fs.atomic_write(&Path::new(PATH).join("orders-0/partition.metadata"), b"").unwrap();
    let (folder, report) = open_on(&fs);
    assert_eq!(report.stop, StopKind::Unclean, "there are partitions and nobody left a mark");
    let found: Vec<_> = report.partitions.iter().map(|entry| (entry.partition.to_string(), entry.topic_id)).collect();
    assert_eq!(found, [("orders-0".to_owned(), None)]);
    assert_eq!(report.parted.len(), 3);
    assert_eq!(report.unknown, [Path::new("/data/notes.txt"), Path::new("/data/what")]);
    let unreadable: Vec<_> =
        report.unreadable.iter().map(|(path, _)| path.file_name().unwrap().to_str().unwrap()).collect();
    assert_eq!(unreadable, ["partition.metadata", "recovery-point-offset-checkpoint"]);
    assert!(matches!(folder.meta_properties(), Err(OpenError::Empty { .. })), "empty is not absent");
    let parked = folder.park_stray(&report.partitions[0]).unwrap();
    assert!(parked.to_str().unwrap().ends_with("-stray"));
    assert_eq!(folder.remove_due(), 1, "the -delete folder alone");
    let left = names(&fs);
    assert!(left.contains(&"c-3.0123-stray".to_owned()) && left.contains(&"b-2.0123-future".to_owned()));
    assert!(left.iter().any(|name| name.starts_with("orders-0.") && name.ends_with("-stray")), "{left:?}");
    assert!(left.contains(&"notes.txt".to_owned()) && left.contains(&"what".to_owned()));
}

#[test]
fn deletion_is_a_rename_at_once_and_the_removal_later() {
    let fs = MemFs::new();
    let (env, clock) = env_on(&fs);
    let (folder, _) = DataFolder::open(&env, Path::new(PATH)).unwrap();
    let log = folder.create_log(&partition("orders", 0), TopicId([7; 16]), config()).unwrap();
    append(&log, 5);
    let request = crate::ReadRequest { from: Offset(0), max_bytes: 9999, upper: Offset(5), min_one_batch: true };
    let reading = log.read(&request).unwrap();
    folder.delete_log(&log, Duration::from_secs(60)).unwrap();
    assert!(log.read(&request).is_err());
    // The topic can be created again at once.
    let again = folder.create_log(&partition("orders", 0), TopicId([8; 16]), config()).unwrap();
    assert_eq!(again.log_end(), Offset(0));
    again.sync_new_files().unwrap();
    let crashed = fs.crash(CrashPolicy::Nothing);
    let (_, report) = open_on(&crashed);
    assert_eq!((report.partitions.len(), report.parted.len()), (1, 1));
    assert_eq!(report.partitions[0].topic_id, Some(TopicId([8; 16])));
    assert_eq!(folder.remove_due(), 0);
    clock.advance(Duration::from_secs(60));
    assert_eq!(folder.remove_due(), 1);
    assert_eq!(reading.bytes, reading.chunks[0].len());
}

#[test]
fn a_new_log_costs_no_sync_of_its_own_and_its_first_flush_makes_it_durable() {
    let fs = MemFs::new();
    let (folder, _) = open_on(&fs);
    let wanted: Vec<_> = (0..20).map(|index| (partition("orders", index), TopicId([7; 16]), config())).collect();
    fs.plan_fault(Fault::of(OpKind::SyncDir, 1).on("orders-"));
    fs.plan_fault(Fault::of(OpKind::Sync, 1).on("orders-"));
    let logs: Vec<_> = folder.create_logs(&wanted).unwrap().into_iter().map(Result::unwrap).collect();
    assert_eq!(fs.faults_met(), 0, "something was synced in a folder of a partition");
    fs.clear_faults();
    append(&logs[3], 5);
    append(&logs[4], 5);
    logs[3].flush_blocking().unwrap();
    let crashed = fs.crash(CrashPolicy::Nothing);
    let (folder, report) = open_on(&crashed);
    assert_eq!(report.partitions.len(), 20, "the names of all folders are durable");
    for entry in &report.partitions {
        folder.adopt(entry, TopicId([7; 16])).unwrap();
        let (log, _) = folder.open_log(entry, config()).unwrap();
        let flushed = entry.partition == partition("orders", 3);
        assert_eq!(
            (log.log_start(), log.log_end()),
            (Offset(0), Offset(if flushed { 5 } else { 0 })),
            "{}",
            entry.partition
        );
        assert_eq!(log.topic_id(), Some(TopicId([7; 16])));
        append(&log, 1);
    }
}

#[test]
fn a_creation_that_failed_half_way_can_be_repeated() {
    let fs = MemFs::new();
    let (folder, _) = open_on(&fs);
    let create = || folder.create_log(&partition("orders", 0), TopicId([7; 16]), config());
    fs.plan_fault(Fault::of(OpKind::Write, 1).on("partition.metadata"));
    assert!(create().is_err());
    let log = create().unwrap();
    append(&log, 1);
    assert!(matches!(create(), Err(OpenError::Exists { .. })), "not over data");
}

#[test]
fn of_many_that_are_created_one_that_cannot_be_is_told_and_the_others_are_there() {
    let fs = MemFs::new();
    let (folder, _) = open_on(&fs);
    let wanted: Vec<_> = (0..3).map(|index| (partition("orders", index), TopicId([7; 16]), config())).collect();
    let faults = [
        Fault::of(OpKind::CreateDir, 1).on("orders-1").with(FaultAction::NoSpace),
        Fault::of(OpKind::Open, 1).on("orders-1/").with(FaultAction::NoSpace),
        // What a process without free descriptors sees.
        Fault::of(OpKind::Open, 3).on("orders-1/"),
        Fault::of(OpKind::Write, 1).on("orders-1/partition.metadata").with(FaultAction::NoSpace),
    ];
    for (met, fault) in (1..).zip(faults) {
        fs.plan_fault(fault.clone());
        let created = folder.create_logs(&wanted).unwrap();
        assert_eq!(fs.faults_met(), met, "{fault:?}");
        assert!(created[0].is_ok() && created[2].is_ok(), "{created:?}");
        let error = created[1].as_ref().unwrap_err().to_string();
        assert!(error.contains("orders-1"), "it says where: {error}");
        fs.clear_faults();
        append(&folder.create_log(&wanted[1].0, TopicId([7; 16]), config()).unwrap(), 1);
        for log in created.iter().flatten() {
            folder.delete_log(log, Duration::ZERO).unwrap();
        }
        fs.remove_dir_all(Path::new("/data/orders-1")).unwrap();
    }
}

#[test]
fn a_log_whose_disk_fails_is_not_the_concern_of_the_others_checkpoints() {
    let fs = MemFs::new();
    let (folder, _) = open_on(&fs);
    let bad = folder.create_log(&partition("bad", 0), TopicId([7; 16]), config()).unwrap();
    let good = folder.create_log(&partition("good", 0), TopicId([8; 16]), config()).unwrap();
    for log in [&bad, &good] {
        append(log, 30);
        log.raise_log_start(Offset(20), Offset(30)).unwrap();
    }
    fs.plan_fault(Fault::of(OpKind::Sync, 1).on("bad-0"));
    let logs = [&bad, &good].map(|log| (TopicLog::from(Arc::clone(log)), Offset(30)));
    let written = folder.write_checkpoints_of(&logs);
    assert!(written[0].as_ref().unwrap_err().to_string().contains("bad-0"));
    assert!(written[1].is_ok());
    assert!(bad.failure().is_some() && good.failure().is_none());
    let again = folder.write_checkpoints_of(&logs);
    assert!(again[0].is_err() && again[1].is_ok(), "it stays so: {again:?}");
    // All of them, as once a minute: the error tells, what is good is written.
    good.raise_log_start(Offset(25), Offset(30)).unwrap();
    let _ = folder.write_checkpoints(&with_watermarks(&[bad, Arc::clone(&good)]), &|| true);
    let (folder, report) = open_on(&fs.crash(CrashPolicy::Nothing));
    let opened = |topic: &str| {
        let entry = report.partitions.iter().find(|entry| &*entry.partition.topic == topic).unwrap();
        folder.open_log(entry, config()).unwrap().0
    };
    assert_eq!(opened("good").log_start(), Offset(25));
    let bad = opened("bad");
    assert!(bad.log_start() <= bad.log_end(), "nothing above what the disk has was written down");
}

#[test]
fn a_log_that_cannot_be_closed_leaves_the_folder_unclean_and_the_others_closed() {
    let fs = MemFs::new();
    let (folder, _) = open_on(&fs);
    let bad = folder.create_log(&partition("bad", 0), TopicId([7; 16]), config()).unwrap();
    let good = folder.create_log(&partition("good", 0), TopicId([8; 16]), config()).unwrap();
    append(&bad, 5);
    append(&good, 5);
    fs.plan_fault(Fault::of(OpKind::Sync, 1).on("bad-0"));
    assert!(folder.close(&with_watermarks(&[bad, good]), 1).is_err());
    drop(folder);
    let (folder, report) = open_on(&fs.crash(CrashPolicy::Nothing));
    assert_eq!(report.stop, StopKind::Unclean);
    let good = report.partitions.iter().find(|entry| &*entry.partition.topic == "good").unwrap();
    let (good, recovery) = folder.open_log(good, config()).unwrap();
    assert_eq!((good.log_end(), recovery), (Offset(5), LogRecovery::default()), "its checkpoint was written");
}

/// What is done with a folder from start to end, up to where the disk stops. Gives what is known to hold.
fn life(fs: &MemFs, durable: &mut [i64; 2], deleted: &mut bool) -> Option<()> {
    let (folder, report) = DataFolder::open(&env_on(fs).0, Path::new(PATH)).ok()?;
    let mut logs = Vec::new();
    for entry in &report.partitions {
        logs.push(folder.open_log(entry, config()).ok()?.0);
    }
    let (metadata, _) = folder.open_metadata_log(config()).ok()?;
    if report.partitions.is_empty() {
        let new: Vec<_> = ["a", "b"].map(|topic| (partition(topic, 0), TopicId([7; 16]), config())).into();
        logs = folder.create_logs(&new).ok()?.into_iter().collect::<Result<_, _>>().ok()?;
    }
    for log in logs.iter().chain([&metadata]) {
        let before = log.log_end();
        for _ in 0..15 {
            let mut builder = BatchBuilder::new();
            builder.append(NOW, None, Some(b"a value of some length, and some more"), &[]);
            let context = AppendContext {
                origin: crate::Origin::Client,
                leader_epoch: LeaderEpoch(0),
                now: NOW,
                zstd_allowed: true,
                unpacked_bytes_max: usize::MAX,
            };
            log.append(&Bytes::from(builder.build().ok()?), &context).ok()?;
        }
        assert_eq!(log.log_end(), before.plus(15));
        let end = log.flush_blocking().ok()?;
        match &*log.partition().topic {
            "a" => durable[0] = end.0,
            "b" => {}
            _ => durable[1] = end.0,
        }
    }
    logs.push(metadata);
    folder.write_checkpoints(&with_watermarks(&logs), &|| true).ok()?;
    if let Some(at) = logs.iter().position(|log| &*log.partition().topic == "b") {
        let gone = logs.remove(at);
        folder.delete_log(&gone, Duration::ZERO).ok()?;
        *deleted = true;
        folder.remove_due();
    }
    folder.close(&with_watermarks(&logs), 1).ok()?;
    Some(())
}

/// The log end, after every batch up to it was read and found whole.
fn whole_end(log: &PartitionLog) -> i64 {
    let mut from = log.log_start();
    while from < log.log_end() {
        let request = crate::ReadRequest { from, max_bytes: 1 << 20, upper: log.log_end(), min_one_batch: true };
        for chunk in log.read(&request).unwrap().chunks {
            let bytes = match chunk {
                crate::ReadChunk::Bytes(bytes) => bytes.to_vec(),
                crate::ReadChunk::Slice(slice) => {
                    let mut bytes = vec![0; slice.len as usize];
                    slice.file.read_exact_at(&mut bytes, slice.position).unwrap();
                    bytes
                }
            };
            for view in mainstem_record::Batches::new(&bytes) {
                let view = view.unwrap();
                assert!(view.crc_is_valid(), "a damaged batch at {}", view.header().base_offset);
                assert_eq!(view.header().base_offset, from);
                from = view.header().next_offset();
            }
        }
    }
    from.0
}

#[test]
fn a_crash_at_every_step_of_a_folder_s_life_loses_nothing_durable() {
    let mut after = 0;
    loop {
        let fs = MemFs::new();
        let (mut durable, mut deleted) = ([0; 2], false);
        fs.stop_after(after);
        let finished = life(&fs, &mut durable, &mut deleted).and_then(|()| life(&fs, &mut durable, &mut deleted));
        for policy in [CrashPolicy::Nothing, CrashPolicy::Everything, CrashPolicy::Torn(after)] {
            let image = fs.crash(policy);
            // A second stop during the start.
            image.stop_after(after % 17);
            let (mut durable_again, mut deleted_again) = (durable, deleted);
            let _ = life(&image, &mut durable_again, &mut deleted_again);
            for (image, durable) in [(fs.crash(policy), durable), (image.crash(CrashPolicy::Nothing), durable_again)] {
                let (folder, report) = open_on(&image);
                let found = report.partitions.iter().find(|entry| &*entry.partition.topic == "a");
                let end = found.map_or(0, |entry| whole_end(&folder.open_log(entry, config()).unwrap().0));
                assert!(end >= durable[0], "stop {after}, {policy:?}: {end} of {durable:?}");
                let (metadata, _) = folder.open_metadata_log(config()).unwrap();
                assert!(whole_end(&metadata) >= durable[1]);
                let b = report.partitions.iter().any(|entry| &*entry.partition.topic == "b");
                assert!(!(b && deleted), "what was deleted does not come back");
            }
        }
        if finished.is_some() {
            break;
        }
        after += 1;
    }
    assert!(after > 100, "{after} places to stop");
}

#[test]
fn a_folder_of_a_newer_format_is_refused_and_left_alone_and_so_is_one_of_before_kraft() {
    let fs = MemFs::new();
    let (folder, _) = DataFolder::open(&env_on(&fs).0, Path::new(PATH)).unwrap();
    let properties = MetaProperties { cluster_id: "c".to_owned(), node_id: NodeId(1), directory_id: None };
    folder.write_meta_properties(&properties).unwrap();
    drop(folder);
    let path = Path::new(PATH).join("checkpoint");
    let text = String::from_utf8(fs.read_all(&path).unwrap()).unwrap();
    assert!(text.starts_with("version 1\n"), "a new folder says its format: {text}");
    let body = "version 2\nsomething new\n";
    let newer = format!("{body}crc32c {:08x}\n", crate::crc32c(body.as_bytes()));
    fs.atomic_write(&path, newer.as_bytes()).unwrap();
    let before = fs.crash(CrashPolicy::Everything);
    let refused = DataFolder::open(&env_on(&before).0, Path::new(PATH)).unwrap_err();
    assert!(matches!(refused, OpenError::Newer { found: 2, supported: 1, .. }), "{refused}");
    assert_eq!(before.read_all(&path).unwrap(), newer.as_bytes());
    let fs = MemFs::new();
    fs.create_dir_all_synced(Path::new(PATH)).unwrap();
    fs.atomic_write(&Path::new(PATH).join("meta.properties"), b"version=0\nbroker.id=1\n").unwrap();
    let (folder, _) = DataFolder::open(&env_on(&fs).0, Path::new(PATH)).unwrap();
    let refused = folder.meta_properties().unwrap_err();
    assert!(matches!(refused, OpenError::Older { found: 0, .. }) && refused.to_string().contains("KRaft"), "{refused}");
}

/// A folder with so many logs that they are closed together, each with records.
fn many_logs(fs: &MemFs) -> (DataFolder, Vec<Arc<PartitionLog>>) {
    let (folder, _) = open_on(fs);
    let create = |index| folder.create_log(&partition("many", index), TopicId([7; 16]), config()).unwrap();
    let logs: Vec<_> = (0..SYNC_AT_ONCE_LOGS as i32).map(create).collect();
    for log in &logs {
        log.begin_epoch(LeaderEpoch(0)).unwrap();
        append(log, 20);
    }
    (folder, logs)
}

/// Opens all logs again; gives how the folder was left, and how many records are there.
fn opened_again(fs: &MemFs) -> (StopKind, i64) {
    let (folder, report) = open_on(fs);
    let mut records = 0;
    for entry in &report.partitions {
        let (log, recovery) = folder.open_log(entry, config()).unwrap();
        assert_eq!(recovery.logs_short, 0, "{}", entry.partition);
        if log.log_end().0 > 0 {
            assert_eq!(log.latest_epoch().map(|entry| entry.epoch), Some(LeaderEpoch(0)), "{}", entry.partition);
        }
        records += log.log_end().0;
    }
    (report.stop, records)
}

const MANY_RECORDS: i64 = 20 * SYNC_AT_ONCE_LOGS as i64;

#[test]
fn many_logs_are_closed_with_two_syncs_of_the_file_system_and_are_durable() {
    let fs = MemFs::new();
    let (folder, logs) = many_logs(&fs);
    // Any sync of a file or folder of a log would fail: there is none.
    fs.plan_fault(Fault::of(OpKind::Sync, 1).and_later().on("many-"));
    fs.plan_fault(Fault::of(OpKind::SyncDir, 1).and_later().on("many-"));
    folder.close(&with_watermarks(&logs), 7).unwrap();
    assert_eq!(fs.faults_met(), 0);
    let cut = fs.crash(CrashPolicy::Nothing);
    assert_eq!(opened_again(&cut), (StopKind::Clean { broker_epoch: 7 }, MANY_RECORDS));
}

#[test]
fn where_the_file_system_cannot_be_synced_at_once_each_log_is() {
    let fs = MemFs::new();
    let (folder, logs) = many_logs(&fs);
    fs.plan_fault(Fault::of(OpKind::Sync, 1).on(".lock"));
    folder.close(&with_watermarks(&logs), 7).unwrap();
    assert_eq!(fs.faults_met(), 1);
    let cut = fs.crash(CrashPolicy::Nothing);
    assert_eq!(opened_again(&cut), (StopKind::Clean { broker_epoch: 7 }, MANY_RECORDS));
    // A log that cannot be synced either fails, and the stop is none in order.
    let fs = MemFs::new();
    let (folder, logs) = many_logs(&fs);
    fs.plan_fault(Fault::of(OpKind::Sync, 1).on(".lock"));
    fs.plan_fault(Fault::of(OpKind::Sync, 1).on("many-3/"));
    assert!(folder.close(&with_watermarks(&logs), 7).is_err());
    assert!(logs[3].failure().is_some() && logs[4].failure().is_none());
    assert_eq!(opened_again(&fs.crash(CrashPolicy::Everything)).0, StopKind::Unclean);
}

#[test]
fn a_second_sync_that_fails_leaves_no_mark_of_an_orderly_stop() {
    let fs = MemFs::new();
    let (folder, logs) = many_logs(&fs);
    fs.plan_fault(Fault::of(OpKind::Sync, 2).on(".lock"));
    assert!(folder.close(&with_watermarks(&logs), 7).is_err());
    let (stop, records) = opened_again(&fs.crash(CrashPolicy::Nothing));
    assert_eq!((stop, records), (StopKind::Unclean, MANY_RECORDS), "the first sync made them durable");
}

#[test]
fn a_power_cut_anywhere_in_the_close_of_many_logs_leaves_an_orderly_stop_only_with_everything() {
    let fs = MemFs::new();
    let (folder, logs) = many_logs(&fs);
    let before = fs.mutations();
    folder.close(&with_watermarks(&logs), 7).unwrap();
    let steps = fs.mutations() - before;
    for step in (0..steps).step_by(97).chain(steps - 30..steps) {
        let fs = MemFs::new();
        let (folder, logs) = many_logs(&fs);
        fs.stop_after(step);
        // It fails, or what it did last is not known to be durable.
        let _ = folder.close(&with_watermarks(&logs), 7);
        for policy in [CrashPolicy::Nothing, CrashPolicy::Torn(step), CrashPolicy::Everything] {
            let cut = fs.crash(policy);
            let (stop, records) = opened_again(&cut);
            assert!(stop == StopKind::Unclean || records == MANY_RECORDS, "step {step}, {policy:?}: {records}");
            let (_, again) = opened_again(&cut.crash(CrashPolicy::Nothing));
            assert_eq!(again, records, "step {step}, {policy:?}");
        }
    }
}

/// Where the only log begins and ends after a start on this disk.
fn ends(fs: &MemFs) -> (Offset, Offset) {
    let (folder, report) = open_on(fs);
    let (log, _) = folder.open_log(&report.partitions[0], config()).unwrap();
    (log.log_start(), log.log_end())
}

#[test]
fn a_cut_inside_a_batch_takes_a_log_start_in_it_down_and_no_crash_lets_offsets_go_back() {
    for mutations in 0.. {
        let fs = MemFs::new();
        let (folder, _) = open_on(&fs);
        let log = folder.create_log(&partition("orders", 0), TopicId([7; 16]), config()).unwrap();
        append(&log, 10);
        append_batch(&log, 10);
        log.raise_log_start(Offset(15), Offset(20)).unwrap();
        folder.write_checkpoints(&with_watermarks(&[Arc::clone(&log)]), &|| true).unwrap();
        fs.stop_after(mutations);
        let cut = folder.truncate_to(&TopicLog::from(Arc::clone(&log)), Offset(17));
        for policy in [CrashPolicy::Nothing, CrashPolicy::Everything] {
            let image = fs.crash(policy);
            let found = ends(&image);
            match &cut {
                Ok(end) => assert_eq!((*end, found), (Offset(10), (Offset(10), Offset(10))), "{policy:?}"),
                // Nothing was reported: the old log, or one that begins where the log start was.
                Err(_) => assert!(
                    [(15, 20), (15, 15), (10, 10)].contains(&(found.0.0, found.1.0)),
                    "after {mutations}, {policy:?}: {found:?}"
                ),
            }
            assert_eq!(ends(&image.crash(policy)), found, "crashed twice, after {mutations}, {policy:?}");
        }
        if cut.is_ok() {
            return;
        }
    }
}

#[test]
fn a_cut_below_the_log_start_takes_the_log_start_of_the_checkpoint_down() {
    let fs = MemFs::new();
    let (folder, _) = open_on(&fs);
    let log = folder.create_log(&partition("orders", 0), TopicId([7; 16]), config()).unwrap();
    append(&log, 30);
    log.raise_log_start(Offset(20), Offset(30)).unwrap();
    folder.write_checkpoints(&with_watermarks(&[Arc::clone(&log)]), &|| true).unwrap();
    assert_eq!(folder.truncate_to(&TopicLog::from(Arc::clone(&log)), Offset(10)).unwrap(), Offset(10));
    let reported = (log.log_start(), log.log_end());
    for policy in [CrashPolicy::Nothing, CrashPolicy::Everything] {
        assert_eq!(ends(&fs.crash(policy)), reported, "{policy:?}");
    }
}

#[test]
fn a_log_start_that_was_written_while_all_logs_are_listed_stays_in_the_checkpoint() {
    let fs = MemFs::new();
    let (folder, _) = open_on(&fs);
    let old = folder.create_log(&partition("orders", 0), TopicId([7; 16]), config()).unwrap();
    // The list for the checkpoint is made; then a topic is created, and its records are deleted.
    let listed = with_watermarks(&[old]);
    let new = folder.create_log(&partition("payments", 0), TopicId([8; 16]), config()).unwrap();
    append(&new, 20);
    let deleted_to = |offset| {
        new.raise_log_start(Offset(offset), Offset(20)).unwrap();
        let written = folder.write_checkpoints_of(&[(TopicLog::from(Arc::clone(&new)), Offset(20))]);
        assert!(written.iter().all(Result::is_ok), "{written:?}");
    };
    let start_after_a_crash = || {
        let (folder, report) = open_on(&fs.crash(CrashPolicy::Nothing));
        let entry = report.partitions.iter().find(|entry| entry.partition == *new.partition()).unwrap();
        folder.open_log(entry, config()).unwrap().0.log_start()
    };
    deleted_to(11);
    folder.write_checkpoints(&listed, &|| true).unwrap();
    assert_eq!(start_after_a_crash(), Offset(11));
    // A checkpoint that lists it says more, and an older list takes nothing of that back.
    new.raise_log_start(Offset(15), Offset(20)).unwrap();
    folder.write_checkpoints(&with_watermarks(&[Arc::clone(&new)]), &|| true).unwrap();
    folder.write_checkpoints(&listed, &|| true).unwrap();
    assert_eq!(start_after_a_crash(), Offset(15));
    // Of a deleted topic nothing stays.
    folder.delete_log(&new, Duration::ZERO).unwrap();
    folder.write_checkpoints(&listed, &|| true).unwrap();
    let starts = fs.read_all(&Path::new(PATH).join("log-start-offset-checkpoint")).unwrap();
    assert_eq!(starts, b"0\n0\n");
}

#[test]
fn a_log_start_of_a_log_that_was_opened_while_all_logs_are_listed_stays_too() {
    let fs = MemFs::new();
    let (folder, _) = open_on(&fs);
    let log = folder.create_log(&partition("orders", 0), TopicId([7; 16]), config()).unwrap();
    append(&log, 20);
    log.raise_log_start(Offset(5), Offset(20)).unwrap();
    folder.close(&with_watermarks(&[log]), 1).unwrap();
    drop(folder);
    let (folder, report) = open_on(&fs);
    let (log, _) = folder.open_log(&report.partitions[0], config()).unwrap();
    log.raise_log_start(Offset(12), Offset(20)).unwrap();
    folder.write_checkpoint_of(&log, Offset(20)).unwrap();
    folder.write_checkpoints(&[], &|| true).unwrap();
    assert_eq!(ends(&fs.crash(CrashPolicy::Nothing)).0, Offset(12));
}

#[test]
fn a_cut_without_descriptors_is_repeated_and_ends_no_log() {
    let mut refused = 0;
    for nth in 1.. {
        let fs = MemFs::new();
        let (folder, _) = open_on(&fs);
        let log = folder.create_log(&partition("orders", 0), TopicId([7; 16]), config()).unwrap();
        append(&log, 30);
        folder.write_checkpoints(&with_watermarks(&[Arc::clone(&log)]), &|| true).unwrap();
        fs.plan_fault(Fault::of(OpKind::Open, nth).with(FaultAction::NoDescriptor));
        let met = fs.faults_met();
        let cut = folder.truncate_to(&TopicLog::from(Arc::clone(&log)), Offset(10));
        let met = fs.faults_met() > met;
        fs.clear_faults();
        assert!(log.failure().is_none(), "open {nth}: {:?}", log.failure());
        refused += usize::from(cut.is_err());
        assert_eq!(folder.truncate_to(&TopicLog::from(Arc::clone(&log)), Offset(10)).unwrap(), Offset(10));
        append(&log, 2);
        log.flush_blocking().unwrap();
        for policy in [CrashPolicy::Nothing, CrashPolicy::Everything] {
            assert_eq!(ends(&fs.crash(policy)), (Offset(0), Offset(12)), "open {nth}, {policy:?}");
        }
        if !met {
            break;
        }
    }
    assert!(refused > 4, "{refused}");
}
