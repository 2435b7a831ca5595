//! Cutting the end of a log, and beginning anew: for replication.

use super::active_index::ActiveIndex;
use super::producer_snapshots::{Snapshots, file};
use super::segment_file::SegmentFile;
use super::snapshots::ProducersBelow;
use super::state::LogState;
use super::{PartitionLog, listing, segment_base};
use crate::durability;
use crate::error::StorageError;
use crate::formats::offset_index::OffsetIndexEntry;
use crate::formats::time_index::TimeIndexEntry;
use crate::formats::{names, producer_snapshot, transaction_index};
use crate::views::index_file;
use crate::views::producers::Producers;
use mainstem_env::{File, OpenDir, OpenOptions};
use mainstem_journal::Location;
use mainstem_types::Offset;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// A cut with everything that it needs.
struct Cut {
    /// The segment that becomes the active one: its place in the list.
    last: usize,
    /// Where it ends.
    position: u64,
    end: Offset,
    index: ActiveIndex,
    offsets: Arc<dyn File>,
    times: Arc<dyn File>,
    /// Its transaction index, and how many entries of it stay.
    aborted: Option<(Arc<dyn File>, usize)>,
    producers: ProducersBelow,
    folder: Box<dyn OpenDir>,
}

impl PartitionLog {
    /// Removes everything at and above `offset`, durably. A batch that holds `offset` goes as a whole. Gives the new
    /// log end.
    ///
    /// Holds appends up; a reader that holds a slice of what is cut gets fewer bytes. Everything that needs a file
    /// descriptor is done first: without one nothing has changed, and the cut can be repeated.
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
        self.journal.write_out().map_err(|error| self.not_written_out(error))?;
        self.write_aborted(&mut state)?;
        self.seal_indexes(&mut state)?;
        let cut = self.prepare_cut(&state, offset)?;
        let (position, end, path) = (cut.position, cut.end, self.file(cut.index.base, names::LOG));
        let location = Location::new(segment_base(cut.index.base), position);
        state.segments.count_cut();
        self.renew_number();
        self.journal.truncate_to(location).map_err(|error| self.truncate_failed(error))?;
        self.durability.truncate(end);
        self.cut_views(&mut state, cut).map_err(|error| self.fail("cut", &path, error))?;
        // Records below the cut may wait for a sync that the cut has made the log forget.
        let location = self.mark_end(&mut state);
        drop(state);
        drop(order);
        drop(files);
        self.ask_flusher(location);
        Ok(end)
    }

    fn not_written_out(&self, error: mainstem_journal::AppendError) -> StorageError {
        match error {
            mainstem_journal::AppendError::Failed(failure) => durability::storage_error(&failure),
            mainstem_journal::AppendError::Open { path, source } => {
                StorageError { action: "open", path, error: source }
            }
            mainstem_journal::AppendError::DiskFull { .. } => StorageError {
                action: "write",
                path: self.folder.clone(),
                error: io::Error::from(io::ErrorKind::StorageFull).into(),
            },
            other => StorageError {
                action: "write",
                path: self.folder.clone(),
                error: io::Error::other(other.to_string()).into(),
            },
        }
    }

    /// Finds where the log ends after a cut, and opens what the cut changes.
    fn prepare_cut(&self, state: &LogState, offset: Offset) -> Result<Cut, StorageError> {
        let last = state.segments.index_of(offset.max(state.segments.first_base()));
        let base = state.segments.all()[last].base;
        let path = self.file(base, names::LOG);
        let mut lens = Vec::with_capacity(last + 1);
        for segment in &state.segments.all()[..=last] {
            let len = match segment.base == state.segments.active().base {
                true => state.segments.end_position(),
                false => self.segment_len(segment.base)?,
            };
            lens.push((segment.base, len));
        }
        let interval = self.config.load().index_interval_bytes;
        let found = self.with_segment(base, lens[last].1, |segment| {
            let Some((position, header)) = segment.locate(offset.max(base))? else {
                return Err(io::ErrorKind::InvalidData.into());
            };
            let end = header.map_or(offset, |header| header.base_offset).min(offset.max(base));
            Ok((position, end, segment.index_before(position, end, interval)?))
        });
        let (position, end, index) = found.map_err(|error| self.file_error("read", &path, error))?;
        lens[last].1 = position;
        let open = || {
            let open = |suffix| self.fs().open(&self.file(base, suffix), &OpenOptions::create());
            let has_aborted = state.segments.all()[last].has_aborted;
            Ok(Cut {
                last,
                position,
                end,
                index,
                offsets: open(names::INDEX)?,
                times: open(names::TIME_INDEX)?,
                aborted: if has_aborted { Some(self.cut_transactions(base, end)?) } else { None },
                producers: self.producers_below(&lens, end)?,
                folder: self.fs().open_dir(&self.folder)?,
            })
        };
        open().map_err(|error| self.file_error("read", &path, error))
    }

    /// The transaction index of a segment, and how many of its entries are of markers below `end`.
    fn cut_transactions(&self, base: Offset, end: Offset) -> io::Result<(Arc<dyn File>, usize)> {
        let path = self.file(base, names::TRANSACTION_INDEX);
        let known = transaction_index::decode(&self.fs().read_all(&path)?).unwrap_or_default();
        let kept = known.partition_point(|aborted| aborted.last_offset < end);
        Ok((self.fs().open(&path, &OpenOptions::read_write())?, kept))
    }

    fn segment_len(&self, base: Offset) -> Result<u64, StorageError> {
        self.journal.segment_len(segment_base(base)).map_err(|error| match error {
            mainstem_journal::ReadError::Io { path, source } => self.file_error("read", &path, source),
            other => self.fail("read", &self.file(base, names::LOG), io::Error::other(other.to_string())),
        })
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

    /// Opens nothing: a half done cut cannot be repeated.
    fn cut_views(&self, state: &mut LogState, cut: Cut) -> io::Result<()> {
        let (base, end) = (cut.index.base, cut.end);
        for segment in state.segments.cut(cut.last, cut.index, cut.position) {
            for suffix in [names::INDEX, names::TIME_INDEX, names::TRANSACTION_INDEX] {
                listing::remove_if_present(self.fs(), &self.file(segment.base, suffix))?;
            }
        }
        index_file::cut::<OffsetIndexEntry>(cut.offsets.as_ref(), state.segments.active().offsets.in_file)?;
        index_file::cut::<TimeIndexEntry>(cut.times.as_ref(), state.segments.active().times.in_file)?;
        if let (Some((file, kept)), Some(segment)) = (cut.aborted, state.segments.last_mut()) {
            segment.has_aborted = kept > 0;
            segment.largest_time_ms = None;
            match kept {
                0 => listing::remove_if_present(self.fs(), &self.file(base, names::TRANSACTION_INDEX))?,
                kept => file.set_len((kept * transaction_index::ENTRY_SIZE) as u64).and_then(|()| file.sync_data())?,
            }
        }
        state.next_offset = end;
        state.keys_cut = state.keys_cut.min(end);
        state.log_start = state.log_start.min(end);
        state.cleaned_to = state.cleaned_to.map(|to| to.min(end));
        state.unsynced.cut(end, base);
        state.epochs.truncate_end(end);
        self.settle_producers(state, end, cut.producers, cut.folder.as_ref())?;
        state.in_order().map_err(io::Error::other)
    }

    /// Removes everything and begins again at `offset`, which must not be below the log end: after a snapshot was
    /// fetched that is ahead of the log.
    ///
    /// After a crash in the middle the log is the old one, and this is to be repeated. As a cut, it opens first what it
    /// needs: without a file descriptor nothing has changed.
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
        let folder = self.fs().open_dir(&self.folder).map_err(|error| self.file_error("open", &self.folder, error))?;
        let staged = self.stage_nothing_known(offset)?;
        state.segments.count_cut();
        self.renew_number();
        self.roll_to_nothing(&mut state, offset).inspect_err(|_| {
            // The next start removes it, too.
            let _ = self.fs().remove_file(&staged);
        })?;
        let snapshot = file(&self.folder, offset);
        let named = self.fs().rename(&staged, &snapshot).and_then(|()| folder.sync());
        named.map_err(|error| self.fail("rename", &snapshot, error))?;
        state.segments.drop_sealed();
        state.unsynced.settled(|_| true);
        state.log_start = offset;
        state.epochs.truncate_end(Offset::ZERO);
        state.cleaned_to = None;
        self.journal
            .delete_before_with(segment_base(offset), &|| folder.sync())
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

    /// Writes a snapshot of no producers, durably, that has not got its name yet.
    fn stage_nothing_known(&self, offset: Offset) -> Result<PathBuf, StorageError> {
        let path = self.file(offset, &format!("{}.tmp", names::PRODUCER_SNAPSHOT));
        let bytes = producer_snapshot::encode(&Producers::starting_at(offset).snapshot());
        let write = || {
            let file = self.fs().open(&path, &OpenOptions::create_empty())?;
            file.write_all_at(&bytes, 0)?;
            file.sync_data()
        };
        write().map_err(|error| self.file_error("write", &path, error))?;
        Ok(path)
    }

    /// Begins a segment at `offset` for a log of which nothing is known. If it fails nothing has changed.
    fn roll_to_nothing(&self, state: &mut LogState, offset: Offset) -> Result<(), StorageError> {
        // At this offset no producer is known. The roll needs no snapshot of that.
        let mut snapshots = Snapshots::default();
        snapshots.settled_at(offset);
        let end = std::mem::replace(&mut state.next_offset, offset);
        let producers = std::mem::replace(&mut state.producers, Producers::starting_at(offset));
        let snapshots = std::mem::replace(&mut state.snapshots, snapshots);
        self.roll(state, offset).inspect_err(|_| {
            (state.next_offset, state.producers, state.snapshots) = (end, producers, snapshots);
        })
    }
}
