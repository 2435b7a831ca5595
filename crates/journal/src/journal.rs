//! The journal: its parts and their locks.
//!
//! Locks, in the order in which a thread may take them: `flush_order` (held across `fdatasync`; only flushes and cuts
//! take it) → `state` (held across the page-cache write of one append) → `segments`, `durable`, the tail cache (held
//! for a few instructions). Readers take only the last group, so they wait for no IO of another thread. The exception
//! are bytes that are only in memory: a reader takes `state` and writes them first.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use mainstem_env::File;
use parking_lot::{Mutex, MutexGuard, RwLock};

use crate::flush_status::FlushStatus;
use crate::next_segment::PreparedFiles;
use crate::segment::Segment;
use crate::tail_cache::TailCache;
use crate::unwritten::Unwritten;
use crate::{
    CloseError, DurabilityObserver, EntryScanner, JournalFailure, JournalHost, JournalOptions, Location, OpenError,
    RecoverFrom, RecoveryReport, SegmentBase,
};

/// A segmented append-only file of bytes. Every method takes `&self`; share it in an `Arc`.
#[derive(Debug)]
pub struct Journal {
    pub(crate) host: Arc<JournalHost>,
    pub(crate) dir: Box<Path>,
    pub(crate) suffix: &'static str,
    /// In order of their bases; the last is the active one.
    pub(crate) segments: RwLock<Vec<Arc<Segment>>>,
    pub(crate) state: Mutex<AppendState>,
    /// Held while one deleted file is unlinked.
    pub(crate) unlinking: Mutex<()>,
    pub(crate) flush_order: Mutex<()>,
    /// Everything before is durable. Meaningless while there is no segment.
    pub(crate) durable: Mutex<Location>,
    pub(crate) failure: OnceLock<Arc<JournalFailure>>,
    pub(crate) observer: OnceLock<Weak<dyn DurabilityObserver>>,
    /// Where the journal stands in the queue of the [`crate::Flusher`].
    pub(crate) flush_status: FlushStatus,
    /// The files of the next segment were asked for.
    pub(crate) next_asked: AtomicBool,
    /// No descriptor was left for the last sync, which was said.
    pub(crate) sync_waits: AtomicBool,
    /// See [`Journal::names_are_durable`].
    pub(crate) names_durable: AtomicBool,
    pub(crate) tail: TailCache,
}

/// What appends share.
#[derive(Debug)]
pub(crate) struct AppendState {
    pub(crate) options: JournalOptions,
    /// Where the next entry goes; `None` before the first segment.
    pub(crate) end: Option<Location>,
    /// The active segment, after the first append.
    pub(crate) active: Option<Arc<Segment>>,
    /// The directory holds names that are not durable yet.
    pub(crate) dir_dirty: bool,
    /// Files of the owner that a sync of the directory covers, too.
    pub(crate) new_files: &'static [&'static str],
    /// Up to which position of the active segment blocks are reserved.
    pub(crate) reserved_to: u64,
    /// The file system refused to reserve; it is not asked again for this segment.
    pub(crate) reserve_refused: bool,
    /// Up to which position of the active segment the system was told to begin writing.
    pub(crate) written_back_to: u64,
    pub(crate) closed: bool,
    /// Files of the next segment.
    pub(crate) prepared: Option<PreparedFiles>,
    /// What of the active segment is in memory alone. Absent until the first append to memory.
    pub(crate) unwritten: Option<Box<Unwritten>>,
    /// No descriptor was left to sync the directory after a segment was renamed for deletion.
    pub(crate) deletion_unsynced: bool,
    /// Renamed for deletion, to be unlinked by [`Journal::remove_deleted`].
    pub(crate) deleted: Vec<PathBuf>,
}

/// The active segment with its file, for one write.
#[derive(Debug)]
pub(crate) struct Active {
    pub(crate) segment: Arc<Segment>,
    pub(crate) file: Arc<dyn File>,
}

impl Journal {
    /// Opens the journal in `dir`, creates the directory if it is absent, and repairs the tail as `from` demands. A new
    /// journal has no segment: [`Journal::roll`] makes the first.
    pub fn open(
        host: &Arc<JournalHost>,
        dir: &Path,
        options: JournalOptions,
        from: RecoverFrom,
        scanner: &mut dyn EntryScanner,
    ) -> Result<(Journal, RecoveryReport), OpenError> {
        let recovered = crate::recovery::recover(host, dir, &options, from, scanner)?;
        let state = AppendState {
            options,
            end: recovered.end,
            active: None,
            dir_dirty: false,
            new_files: &[],
            reserved_to: 0,
            reserve_refused: false,
            written_back_to: recovered.end.map_or(0, |end| end.position),
            closed: false,
            prepared: None,
            unwritten: None,
            deletion_unsynced: false,
            deleted: Vec::new(),
        };
        let journal = Journal {
            host: Arc::clone(host),
            dir: dir.into(),
            suffix: options.suffix,
            segments: RwLock::new(recovered.segments),
            state: Mutex::new(state),
            flush_order: Mutex::new(()),
            unlinking: Mutex::new(()),
            durable: Mutex::new(recovered.end.unwrap_or_default()),
            failure: OnceLock::new(),
            observer: OnceLock::new(),
            flush_status: FlushStatus::default(),
            next_asked: AtomicBool::new(false),
            sync_waits: AtomicBool::new(false),
            names_durable: AtomicBool::new(true),
            tail: TailCache::default(),
        };
        Ok((journal, recovered.report))
    }

    /// The observer that hears what the [`crate::Flusher`] did. Can be set once; later calls change nothing.
    pub fn set_observer(&self, observer: Weak<dyn DurabilityObserver>) {
        // A second observer would leave the waiters of the first without an answer.
        let _ = self.observer.set(observer);
    }

    /// Changes the settings. The suffix cannot change.
    pub fn set_options(&self, options: JournalOptions) {
        self.state.lock().options = JournalOptions { suffix: self.suffix, ..options };
    }

    /// Somebody created files of this journal and did not sync the directory: the next flush does. `with` are files of
    /// the owner in it that no entry may be durable without: the next flush syncs those that are there, too.
    pub fn note_new_names(&self, with: &'static [&'static str]) {
        let mut state = self.state.lock();
        self.names_durable.store(false, Ordering::Release);
        state.dir_dirty = true;
        state.new_files = with;
    }

    pub fn options(&self) -> JournalOptions {
        self.state.lock().options
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Everything before this location is durable. `None` before the first segment.
    pub fn durable(&self) -> Option<Location> {
        let any = !self.segments.read().is_empty();
        any.then(|| *self.durable.lock())
    }

    /// The error that ended this journal, if one did.
    pub fn failure(&self) -> Option<Arc<JournalFailure>> {
        self.failure.get().cloned()
    }

    /// The first half of [`Journal::close`] for an owner that syncs the whole file system: refuses appends, and writes
    /// what is in memory alone.
    pub fn begin_close(&self) -> Result<(), CloseError> {
        let mut state = self.state.lock();
        state.closed = true;
        // Before the flush, which leaves out entries that the disk has no room for.
        self.write_out_locked(&mut state).map_err(|error| self.write_out_failure(&state, error))?;
        self.release_unwritten(&mut state);
        if state.prepared.take().is_some() {
            drop(state);
            self.remove_prepared();
        }
        Ok(())
    }

    /// The owner has synced the file system since [`Journal::begin_close`]: everything is durable.
    pub fn note_synced(&self) -> Result<(), CloseError> {
        let _order = self.flush_order.lock();
        let mut state = self.state.lock();
        let Some(end) = state.end.filter(|_| state.closed && self.failure().is_none()) else { return Ok(()) };
        state.dir_dirty = false;
        state.new_files = &[];
        for segment in self.segments.read().iter().filter(|segment| segment.take_unsynced()) {
            if let Some(len) = segment.known_len().filter(|_| segment.base < end.segment) {
                self.release_reserved_of(segment, len)?;
            }
        }
        let mut durable = self.durable.lock();
        *durable = end.max(*durable);
        Ok(())
    }

    /// Writes and makes everything durable, gives reserved space back and refuses later appends. Returns the end, which
    /// a later [`RecoverFrom::Checkpoint`] takes; after `Ok` the journal can be opened with [`RecoverFrom::Clean`].
    ///
    /// Dropping a journal without this is a crash to the next [`Journal::open`].
    pub fn close(&self) -> Result<Option<Location>, CloseError> {
        self.begin_close()?;
        let durable = self.flush()?;
        let state = self.state.lock();
        if let (Some(segment), Some(end)) = (&state.active, state.end) {
            self.release_reserved_of(segment, end.position)?;
        }
        drop(state);
        self.release_idle();
        Ok(durable)
    }

    fn release_reserved_of(&self, segment: &Arc<Segment>, len: u64) -> Result<(), CloseError> {
        if !segment.reserved.load(Ordering::Relaxed) {
            return Ok(());
        }
        let file = self.open_for_sync(segment)?;
        let released = self.release_reserved(segment, file.as_ref(), len);
        Ok(released.map_err(|source| self.fail("releasing space", segment.base, source))?)
    }

    /// Lets go of what an idle journal can do without: the tail cache, and open files whose bytes are durable.
    pub fn release_idle(&self) {
        self.release_tail();
        let state = self.state.lock();
        let durable = *self.durable.lock();
        let all = state.end.is_none_or(|end| end <= durable);
        for segment in self.segments.read().iter() {
            if all || segment.base < durable.segment {
                segment.close_file();
            }
        }
    }

    /// Frees the tail cache; the next append begins a new one.
    pub fn release_tail(&self) {
        self.tail.clear(&self.host.tail_budget);
    }

    /// Ends the journal with an error; the first error stays.
    pub(crate) fn fail(
        &self,
        operation: &'static str,
        segment: SegmentBase,
        source: std::io::Error,
    ) -> Arc<JournalFailure> {
        let failure = JournalFailure { dir: self.dir.to_path_buf(), segment, operation, source };
        Arc::clone(self.failure.get_or_init(|| Arc::new(failure)))
    }

    pub(crate) fn path(&self, base: SegmentBase) -> PathBuf {
        Segment::path(&self.dir, base, self.suffix)
    }

    /// The active segment with its file opened.
    pub(crate) fn active(&self, state: &mut MutexGuard<'_, AppendState>) -> std::io::Result<Option<Active>> {
        if state.active.is_none() {
            state.active = self.segments.read().last().cloned();
        }
        let Some(segment) = &state.active else { return Ok(None) };
        Ok(Some(Active { segment: Arc::clone(segment), file: self.open_file(segment)? }))
    }

    pub(crate) fn open_file(&self, segment: &Arc<Segment>) -> std::io::Result<Arc<dyn File>> {
        segment.file(&self.host, || self.path(segment.base))
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        self.tail.clear(&self.host.tail_budget);
        if let Some(unwritten) = self.state.get_mut().unwritten.take() {
            unwritten.free(&self.host.write_out.budget);
        }
    }
}
