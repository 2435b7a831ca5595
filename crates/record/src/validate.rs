//! What a broker checks before a batch enters the log. Validation copies nothing. The walk over uncompressed records
//! allocates nothing; the walk over compressed records uses a window that each thread keeps.
//!
//! The rules are Kafka's (`ProduceRequest`, `UnifiedLog`, `LogValidator`), in Kafka's order. Two rules are stricter.
//! Offset deltas must be 0, 1, 2, …; Kafka trusts them, and offsets of the log could repeat. A client's batch with the
//! LogAppendTime bit is always refused; Kafka accepts and unmarks some.

use mainstem_types::{Offset, ProducerId, TimestampMs};

use crate::codec::{Codec, Decoder, DecompressError};
use crate::header::{BatchHeader, TimestampType};
use crate::peek::FramingError;
use crate::stamp::StampTimestamp;
use crate::view::BatchView;
use crate::walk::{RecordError, Shape, SliceSource, StreamSource, walk};

/// Record problems that are listed one by one; the rest is only counted.
const REJECTIONS_LISTED_MAX: usize = 10_000;

/// The source of an append.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Origin {
    /// A producer outside: the strictest.
    #[default]
    Client,
    /// The broker itself (coordinators, metadata): may write control batches and leave gaps.
    Broker,
}

/// The rules for a batch. Most of them come from the topic's configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ValidationRules {
    pub origin: Origin,
    /// `message.timestamp.type`.
    pub timestamp_type: TimestampType,
    /// `message.timestamp.before.max.ms`; `i64::MAX` is no bound.
    pub timestamp_before_max_ms: i64,
    /// `message.timestamp.after.max.ms`; `i64::MAX` is no bound.
    pub timestamp_after_max_ms: i64,
    /// Whether `cleanup.policy` contains `compact`.
    pub keys_required: bool,
    /// `max.message.bytes`, for the whole batch as it is sent.
    pub batch_size_max: usize,
    /// How much the records may take once decompressed. They are never all in memory at once, so this bounds time.
    pub decompressed_size_max: usize,
    /// `false` for Produce before version 7.
    pub zstd_allowed: bool,
    pub now: TimestampMs,
}

impl ValidationRules {
    /// Kafka's defaults: create time, no bound before and one hour after, 1 MiB + 12 bytes; 2 GiB decompressed.
    pub fn new(now: TimestampMs) -> Self {
        ValidationRules {
            origin: Origin::Client,
            timestamp_type: TimestampType::CreateTime,
            timestamp_before_max_ms: i64::MAX,
            timestamp_after_max_ms: 3_600_000,
            keys_required: false,
            batch_size_max: 1_048_588,
            decompressed_size_max: i32::MAX as usize,
            zstd_allowed: true,
            now,
        }
    }
}

/// What validation found out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Validated {
    pub codec: Codec,
    /// The largest timestamp of the records, as they were sent; −1 when none has one.
    pub max_timestamp: TimestampMs,
    /// The first record that has it, counted from the batch's first.
    pub max_timestamp_offset_delta: i32,
    /// What to stamp so that the header tells the truth: the rules' `now` for LogAppendTime, else `max_timestamp`.
    pub stamp_timestamp: StampTimestamp,
    /// Bytes of the records, decompressed.
    pub records_size: u64,
    /// Whether any record has headers.
    pub has_headers: bool,
}

/// What kind of refusal an error is; a protocol's door maps it to its code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorClass {
    /// The sender built it wrongly; sending it again does not help.
    InvalidRecord,
    /// A time is out of range or of the wrong kind.
    InvalidTimestamp,
    /// Damaged on the way; sending it again may help.
    CorruptMessage,
    /// Smaller batches may pass.
    MessageTooLarge,
    /// The sender's protocol version does not know the codec it used.
    UnsupportedCompression,
}

/// Why a batch is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ValidationError {
    #[error(transparent)]
    Framing(#[from] FramingError),
    #[error("there is no batch; send exactly one for each partition")]
    Empty,
    #[error("{extra} bytes follow the batch; send exactly one batch for each partition")]
    MoreThanOneBatch { extra: usize },
    #[error("zstd needs Produce version 7 or later; use another codec or a newer client")]
    ZstdNotAllowed,
    #[error("the base offset is {base_offset}; a producer sends 0")]
    BaseOffset { base_offset: Offset },
    #[error("the batch has {size} bytes and max.message.bytes is {limit}; send smaller batches or raise it")]
    TooLarge { size: usize, limit: usize },
    #[error("the checksum is {computed:#010x} and the header says {stored:#010x}")]
    Checksum { stored: u32, computed: u32 },
    #[error("the batch says it has {record_count} records")]
    RecordCount { record_count: i32 },
    #[error("the batch says it has {record_count} records and last offset delta {last_offset_delta}")]
    CountMismatch { record_count: i32, last_offset_delta: i32 },
    #[error("clients cannot write control batches")]
    ControlBatch,
    #[error("producer id {producer_id} comes with base sequence {base_sequence}")]
    Sequence { producer_id: ProducerId, base_sequence: i32 },
    #[error("the batch is marked LogAppendTime, which only the broker sets")]
    LogAppendTime,
    #[error(transparent)]
    Record(RecordError),
    #[error("record {index} has offset delta {delta}; they count up from 0 without gaps")]
    OffsetDelta { index: i32, delta: i32 },
    #[error("{} of the records cannot be accepted; the first: {}", .0.total, .0.first())]
    Rejected(Box<Rejections>),
}

/// The records that are in order as such and that the topic does not take. The whole batch is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejections {
    /// At most 10,000 of them.
    pub listed: Vec<RecordRejection>,
    pub total: usize,
    any_timestamp: bool,
}

impl Rejections {
    fn first(&self) -> String {
        self.listed.first().map(ToString::to_string).unwrap_or_default()
    }
}

/// A record that the topic does not take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("record {batch_index} {problem}")]
pub struct RecordRejection {
    /// Counts from the batch's first record, 0.
    pub batch_index: i32,
    pub problem: RecordProblem,
}

/// What a topic has against a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RecordProblem {
    #[error("has no key, which a compacted topic needs")]
    NoKey,
    #[error("has timestamp {timestamp}, which is not within {earliest} and {latest}")]
    Timestamp { timestamp: TimestampMs, earliest: TimestampMs, latest: TimestampMs },
}

impl ValidationError {
    pub fn class(&self) -> ErrorClass {
        match self {
            ValidationError::Framing(FramingError::LengthTooSmall { .. }) | ValidationError::Checksum { .. } => {
                ErrorClass::CorruptMessage
            }
            ValidationError::TooLarge { .. } => ErrorClass::MessageTooLarge,
            _ if self.is_too_much_to_unpack() => ErrorClass::MessageTooLarge,
            ValidationError::ZstdNotAllowed => ErrorClass::UnsupportedCompression,
            ValidationError::LogAppendTime => ErrorClass::InvalidTimestamp,
            ValidationError::Rejected(all) if all.any_timestamp => ErrorClass::InvalidTimestamp,
            _ => ErrorClass::InvalidRecord,
        }
    }

    /// Whether the records take more than the rules allow once they are decompressed.
    pub fn is_too_much_to_unpack(&self) -> bool {
        matches!(self, ValidationError::Record(RecordError::Decompress(DecompressError::Limit { .. })))
    }

    /// The records refused one by one, for answers that list them (Produce version 8 and later).
    pub fn rejections(&self) -> &[RecordRejection] {
        match self {
            ValidationError::Rejected(all) => &all.listed,
            _ => &[],
        }
    }
}

/// Checks what a producer sent for one partition: exactly one batch, and that batch.
pub fn validate_produced<'a>(
    bytes: &'a [u8],
    rules: &ValidationRules,
) -> Result<(BatchView<'a>, Validated), ValidationError> {
    if bytes.is_empty() {
        return Err(ValidationError::Empty);
    }
    let view = BatchView::parse(bytes)?;
    let extra = bytes.len() - view.size_in_bytes();
    if extra > 0 {
        return Err(ValidationError::MoreThanOneBatch { extra });
    }
    let validated = validate(&view, rules)?;
    Ok((view, validated))
}

/// Checks a batch: size, checksum, header, and every record.
pub fn validate(view: &BatchView<'_>, rules: &ValidationRules) -> Result<Validated, ValidationError> {
    let header = view.header();
    let codec =
        view.codec().ok_or(ValidationError::Record(RecordError::UnknownCodec { id: header.attributes.codec_id() }))?;
    if codec == Codec::Zstd && !rules.zstd_allowed {
        return Err(ValidationError::ZstdNotAllowed);
    }
    let from_client = rules.origin == Origin::Client;
    if from_client && header.base_offset != Offset::ZERO {
        return Err(ValidationError::BaseOffset { base_offset: header.base_offset });
    }
    if view.size_in_bytes() > rules.batch_size_max {
        return Err(ValidationError::TooLarge { size: view.size_in_bytes(), limit: rules.batch_size_max });
    }
    let computed = view.computed_crc();
    if computed != header.crc {
        return Err(ValidationError::Checksum { stored: header.crc, computed });
    }
    if from_client {
        validate_client_header(header)?;
    }
    validate_records(view, codec, rules)
}

fn validate_client_header(header: &BatchHeader) -> Result<(), ValidationError> {
    let (record_count, last_offset_delta) = (header.record_count, header.last_offset_delta);
    if record_count <= 0 {
        return Err(ValidationError::RecordCount { record_count });
    }
    if last_offset_delta != record_count - 1 {
        return Err(ValidationError::CountMismatch { record_count, last_offset_delta });
    }
    if header.attributes.is_control() {
        return Err(ValidationError::ControlBatch);
    }
    if header.has_producer_id() && header.base_sequence < 0 {
        let (producer_id, base_sequence) = (header.producer_id, header.base_sequence);
        return Err(ValidationError::Sequence { producer_id, base_sequence });
    }
    if header.timestamp_type() == TimestampType::LogAppendTime {
        return Err(ValidationError::LogAppendTime);
    }
    Ok(())
}

fn validate_records(view: &BatchView<'_>, codec: Codec, rules: &ValidationRules) -> Result<Validated, ValidationError> {
    let count = view.header().record_count;
    let mut check = RecordCheck::new(view.header(), rules);
    let visit = |index, shape| check.visit(index, shape);
    let walked = match codec {
        Codec::None => walk(&mut SliceSource::new(view.payload()), count, visit),
        _ if count == 0 && view.payload().is_empty() => Ok(0),
        _ => {
            let decoder = Decoder::new(codec, view.payload(), rules.decompressed_size_max);
            walk(&mut StreamSource::new(decoder), count, visit)
        }
    };
    let records_size = walked.map_err(ValidationError::Record)?;
    check.finish()?;
    let stamp_timestamp = match rules.timestamp_type {
        TimestampType::CreateTime => StampTimestamp::CreateTime(check.max_timestamp),
        TimestampType::LogAppendTime => StampTimestamp::LogAppendTime(rules.now),
    };
    Ok(Validated {
        codec,
        max_timestamp: check.max_timestamp,
        max_timestamp_offset_delta: check.max_timestamp_offset_delta,
        stamp_timestamp,
        records_size,
        has_headers: check.has_headers,
    })
}

/// The state of going over the records.
struct RecordCheck {
    base_timestamp: i64,
    /// Bounds for create times; `None` when the broker's time counts.
    range: Option<(TimestampMs, TimestampMs)>,
    keys_required: bool,
    consecutive: bool,
    offset_fault: Option<(i32, i32)>,
    max_timestamp: TimestampMs,
    max_timestamp_offset_delta: i32,
    has_headers: bool,
    rejections: Rejections,
}

impl RecordCheck {
    fn new(header: &BatchHeader, rules: &ValidationRules) -> Self {
        let earliest = TimestampMs(rules.now.0.saturating_sub(rules.timestamp_before_max_ms));
        let latest = TimestampMs(rules.now.0.saturating_add(rules.timestamp_after_max_ms));
        RecordCheck {
            base_timestamp: header.base_timestamp.0,
            range: (rules.timestamp_type == TimestampType::CreateTime).then_some((earliest, latest)),
            keys_required: rules.keys_required && !header.attributes.is_control(),
            consecutive: rules.origin == Origin::Client,
            offset_fault: None,
            max_timestamp: TimestampMs::NONE,
            max_timestamp_offset_delta: 0,
            has_headers: false,
            rejections: Rejections { listed: Vec::new(), total: 0, any_timestamp: false },
        }
    }

    #[inline]
    fn visit(&mut self, index: i32, record: Shape) {
        if self.consecutive && record.offset_delta != index && self.offset_fault.is_none() {
            self.offset_fault = Some((index, record.offset_delta));
        }
        if self.keys_required && !record.has_key {
            return self.reject(index, RecordProblem::NoKey);
        }
        self.has_headers |= record.has_headers;
        let timestamp = TimestampMs(self.base_timestamp.wrapping_add(record.timestamp_delta));
        if timestamp > self.max_timestamp {
            self.max_timestamp = timestamp;
            self.max_timestamp_offset_delta = record.offset_delta;
        }
        if let Some((earliest, latest)) = self.range
            && (timestamp < earliest || timestamp > latest)
            && timestamp != TimestampMs::NONE
        {
            self.reject(index, RecordProblem::Timestamp { timestamp, earliest, latest });
        }
    }

    #[cold]
    fn reject(&mut self, batch_index: i32, problem: RecordProblem) {
        self.rejections.total += 1;
        self.rejections.any_timestamp |= matches!(problem, RecordProblem::Timestamp { .. });
        if self.rejections.listed.len() < REJECTIONS_LISTED_MAX {
            self.rejections.listed.push(RecordRejection { batch_index, problem });
        }
    }

    fn finish(&mut self) -> Result<(), ValidationError> {
        if let Some((index, delta)) = self.offset_fault {
            return Err(ValidationError::OffsetDelta { index, delta });
        }
        if self.rejections.total > 0 {
            let none = Rejections { listed: Vec::new(), total: 0, any_timestamp: false };
            return Err(ValidationError::Rejected(Box::new(std::mem::replace(&mut self.rejections, none))));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
