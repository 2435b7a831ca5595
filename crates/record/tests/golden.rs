//! Batches that Kafka's own Java client wrote (`tests/peers/GoldenBatches.java`), read here; and ours, for it to read.

use std::path::{Path, PathBuf};

use mainstem_record::{
    BatchBuilder, BatchView, Codec, ControlKind, ControlRecord, Record, RecordHeader, Stamp, StampTimestamp,
    TimestampType, ValidationRules, stamp_in_place, validate_produced,
};
use mainstem_types::{LeaderEpoch, NodeId, Offset, ProducerEpoch, ProducerId, TimestampMs};

const START: i64 = 1_700_000_000_000;
const LIMIT: usize = 16 << 20;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

fn golden(name: &str) -> Vec<u8> {
    std::fs::read(folder().join(format!("{name}.batch"))).unwrap()
}

struct Message {
    timestamp: TimestampMs,
    key: Option<String>,
    value: Option<String>,
    headers: Vec<(&'static str, Option<String>)>,
}

/// The formula of `GoldenBatches.java`.
fn message(i: i64, repeat: usize) -> Message {
    Message {
        timestamp: TimestampMs(START + i * 10 - if i == 2 { 25 } else { 0 }),
        key: (i % 3 != 0).then(|| format!("key-{i}")),
        value: (i % 4 != 3).then(|| format!("value {i} é ").repeat(repeat)),
        headers: if i % 2 == 0 {
            Vec::new()
        } else {
            vec![("h1", Some(format!("v{i}"))), ("h2", None), ("é", Some(String::new()))]
        },
    }
}

fn assert_is(record: &Record<'_>, i: i64, base_offset: i64, repeat: usize) {
    let expected = message(i, repeat);
    assert_eq!(record.offset, Offset(base_offset + i));
    assert_eq!(record.key, expected.key.as_deref().map(str::as_bytes));
    assert_eq!(record.value, expected.value.as_deref().map(str::as_bytes));
    let headers: Vec<_> =
        record.headers.iter().map(|h| (h.key_text().into_owned(), h.value.map(<[u8]>::to_vec))).collect();
    let wanted: Vec<_> =
        expected.headers.into_iter().map(|(key, value)| (key.to_owned(), value.map(String::into_bytes))).collect();
    assert_eq!(headers, wanted);
}

fn ours(codec: Codec, count: i64, repeat: usize) -> Vec<u8> {
    let mut builder = BatchBuilder::new().codec(codec).leader_epoch(LeaderEpoch(7));
    append_messages(&mut builder, count, repeat);
    builder.build().unwrap()
}

fn append_messages(builder: &mut BatchBuilder, count: i64, repeat: usize) {
    for i in 0..count {
        let Message { timestamp, key, value, headers } = message(i, repeat);
        let headers: Vec<_> =
            headers.iter().map(|(key, value)| RecordHeader::new(key, value.as_deref().map(str::as_bytes))).collect();
        builder.append(timestamp, key.as_deref().map(str::as_bytes), value.as_deref().map(str::as_bytes), &headers);
    }
}

fn sizes() -> impl Iterator<Item = (Codec, &'static str, i64, usize)> {
    let small = Codec::ALL.into_iter().map(|codec| (codec, "small", 10, 1));
    small.chain(Codec::ALL[1..].iter().map(|codec| (*codec, "large", 40, 700)))
}

#[test]
fn java_s_batches_of_every_codec_validate_and_read() {
    let mut scratch = Vec::new();
    for (codec, size, count, repeat) in sizes() {
        let bytes = golden(&format!("{size}-{codec}"));
        let rules = ValidationRules::new(TimestampMs(START));
        let (view, validated) = validate_produced(&bytes, &rules).unwrap();
        assert_eq!(validated.codec, codec);
        assert_eq!(validated.max_timestamp, view.header().max_timestamp);
        assert_eq!(i64::from(validated.max_timestamp_offset_delta), count - 1);
        let mut seen = 0;
        for record in view.records(&mut scratch, LIMIT).unwrap() {
            let record = record.unwrap();
            assert_is(&record, seen, 0, repeat);
            assert_eq!(record.timestamp, message(seen, repeat).timestamp);
            seen += 1;
        }
        assert_eq!(seen, count, "{size}-{codec}");
    }
}

#[test]
fn an_uncompressed_batch_has_java_s_bytes() {
    assert_eq!(ours(Codec::None, 10, 1), golden("small-none"));
    let mut builder = BatchBuilder::new()
        .base_offset(Offset(100))
        .leader_epoch(LeaderEpoch(7))
        .producer(ProducerId(4711), ProducerEpoch(3), 2_000_000_000)
        .transactional();
    append_messages(&mut builder, 3, 1);
    assert_eq!(builder.build().unwrap(), golden("transactional"));
}

#[test]
fn xerial_snappy_has_java_s_frame() {
    let (ours, java) = (ours(Codec::Snappy, 10, 1), golden("small-snappy"));
    assert_eq!(ours[61..77], java[61..77]);
}

#[test]
fn lz4_has_java_s_frame() {
    let (ours, java) = (ours(Codec::Lz4, 10, 1), golden("small-lz4"));
    assert_eq!(ours[61..68], java[61..68]);
}

#[test]
fn control_batches_have_java_s_bytes() {
    let marker = |committed| {
        let mut builder = BatchBuilder::new()
            .base_offset(Offset(103))
            .leader_epoch(LeaderEpoch(7))
            .producer(ProducerId(4711), ProducerEpoch(3), -1)
            .transactional();
        let record = ControlRecord::EndTransaction { committed, coordinator_epoch: 12 };
        builder.append_control(TimestampMs(START), &record).build().unwrap()
    };
    assert_eq!(marker(true), golden("commit"));
    assert_eq!(marker(false), golden("abort"));
    let raft = |offset, record: &ControlRecord| {
        let mut builder = BatchBuilder::new().base_offset(Offset(offset)).leader_epoch(LeaderEpoch(7));
        builder.append_control(TimestampMs(START), record).build().unwrap()
    };
    let voters = vec![NodeId(1)];
    let leader = ControlRecord::LeaderChange { leader: NodeId(1), voters: voters.clone(), granting_voters: voters };
    assert_eq!(raft(0, &leader), golden("leader-change"));
    let header = ControlRecord::SnapshotHeader { last_contained_log_timestamp: TimestampMs(START + 1) };
    assert_eq!(raft(0, &header), golden("snapshot-header"));
    assert_eq!(raft(3, &ControlRecord::SnapshotFooter), golden("snapshot-footer"));
}

#[test]
fn java_s_markers_are_recognised() {
    let mut scratch = Vec::new();
    for (name, kind) in [("commit", ControlKind::Commit), ("abort", ControlKind::Abort)] {
        let bytes = golden(name);
        let view = BatchView::parse(&bytes).unwrap();
        assert!(view.header().attributes.is_control() && view.crc_is_valid());
        let record = view.records(&mut scratch, LIMIT).unwrap().next().unwrap().unwrap();
        assert_eq!(ControlKind::of_key(record.key.unwrap()), Ok(Some(kind)));
        assert_eq!(ControlRecord::coordinator_epoch(record.value.unwrap()), Ok(12));
    }
}

#[test]
fn append_time_batches_give_every_record_the_batch_s_time() {
    let bytes = golden("append-time");
    let view = BatchView::parse(&bytes).unwrap();
    assert!(view.crc_is_valid());
    assert_eq!(view.header().timestamp_type(), TimestampType::LogAppendTime);
    let mut scratch = Vec::new();
    for (i, record) in view.records(&mut scratch, LIMIT).unwrap().enumerate() {
        let record = record.unwrap();
        assert_is(&record, i as i64, 5, 1);
        assert_eq!(record.timestamp, TimestampMs(START + 99));
    }
}

#[test]
fn stamping_append_time_gives_a_valid_batch() {
    let mut bytes = golden("small-zstd");
    let stamp = Stamp {
        base_offset: Offset(77),
        leader_epoch: LeaderEpoch(9),
        timestamp: StampTimestamp::LogAppendTime(TimestampMs(START + 1000)),
    };
    let header = stamp_in_place(&mut bytes, &stamp).unwrap();
    let view = BatchView::parse(&bytes).unwrap();
    assert!(view.crc_is_valid());
    assert_eq!(*view.header(), header);
    assert_eq!((header.base_offset, header.leader_epoch), (Offset(77), LeaderEpoch(9)));
    assert_eq!((header.last_offset(), header.max_timestamp), (Offset(86), TimestampMs(START + 1000)));
}

/// Leaves the files in the target folder (`target/tmp/record-batches`), where `GoldenBatches.java check` reads them.
#[test]
fn our_batches_validate_and_are_kept_for_java_to_check() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("record-batches");
    std::fs::create_dir_all(&folder).unwrap();
    for (codec, size, count, repeat) in sizes() {
        let file = folder.join(format!("{size}-{codec}.batch"));
        std::fs::write(&file, ours(codec, count, repeat)).unwrap();
        let bytes = std::fs::read(&file).unwrap();
        let (view, validated) = validate_produced(&bytes, &ValidationRules::new(TimestampMs(START))).unwrap();
        assert_eq!((validated.codec, i64::from(view.header().record_count)), (codec, count));
    }
}
