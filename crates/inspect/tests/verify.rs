//! `verify` on folders that are made by hand, byte for byte.

use std::path::{Path, PathBuf};

use mainstem_env::{Fs, MemFs, OpenOptions};
use mainstem_inspect::{DumpOptions, Event, Line, dump, verify};
use mainstem_record::{BatchBuilder, BatchView, ControlRecord};
use mainstem_store::formats::{
    clean_shutdown, epoch_checkpoint, meta_properties, names, offset_checkpoint, offset_index, partition_metadata,
    producer_snapshot, time_index, transaction_index,
};
use mainstem_store::rebuild::{ProducerStates, SegmentIndexes};
use mainstem_store::{EpochEntry, MetaProperties};
use mainstem_types::{
    LeaderEpoch, NodeId, Offset, PartitionIndex, ProducerEpoch, ProducerId, TimestampMs, TopicId, TopicPartition,
};
use proptest::prelude::*;

const INTERVAL: u32 = 4096;
const EPOCH: LeaderEpoch = LeaderEpoch(3);

/// A folder with one partition of one segment.
struct Folder {
    fs: MemFs,
    batches: Vec<Vec<u8>>,
}

fn root() -> &'static Path {
    Path::new("/data")
}

fn file(suffix: &str) -> PathBuf {
    root().join("t-0").join(names::segment_file(Offset::ZERO, suffix))
}

fn partition() -> TopicPartition {
    TopicPartition::new("t", PartitionIndex(0))
}

impl Folder {
    /// All files as an orderly stop leaves them.
    fn new(batches: Vec<Vec<u8>>) -> Folder {
        let folder = Folder { fs: MemFs::new(), batches };
        folder.fs.create_dir_all(&root().join("t-0")).unwrap();
        let mut indexes = SegmentIndexes::new(Offset::ZERO, INTERVAL);
        let mut producers = ProducerStates::default();
        let (mut position, mut end, mut aborted) = (0, Offset::ZERO, Vec::new());
        for batch in &folder.batches {
            let view = BatchView::parse(batch).unwrap();
            indexes.observe(view.header(), position);
            aborted.extend(producers.observe(&view));
            position += batch.len() as u64;
            end = view.header().next_offset();
        }
        indexes.seal();
        let meta = MetaProperties { cluster_id: "c".to_owned(), node_id: NodeId(1), directory_id: None };
        folder.write(&root().join("meta.properties"), &meta_properties::encode(&meta));
        let mark = clean_shutdown::CleanShutdown { broker_epoch: 1 };
        folder.write(&root().join(clean_shutdown::FILE_NAME), &clean_shutdown::encode(mark));
        let ends = offset_checkpoint::encode(&[(partition(), end)].into());
        folder.write(&root().join("recovery-point-offset-checkpoint"), &ends);
        folder.write(&root().join("replication-offset-checkpoint"), &ends);
        folder.write(&root().join("t-0/partition.metadata"), &partition_metadata::encode(TopicId([7; 16])));
        let epochs = [EpochEntry { epoch: EPOCH, start_offset: Offset::ZERO }];
        folder.write(&root().join("t-0/leader-epoch-checkpoint"), &epoch_checkpoint::encode(&epochs));
        folder.write(&file(names::LOG), &folder.batches.concat());
        folder.write(&file(names::INDEX), &offset_index::encode(indexes.offsets()));
        folder.write(&file(names::TIME_INDEX), &time_index::encode(indexes.times()));
        if !aborted.is_empty() {
            folder.write(&file(names::TRANSACTION_INDEX), &transaction_index::encode(&aborted));
        }
        let snapshot = root().join("t-0").join(names::segment_file(end, names::PRODUCER_SNAPSHOT));
        folder.write(&snapshot, &producer_snapshot::encode(&producers.snapshot()));
        folder
    }

    fn write(&self, path: &Path, bytes: &[u8]) {
        self.fs.open(path, &OpenOptions::create_empty()).unwrap().write_all_at(bytes, 0).unwrap();
    }

    /// What is found wrong with the partition. There is no metadata log in such a folder.
    fn findings(&self) -> Vec<Line> {
        let mut lines = Vec::new();
        let mut sink = |event: Event<'_>| {
            if let Event::Found(line) = event {
                lines.push(line.clone());
            }
        };
        verify(&self.fs, root(), &mut sink).unwrap();
        lines.retain(|line| line.kind == "finding" && line.get("problem").unwrap() != "metadata-missing");
        lines
    }

    fn problems(&self) -> Vec<String> {
        self.findings().iter().map(|line| line.get("problem").unwrap().as_str().unwrap().to_owned()).collect()
    }
}

fn plain(base: i64, records: i64, size: usize) -> Vec<u8> {
    let mut builder = BatchBuilder::new().base_offset(Offset(base)).leader_epoch(EPOCH);
    for record in 0..records {
        builder.append(TimestampMs(1000 + base + record), Some(b"key"), Some(&vec![b'x'; size]), &[]);
    }
    builder.build().unwrap()
}

fn in_transaction(base: i64, sequence: i32) -> Vec<u8> {
    let builder = BatchBuilder::new().base_offset(Offset(base)).leader_epoch(EPOCH);
    let mut builder = builder.producer(ProducerId(9), ProducerEpoch(0), sequence).transactional();
    builder.append(TimestampMs(2000), None, Some(b"in a transaction"), &[]);
    builder.build().unwrap()
}

fn end_of_transaction(base: i64, committed: bool) -> Vec<u8> {
    let builder = BatchBuilder::new().base_offset(Offset(base)).leader_epoch(EPOCH);
    let mut builder = builder.producer(ProducerId(9), ProducerEpoch(0), -1).transactional();
    builder.append_control(TimestampMs(2000), &ControlRecord::EndTransaction { committed, coordinator_epoch: 1 });
    builder.build().unwrap()
}

fn transactions() -> Vec<Vec<u8>> {
    vec![
        in_transaction(0, 0),
        end_of_transaction(1, false),
        in_transaction(2, 1),
        end_of_transaction(3, true),
        in_transaction(4, 2),
    ]
}

#[test]
fn an_aborted_transaction_must_be_in_its_index() {
    let folder = Folder::new(transactions());
    assert_eq!(folder.problems(), [] as [&str; 0]);
    let path = file(names::TRANSACTION_INDEX);
    let mut entries = transaction_index::decode(&folder.fs.read_all(&path).unwrap()).unwrap();
    assert_eq!(entries.len(), 1);
    entries[0].first_offset = Offset(1);
    folder.write(&path, &transaction_index::encode(&entries));
    assert_eq!(folder.problems(), ["aborted-wrong"]);
    folder.fs.remove_file(&path).unwrap();
    assert_eq!(folder.problems(), ["index-missing"]);
}

#[test]
fn a_snapshot_that_a_kill_left_empty_means_nothing_and_a_durable_one_does() {
    let folder = Folder::new(vec![plain(0, 3, 10)]);
    let snapshot = root().join("t-0").join(names::segment_file(Offset(3), names::PRODUCER_SNAPSHOT));
    folder.fs.remove_file(&root().join(clean_shutdown::FILE_NAME)).unwrap();
    folder.write(&snapshot, &[]);
    assert_eq!(folder.problems(), ["file-unreadable"], "the log was durable up to there, and its snapshot");
    let before = offset_checkpoint::encode(&[(partition(), Offset(0))].into());
    folder.write(&root().join("recovery-point-offset-checkpoint"), &before);
    assert!(folder.problems().is_empty(), "{:?}", folder.findings());
}

#[test]
fn a_snapshot_of_producers_must_say_what_the_batches_say() {
    let folder = Folder::new(transactions());
    let path = root().join("t-0").join(names::segment_file(Offset(5), names::PRODUCER_SNAPSHOT));
    let right = producer_snapshot::decode(&folder.fs.read_all(&path).unwrap()).unwrap();
    assert_eq!(right[0].transaction_first_offset, Offset(4));
    let wrong_after = |change: fn(&mut producer_snapshot::ProducerSnapshotEntry)| {
        let mut entries = right.clone();
        change(&mut entries[0]);
        folder.write(&path, &producer_snapshot::encode(&entries));
        assert_eq!(folder.problems(), ["producers-wrong"], "{entries:?}");
    };
    wrong_after(|entry| entry.last_sequence += 1);
    wrong_after(|entry| entry.transaction_first_offset = Offset::NONE);
    wrong_after(|entry| entry.producer_id = ProducerId(8));
    folder.write(&path, &producer_snapshot::encode(&[]));
    assert_eq!(folder.problems(), ["producers-wrong"], "an open transaction is not forgotten");
}

#[test]
fn gaps_are_right_in_a_compacted_partition_alone() {
    let folder = Folder::new(vec![plain(0, 2, 10), plain(10, 3, 10)]);
    let findings = folder.findings();
    assert_eq!(findings.len(), 1, "{findings:?}");
    let offsets = (findings[0].get("first_offset").unwrap(), findings[0].get("last_offset").unwrap());
    assert_eq!(
        (folder.problems()[0].as_str(), offsets.0.as_i64(), offsets.1.as_i64()),
        ("offsets-missing", Some(2), Some(9))
    );
    let compacted = offset_checkpoint::encode(&[(partition(), Offset(13))].into());
    folder.write(&root().join("cleaner-offset-checkpoint"), &compacted);
    assert_eq!(folder.problems(), [] as [&str; 0]);
}

#[test]
fn a_batch_that_is_the_value_of_a_damaged_record_is_not_taken_for_one_of_the_log() {
    let mut outer = BatchBuilder::new().base_offset(Offset(0)).leader_epoch(EPOCH);
    outer.append(TimestampMs(1), None, Some(&plain(5, 1, 10)), &[]);
    let outer = outer.build().unwrap();
    let folder = Folder::new(vec![outer.clone(), plain(1, 1, 10), plain(2, 1, 10)]);
    let mut bytes = folder.batches.concat();
    bytes[17] ^= 1;
    folder.write(&file(names::LOG), &bytes);
    let findings = folder.findings();
    assert_eq!(folder.problems(), ["offsets-damaged"], "{findings:?}");
    assert_eq!(findings[0].get("last_offset").unwrap(), 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// Whatever byte of a log is another: something is found, it is about the batch that the byte is in, and about no
    /// other.
    #[test]
    fn a_byte_of_a_log_that_changed_is_found_with_its_batch(
        counts in prop::collection::vec((1i64..5, 1usize..3000), 2..7),
        place in any::<prop::sample::Index>(),
        change in 1u8..=255,
    ) {
        let (mut batches, mut base) = (Vec::new(), 0);
        for (records, size) in counts {
            batches.push(plain(base, records, size));
            base += records;
        }
        let folder = Folder::new(batches);
        prop_assert_eq!(folder.problems(), Vec::<String>::new());
        let mut bytes = folder.batches.concat();
        let at = place.index(bytes.len());
        bytes[at] ^= change;
        folder.write(&file(names::LOG), &bytes);
        let (mut start, mut hit) = (0, None);
        for batch in &folder.batches {
            if (start..start + batch.len()).contains(&at) {
                hit = Some(BatchView::parse(batch).unwrap().header().to_owned());
            }
            start += batch.len();
        }
        let hit = hit.unwrap();
        let findings = folder.findings();
        let lost: Vec<_> = findings.iter().filter(|line| line.get("first_offset").is_some()).collect();
        prop_assert!(!lost.is_empty(), "nothing found for byte {} of {:?}: {:?}", at, hit, findings);
        for line in lost {
            let offsets = (line.get("first_offset").unwrap().as_i64(), line.get("last_offset").unwrap().as_i64());
            let due = (Some(hit.base_offset.0), Some(hit.last_offset().0));
            // The last batch of a log may say of itself that it is a later one: then the offsets before are missing.
            let is_last = hit.next_offset().0 == base;
            prop_assert!(offsets == due || is_last && offsets.0 >= due.0, "byte {} of {:?}: {:?}", at, hit, findings);
        }
    }

    /// Nothing that a file may hold ends a dump, or makes it say that there is nothing.
    #[test]
    fn any_bytes_are_shown_or_told_to_be_damaged(bytes in prop::collection::vec(any::<u8>(), 1..600), kind in 0usize..16) {
        let names = [
            "t-0/00000000000000000000.log", "t-0/00000000000000000000.index", "t-0/00000000000000000000.timeindex",
            "t-0/00000000000000000000.txnindex", "t-0/00000000000000000000.snapshot", "t-0/leader-epoch-checkpoint",
            "t-0/partition.metadata", "__cluster_metadata-0/quorum-state", "meta.properties", "checkpoint",
            "recovery-point-offset-checkpoint", "g/commitlog/00000000000000000000",
            "g/consumequeue/t/0/00000000000000000000", "g/index/20260101000000000",
            "t-0/key-index/applied", "__transaction_state-0/00000000000000000000.log",
        ];
        let fs = MemFs::new();
        let path = root().join(names[kind]);
        fs.create_dir_all(path.parent().unwrap()).unwrap();
        fs.open(&path, &OpenOptions::create_empty()).unwrap().write_all_at(&bytes, 0).unwrap();
        let mut lines = 0;
        let options = DumpOptions { records: true, offsets: true, transactions: true };
        dump(&fs, &path, options, &mut |_| { lines += 1; true }).unwrap();
        prop_assert!(lines >= 2 || bytes.iter().all(|byte| *byte == 0), "{lines} lines of {}", names[kind]);
    }
}
