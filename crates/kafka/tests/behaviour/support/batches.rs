//! Record batches, good and bad.

use mainstem_record::{BatchBuilder, BatchView, Codec, layout};
use mainstem_types::{ProducerEpoch, ProducerId, TimestampMs};

/// The time of records that say no other.
pub const TIME_MS: i64 = 1_700_000_000_000;

/// A batch of these values, without keys.
pub fn batch(values: &[&str]) -> Vec<u8> {
    with(BatchBuilder::new(), values)
}

pub fn compressed(codec: Codec, values: &[&str]) -> Vec<u8> {
    with(BatchBuilder::new().codec(codec), values)
}

/// A batch of an idempotent producer.
pub fn sequenced(producer: i64, epoch: i16, sequence: i32, values: &[&str]) -> Vec<u8> {
    with(BatchBuilder::new().producer(ProducerId(producer), ProducerEpoch(epoch), sequence), values)
}

/// As [`sequenced`], of records that are made at `time_ms`.
pub fn sequenced_at(time_ms: i64, producer: i64, epoch: i16, sequence: i32, count: usize) -> Vec<u8> {
    let mut builder = BatchBuilder::new().producer(ProducerId(producer), ProducerEpoch(epoch), sequence);
    for _ in 0..count {
        builder.append(TimestampMs(time_ms), None, Some(b"v"), &[]);
    }
    builder.build().unwrap()
}

/// One record for each time, uncompressed or not; the values are the numbers from 0.
pub fn at_times(codec: Codec, times: &[i64]) -> Vec<u8> {
    let mut builder = BatchBuilder::new().codec(codec);
    for (index, time) in times.iter().enumerate() {
        builder.append(TimestampMs(*time), None, Some(index.to_string().as_bytes()), &[]);
    }
    builder.build().unwrap()
}

pub fn with(mut builder: BatchBuilder, values: &[&str]) -> Vec<u8> {
    for (index, value) in values.iter().enumerate() {
        builder.append(TimestampMs(TIME_MS + index as i64), None, Some(value.as_bytes()), &[]);
    }
    builder.build().unwrap()
}

/// Overwrites bytes of the header, and makes the checksum right again.
pub fn patched(mut batch: Vec<u8>, at: usize, bytes: &[u8]) -> Vec<u8> {
    batch[at..at + bytes.len()].copy_from_slice(bytes);
    with_crc(batch)
}

/// Puts the right checksum into the header.
pub fn with_crc(mut batch: Vec<u8>) -> Vec<u8> {
    if let Ok(view) = BatchView::parse(&batch) {
        let crc = view.computed_crc();
        batch[layout::CRC..layout::CRC + 4].copy_from_slice(&crc.to_be_bytes());
    }
    batch
}

/// The values of all records of all batches, in order, with their offsets.
pub fn records(bytes: &[u8]) -> Vec<(i64, String)> {
    let mut rest = bytes;
    let mut all = Vec::new();
    while !rest.is_empty() {
        let view = BatchView::parse(rest).unwrap();
        assert!(view.crc_is_valid());
        let mut scratch = Vec::new();
        for record in view.records(&mut scratch, 1 << 24).unwrap() {
            let record = record.unwrap();
            let value = String::from_utf8_lossy(record.value.unwrap_or_default()).into_owned();
            all.push((record.offset.0, value));
        }
        rest = &rest[view.size_in_bytes()..];
    }
    all
}
