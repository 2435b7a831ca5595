use proptest::prelude::*;

use super::*;
use crate::{BatchView, Batches, FramingError, RecordError, peek, recompress};

type Owned = (i64, Option<Vec<u8>>, Option<Vec<u8>>, Vec<(String, Option<Vec<u8>>)>);

fn owned_record() -> impl Strategy<Value = Owned> {
    let bytes = || proptest::option::of(proptest::collection::vec(any::<u8>(), 0..200));
    let headers = proptest::collection::vec(("[a-z]{0,8}", bytes()), 0..4);
    (-1_000i64..1_000_000_000_000_000, bytes(), bytes(), headers)
}

fn append_all(builder: &mut BatchBuilder, records: &[Owned]) {
    for (timestamp, key, value, headers) in records {
        let headers: Vec<_> = headers.iter().map(|(key, value)| RecordHeader::new(key, value.as_deref())).collect();
        builder.append(TimestampMs(*timestamp), key.as_deref(), value.as_deref(), &headers);
    }
}

fn read_all(batch: &[u8]) -> Result<Vec<Owned>, RecordError> {
    let mut scratch = Vec::new();
    let records = BatchView::parse(batch).unwrap().records(&mut scratch, 1 << 24)?;
    records
        .map(|record| {
            let record = record?;
            let headers = record.headers.iter().map(|h| (h.key_text().into_owned(), h.value.map(<[u8]>::to_vec)));
            let (key, value) = (record.key.map(<[u8]>::to_vec), record.value.map(<[u8]>::to_vec));
            Ok((record.timestamp.0, key, value, headers.collect()))
        })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn what_is_built_is_read_back(records in proptest::collection::vec(owned_record(), 1..30), id in 0i8..5) {
        let mut builder = BatchBuilder::new().codec(Codec::from_id(id).unwrap()).base_offset(Offset(1000));
        append_all(&mut builder, &records);
        let batch = builder.build().unwrap();
        let view = BatchView::parse(&batch).unwrap();
        prop_assert!(view.crc_is_valid());
        prop_assert_eq!(view.header().record_count as usize, records.len());
        prop_assert_eq!(view.header().next_offset(), Offset(1000 + records.len() as i64));
        let latest = records.iter().map(|r| r.0).max().unwrap_or(-1).max(-1);
        prop_assert_eq!(view.header().max_timestamp, TimestampMs(latest));
        prop_assert_eq!(read_all(&batch).unwrap(), records);
    }

    #[test]
    fn recompressing_changes_the_codec_alone(
        records in proptest::collection::vec(owned_record(), 1..10), from in 0i8..5, to in 0i8..5,
    ) {
        let (from, to) = (Codec::from_id(from).unwrap(), Codec::from_id(to).unwrap());
        let mut builder = BatchBuilder::new().codec(from).producer(ProducerId(3), ProducerEpoch(1), 9);
        append_all(&mut builder, &records);
        let batch = builder.build().unwrap();
        let changed = recompress(&BatchView::parse(&batch).unwrap(), to, None, 1 << 24).unwrap();
        let view = BatchView::parse(&changed).unwrap();
        prop_assert!(view.crc_is_valid());
        prop_assert_eq!(view.codec(), Some(to));
        prop_assert_eq!(view.size_in_bytes(), changed.len());
        prop_assert_eq!((view.header().producer_id, view.header().base_sequence), (ProducerId(3), 9));
        prop_assert_eq!(read_all(&changed).unwrap(), records);
    }

    #[test]
    fn no_bytes_make_a_reader_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let mut scratch = Vec::new();
        for batch in Batches::new(&bytes) {
            let Ok(view) = batch else { continue };
            if let Ok(records) = view.records(&mut scratch, 10_000) {
                records.for_each(drop);
            }
        }
    }
}

fn three_records(codec: Codec) -> Vec<u8> {
    let mut builder = BatchBuilder::new().codec(codec);
    for i in 0..3 {
        let header = RecordHeader::new("name", Some(b"content"));
        builder.append(TimestampMs(i), Some(b"key"), Some(b"value"), &[header]);
    }
    builder.build().unwrap()
}

#[test]
fn a_changed_byte_anywhere_is_noticed_and_never_panics() {
    let mut scratch = Vec::new();
    for codec in Codec::ALL {
        let batch = three_records(codec);
        for at in 0..batch.len() {
            for bit in 0..8 {
                let mut damaged = batch.clone();
                damaged[at] ^= 1 << bit;
                let Ok(view) = BatchView::parse(&damaged) else { continue };
                // Base offset and leader epoch are not under the checksum; a smaller length changes what it covers.
                if !(0..8).contains(&at) && !(12..16).contains(&at) {
                    assert!(!view.crc_is_valid(), "{codec}: byte {at}, bit {bit}");
                }
                if let Ok(records) = view.records(&mut scratch, 1 << 20) {
                    assert!(records.count() <= 4 + batch.len());
                }
            }
        }
    }
}

#[test]
fn batches_in_a_row_are_given_one_by_one_and_the_cut_one_last() {
    let one = three_records(Codec::None);
    let bytes = [&one[..], &one, &one[..70]].concat();
    let mut batches = Batches::new(&bytes);
    for round in 1..=2 {
        assert_eq!(batches.next().unwrap().unwrap().as_bytes(), one);
        assert_eq!(batches.position(), round * one.len());
    }
    let cut = FramingError::Partial { needed: one.len(), available: 70 };
    assert_eq!(batches.next().unwrap().unwrap_err(), cut);
    assert!(batches.next().is_none());
    assert_eq!(batches.position(), 2 * one.len());
}

#[test]
fn seventeen_bytes_tell_the_size() {
    let batch = three_records(Codec::Zstd);
    assert_eq!(peek(&batch[..17]).unwrap().size_in_bytes, batch.len());
    assert_eq!(peek(&batch[..16]), Err(FramingError::Partial { needed: 17, available: 16 }));
    let mut old = batch.clone();
    old[16] = 1;
    assert_eq!(peek(&old), Err(FramingError::UnsupportedMagic { magic: 1 }));
    let mut short = batch.clone();
    short[8..12].copy_from_slice(&48i32.to_be_bytes());
    assert_eq!(peek(&short), Err(FramingError::LengthTooSmall { batch_length: 48 }));
    short[8..12].copy_from_slice(&i32::MAX.to_be_bytes());
    let huge = i32::MAX as usize + 12;
    assert_eq!(BatchView::parse(&short).unwrap_err(), FramingError::Partial { needed: huge, available: batch.len() });
}

#[test]
fn offsets_may_have_gaps() {
    let mut builder = BatchBuilder::new().base_offset(Offset(10));
    builder.append_at(2, TimestampMs(0), None, None, &[]).append_at(7, TimestampMs(0), None, None, &[]);
    builder.append(TimestampMs(0), None, None, &[]);
    let batch = builder.build().unwrap();
    let view = BatchView::parse(&batch).unwrap();
    let mut scratch = Vec::new();
    let offsets: Vec<_> = view.records(&mut scratch, 0).unwrap().map(|record| record.unwrap().offset.0).collect();
    assert_eq!(offsets, [12, 17, 18]);
    assert_eq!((view.header().last_offset(), view.header().record_count), (Offset(18), 3));
}

#[test]
fn nothing_makes_no_batch() {
    assert_eq!(BatchBuilder::new().build(), Err(BuildError::Empty));
}

#[test]
fn a_header_without_records_iterates_to_nothing() {
    let mut batch = three_records(Codec::None);
    let mut header = *BatchView::parse(&batch).unwrap().header();
    header.record_count = 0;
    header.batch_length = layout::BATCH_LENGTH_MIN;
    for codec in Codec::ALL {
        header.attributes = header.attributes.with_codec(codec);
        batch = header.with_crc_over(&[]).write().to_vec();
        let view = BatchView::parse(&batch).unwrap();
        assert_eq!(view.records(&mut Vec::new(), 0).unwrap().count(), 0);
        assert_eq!(view.header().next_offset(), Offset(3));
    }
}

#[test]
fn the_largest_size_of_a_record_is_an_upper_bound() {
    let header = RecordHeader::new("name", None);
    let mut builder = BatchBuilder::new();
    builder.append(TimestampMs(0), None, None, &[]);
    let before = builder.uncompressed_size();
    builder.append(TimestampMs(i64::MAX), Some(b"k"), Some(&[7; 300]), &[header]);
    let added = builder.uncompressed_size() - before;
    let bound = BatchBuilder::record_size_max(Some(b"k"), Some(&[7; 300]), &[header]);
    assert!(added <= bound && bound <= added + 10, "{added} {bound}");
}
