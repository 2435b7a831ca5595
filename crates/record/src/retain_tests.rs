use mainstem_types::{LeaderEpoch, Offset, ProducerEpoch, ProducerId};
use proptest::prelude::*;

use super::*;
use crate::{BatchBuilder, BatchView, ControlRecord, RecordHeader};

/// Ten records at offsets 100 to 109, with times 1000 to 1009, of a producer.
fn ten(codec: Codec) -> Vec<u8> {
    let mut builder = BatchBuilder::new().codec(codec).base_offset(Offset(100)).leader_epoch(LeaderEpoch(3)).producer(
        ProducerId(9),
        ProducerEpoch(2),
        40,
    );
    for n in 0..10i64 {
        let headers = [RecordHeader::new("h", Some(b"v")), RecordHeader::new("null", None)];
        let value = format!("value {n}");
        builder.append(TimestampMs(1000 + n), Some(format!("key {n}").as_bytes()), Some(value.as_bytes()), &headers);
    }
    builder.build().unwrap()
}

fn kept(bytes: &[u8], codec: Codec, horizon: Option<i64>, keep: impl Fn(i64) -> bool) -> Vec<u8> {
    let view = BatchView::parse(bytes).unwrap();
    let mut retained = RetainedBatch::of(view.header(), codec, horizon.map(TimestampMs));
    let mut scratch = Vec::new();
    for record in view.records(&mut scratch, 1 << 20).unwrap().map(Result::unwrap) {
        if keep(record.offset.0) {
            retained.append(&record);
        }
    }
    retained.build().unwrap()
}

/// Offset, time, key, value, names of the headers.
type Shown = (i64, i64, Vec<u8>, Option<Vec<u8>>, Vec<Vec<u8>>);

fn shown(bytes: &[u8]) -> Vec<Shown> {
    let view = BatchView::parse(bytes).unwrap();
    assert!(view.crc_is_valid());
    let mut scratch = Vec::new();
    let show = |record: Record<'_>| {
        let headers = record.headers.iter().map(|header| header.key.to_vec()).collect();
        let key = record.key.unwrap_or_default().to_vec();
        (record.offset.0, record.timestamp.0, key, record.value.map(<[u8]>::to_vec), headers)
    };
    view.records(&mut scratch, 1 << 20).unwrap().map(|record| show(record.unwrap())).collect()
}

#[test]
fn offsets_sequences_epochs_and_records_stay_in_every_codec() {
    for codec in Codec::ALL {
        let original = ten(codec);
        let left = kept(&original, codec, None, |offset| offset == 102 || offset == 107);
        let header = *BatchView::parse(&left).unwrap().header();
        assert_eq!((header.base_offset, header.last_offset()), (Offset(100), Offset(109)));
        assert_eq!((header.producer_id.0, header.producer_epoch.0, header.last_sequence()), (9, 2, 49));
        assert_eq!((header.leader_epoch.0, header.record_count), (3, 2));
        assert_eq!((header.base_timestamp.0, header.max_timestamp.0), (1002, 1007));
        assert_eq!(header.attributes.codec(), Some(codec));
        let expected: Vec<_> = shown(&original).into_iter().filter(|r| r.0 == 102 || r.0 == 107).collect();
        assert_eq!(shown(&left), expected);
    }
}

#[test]
fn the_delete_horizon_takes_the_place_of_the_base_timestamp() {
    let original = ten(Codec::None);
    assert_eq!(BatchView::parse(&original).unwrap().header().delete_horizon(), None);
    let left = kept(&original, Codec::None, Some(1_700_000_000_000), |_| true);
    let header = *BatchView::parse(&left).unwrap().header();
    assert_eq!(header.delete_horizon(), Some(TimestampMs(1_700_000_000_000)));
    assert_eq!(header.max_timestamp, TimestampMs(1009));
    assert_eq!(shown(&left), shown(&original));
    // Once more: the horizon stays.
    let again = kept(&left, Codec::None, header.delete_horizon().map(|horizon| horizon.0), |offset| offset > 104);
    assert_eq!(BatchView::parse(&again).unwrap().header().delete_horizon(), header.delete_horizon());
    assert_eq!(shown(&again), shown(&original)[5..]);
}

#[test]
fn the_append_time_of_a_batch_stays_that_of_its_records() {
    let mut builder = BatchBuilder::new().log_append_time(TimestampMs(5000));
    for n in 0..3 {
        builder.append(TimestampMs(n), Some(b"k"), None, &[]);
    }
    let left = kept(&builder.build().unwrap(), Codec::None, Some(9000), |offset| offset == 1);
    let view = BatchView::parse(&left).unwrap();
    assert_eq!(view.header().max_timestamp, TimestampMs(5000));
    assert_eq!(shown(&left)[0].1, 5000);
}

#[test]
fn an_empty_batch_tells_offsets_and_sequences() {
    let mut builder = BatchBuilder::new()
        .base_offset(Offset(7))
        .producer(ProducerId(9), ProducerEpoch(2), 40)
        .codec(Codec::Zstd)
        .transactional();
    for n in 0..3 {
        builder.append(TimestampMs(n), Some(b"k"), Some(b"v"), &[]);
    }
    let original = builder.build().unwrap();
    let empty = empty_batch(BatchView::parse(&original).unwrap().header());
    let view = BatchView::parse(&empty).unwrap();
    let header = view.header();
    assert!(view.crc_is_valid() && header.attributes.is_transactional() && !header.attributes.is_control());
    assert_eq!((view.size_in_bytes(), header.record_count, header.attributes.codec()), (61, 0, Some(Codec::None)));
    assert_eq!((header.base_offset.0, header.last_offset().0, header.last_sequence()), (7, 9, 42));
    assert_eq!((header.base_timestamp.0, header.max_timestamp.0), (-1, 2));
    assert!(shown(&empty).is_empty());
    let mut marker = BatchBuilder::new().producer(ProducerId(9), ProducerEpoch(2), -1).transactional();
    marker.append_control(TimestampMs(1), &ControlRecord::EndTransaction { committed: true, coordinator_epoch: 1 });
    let marker = empty_batch(BatchView::parse(&marker.build().unwrap()).unwrap().header());
    assert!(BatchView::parse(&marker).unwrap().header().attributes.is_control());
}

proptest! {
    #[test]
    fn any_choice_of_records_is_kept_as_it_was(
        records in prop::collection::vec((any::<i64>(), prop::option::of(prop::collection::vec(any::<u8>(), 0..40)), any::<bool>()), 1..30),
        horizon in prop::option::of(any::<i64>()),
        codec in prop::sample::select(Codec::ALL.to_vec()),
    ) {
        let mut builder = BatchBuilder::new().codec(codec).base_offset(Offset(1000));
        for (time, value, _) in &records {
            builder.append(TimestampMs(*time), Some(b"key"), value.as_deref(), &[]);
        }
        let original = builder.build().unwrap();
        let keep = |offset: i64| records[(offset - 1000) as usize].2;
        prop_assume!(records.iter().any(|record| record.2));
        let left = kept(&original, codec, horizon, keep);
        let expected: Vec<_> = shown(&original).into_iter().filter(|record| keep(record.0)).collect();
        prop_assert_eq!(shown(&left), expected);
    }
}
