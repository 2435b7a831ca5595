//! Appending: the batch is checked and looked through before any lock is taken; partitions wait for each other for the
//! write alone.

use std::sync::Arc;

use bytes::Bytes;
use mainstem_env::{is_disk_full, is_out_of_descriptors};
use mainstem_journal::{AppendError as JournalError, RollError};
use mainstem_record::{BatchHeader, BatchView, ValidationError};

use super::commit_log::WriteError;
use super::queue_folder::Missing;
use super::state::{PartitionViews, Placed};
use super::{GroupPartition, flush};
use crate::config::{Durability, KeyIndexing};
use crate::durability::write_out;
use crate::error::{AppendError, StorageError};
use crate::formats::commit_log_entry::{EntryHeader, EntryKind, HEADER_SIZE};
use crate::log_types::{AppendContext, Appended, Origin};
use crate::prepare::{self, Prepared};
use crate::views::inspect::{Inspected, inspect};
use crate::views::producers::TransactionEnd;

/// Views that take too much memory to be left to others.
#[derive(Default)]
pub(super) struct Due {
    index: bool,
    queue: bool,
}

/// A batch that was written, for the views.
pub(super) struct Written {
    pub(super) header: BatchHeader,
    pub(super) marker: Option<TransactionEnd>,
    pub(super) placed: Placed,
    /// The setting at the time of the write.
    pub(super) durability: Durability,
}

impl GroupPartition {
    /// Appends one batch of a client or coordinator. Validates, numbers, stamps and writes it.
    ///
    /// The bytes must hold exactly one batch. Returns when they are in the page cache, with
    /// `mainstem.durability=memory` in the journal's memory, and a read sees them; with `disk` and with
    /// `flush.messages` reached, a sync was also asked for, and the durable listener tells. The batch may be
    /// acknowledged when [`GroupPartition::ends`] says so.
    pub fn append(&self, batch: &Bytes, context: &AppendContext) -> Result<Appended, AppendError> {
        let config = self.config.load();
        self.make_room_for_queue()?;
        let limit = self.core.log.batch_bytes_max();
        let prepared = prepare::prepare(&self.partition, &config, batch, context, limit)?;
        let view = BatchView::parse(&prepared.bytes).map_err(ValidationError::Framing)?;
        // Tags and most keys are headers: without any, nobody has to look at the records again.
        let inspected = match prepared.has_headers || config.key_indexing == KeyIndexing::All {
            true => inspect(&view, self.topic_hash, config.key_indexing),
            false => Inspected::default(),
        };
        let order = self.appending.lock();
        let base_offset = {
            let state = self.state.lock();
            self.check_open(&state)?;
            if context.leader_epoch < self.core.log.fence() {
                return Err(AppendError::NotLeader { partition: self.partition.clone() });
            }
            if context.origin == Origin::Client
                && let Some(duplicate) =
                    prepare::check_producer(&state.producers, &self.partition, &prepared.header, state.log_start)?
            {
                return Ok(duplicate);
            }
            state.next_offset
        };
        let header = BatchHeader { base_offset, leader_epoch: context.leader_epoch, ..prepared.header };
        let placed = self.write(&header, &prepared, config.durability)?;
        let append_time = prepared.append_time;
        let end_position = Some(placed.position.plus(placed.size.into()));
        let written = Written { header, marker: prepared.marker, placed, durability: config.durability };
        let (log_start, due) = self.observe(written, inspected)?;
        drop(order);
        self.write_due(due)?;
        let last_offset = header.last_offset();
        Ok(Appended { base_offset, last_offset, append_time, log_start, end_position, duplicate: false })
    }

    pub(crate) fn known_duplicate(&self, header: &BatchHeader) -> Option<Appended> {
        let state = self.state.lock();
        prepare::check_producer(&state.producers, &self.partition, header, state.log_start).ok().flatten()
    }

    pub(super) fn check_open(&self, state: &PartitionViews) -> Result<(), AppendError> {
        self.core.check_alive()?;
        if state.closed {
            return Err(AppendError::Closed { partition: self.partition.clone() });
        }
        Ok(())
    }

    fn write(
        &self,
        header: &BatchHeader,
        prepared: &Prepared<'_>,
        durability: Durability,
    ) -> Result<Placed, AppendError> {
        let kind = EntryKind::Batch { topic_id: self.topic_id, partition: self.partition.partition };
        let size = (HEADER_SIZE + prepared.bytes.len()) as u32;
        let entry = EntryHeader { length: size, kind };
        let written = self.core.log.write(header.leader_epoch, &entry, &header.write(), prepared.payload(), durability);
        let position = written.map_err(|error| self.write_failed(error))?;
        let segment = self.core.log.segment_of(position).map_or(0, |segment| segment.0);
        Ok(Placed { segment, position, size })
    }

    pub(super) fn write_failed(&self, error: WriteError) -> AppendError {
        let partition = self.partition.clone();
        match error {
            WriteError::Fenced => AppendError::NotLeader { partition },
            WriteError::Append(JournalError::Failed(failure)) | WriteError::Roll(RollError::Failed(failure)) => {
                AppendError::Storage(flush::storage_error(&failure))
            }
            WriteError::Append(JournalError::DiskFull { bytes, .. }) => AppendError::DiskFull { partition, bytes },
            WriteError::Append(JournalError::Open { path, source })
            | WriteError::Roll(RollError::Create { path, source } | RollError::WriteOut { path, source }) => {
                self.open_failed(path, source)
            }
            WriteError::Append(JournalError::NoSegment { .. } | JournalError::Closed { .. })
            | WriteError::Roll(RollError::Closed { .. }) => AppendError::Closed { partition },
            WriteError::Roll(error @ (RollError::NotAfter { .. } | RollError::Occupied { .. })) => {
                let error = std::io::Error::other(error.to_string());
                AppendError::Storage(self.core.fail("begin a file in", &self.core.folder, error))
            }
        }
    }

    /// Nothing was written. Where that is for want of space or descriptors, there may be some again in a moment.
    fn open_failed(&self, path: std::path::PathBuf, source: Arc<std::io::Error>) -> AppendError {
        if is_disk_full(&source) {
            return AppendError::DiskFull { partition: self.partition.clone(), bytes: 0 };
        }
        if is_out_of_descriptors(&source) {
            return AppendError::Storage(StorageError { action: "open", path, error: source });
        }
        let error = std::io::Error::new(source.kind(), source.to_string());
        AppendError::Storage(self.core.fail("open", &path, error))
    }

    /// Brings the views up to date with a batch that was written, and asks for a sync if the settings say so. Gives the
    /// log start, and which views have to be written because nobody else does it in time.
    pub(super) fn observe(
        &self,
        written: Written,
        inspected: Inspected,
    ) -> Result<(mainstem_types::Offset, Due), AppendError> {
        let Written { header, marker, placed, durability } = written;
        let index = self.core.index.add(&inspected.keys, placed.position.0, header.max_timestamp.0);
        let mut state = self.state.lock();
        state.observe(&header, marker, &placed, inspected);
        let queue = self.core.env.queues.is_write_overdue(self.core.options.queue_bytes, state.queue.bytes());
        let log_start = state.log_start;
        // The settings as they are now: whoever changes them to `disk` then asks for a sync of everything up to the log
        // end, so either of the two covers this append. In the same way what went to memory is written out if they do
        // not say `memory` any more.
        let config = self.config.load();
        let many = self.durability.hold(header.base_offset, state.next_offset, config.flush_messages);
        let due = many || config.durability == Durability::Disk;
        let end = if due { self.mark_end(&mut state) } else { None };
        if !due && config.flush_ms != i64::MAX && state.dirty_since.is_none() {
            state.dirty_since = Some(self.core.env.clock.monotonic());
        }
        drop(state);
        self.flush_appended(end);
        if durability == Durability::Memory && config.durability != Durability::Memory {
            write_out(&self.core.log.journal);
        }
        Ok((log_start, Due { index, queue }))
    }

    /// Where queues take much more memory than they may, the disk had no room for them for long: an append makes some,
    /// or is refused.
    pub(super) fn make_room_for_queue(&self) -> Result<(), AppendError> {
        if !self.core.env.queues.is_exhausted(self.core.options.queue_bytes) {
            return Ok(());
        }
        self.write_queue().map_err(|error| {
            let path = self.core.queue_dir(&self.partition);
            if is_disk_full(&error) {
                return AppendError::DiskFull { partition: self.partition.clone(), bytes: 0 };
            }
            AppendError::Storage(match is_out_of_descriptors(&error) {
                true => StorageError { action: "write", path, error: error.into() },
                false => self.core.fail("write", &path, error),
            })
        })
    }

    pub(super) fn write_due(&self, due: Due) -> Result<(), AppendError> {
        if due.index {
            self.write_index()?;
        }
        if due.queue {
            self.write_queue_unless_others_do()?;
        }
        Ok(())
    }

    /// Into files that are there: the thread `views` creates those that are not.
    fn write_queue_unless_others_do(&self) -> Result<(), AppendError> {
        let Some(mut folder) = self.queue_folder.try_lock().filter(|folder| !folder.needs_file()) else {
            return Ok(());
        };
        let result = self.write_queue_to(&mut folder, Missing::LeaveOut);
        drop(folder);
        Ok(result.or_else(|error| self.core.view_failed(&self.core.queue_dir(&self.partition), error))?)
    }

    fn write_index(&self) -> Result<(), AppendError> {
        let result = self.core.index.write_unless_others_do(self.core.fs());
        Ok(result.or_else(|error| self.core.view_failed(&self.core.index_dir(), error))?)
    }
}
