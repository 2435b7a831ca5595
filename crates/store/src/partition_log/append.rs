//! Appending: everything that does not depend on the log is done before its lock is taken.

use std::io::IoSlice;

use super::producers::{SequenceCheck, TransactionEnd};
use super::state::State;
use super::types::{AppendContext, Appended, Origin};
use super::{PartitionLog, durability, segment_base};
use crate::config::{Compression, Durability, LogConfig};
use crate::error::{AppendError, StorageError};
use bytes::Bytes;
use mainstem_journal::{AppendError as JournalError, Location};
use mainstem_record::{
    BatchHeader, BatchView, Batches, ControlKind, ControlRecord, HEADER_SIZE, Stamp, TimestampType, Validated,
    ValidationError, ValidationRules, recompress, stamped_header, validate_produced,
};
use mainstem_types::{LeaderEpoch, Offset, TimestampMs};

/// Records of one batch, decompressed, may take this much. They are never all in memory at once, except to compress them again.
const DECOMPRESSED_BYTES_MAX: usize = i32::MAX as usize;
/// The value of a transaction marker has 6 bytes.
const MARKER_BYTES_MAX: usize = 4096;

/// The process, or the machine, has no file descriptor left; the same numbers on every Unix.
const EMFILE: i32 = 24;
const ENFILE: i32 = 23;

/// A batch that only lacks its offset.
struct Prepared {
    header: BatchHeader,
    marker: Option<TransactionEnd>,
    append_time: TimestampMs,
}

impl PartitionLog {
    /// Appends one batch of a client or coordinator. Validates, numbers, stamps and writes it.
    ///
    /// The bytes must hold exactly one batch. Returns when they are in the page cache; with `mainstem.durability=disk` and with
    /// `flush.messages` reached, a sync was also asked for, and the durable listener tells.
    pub fn append(&self, batch: &Bytes, context: &AppendContext) -> Result<Appended, AppendError> {
        let config = self.config.load();
        let (view, validated) = validate_produced(batch, &rules(&config, context))?;
        let recompressed = self.recompressed(&config, &view, &validated, context)?;
        let bytes: &[u8] = recompressed.as_deref().unwrap_or(batch);
        if bytes.len() > config.segment_bytes as usize {
            let (partition, size, limit) = (self.partition.clone(), bytes.len(), config.segment_bytes);
            return Err(AppendError::RecordListTooLarge { partition, size, limit });
        }
        let prepared = prepare(bytes, &validated, context)?;
        let payload = &bytes[HEADER_SIZE..];
        let _order = self.appending.lock();
        let base_offset = {
            let mut state = self.state.lock();
            self.check_open(&state)?;
            if context.origin == Origin::Client
                && let Some(duplicate) = self.check_producer(&state, &prepared.header)?
            {
                return Ok(duplicate);
            }
            let header = BatchHeader { base_offset: state.next_offset, ..prepared.header };
            self.roll_if_needed(&mut state, &config, &header, bytes.len(), context.now)?;
            state.next_offset
        };
        let header = BatchHeader { base_offset, leader_epoch: context.leader_epoch, ..prepared.header };
        // Readers go on during the write: they see the end as it was.
        let position = self.write(&[IoSlice::new(&header.write()), IoSlice::new(payload)])?;
        let mut state = self.state.lock();
        self.observe(&mut state, &config, &header, prepared.marker, position)?;
        let appended = Appended {
            base_offset,
            last_offset: header.last_offset(),
            append_time: prepared.append_time,
            log_start: state.log_start,
            duplicate: false,
        };
        self.after_append(state);
        Ok(appended)
    }

    /// Appends batches that carry their offsets and epochs already: of the metadata log (epoch = term), or copied from a leader.
    ///
    /// The first must not begin below the log end, and offsets and epochs must ascend. Gaps are allowed (compaction).
    pub fn append_stamped(&self, batches: &Bytes, now: TimestampMs) -> Result<Appended, AppendError> {
        let config = self.config.load();
        let mut parts = Vec::new();
        for view in Batches::new(batches) {
            let view = view.map_err(ValidationError::Framing)?;
            let (stored, computed) = (view.header().crc, view.computed_crc());
            if stored != computed {
                return Err(ValidationError::Checksum { stored, computed }.into());
            }
            parts.push((*view.header(), marker_of(&view)?));
        }
        let (Some((first, _)), Some((last, _))) = (parts.first().copied(), parts.last().copied()) else {
            return Err(ValidationError::Empty.into());
        };
        let _order = self.appending.lock();
        let mut state = self.state.lock();
        self.check_open(&state)?;
        self.check_stamped(&state, parts.iter().map(|(header, _)| header))?;
        self.roll_if_needed(
            &mut state,
            &config,
            &BatchHeader { base_offset: first.base_offset, ..last },
            batches.len(),
            now,
        )?;
        drop(state);
        let mut position = self.write(&[IoSlice::new(batches)])?;
        let mut state = self.state.lock();
        for (header, marker) in &parts {
            self.observe(&mut state, &config, header, *marker, position)?;
            position += header.size_in_bytes() as u64;
        }
        let appended = Appended {
            base_offset: first.base_offset,
            last_offset: last.last_offset(),
            append_time: TimestampMs::NONE,
            log_start: state.log_start,
            duplicate: false,
        };
        self.after_append(state);
        Ok(appended)
    }

    fn check_stamped<'a>(
        &self,
        state: &State,
        headers: impl Iterator<Item = &'a BatchHeader>,
    ) -> Result<(), AppendError> {
        let mut expected = state.next_offset;
        let mut epoch = state.epochs.latest().map_or(LeaderEpoch::NONE, |latest| latest.epoch);
        for header in headers {
            if header.base_offset < expected || header.last_offset_delta < 0 || header.leader_epoch < epoch {
                return Err(AppendError::NotNext {
                    partition: self.partition.clone(),
                    expected,
                    epoch,
                    found: header.base_offset,
                    found_epoch: header.leader_epoch,
                });
            }
            (expected, epoch) = (header.next_offset(), header.leader_epoch);
        }
        Ok(())
    }

    fn check_open(&self, state: &State) -> Result<(), AppendError> {
        self.check_alive()?;
        if state.closed {
            return Err(AppendError::Closed { partition: self.partition.clone() });
        }
        Ok(())
    }

    /// Judges the sequence of a producer's batch. `Some`: it was appended before.
    fn check_producer(&self, state: &State, header: &BatchHeader) -> Result<Option<Appended>, AppendError> {
        if !header.has_producer_id() {
            return Ok(None);
        }
        let (partition, producer_id) = (self.partition.clone(), header.producer_id);
        match state.producers.check(header) {
            SequenceCheck::Next => Ok(None),
            SequenceCheck::Duplicate(known) => Ok(Some(Appended {
                base_offset: known.base_offset(),
                last_offset: Offset(known.last_offset),
                append_time: match header.timestamp_type() {
                    TimestampType::LogAppendTime => TimestampMs(known.timestamp_ms),
                    TimestampType::CreateTime => TimestampMs::NONE,
                },
                log_start: state.log_start,
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

    /// The batch in the codec that `compression.type` names; `None` if it is in it already.
    fn recompressed(
        &self,
        config: &LogConfig,
        view: &BatchView<'_>,
        validated: &Validated,
        context: &AppendContext,
    ) -> Result<Option<Vec<u8>>, AppendError> {
        let Compression::Fixed { codec, level } = config.compression else { return Ok(None) };
        if codec == validated.codec || view.header().attributes.is_control() {
            return Ok(None);
        }
        let bytes = recompress(view, codec, level, DECOMPRESSED_BYTES_MAX).map_err(|reason| {
            AppendError::Recompression { partition: self.partition.clone(), reason: std::sync::Arc::new(reason) }
        })?;
        if context.origin == Origin::Client && bytes.len() > config.max_message_bytes as usize {
            let (partition, size, limit) = (self.partition.clone(), bytes.len(), config.max_message_bytes);
            return Err(AppendError::MessageTooLarge { partition, size, limit });
        }
        Ok(Some(bytes))
    }

    /// One positional write at the end of the log. Gives its position in the active segment.
    fn write(&self, parts: &[IoSlice<'_>]) -> Result<u64, AppendError> {
        let partition = || self.partition.clone();
        let at = self.journal.append(parts).map_err(|error| match error {
            JournalError::Failed(failure) => AppendError::Storage(durability::storage_error(&failure)),
            JournalError::DiskFull { bytes, .. } => AppendError::DiskFull { partition: partition(), bytes },
            JournalError::Open { path, source } => {
                let error = std::io::Error::new(source.kind(), source.to_string());
                // Nothing was written, and there are descriptors again in a moment: no reason to end the log.
                let no_descriptor = matches!(source.raw_os_error(), Some(EMFILE | ENFILE));
                match no_descriptor {
                    true => AppendError::Storage(StorageError { action: "open", path, error: error.into() }),
                    false => AppendError::Storage(self.fail("open", &path, error)),
                }
            }
            JournalError::NoSegment { .. } | JournalError::Closed { .. } => {
                AppendError::Closed { partition: partition() }
            }
        })?;
        Ok(at.position)
    }

    /// Brings every view up to date with a batch that was written.
    fn observe(
        &self,
        state: &mut State,
        config: &LogConfig,
        header: &BatchHeader,
        marker: Option<TransactionEnd>,
        position: u64,
    ) -> Result<(), AppendError> {
        state.active.observe(header, position, config.index_interval_bytes);
        state.epochs.assign(header.leader_epoch, header.base_offset);
        state.note_position(header.base_offset, position);
        state.end_position = position + header.size_in_bytes() as u64;
        state.bytes_since_checkpoint += header.size_in_bytes() as u64;
        state.next_offset = header.next_offset();
        match marker {
            None => state.producers.observe(header),
            Some(end) => {
                if let Some(aborted) = state.producers.observe_marker(header, end) {
                    self.add_aborted(state, aborted)?;
                }
            }
        }
        if state.active.has_many_pending() {
            self.write_pending_indexes(state);
        }
        state.check();
        Ok(())
    }

    /// Asks for a sync if the settings say so: as they are now, not as they were when the append began. Whoever changes them to `disk`
    /// then asks for a sync of everything up to the log end, so either of the two covers this append.
    fn after_append(&self, mut state: parking_lot::MutexGuard<'_, State>) {
        let config = self.config.load();
        let due = config.durability == Durability::Disk
            || state.next_offset.0 - self.durability.end().0 >= config.flush_messages;
        if due {
            let end = Location::new(segment_base(state.active.base), state.end_position);
            self.durability.mark(end, state.next_offset);
            state.dirty_since = None;
            drop(state);
            self.ask_flusher(end);
        } else if config.flush_ms != i64::MAX && state.dirty_since.is_none() {
            state.dirty_since = Some(self.env.clock.monotonic());
        }
    }
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
        decompressed_size_max: DECOMPRESSED_BYTES_MAX,
        zstd_allowed: context.zstd_allowed,
        now: context.now,
    }
}

/// Stamps the time. The checksum does not cover offset and epoch, so they can wait for the lock.
fn prepare(bytes: &[u8], validated: &Validated, context: &AppendContext) -> Result<Prepared, AppendError> {
    let view = BatchView::parse(bytes).map_err(ValidationError::Framing)?;
    let stamp =
        Stamp { base_offset: Offset::ZERO, leader_epoch: context.leader_epoch, timestamp: validated.stamp_timestamp };
    let header = BatchHeader::read(&stamped_header(&view, &stamp));
    let append_time = match header.timestamp_type() {
        TimestampType::LogAppendTime => header.max_timestamp,
        TimestampType::CreateTime => TimestampMs::NONE,
    };
    Ok(Prepared { header, marker: marker_of(&view)?, append_time })
}

/// The transaction end that a control batch tells; `None` for all other batches.
pub(super) fn marker_of(view: &BatchView<'_>) -> Result<Option<TransactionEnd>, ValidationError> {
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
