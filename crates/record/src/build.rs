//! Building batches: for clients, for the broker's own topics, for tests.

use mainstem_types::{LeaderEpoch, Offset, ProducerEpoch, ProducerId, TimestampMs};

use crate::codec::{Codec, CompressError, compress};
use crate::control::ControlRecord;
use crate::header::{Attributes, BatchHeader, HEADER_SIZE, TimestampType, layout};
use crate::iter::RecordHeader;
use crate::varint::{varint_size, varlong_size, write_varint, write_varlong};

/// Why a batch cannot be built.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    #[error("a batch without records says nothing; append one first")]
    Empty,
    #[error("the batch would pass 2 GiB or 2^31 records; build several")]
    TooLarge,
    #[error(transparent)]
    Compress(#[from] CompressError),
}

/// Collects records and makes a batch of them.
///
/// Without any setting: uncompressed, base offset 0, no leader epoch, create times, no producer.
#[derive(Debug, Clone)]
pub struct BatchBuilder {
    codec: Codec,
    level: Option<i32>,
    header: BatchHeader,
    records: Vec<u8>,
    too_large: bool,
}

impl Default for BatchBuilder {
    fn default() -> Self {
        BatchBuilder::new()
    }
}

impl BatchBuilder {
    pub fn new() -> Self {
        let header = BatchHeader {
            base_offset: Offset::ZERO,
            batch_length: 0,
            leader_epoch: LeaderEpoch::NONE,
            crc: 0,
            attributes: Attributes::default(),
            last_offset_delta: -1,
            base_timestamp: TimestampMs::NONE,
            max_timestamp: TimestampMs::NONE,
            producer_id: ProducerId::NONE,
            producer_epoch: ProducerEpoch::NONE,
            base_sequence: -1,
            record_count: 0,
        };
        BatchBuilder { codec: Codec::None, level: None, header, records: Vec::new(), too_large: false }
    }

    #[must_use]
    pub fn codec(mut self, codec: Codec) -> Self {
        self.codec = codec;
        self
    }

    /// See [`compress`] for what levels mean.
    #[must_use]
    pub fn level(mut self, level: i32) -> Self {
        self.level = Some(level);
        self
    }

    #[must_use]
    pub fn base_offset(mut self, offset: Offset) -> Self {
        self.header.base_offset = offset;
        self
    }

    #[must_use]
    pub fn leader_epoch(mut self, epoch: LeaderEpoch) -> Self {
        self.header.leader_epoch = epoch;
        self
    }

    /// Marks the batch LogAppendTime: all its records count as of `time`.
    #[must_use]
    pub fn log_append_time(mut self, time: TimestampMs) -> Self {
        self.header.attributes = self.header.attributes.with_timestamp_type(TimestampType::LogAppendTime);
        self.header.max_timestamp = time;
        self
    }

    /// `base_sequence` is the sequence number of the first record.
    #[must_use]
    pub fn producer(mut self, id: ProducerId, epoch: ProducerEpoch, base_sequence: i32) -> Self {
        self.header.producer_id = id;
        self.header.producer_epoch = epoch;
        self.header.base_sequence = base_sequence;
        self
    }

    #[must_use]
    pub fn transactional(mut self) -> Self {
        self.header.attributes = self.header.attributes.with_transactional(true);
        self
    }

    /// Appends a record right after the last.
    pub fn append(
        &mut self,
        timestamp: TimestampMs,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: &[RecordHeader<'_>],
    ) -> &mut Self {
        self.append_at(self.header.last_offset_delta.saturating_add(1), timestamp, key, value, headers)
    }

    /// Appends a record with an offset of its own, counted from the base offset; it must grow. Leaves gaps, as
    /// compaction does.
    pub fn append_at(
        &mut self,
        offset_delta: i32,
        timestamp: TimestampMs,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: &[RecordHeader<'_>],
    ) -> &mut Self {
        if self.header.record_count == 0 {
            self.header.base_timestamp = timestamp;
        }
        let timestamp_delta = timestamp.0.wrapping_sub(self.header.base_timestamp.0);
        let length = body_size(timestamp_delta, offset_delta, key, value, headers);
        let room = i32::MAX as usize - HEADER_SIZE;
        if length >= room - self.records.len().min(room) || self.header.record_count == i32::MAX {
            self.too_large = true;
            return self;
        }
        write_varint(&mut self.records, length as i32);
        self.records.push(0);
        write_varlong(&mut self.records, timestamp_delta);
        write_varint(&mut self.records, offset_delta);
        write_nullable(&mut self.records, key);
        write_nullable(&mut self.records, value);
        write_varint(&mut self.records, headers.len() as i32);
        for header in headers {
            write_nullable(&mut self.records, Some(header.key));
            write_nullable(&mut self.records, header.value);
        }
        self.header.record_count += 1;
        self.header.last_offset_delta = offset_delta;
        if self.header.timestamp_type() == TimestampType::CreateTime {
            self.header.max_timestamp = self.header.max_timestamp.max(timestamp);
        }
        self
    }

    /// Appends a mark of the broker, and makes the batch a control batch.
    pub fn append_control(&mut self, timestamp: TimestampMs, record: &ControlRecord) -> &mut Self {
        self.header.attributes = self.header.attributes.with_control(true);
        self.append(timestamp, Some(&record.key()), Some(&record.value()), &[])
    }

    pub fn record_count(&self) -> i32 {
        self.header.record_count
    }

    pub fn is_empty(&self) -> bool {
        self.header.record_count == 0
    }

    /// The size of the batch without compression.
    pub fn uncompressed_size(&self) -> usize {
        HEADER_SIZE + self.records.len()
    }

    /// The most that a record would add to [`BatchBuilder::uncompressed_size`].
    pub fn record_size_max(key: Option<&[u8]>, value: Option<&[u8]>, headers: &[RecordHeader<'_>]) -> usize {
        let length = body_size(i64::MIN, i32::MAX, key, value, headers);
        length + varint_size(length as i32)
    }

    /// The batch. The builder stays as it is.
    pub fn build(&self) -> Result<Vec<u8>, BuildError> {
        if self.too_large {
            return Err(BuildError::TooLarge);
        }
        if self.is_empty() {
            return Err(BuildError::Empty);
        }
        let attributes = self.header.attributes.with_codec(self.codec);
        Ok(assemble(BatchHeader { attributes, ..self.header }, self.codec, self.level, &self.records)?)
    }
}

/// Compresses records and puts a header with the right length and checksum before them.
pub(crate) fn assemble(
    mut header: BatchHeader,
    codec: Codec,
    level: Option<i32>,
    records: &[u8],
) -> Result<Vec<u8>, CompressError> {
    let mut batch = Vec::with_capacity(HEADER_SIZE + if codec == Codec::None { records.len() } else { 0 });
    batch.resize(HEADER_SIZE, 0);
    compress(codec, level, records, &mut batch)?;
    header.batch_length = i32::try_from(batch.len() - layout::LENGTH_OVERHEAD)
        .map_err(|_| CompressError { codec, detail: "a batch cannot pass 2 GiB".to_owned() })?;
    let written = header.with_crc_over(&batch[HEADER_SIZE..]).write();
    batch[..HEADER_SIZE].copy_from_slice(&written);
    Ok(batch)
}

/// Bytes of a record after its length. Saturates far above what fits, so that the caller's bound catches it.
fn body_size(
    timestamp_delta: i64,
    offset_delta: i32,
    key: Option<&[u8]>,
    value: Option<&[u8]>,
    headers: &[RecordHeader<'_>],
) -> usize {
    let headers_size: usize =
        headers.iter().map(|header| nullable_size(Some(header.key)) + nullable_size(header.value)).sum();
    1 + varlong_size(timestamp_delta)
        + varint_size(offset_delta)
        + nullable_size(key)
        + nullable_size(value)
        + varint_size(headers.len() as i32)
        + headers_size
}

pub(crate) fn nullable_size(bytes: Option<&[u8]>) -> usize {
    bytes.map_or(1, |bytes| varint_size(bytes.len() as i32) + bytes.len())
}

pub(crate) fn write_nullable(out: &mut Vec<u8>, bytes: Option<&[u8]>) {
    match bytes {
        None => write_varint(out, -1),
        Some(bytes) => {
            write_varint(out, bytes.len() as i32);
            out.extend_from_slice(bytes);
        }
    }
}

#[cfg(test)]
mod tests;
