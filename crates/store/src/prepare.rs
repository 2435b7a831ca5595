//! What an append does before it takes a lock, and how it judges a producer's sequence: the same in every layout.

use std::borrow::Cow;
use std::sync::Arc;

use mainstem_record::{
    BatchHeader, BatchView, ControlKind, ControlRecord, DecompressError, HEADER_SIZE, RecordError, Stamp,
    TimestampType, Validated, ValidationError, ValidationRules, recompress, stamped, validate_produced,
};
use mainstem_types::{Offset, TimestampMs, TopicPartition};

use crate::config::{Compression, LogConfig};
use crate::error::AppendError;
use crate::log_types::{AppendContext, Appended, Origin};
use crate::views::producers::{Producers, SequenceCheck, TransactionEnd};

/// Records of a batch that was stored, decompressed, take less than this.
pub(crate) const DECOMPRESSED_BYTES_MAX: usize = i32::MAX as usize;
/// Records that a client sends may take this much once decompressed, or the other multiple of `max.message.bytes` where
/// that is more. They are never all in memory at once: it bounds the time. Kafka has no bound, and unpacks gigabytes
/// for some kilobytes.
const CLIENT_UNPACKED_BYTES_MIN: usize = 256 << 20;
const CLIENT_UNPACKED_RATIO_MAX: usize = 64;
/// Records that are compressed again are in memory at once, so they may take less.
const RECOMPRESSED_BYTES_MAX: usize = 64 << 20;
/// To compress a byte takes as long as to decompress so many.
const COMPRESS_COST: u64 = 8;
/// The value of a transaction marker has 6 bytes.
const MARKER_BYTES_MAX: usize = 4096;

/// A batch that only lacks its offset.
pub(crate) struct Prepared<'b> {
    /// The batch, in the codec that it is stored in; of its header, `header` counts.
    pub(crate) bytes: Cow<'b, [u8]>,
    pub(crate) header: BatchHeader,
    pub(crate) marker: Option<TransactionEnd>,
    pub(crate) append_time: TimestampMs,
    /// Whether any record has headers.
    pub(crate) has_headers: bool,
}

impl Prepared<'_> {
    /// What follows the header.
    pub(crate) fn payload(&self) -> &[u8] {
        &self.bytes[HEADER_SIZE..]
    }
}

/// Checks a batch of a client or coordinator and stamps its time. `segment_bytes`: what a file of the log can take.
pub(crate) fn prepare<'b>(
    partition: &TopicPartition,
    config: &LogConfig,
    batch: &'b [u8],
    context: &AppendContext,
    segment_bytes: u32,
) -> Result<Prepared<'b>, AppendError> {
    let (view, validated) = validate_produced(batch, &rules(config, context))?;
    let bytes = match recompressed(partition, config, &view, &validated, context)? {
        Some(bytes) => Cow::Owned(bytes),
        None => Cow::Borrowed(batch),
    };
    if bytes.len() > segment_bytes as usize {
        let (partition, size) = (partition.clone(), bytes.len());
        return Err(AppendError::RecordListTooLarge { partition, size, limit: segment_bytes });
    }
    let view = match &bytes {
        Cow::Borrowed(_) => view,
        Cow::Owned(recompressed) => BatchView::parse(recompressed).map_err(ValidationError::Framing)?,
    };
    // The checksum does not cover offset and epoch, so they can wait for the lock.
    let stamp =
        Stamp { base_offset: Offset::ZERO, leader_epoch: context.leader_epoch, timestamp: validated.stamp_timestamp };
    let header = stamped(&view, &stamp);
    let append_time = match header.timestamp_type() {
        TimestampType::LogAppendTime => header.max_timestamp,
        TimestampType::CreateTime => TimestampMs::NONE,
    };
    let marker = marker_of(&view)?;
    Ok(Prepared { header, marker, append_time, bytes, has_headers: validated.has_headers })
}

fn rules(config: &LogConfig, context: &AppendContext) -> ValidationRules {
    let client = context.origin == Origin::Client;
    ValidationRules {
        origin: if client { mainstem_record::Origin::Client } else { mainstem_record::Origin::Broker },
        timestamp_type: config.timestamp_type,
        timestamp_before_max_ms: if client { config.timestamp_before_max_ms } else { i64::MAX },
        timestamp_after_max_ms: if client { config.timestamp_after_max_ms } else { i64::MAX },
        keys_required: config.cleanup_compact,
        batch_size_max: if client { config.max_message_bytes as usize } else { i32::MAX as usize },
        decompressed_size_max: unpacked_bytes_max(config, context),
        zstd_allowed: context.zstd_allowed,
        now: context.now,
    }
}

fn unpacked_bytes_max(config: &LogConfig, context: &AppendContext) -> usize {
    let own = match context.origin {
        Origin::Client => {
            CLIENT_UNPACKED_BYTES_MIN.max((config.max_message_bytes as usize).saturating_mul(CLIENT_UNPACKED_RATIO_MAX))
        }
        Origin::Coordinator => DECOMPRESSED_BYTES_MAX,
    };
    own.min(DECOMPRESSED_BYTES_MAX).min(context.unpacked_bytes_max)
}

/// The batch in the codec that `compression.type` names; `None` if it is in it already.
fn recompressed(
    partition: &TopicPartition,
    config: &LogConfig,
    view: &BatchView<'_>,
    validated: &Validated,
    context: &AppendContext,
) -> Result<Option<Vec<u8>>, AppendError> {
    let Compression::Fixed { codec, level } = config.compression else { return Ok(None) };
    if codec == validated.codec || view.header().attributes.is_control() {
        return Ok(None);
    }
    let too_much = |limit| {
        let error = DecompressError::Limit { codec: validated.codec, limit };
        AppendError::Invalid(ValidationError::Record(RecordError::Decompress(error)))
    };
    if validated.records_size.saturating_mul(COMPRESS_COST) > context.unpacked_bytes_max as u64 {
        return Err(too_much(context.unpacked_bytes_max));
    }
    if context.origin == Origin::Client && validated.records_size > RECOMPRESSED_BYTES_MAX as u64 {
        return Err(too_much(RECOMPRESSED_BYTES_MAX));
    }
    let bytes = recompress(view, codec, level, DECOMPRESSED_BYTES_MAX)
        .map_err(|reason| AppendError::Recompression { partition: partition.clone(), reason: Arc::new(reason) })?;
    if context.origin == Origin::Client && bytes.len() > config.max_message_bytes as usize {
        let (partition, size, limit) = (partition.clone(), bytes.len(), config.max_message_bytes);
        return Err(AppendError::MessageTooLarge { partition, size, limit });
    }
    Ok(Some(bytes))
}

/// Judges the sequence of a producer's batch. `Some`: it was appended before.
pub(crate) fn check_producer(
    producers: &Producers,
    partition: &TopicPartition,
    header: &BatchHeader,
    log_start: Offset,
) -> Result<Option<Appended>, AppendError> {
    if !header.has_producer_id() {
        return Ok(None);
    }
    let (partition, producer_id) = (partition.clone(), header.producer_id);
    match producers.check(header) {
        SequenceCheck::Next => Ok(None),
        SequenceCheck::Duplicate(known) => Ok(Some(Appended {
            base_offset: known.base_offset(),
            last_offset: Offset(known.last_offset),
            append_time: match header.timestamp_type() {
                TimestampType::LogAppendTime => TimestampMs(known.timestamp_ms),
                TimestampType::CreateTime => TimestampMs::NONE,
            },
            log_start,
            end_position: None,
            duplicate: true,
        })),
        SequenceCheck::OutOfOrder { expected } => {
            let found = header.base_sequence;
            Err(AppendError::OutOfOrderSequence { partition, producer_id, expected, found })
        }
        SequenceCheck::Fenced { current } => {
            let found = header.producer_epoch;
            Err(AppendError::InvalidProducerEpoch { partition, producer_id, current, found })
        }
        SequenceCheck::TransactionOpen => Err(AppendError::InvalidTransactionState { partition, producer_id }),
    }
}

/// The transaction end that a control batch tells; `None` for all other batches.
pub(crate) fn marker_of(view: &BatchView<'_>) -> Result<Option<TransactionEnd>, ValidationError> {
    if !view.header().attributes.is_control() || !view.header().has_producer_id() {
        return Ok(None);
    }
    let mut scratch = Vec::new();
    let mut records = view.records(&mut scratch, MARKER_BYTES_MAX).map_err(ValidationError::Record)?;
    let Some(record) = records.next().transpose().map_err(ValidationError::Record)? else { return Ok(None) };
    let kind = ControlKind::of_key(record.key.unwrap_or_default()).ok().flatten();
    let commit = match kind {
        Some(ControlKind::Commit) => true,
        Some(ControlKind::Abort) => false,
        _ => return Ok(None),
    };
    let coordinator_epoch = ControlRecord::coordinator_epoch(record.value.unwrap_or_default()).unwrap_or(-1);
    Ok(Some(TransactionEnd { commit, coordinator_epoch }))
}
