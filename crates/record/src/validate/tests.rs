use mainstem_types::{LeaderEpoch, ProducerEpoch};

use super::*;
use crate::{BatchBuilder, ControlRecord, HEADER_SIZE, Stamp, layout, stamped_header};

const NOW: TimestampMs = TimestampMs(1_700_000_000_000);

fn rules() -> ValidationRules {
    ValidationRules::new(NOW)
}

fn builder(codec: Codec) -> BatchBuilder {
    let mut builder = BatchBuilder::new().codec(codec);
    for (i, late) in [0, 30, 10, 30].into_iter().enumerate() {
        builder.append(TimestampMs(NOW.0 + late), Some(b"key"), Some(&[i as u8; 100]), &[]);
    }
    builder
}

fn batch(codec: Codec) -> Vec<u8> {
    builder(codec).build().unwrap()
}

/// A batch whose header was changed, with a checksum that fits.
fn with_header(codec: Codec, change: impl FnOnce(&mut BatchHeader)) -> Vec<u8> {
    let mut bytes = batch(codec);
    let mut header = *BatchView::parse(&bytes).unwrap().header();
    change(&mut header);
    let written = header.with_crc_over(&bytes[HEADER_SIZE..]).write();
    bytes[..HEADER_SIZE].copy_from_slice(&written);
    bytes
}

/// A batch of one record with the given bytes.
fn with_record(codec: Codec, record: &[u8]) -> Vec<u8> {
    let header =
        BatchHeader { record_count: 1, last_offset_delta: 0, ..*BatchView::parse(&batch(codec)).unwrap().header() };
    crate::build::assemble(header, codec, None, record).unwrap()
}

fn outcome(bytes: &[u8], rules: &ValidationRules) -> Result<Validated, ValidationError> {
    validate_produced(bytes, rules).map(|(_, validated)| validated)
}

fn refusal(bytes: &[u8]) -> ValidationError {
    outcome(bytes, &rules()).unwrap_err()
}

#[test]
fn good_batches_of_every_codec_pass() {
    let plain = batch(Codec::None).len() - HEADER_SIZE;
    for codec in Codec::ALL {
        let validated = outcome(&batch(codec), &rules()).unwrap();
        let latest = TimestampMs(NOW.0 + 30);
        assert_eq!(validated.codec, codec);
        assert_eq!((validated.max_timestamp, validated.max_timestamp_offset_delta), (latest, 1));
        assert_eq!(validated.stamp_timestamp, StampTimestamp::CreateTime(latest));
        assert_eq!(validated.records_size, plain as u64);
    }
}

#[test]
fn exactly_one_batch_is_expected() {
    let one = batch(Codec::None);
    assert_eq!(refusal(&[]), ValidationError::Empty);
    assert_eq!(refusal(&[&one[..], &one].concat()), ValidationError::MoreThanOneBatch { extra: one.len() });
    let cut = refusal(&one[..one.len() - 1]);
    assert_eq!(cut, FramingError::Partial { needed: one.len(), available: one.len() - 1 }.into());
    for error in [refusal(&[]), refusal(&[&one[..], &[0]].concat()), cut] {
        assert_eq!(error.class(), ErrorClass::InvalidRecord);
    }
    let mut old = one.clone();
    old[layout::MAGIC] = 1;
    assert_eq!(refusal(&old).class(), ErrorClass::InvalidRecord);
}

#[test]
fn damage_under_the_checksum_is_a_corrupt_message() {
    let mut bytes = batch(Codec::Lz4);
    *bytes.last_mut().unwrap() ^= 1;
    let error = refusal(&bytes);
    assert!(matches!(error, ValidationError::Checksum { .. }));
    assert_eq!(error.class(), ErrorClass::CorruptMessage);
    let mut bytes = batch(Codec::None);
    bytes[layout::BATCH_LENGTH..layout::LEADER_EPOCH].copy_from_slice(&3i32.to_be_bytes());
    assert_eq!(refusal(&bytes).class(), ErrorClass::CorruptMessage);
}

#[test]
fn the_size_limit_is_that_of_the_whole_batch() {
    let bytes = batch(Codec::None);
    let exact = ValidationRules { batch_size_max: bytes.len(), ..rules() };
    assert!(outcome(&bytes, &exact).is_ok());
    let error = outcome(&bytes, &ValidationRules { batch_size_max: bytes.len() - 1, ..rules() }).unwrap_err();
    assert_eq!(error, ValidationError::TooLarge { size: bytes.len(), limit: bytes.len() - 1 });
    assert_eq!(error.class(), ErrorClass::MessageTooLarge);
}

#[test]
fn a_client_s_header_is_checked() {
    use ValidationError as E;
    let none = Codec::None;
    let changed = |change: fn(&mut BatchHeader)| refusal(&with_header(none, change));
    assert_eq!(changed(|h| h.base_offset = Offset(1)), E::BaseOffset { base_offset: Offset(1) });
    assert_eq!(changed(|h| h.record_count = 0), E::RecordCount { record_count: 0 });
    assert_eq!(changed(|h| h.record_count = -1), E::RecordCount { record_count: -1 });
    assert_eq!(changed(|h| h.last_offset_delta = 9), E::CountMismatch { record_count: 4, last_offset_delta: 9 });
    assert_eq!(changed(|h| h.record_count = 5), E::CountMismatch { record_count: 5, last_offset_delta: 3 });
    assert_eq!(changed(|h| h.attributes = h.attributes.with_control(true)), E::ControlBatch);
    let sequence = E::Sequence { producer_id: ProducerId(5), base_sequence: -1 };
    assert_eq!(changed(|h| h.producer_id = ProducerId(5)), sequence);
    let codec = changed(|h| h.attributes.0 |= 7);
    assert_eq!(codec, E::Record(RecordError::UnknownCodec { id: 7 }));
    let append_time = changed(|h| h.attributes = h.attributes.with_timestamp_type(TimestampType::LogAppendTime));
    assert_eq!((append_time.class(), append_time), (ErrorClass::InvalidTimestamp, E::LogAppendTime));
}

#[test]
fn an_idempotent_batch_passes() {
    let bytes = with_header(Codec::None, |header| {
        header.producer_id = ProducerId(5);
        header.producer_epoch = ProducerEpoch(0);
        header.base_sequence = 0;
    });
    assert!(outcome(&bytes, &rules()).is_ok());
}

#[test]
fn zstd_needs_produce_version_7() {
    let old = ValidationRules { zstd_allowed: false, ..rules() };
    let error = outcome(&batch(Codec::Zstd), &old).unwrap_err();
    assert_eq!(error.class(), ErrorClass::UnsupportedCompression);
    assert!(outcome(&batch(Codec::Lz4), &old).is_ok());
}

#[test]
fn offsets_count_up_by_one() {
    for codec in Codec::ALL {
        let mut builder = BatchBuilder::new().codec(codec);
        builder.append(NOW, None, None, &[]).append_at(0, NOW, None, None, &[]);
        let mut bytes = builder.build().unwrap();
        let header = BatchHeader { last_offset_delta: 1, ..*BatchView::parse(&bytes).unwrap().header() };
        let written = header.with_crc_over(&bytes[HEADER_SIZE..]).write();
        bytes[..HEADER_SIZE].copy_from_slice(&written);
        assert_eq!(refusal(&bytes), ValidationError::OffsetDelta { index: 1, delta: 0 });
        let ours = ValidationRules { origin: Origin::Broker, ..rules() };
        assert!(outcome(&bytes, &ours).is_ok());
    }
}

#[test]
fn times_out_of_range_are_listed_record_by_record() {
    let hour = 3_600_000;
    for codec in Codec::ALL {
        let mut builder = BatchBuilder::new().codec(codec);
        for late in [0, hour, hour + 1, -hour, -hour - 1] {
            builder.append(TimestampMs(NOW.0 + late), None, None, &[]);
        }
        builder.append(TimestampMs::NONE, None, None, &[]);
        let bytes = builder.build().unwrap();
        let both = ValidationRules { timestamp_before_max_ms: hour, ..rules() };
        let error = outcome(&bytes, &both).unwrap_err();
        assert_eq!(error.class(), ErrorClass::InvalidTimestamp);
        let indexes: Vec<_> = error.rejections().iter().map(|rejection| rejection.batch_index).collect();
        assert_eq!(indexes, [2, 4], "{codec}");
        let boundless = ValidationRules { timestamp_after_max_ms: i64::MAX, ..rules() };
        assert!(outcome(&bytes, &boundless).is_ok());
        let append_time = ValidationRules { timestamp_type: TimestampType::LogAppendTime, ..both };
        let validated = outcome(&bytes, &append_time).unwrap();
        assert_eq!(validated.stamp_timestamp, StampTimestamp::LogAppendTime(NOW));
    }
}

#[test]
fn a_compacted_topic_needs_keys() {
    let compacted = ValidationRules { keys_required: true, ..rules() };
    for codec in Codec::ALL {
        let mut builder = builder(codec);
        assert!(outcome(&builder.build().unwrap(), &compacted).is_ok());
        builder.append(NOW, None, Some(b"keyless"), &[]).append(NOW, Some(b""), None, &[]);
        let error = outcome(&builder.build().unwrap(), &compacted).unwrap_err();
        assert_eq!(error.class(), ErrorClass::InvalidRecord);
        assert_eq!(error.rejections(), [RecordRejection { batch_index: 4, problem: RecordProblem::NoKey }]);
        assert!(error.to_string().contains("record 4 has no key"), "{error}");
    }
}

#[test]
fn more_rejections_than_are_listed_are_counted() {
    let mut builder = BatchBuilder::new();
    for _ in 0..REJECTIONS_LISTED_MAX + 5 {
        builder.append(NOW, None, None, &[]);
    }
    let compacted = ValidationRules { keys_required: true, ..rules() };
    let error = outcome(&builder.build().unwrap(), &compacted).unwrap_err();
    assert_eq!(error.rejections().len(), REJECTIONS_LISTED_MAX);
    assert!(error.to_string().starts_with("10005 of the records"), "{error}");
}

#[test]
fn malformed_records_are_refused_in_every_codec() {
    // length, attributes, timestamp delta, offset delta, key −1, value −1, headers 0
    let good: &[u8] = &[12, 0, 0, 0, 1, 1, 0];
    for codec in Codec::ALL {
        assert!(outcome(&with_record(codec, good), &rules()).is_ok());
        let cases: [(&[u8], RecordError); 8] = [
            (&[14, 0, 0, 0, 1, 1, 0], RecordError::SizeMismatch { index: 0, declared: 7, actual: 6 }),
            (&[10, 0, 0, 0, 1, 1, 0], RecordError::SizeMismatch { index: 0, declared: 5, actual: 6 }),
            (&[12, 0, 0, 0, 1, 1, 0, 9], RecordError::TrailingBytes { count: 1 }),
            (&[1, 0], RecordError::NegativeSize { index: 0, length: -1 }),
            (&[12, 0, 0, 0, 1, 1], RecordError::Truncated { index: 0 }),
            (&[12, 0, 0, 0, 1, 1, 1], RecordError::NegativeHeaderCount { index: 0, count: -1 }),
            (&[14, 0, 0, 0, 1, 1, 2, 1], RecordError::NegativeHeaderKeySize { index: 0, length: -1 }),
            (&[12, 0, 0, 0x80, 0x80, 0x80, 0x80, 0x80, 1, 1, 0], RecordError::NumberTooLong { index: 0 }),
        ];
        for (record, expected) in cases {
            let error = refusal(&with_record(codec, record));
            assert_eq!(error, ValidationError::Record(expected), "{codec}");
            assert_eq!(error.class(), ErrorClass::InvalidRecord);
        }
    }
}

#[test]
fn the_walk_agrees_with_the_iterator_over_chunk_borders() {
    // Large values and many headers, so that numbers fall on the borders of the codecs' chunks.
    for codec in Codec::ALL {
        let mut builder = BatchBuilder::new().codec(codec);
        for i in 0..500u32 {
            let value: Vec<u8> = (0..i * 7 % 1_500).map(|n| (n * i) as u8).collect();
            let header = crate::RecordHeader::new("header-name", Some(&value[..value.len().min(130)]));
            builder.append(TimestampMs(NOW.0 + i64::from(i)), None, Some(&value), &[header, header]);
        }
        let bytes = builder.build().unwrap();
        let validated = outcome(&bytes, &rules()).unwrap();
        assert_eq!(validated.records_size as usize, builder.uncompressed_size() - HEADER_SIZE);
        assert_eq!(validated.max_timestamp_offset_delta, 499);
    }
}

#[test]
fn a_bomb_is_too_large() {
    for codec in [Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd] {
        let mut builder = BatchBuilder::new().codec(codec);
        builder.append(NOW, None, Some(&vec![0; 8 << 20]), &[]);
        let bytes = builder.build().unwrap();
        let tight = ValidationRules { decompressed_size_max: 1 << 20, batch_size_max: 1 << 24, ..rules() };
        let error = outcome(&bytes, &tight).unwrap_err();
        assert_eq!(error.class(), ErrorClass::MessageTooLarge, "{codec}");
    }
}

#[test]
fn control_batches_pass_from_the_broker() {
    let record = ControlRecord::EndTransaction { committed: true, coordinator_epoch: 0 };
    let bytes = BatchBuilder::new()
        .base_offset(Offset(9))
        .producer(ProducerId(1), ProducerEpoch(0), -1)
        .transactional()
        .append_control(NOW, &record)
        .build()
        .unwrap();
    let ours = ValidationRules { origin: Origin::Broker, keys_required: true, ..rules() };
    assert!(outcome(&bytes, &ours).is_ok());
}

#[test]
fn a_wrong_max_timestamp_is_put_right_when_stamped() {
    let bytes = with_header(Codec::Gzip, |header| header.max_timestamp = TimestampMs(5));
    let (view, validated) = validate_produced(&bytes, &rules()).unwrap();
    let stamp = Stamp { base_offset: Offset(40), leader_epoch: LeaderEpoch(2), timestamp: validated.stamp_timestamp };
    let stamped = [&stamped_header(&view, &stamp)[..], view.payload()].concat();
    let stamped = BatchView::parse(&stamped).unwrap();
    assert!(stamped.crc_is_valid());
    assert_eq!(stamped.header().max_timestamp, TimestampMs(NOW.0 + 30));
    assert_ne!(stamped.header().crc, view.header().crc);
}

#[test]
fn a_true_header_keeps_its_checksum_when_stamped() {
    let bytes = batch(Codec::None);
    let (view, validated) = validate_produced(&bytes, &rules()).unwrap();
    let stamp = Stamp { base_offset: Offset(40), leader_epoch: LeaderEpoch(2), timestamp: validated.stamp_timestamp };
    let header = BatchHeader::read(&stamped_header(&view, &stamp));
    assert_eq!(BatchHeader { base_offset: Offset::ZERO, leader_epoch: LeaderEpoch::NONE, ..header }, *view.header());
    let kept = Stamp { timestamp: StampTimestamp::Keep, ..stamp };
    assert_eq!(stamped_header(&view, &kept), header.write());
}

#[test]
fn every_changed_byte_is_an_error_or_harmless() {
    for codec in Codec::ALL {
        let bytes = batch(codec);
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x55;
            let leader_epoch = layout::LEADER_EPOCH..layout::MAGIC;
            assert_eq!(outcome(&damaged, &rules()).is_ok(), leader_epoch.contains(&at), "{codec}: byte {at}");
        }
    }
}
