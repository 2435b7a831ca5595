//! Appending: everything that does not depend on the log is done before its lock is taken.

use std::io::IoSlice;

use super::state::LogState;
use super::{PartitionLog, segment_base};
use crate::config::{Durability, LogConfig};
use crate::durability;
use crate::error::{AppendError, StorageError};
use crate::log_types::{AppendContext, Appended, Origin};
use crate::prepare::{self, marker_of};
use crate::views::producers::TransactionEnd;
use bytes::Bytes;
use mainstem_env::is_out_of_descriptors;
use mainstem_journal::{AppendError as JournalError, Location};
use mainstem_record::{BatchHeader, Batches, ValidationError};
use mainstem_types::{LeaderEpoch, Offset, TimestampMs};

impl PartitionLog {
    /// Appends one batch of a client or coordinator. Validates, numbers, stamps and writes it.
    ///
    /// The bytes must hold exactly one batch. Returns when they are in the page cache, with
    /// `mainstem.durability=memory` in the journal's memory; with `disk` and with `flush.messages` reached, a sync was
    /// also asked for, and the durable listener tells. The batch may be acknowledged when [`PartitionLog::ends`] says
    /// so.
    pub fn append(&self, batch: &Bytes, context: &AppendContext) -> Result<Appended, AppendError> {
        let config = self.config.load();
        let prepared = prepare::prepare(&self.partition, &config, batch, context, config.segment_bytes)?;
        let _order = self.appending.lock();
        let base_offset = {
            let mut state = self.state.lock();
            self.check_open(&state)?;
            if context.leader_epoch < state.fence {
                return Err(AppendError::NotLeader { partition: self.partition.clone() });
            }
            if context.origin == Origin::Client
                && let Some(duplicate) =
                    prepare::check_producer(&state.producers, &self.partition, &prepared.header, state.log_start)?
            {
                return Ok(duplicate);
            }
            let header = BatchHeader { base_offset: state.next_offset, ..prepared.header };
            self.roll_if_needed(&mut state, &config, &header, prepared.bytes.len(), context.now)?;
            state.next_offset
        };
        let header = BatchHeader { base_offset, leader_epoch: context.leader_epoch, ..prepared.header };
        // Readers go on during the write: they see the end as it was.
        let position = self.write(&[IoSlice::new(&header.write()), IoSlice::new(prepared.payload())], &config)?;
        let mut state = self.state.lock();
        self.observe(&mut state, &config, &header, prepared.marker, position)?;
        let appended = Appended {
            base_offset,
            last_offset: header.last_offset(),
            append_time: prepared.append_time,
            log_start: state.log_start,
            end_position: None,
            duplicate: false,
        };
        self.after_append(state, &config, base_offset);
        Ok(appended)
    }

    /// Appends batches that carry their offsets and epochs already: of the metadata log (epoch = term), or copied from
    /// a leader.
    ///
    /// The first must not begin below the log end, and offsets and epochs must ascend. Gaps are allowed (compaction).
    pub fn append_stamped(&self, batches: &Bytes, now: TimestampMs) -> Result<Appended, AppendError> {
        self.append_as_they_are(batches, now, false)
    }

    /// As [`PartitionLog::append_stamped`]. `from_below`: the log start of an empty log may lie in the first batch.
    pub(super) fn append_as_they_are(
        &self,
        batches: &Bytes,
        now: TimestampMs,
        from_below: bool,
    ) -> Result<Appended, AppendError> {
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
        let from_below = from_below && state.may_begin_with(&first);
        let expected = if from_below { first.base_offset } else { state.next_offset };
        self.check_stamped(&state, expected, parts.iter().map(|(header, _)| header))?;
        if from_below {
            self.begin_below(&mut state, first.base_offset).map_err(|error| self.refuse(error, batches.len()))?;
        }
        self.roll_if_needed(
            &mut state,
            &config,
            &BatchHeader { base_offset: first.base_offset, ..last },
            batches.len(),
            now,
        )?;
        drop(state);
        let mut position = self.write(&[IoSlice::new(batches)], &config)?;
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
            end_position: None,
            duplicate: false,
        };
        self.after_append(state, &config, first.base_offset);
        Ok(appended)
    }

    fn check_stamped<'a>(
        &self,
        state: &LogState,
        mut expected: Offset,
        headers: impl Iterator<Item = &'a BatchHeader>,
    ) -> Result<(), AppendError> {
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

    pub(crate) fn known_duplicate(&self, header: &BatchHeader) -> Option<Appended> {
        let state = self.state.lock();
        prepare::check_producer(&state.producers, &self.partition, header, state.log_start).ok().flatten()
    }

    fn check_open(&self, state: &LogState) -> Result<(), AppendError> {
        self.check_alive()?;
        if state.closed {
            return Err(AppendError::Closed { partition: self.partition.clone() });
        }
        Ok(())
    }

    /// One positional write at the end of the log. Gives its position in the active segment.
    fn write(&self, parts: &[IoSlice<'_>], config: &LogConfig) -> Result<u64, AppendError> {
        let partition = || self.partition.clone();
        let written = match config.durability {
            Durability::Memory => self.journal.append_in_memory(parts),
            Durability::Os | Durability::Disk => self.journal.append(parts),
        };
        let at = written.map_err(|error| match error {
            JournalError::Failed(failure) => AppendError::Storage(durability::storage_error(&failure)),
            JournalError::DiskFull { bytes, .. } => AppendError::DiskFull { partition: partition(), bytes },
            JournalError::Open { path, source } => {
                // Nothing was written, and there are descriptors again in a moment: no reason to end the log.
                if is_out_of_descriptors(&source) {
                    return AppendError::Storage(StorageError { action: "open", path, error: source });
                }
                let error = std::io::Error::new(source.kind(), source.to_string());
                AppendError::Storage(self.fail("open", &path, error))
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
        state: &mut LogState,
        config: &LogConfig,
        header: &BatchHeader,
        marker: Option<TransactionEnd>,
        position: u64,
    ) -> Result<(), AppendError> {
        state.segments.appended(header, position, config.index_interval_bytes);
        state.epochs.assign(header.leader_epoch, header.base_offset);
        state.unsynced.appended(header.size_in_bytes() as u64);
        state.next_offset = header.next_offset();
        match marker {
            None => state.producers.observe(header),
            Some(end) => {
                if let Some(aborted) = state.producers.observe_marker(header, end) {
                    self.add_aborted(state, aborted)?;
                }
            }
        }
        if state.segments.active().has_many_pending() {
            self.write_pending_indexes(state);
        }
        self.check_order(state)?;
        Ok(())
    }

    /// Asks for a sync if the settings say so: as they are now, not as they were when the append began. Whoever changes
    /// them to `disk` then asks for a sync of everything up to the log end, so either of the two covers this append. In
    /// the same way what went to memory is written out if the settings do not say `memory` any more.
    fn after_append(&self, mut state: parking_lot::MutexGuard<'_, LogState>, begun_with: &LogConfig, first: Offset) {
        let config = self.config.load();
        let many = self.durability.hold(first, state.next_offset, config.flush_messages);
        let due = many || config.durability == Durability::Disk;
        let mut flush_to = None;
        if due {
            let end = Location::new(segment_base(state.segments.active().base), state.segments.end_position());
            self.durability.mark(end, state.next_offset);
            state.unsynced.flush_asked();
            flush_to = Some(end);
        } else if config.flush_ms != i64::MAX {
            state.unsynced.is_dirty_since(|| self.env.clock.monotonic());
        }
        drop(state);
        if let Some(end) = flush_to {
            self.ask_flusher(end);
        }
        if begun_with.durability == Durability::Memory && config.durability != Durability::Memory {
            durability::write_out(&self.journal);
        }
    }
}
