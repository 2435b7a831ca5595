//! What compaction leaves of a batch: fewer records, or none, under the same offsets and sequences.
//!
//! The base offset, the last offset, the leader epoch and the producer's fields do not change, so readers and producers
//! continue where they were. Records keep their offsets and times. The count, the times in the header and the checksum
//! are new.

use mainstem_types::TimestampMs;

use crate::build::{BuildError, assemble, nullable_size, write_nullable};
use crate::codec::Codec;
use crate::header::{Attributes, BatchHeader, HEADER_SIZE, TimestampType, layout};
use crate::iter::Record;
use crate::varint::{varint_size, varlong_size, write_varint, write_varlong};

/// Collects the records of a batch that stay.
#[derive(Debug, Clone)]
pub struct RetainedBatch {
    header: BatchHeader,
    codec: Codec,
    records: Vec<u8>,
    too_large: bool,
}

impl RetainedBatch {
    /// Nothing of `original` yet. With a `delete_horizon` (KIP-534) the new batch has its attribute bit, and the
    /// horizon in the place of the base timestamp; without, the base timestamp becomes that of the first record that
    /// stays.
    pub fn of(original: &BatchHeader, codec: Codec, delete_horizon: Option<TimestampMs>) -> Self {
        let mut header = *original;
        header.attributes = header.attributes.with_codec(codec).with_delete_horizon(delete_horizon.is_some());
        header.base_timestamp = delete_horizon.unwrap_or(TimestampMs::NONE);
        if header.timestamp_type() == TimestampType::CreateTime {
            header.max_timestamp = TimestampMs::NONE;
        }
        header.record_count = 0;
        RetainedBatch { header, codec, records: Vec::new(), too_large: false }
    }

    /// The next record that stays: of the original batch, in its order.
    pub fn append(&mut self, record: &Record<'_>) {
        if self.header.record_count == 0 && !self.header.attributes.has_delete_horizon() {
            self.header.base_timestamp = record.timestamp;
        }
        let timestamp_delta = record.timestamp.0.wrapping_sub(self.header.base_timestamp.0);
        let offset_delta = record.offset.0.wrapping_sub(self.header.base_offset.0) as i32;
        let headers = record.headers.encoded();
        let header_count = record.headers.len() as i32;
        let length = 1
            + varlong_size(timestamp_delta)
            + varint_size(offset_delta)
            + nullable_size(record.key)
            + nullable_size(record.value)
            + varint_size(header_count)
            + headers.len();
        let room = i32::MAX as usize - HEADER_SIZE;
        if length >= room - self.records.len().min(room) {
            self.too_large = true;
            return;
        }
        write_varint(&mut self.records, length as i32);
        self.records.push(0);
        write_varlong(&mut self.records, timestamp_delta);
        write_varint(&mut self.records, offset_delta);
        write_nullable(&mut self.records, record.key);
        write_nullable(&mut self.records, record.value);
        write_varint(&mut self.records, header_count);
        self.records.extend_from_slice(headers);
        self.header.record_count += 1;
        if self.header.timestamp_type() == TimestampType::CreateTime {
            self.header.max_timestamp = self.header.max_timestamp.max(record.timestamp);
        }
    }

    /// The batch, compressed by the codec that was given, at its default level.
    pub fn build(&self) -> Result<Vec<u8>, BuildError> {
        if self.too_large {
            return Err(BuildError::TooLarge);
        }
        if self.header.record_count == 0 {
            return Err(BuildError::Empty);
        }
        Ok(assemble(self.header, self.codec, None, &self.records)?)
    }
}

/// A batch without records in the place of `original`: it tells its offsets, its producer and the producer's last
/// sequence, and whether it was transactional or a control batch.
pub fn empty_batch(original: &BatchHeader) -> [u8; HEADER_SIZE] {
    let old = original.attributes;
    let attributes = Attributes::default()
        .with_timestamp_type(old.timestamp_type())
        .with_transactional(old.is_transactional())
        .with_control(old.is_control());
    let header = BatchHeader {
        attributes,
        batch_length: layout::BATCH_LENGTH_MIN,
        base_timestamp: TimestampMs::NONE,
        record_count: 0,
        ..*original
    };
    header.with_crc_over(&[]).write()
}

#[cfg(test)]
#[path = "retain_tests.rs"]
mod tests;
