//! Cutting the end of a log, and beginning anew: for replication.

use super::active_index::ActiveIndex;
use super::producer_snapshots::Snapshots;
use super::segment_file::SegmentFile;
use super::state::LogState;
use super::{PartitionLog, listing, segment_base};
use crate::error::StorageError;
use crate::formats::offset_index::OffsetIndexEntry;
use crate::formats::time_index::TimeIndexEntry;
use crate::formats::{names, transaction_index};
use crate::views::index_file;
use crate::views::producers::Producers;
use mainstem_env::{File, OpenOptions};
use mainstem_journal::Location;
use mainstem_types::Offset;
use std::io;

impl PartitionLog {
    /// Removes everything at and above `offset`, durably. A batch that holds `offset` goes as a whole. Gives the new
    /// log end.
    ///
    /// Holds appends up; a reader that holds a slice of what is cut gets fewer bytes.
    pub fn truncate_to(&self, offset: Offset) -> Result<Offset, StorageError> {
        self.check_alive()?;
        let files = self.replacing.lock();
        let order = self.appending.lock();
        let mut state = self.state.lock();
        if offset >= state.next_offset {
            // An epoch that began at the end has no record, and is the leader's to begin (KAFKA-10706).
            let end = state.next_offset;
            state.epochs.truncate_end(end);
            return Ok(end);
        }
        // So that the files tell all that is known.
        self.write_aborted(&mut state)?;
        self.seal_indexes(&mut state)?;
        let index = state.segments.index_of(offset.max(state.segments.first_base()));
        let base = state.segments.all()[index].base;
        let path = self.file(base, names::LOG);
        let len = match index + 1 == state.segments.all().len() {
            true => state.segments.end_position(),
            false => self.segment_len(base)?,
        };
        let interval = self.config.load().index_interval_bytes;
        let cut = self.with_segment(base, len, |segment| {
            let Some((position, header)) = segment.locate(offset.max(base))? else {
                return Err(io::ErrorKind::InvalidData.into());
            };
            let end = header.map_or(offset, |header| header.base_offset);
            Ok((position, end.min(offset.max(base)), segment.index_before(position, end, interval)?))
        });
        let (position, end, index_left) = cut.map_err(|error| self.fail("read", &path, error))?;
        let location = Location::new(segment_base(base), position);
        state.segments.count_cut();
        self.renew_number();
        self.journal.truncate_to(location).map_err(|error| self.truncate_failed(error))?;
        self.durability.truncate(end);
        self.cut_views(&mut state, index, index_left, position, end).map_err(|error| self.fail("cut", &path, error))?;
        // Records below the cut may wait for a sync that the cut has made the log forget.
        let location = self.mark_end(&mut state);
        drop(state);
        drop(order);
        drop(files);
        self.ask_flusher(location);
        Ok(end)
    }

    fn segment_len(&self, base: Offset) -> Result<u64, StorageError> {
        let len = self.journal.segment_len(segment_base(base));
        len.map_err(|error| self.fail("read", &self.file(base, names::LOG), io::Error::other(error.to_string())))
    }

    pub(super) fn with_segment<R>(
        &self,
        base: Offset,
        len: u64,
        work: impl FnOnce(&SegmentFile<'_>) -> io::Result<R>,
    ) -> io::Result<R> {
        let file = self.fs().open(&self.file(base, names::LOG), &OpenOptions::read())?;
        let file: &dyn File = file.as_ref();
        work(&SegmentFile { fs: self.fs(), folder: &self.folder, base, file, len })
    }

    fn cut_views(
        &self,
        state: &mut LogState,
        last: usize,
        index: ActiveIndex,
        position: u64,
        end: Offset,
    ) -> io::Result<()> {
        let base = index.base;
        for segment in state.segments.cut(last, index, position) {
            for suffix in [names::INDEX, names::TIME_INDEX, names::TRANSACTION_INDEX] {
                listing::remove_if_present(self.fs(), &self.file(segment.base, suffix))?;
            }
        }
        let (no_offsets, no_times): ([OffsetIndexEntry; 0], [TimeIndexEntry; 0]) = ([], []);
        index_file::write(
            self.fs(),
            &self.file(base, names::INDEX),
            state.segments.active().offsets.in_file,
            &no_offsets,
        )?;
        index_file::write(
            self.fs(),
            &self.file(base, names::TIME_INDEX),
            state.segments.active().times.in_file,
            &no_times,
        )?;
        self.cut_transaction_index(state, base, end)?;
        state.next_offset = end;
        state.keys_cut = state.keys_cut.min(end);
        state.log_start = state.log_start.min(end);
        state.cleaned_to = state.cleaned_to.map(|to| to.min(end));
        state.unsynced.cut(end, base);
        state.epochs.truncate_end(end);
        self.reload_producers(state, end)?;
        state.in_order().map_err(io::Error::other)
    }

    fn cut_transaction_index(&self, state: &mut LogState, base: Offset, end: Offset) -> io::Result<()> {
        let Some(segment) = state.segments.last_mut().filter(|segment| segment.has_aborted) else { return Ok(()) };
        let path = self.file(base, names::TRANSACTION_INDEX);
        let mut known = transaction_index::decode(&self.fs().read_all(&path)?).unwrap_or_default();
        known.retain(|aborted| aborted.last_offset < end);
        segment.has_aborted = !known.is_empty();
        segment.largest_time_ms = None;
        if known.is_empty() {
            listing::remove_if_present(self.fs(), &path)
        } else {
            self.fs().atomic_write(&path, &transaction_index::encode(&known))
        }
    }

    /// Removes everything and begins again at `offset`, which must not be below the log end: after a snapshot was
    /// fetched that is ahead of the log.
    ///
    /// After a crash in the middle the log is the old one, and this is to be repeated.
    pub fn restart_at(&self, offset: Offset) -> Result<(), StorageError> {
        self.check_alive()?;
        let _files = self.replacing.lock();
        let _order = self.appending.lock();
        let mut state = self.state.lock();
        if offset < state.next_offset {
            let error = io::Error::new(io::ErrorKind::InvalidInput, format!("offset {offset} is below the log end"));
            let path = self.folder.clone();
            return Err(StorageError { action: "restart", path, error: error.into() });
        }
        let old: Vec<Offset> = state.segments.bases().filter(|base| *base != offset).collect();
        state.segments.count_cut();
        self.renew_number();
        state.next_offset = offset;
        state.producers = Producers::starting_at(offset);
        // What is known at this offset now is that nothing is known.
        state.snapshots = Snapshots::default();
        state.unsynced.aborted_written();
        self.roll(&mut state, offset)?;
        self.keep_producers(offset)?;
        self.fs().sync_dir(&self.folder).map_err(|error| self.fail("sync", &self.folder, error))?;
        state.segments.drop_sealed();
        state.unsynced.settled(|_| true);
        state.log_start = offset;
        state.epochs.truncate_end(Offset::ZERO);
        state.cleaned_to = None;
        self.journal
            .delete_before(segment_base(offset))
            .map_err(|error| self.fail("delete", &self.folder, io::Error::other(error.to_string())))?;
        for base in old {
            for suffix in [names::INDEX, names::TIME_INDEX, names::TRANSACTION_INDEX, names::PRODUCER_SNAPSHOT] {
                let path = self.file(base, suffix);
                listing::remove_if_present(self.fs(), &path).map_err(|error| self.fail("remove", &path, error))?;
            }
        }
        self.durability.restart(offset);
        self.check_order(&state)?;
        Ok(())
    }
}
