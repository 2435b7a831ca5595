//! The 61 bytes in front of the records.

use mainstem_types::{LeaderEpoch, Offset, ProducerEpoch, ProducerId, TimestampMs};

use crate::codec::Codec;

/// Where each field begins, in bytes from the start of the batch. Each is the one before plus that one's size.
pub mod layout {
    pub const BASE_OFFSET: usize = 0;
    pub const BATCH_LENGTH: usize = BASE_OFFSET + 8;
    pub const LEADER_EPOCH: usize = BATCH_LENGTH + 4;
    pub const MAGIC: usize = LEADER_EPOCH + 4;
    pub const CRC: usize = MAGIC + 1;
    pub const ATTRIBUTES: usize = CRC + 4;
    pub const LAST_OFFSET_DELTA: usize = ATTRIBUTES + 2;
    pub const BASE_TIMESTAMP: usize = LAST_OFFSET_DELTA + 4;
    pub const MAX_TIMESTAMP: usize = BASE_TIMESTAMP + 8;
    pub const PRODUCER_ID: usize = MAX_TIMESTAMP + 8;
    pub const PRODUCER_EPOCH: usize = PRODUCER_ID + 8;
    pub const BASE_SEQUENCE: usize = PRODUCER_EPOCH + 2;
    pub const RECORD_COUNT: usize = BASE_SEQUENCE + 4;
    pub const RECORDS: usize = RECORD_COUNT + 4;

    /// `batch_length` counts the bytes after itself: a batch is this much larger than the field says.
    pub const LENGTH_OVERHEAD: usize = BATCH_LENGTH + 4;
    /// The smallest `batch_length`: a header with no record.
    pub const BATCH_LENGTH_MIN: i32 = (RECORDS - LENGTH_OVERHEAD) as i32;
    /// The only format there is since Kafka 4.0.
    pub const MAGIC_V2: i8 = 2;
}

/// Bytes of a batch header.
pub const HEADER_SIZE: usize = layout::RECORDS;
/// Bytes that tell the size and the format of a batch.
pub const PEEK_SIZE: usize = layout::MAGIC + 1;

/// Whose clock the timestamps of a batch come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum TimestampType {
    /// The producer's: each record has its own.
    #[default]
    CreateTime,
    /// The broker's: every record has the `max_timestamp` of its batch.
    LogAppendTime,
}

/// The attribute bits of a batch: 0–2 codec, 3 timestamp type, 4 transactional, 5 control, 6 delete horizon.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Attributes(pub i16);

impl Attributes {
    const CODEC_MASK: i16 = 0x07;
    const LOG_APPEND_TIME: i16 = 0x08;
    const TRANSACTIONAL: i16 = 0x10;
    const CONTROL: i16 = 0x20;
    const DELETE_HORIZON: i16 = 0x40;

    /// The codec's number, 0 to 7; 5 to 7 name none.
    pub fn codec_id(self) -> i8 {
        (self.0 & Self::CODEC_MASK) as i8
    }

    /// The codec, or `None` for the numbers that name none.
    pub fn codec(self) -> Option<Codec> {
        Codec::from_id(self.codec_id())
    }

    pub fn timestamp_type(self) -> TimestampType {
        if self.0 & Self::LOG_APPEND_TIME == 0 { TimestampType::CreateTime } else { TimestampType::LogAppendTime }
    }

    pub fn is_transactional(self) -> bool {
        self.0 & Self::TRANSACTIONAL != 0
    }

    /// A control batch holds marks of the broker (transaction ends, leader changes), not messages.
    pub fn is_control(self) -> bool {
        self.0 & Self::CONTROL != 0
    }

    /// Set by compaction: `base_timestamp` is then the time after which tombstones may go.
    pub fn has_delete_horizon(self) -> bool {
        self.0 & Self::DELETE_HORIZON != 0
    }

    #[must_use]
    pub fn with_codec(self, codec: Codec) -> Self {
        Attributes(self.0 & !Self::CODEC_MASK | i16::from(codec.id()))
    }

    #[must_use]
    pub fn with_timestamp_type(self, kind: TimestampType) -> Self {
        self.with_bit(Self::LOG_APPEND_TIME, kind == TimestampType::LogAppendTime)
    }

    #[must_use]
    pub fn with_transactional(self, on: bool) -> Self {
        self.with_bit(Self::TRANSACTIONAL, on)
    }

    #[must_use]
    pub fn with_control(self, on: bool) -> Self {
        self.with_bit(Self::CONTROL, on)
    }

    #[must_use]
    pub fn with_delete_horizon(self, on: bool) -> Self {
        self.with_bit(Self::DELETE_HORIZON, on)
    }

    fn with_bit(self, bit: i16, on: bool) -> Self {
        Attributes(if on { self.0 | bit } else { self.0 & !bit })
    }
}

/// A batch header, decoded. `magic` is not a field: only format 2 is decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchHeader {
    pub base_offset: Offset,
    /// Bytes after this field: the size of the batch minus 12.
    pub batch_length: i32,
    pub leader_epoch: LeaderEpoch,
    pub crc: u32,
    pub attributes: Attributes,
    pub last_offset_delta: i32,
    pub base_timestamp: TimestampMs,
    pub max_timestamp: TimestampMs,
    pub producer_id: ProducerId,
    pub producer_epoch: ProducerEpoch,
    pub base_sequence: i32,
    pub record_count: i32,
}

impl BatchHeader {
    /// Reads the fields. Checks nothing: a length, count or magic may still be nonsense ([`crate::BatchView::parse`]
    /// checks).
    pub fn read(bytes: &[u8; HEADER_SIZE]) -> Self {
        BatchHeader {
            base_offset: Offset(i64::from_be_bytes(take(bytes, layout::BASE_OFFSET))),
            batch_length: i32::from_be_bytes(take(bytes, layout::BATCH_LENGTH)),
            leader_epoch: LeaderEpoch(i32::from_be_bytes(take(bytes, layout::LEADER_EPOCH))),
            crc: u32::from_be_bytes(take(bytes, layout::CRC)),
            attributes: Attributes(i16::from_be_bytes(take(bytes, layout::ATTRIBUTES))),
            last_offset_delta: i32::from_be_bytes(take(bytes, layout::LAST_OFFSET_DELTA)),
            base_timestamp: TimestampMs(i64::from_be_bytes(take(bytes, layout::BASE_TIMESTAMP))),
            max_timestamp: TimestampMs(i64::from_be_bytes(take(bytes, layout::MAX_TIMESTAMP))),
            producer_id: ProducerId(i64::from_be_bytes(take(bytes, layout::PRODUCER_ID))),
            producer_epoch: ProducerEpoch(i16::from_be_bytes(take(bytes, layout::PRODUCER_EPOCH))),
            base_sequence: i32::from_be_bytes(take(bytes, layout::BASE_SEQUENCE)),
            record_count: i32::from_be_bytes(take(bytes, layout::RECORD_COUNT)),
        }
    }

    /// The 61 bytes, with magic 2 and `crc` as it stands here.
    pub fn write(&self) -> [u8; HEADER_SIZE] {
        let mut bytes = [0; HEADER_SIZE];
        put(&mut bytes, layout::BASE_OFFSET, &self.base_offset.0.to_be_bytes());
        put(&mut bytes, layout::BATCH_LENGTH, &self.batch_length.to_be_bytes());
        put(&mut bytes, layout::LEADER_EPOCH, &self.leader_epoch.0.to_be_bytes());
        put(&mut bytes, layout::MAGIC, &layout::MAGIC_V2.to_be_bytes());
        put(&mut bytes, layout::CRC, &self.crc.to_be_bytes());
        put(&mut bytes, layout::ATTRIBUTES, &self.attributes.0.to_be_bytes());
        put(&mut bytes, layout::LAST_OFFSET_DELTA, &self.last_offset_delta.to_be_bytes());
        put(&mut bytes, layout::BASE_TIMESTAMP, &self.base_timestamp.0.to_be_bytes());
        put(&mut bytes, layout::MAX_TIMESTAMP, &self.max_timestamp.0.to_be_bytes());
        put(&mut bytes, layout::PRODUCER_ID, &self.producer_id.0.to_be_bytes());
        put(&mut bytes, layout::PRODUCER_EPOCH, &self.producer_epoch.0.to_be_bytes());
        put(&mut bytes, layout::BASE_SEQUENCE, &self.base_sequence.to_be_bytes());
        put(&mut bytes, layout::RECORD_COUNT, &self.record_count.to_be_bytes());
        bytes
    }

    /// The same with `crc` made right for `records`, the bytes that follow the header.
    #[must_use]
    pub fn with_crc_over(mut self, records: &[u8]) -> Self {
        self.crc = crc_of(&self.write(), records);
        self
    }

    /// The offset of the last record (also of one that compaction removed).
    pub fn last_offset(&self) -> Offset {
        Offset(self.base_offset.0.saturating_add(i64::from(self.last_offset_delta)))
    }

    /// The offset that the next batch begins with.
    pub fn next_offset(&self) -> Offset {
        Offset(self.last_offset().0.saturating_add(1))
    }

    /// All bytes of the batch: header and records. 0 when `batch_length` is below −12.
    pub fn size_in_bytes(&self) -> usize {
        usize::try_from(i64::from(self.batch_length) + layout::LENGTH_OVERHEAD as i64).unwrap_or(0)
    }

    /// The sequence of the last record; wraps from `i32::MAX` to 0. −1 without a producer's sequence.
    pub fn last_sequence(&self) -> i32 {
        if self.base_sequence < 0 {
            return -1;
        }
        let last = i64::from(self.base_sequence) + i64::from(self.last_offset_delta);
        (if last > i64::from(i32::MAX) { last - i64::from(i32::MAX) - 1 } else { last }) as i32
    }

    /// Whether an idempotent or transactional producer sent this.
    pub fn has_producer_id(&self) -> bool {
        self.producer_id.0 > ProducerId::NONE.0
    }

    pub fn timestamp_type(&self) -> TimestampType {
        self.attributes.timestamp_type()
    }

    /// The time from which on compaction may remove the tombstones or the marker of this batch; `None`: it has not been
    /// set yet.
    pub fn delete_horizon(&self) -> Option<TimestampMs> {
        self.attributes.has_delete_horizon().then_some(self.base_timestamp)
    }
}

/// CRC-32C of a batch: from `attributes` in the header to the end of the records.
pub(crate) fn crc_of(header: &[u8; HEADER_SIZE], records: &[u8]) -> u32 {
    let mut digest = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi);
    digest.update(&header[layout::ATTRIBUTES..]);
    digest.update(records);
    digest.finalize() as u32
}

fn take<const N: usize>(bytes: &[u8; HEADER_SIZE], at: usize) -> [u8; N] {
    let mut field = [0; N];
    field.copy_from_slice(&bytes[at..at + N]);
    field
}

fn put(bytes: &mut [u8; HEADER_SIZE], at: usize, field: &[u8]) {
    bytes[at..at + field.len()].copy_from_slice(field);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> BatchHeader {
        BatchHeader {
            base_offset: Offset(0x0102_0304_0506_0708),
            batch_length: 100,
            leader_epoch: LeaderEpoch(7),
            crc: 0xdead_beef,
            attributes: Attributes(0x7b),
            last_offset_delta: 9,
            base_timestamp: TimestampMs(1_700_000_000_000),
            max_timestamp: TimestampMs(1_700_000_000_009),
            producer_id: ProducerId(42),
            producer_epoch: ProducerEpoch(3),
            base_sequence: 5,
            record_count: 10,
        }
    }

    #[test]
    fn fields_stand_where_kafka_has_them() {
        assert_eq!((HEADER_SIZE, PEEK_SIZE, layout::BATCH_LENGTH_MIN), (61, 17, 49));
        let bytes = sample().write();
        assert_eq!(bytes[..8], [1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(bytes[16], 2);
        assert_eq!(bytes[17..21], 0xdead_beef_u32.to_be_bytes());
        assert_eq!(BatchHeader::read(&bytes), sample());
    }

    #[test]
    fn attribute_bits_are_kafka_s() {
        let all = Attributes(0x7b);
        assert_eq!(all.codec(), Some(Codec::Lz4));
        assert_eq!(all.timestamp_type(), TimestampType::LogAppendTime);
        assert!(all.is_transactional() && all.is_control() && all.has_delete_horizon());
        let cleared = all
            .with_codec(Codec::None)
            .with_timestamp_type(TimestampType::CreateTime)
            .with_transactional(false)
            .with_control(false)
            .with_delete_horizon(false);
        assert_eq!(cleared, Attributes(0));
        assert_eq!(Attributes(5).codec(), None);
    }

    #[test]
    fn offsets_and_sequences_of_the_end() {
        let mut header = sample();
        assert_eq!(header.last_offset(), header.base_offset.plus(9));
        assert_eq!(header.next_offset(), header.base_offset.plus(10));
        assert_eq!((header.size_in_bytes(), header.last_sequence()), (112, 14));
        header.base_sequence = i32::MAX - 3;
        assert_eq!(header.last_sequence(), 5);
        header.base_sequence = -1;
        assert_eq!(header.last_sequence(), -1);
        header.base_offset = Offset(i64::MAX);
        header.batch_length = i32::MIN;
        assert_eq!((header.next_offset(), header.size_in_bytes()), (Offset(i64::MAX), 0));
    }
}
