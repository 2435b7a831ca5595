//! Making a journal durable.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use mainstem_env::{File, OpenOptions, is_out_of_descriptors};

use crate::segment::Segment;
use crate::{FlushError, Journal, JournalFailure, Location, SegmentBase};

/// Is told what the [`crate::Flusher`] did: one call after each round that a request caused, from a flusher thread,
/// with no lock of the journal held.
pub trait DurabilityObserver: Send + Sync {
    /// Everything before `up_to` is durable. Calls may overtake each other: the largest location counts.
    fn on_durable(&self, up_to: Location);

    /// Nothing more will become durable.
    fn on_failed(&self, failure: &Arc<JournalFailure>);
}

/// What one flush covers.
struct Round {
    target: Location,
    sync_dir: bool,
    new_files: &'static [&'static str],
    segments: Vec<Dirty>,
}

struct Dirty {
    segment: Arc<Segment>,
    /// Its length if it is full, so that its reserved space can be given back.
    full_len: Option<u64>,
}

impl Journal {
    /// Makes every append before the call durable, on the calling thread, and returns up to where. `None`: there is no
    /// segment.
    ///
    /// Where the disk is too full for what is in memory alone, that is not covered: the location says so. It is written
    /// when there is room, and if somebody asked for a flush meanwhile, synced.
    ///
    /// Where no file descriptor is left to open what is to be synced, nothing becomes durable and nothing is lost: the
    /// next flush covers it.
    ///
    /// Flushes of one journal run one after the other; appends go on meanwhile.
    pub fn flush(&self) -> Result<Option<Location>, FlushError> {
        let _order = self.flush_order.lock();
        if let Some(failure) = self.failure() {
            return Err(failure.into());
        }
        let Some(round) = self.begin_round()? else { return Ok(self.durable()) };
        if let Err(error) = self.sync_round(&round) {
            if let FlushError::Open { .. } = &error {
                self.put_round_back(&round);
                if !self.sync_waits.swap(true, Ordering::Relaxed) {
                    tracing::error!(
                        "journal {}: nothing that waits for a sync is acknowledged until there is a file descriptor (raise the limit of open files): {error}",
                        self.dir.display()
                    );
                }
            }
            return Err(error);
        }
        if self.sync_waits.swap(false, Ordering::Relaxed) {
            tracing::warn!(
                "journal {}: there is a file descriptor again, and everything is synced",
                self.dir.display()
            );
        }
        let mut durable = self.durable.lock();
        *durable = round.target.max(*durable);
        Ok(Some(*durable))
    }

    fn sync_round(&self, round: &Round) -> Result<(), FlushError> {
        let base = round.target.segment;
        // Before the entries, which mean nothing without them.
        for name in round.new_files {
            self.sync_new_file(name, base)?;
        }
        for dirty in &round.segments {
            self.sync_segment(dirty)?;
        }
        if round.sync_dir {
            let synced = self.host.fs.sync_dir(&self.dir);
            synced.map_err(|source| self.not_opened("sync of the directory", base, self.dir.to_path_buf(), source))?;
            self.names_durable.store(true, Ordering::Release);
        }
        Ok(())
    }

    /// Nothing of it counts as synced. Called with `flush_order` locked: no other round has begun meanwhile.
    fn put_round_back(&self, round: &Round) {
        let mut state = self.state.lock();
        round.segments.iter().for_each(|dirty| dirty.segment.note_write());
        state.dir_dirty |= round.sync_dir;
        if state.new_files.is_empty() {
            state.new_files = round.new_files;
        }
    }

    /// What an error in opening something for a sync means: for want of a descriptor a later flush tries again,
    /// everything else ends the journal.
    fn not_opened(&self, operation: &'static str, base: SegmentBase, path: PathBuf, source: io::Error) -> FlushError {
        match is_out_of_descriptors(&source) {
            true => FlushError::Open { path, source: Arc::new(source) },
            false => FlushError::Failed(self.fail(operation, base, source)),
        }
    }

    /// The range that is not durable at this moment; `None` if everything is durable.
    fn begin_round(&self) -> Result<Option<Round>, Arc<JournalFailure>> {
        let mut state = self.state.lock();
        let Some(target) = self.written_for_flush(&mut state)? else { return Ok(None) };
        let durable = *self.durable.lock();
        debug_assert!(durable <= target && Some(target) <= state.end, "{durable} ≤ {target} ≤ {:?}", state.end);
        let sync_dir = std::mem::take(&mut state.dir_dirty);
        let new_files = std::mem::take(&mut state.new_files);
        if target <= durable && !sync_dir {
            return Ok(None);
        }
        let segments = self.segments.read();
        let first = segments.partition_point(|segment| segment.base < durable.segment);
        let dirty = |segment: &Arc<Segment>| Dirty {
            segment: Arc::clone(segment),
            // The length of a full segment is known: it was appended to, or recovery looked at it.
            full_len: (segment.base < target.segment).then(|| segment.known_len()).flatten(),
        };
        // Appends wait meanwhile: what they write later is for the next round.
        let segments = segments[first..].iter().filter(|segment| segment.take_unsynced()).map(dirty).collect();
        Ok(Some(Round { target, sync_dir, new_files, segments }))
    }

    fn sync_new_file(&self, name: &str, base: SegmentBase) -> Result<(), FlushError> {
        let path = self.dir.join(name);
        match self.host.fs.open(&path, &OpenOptions::read_write()) {
            Ok(file) => Ok(file.sync_data().map_err(|source| self.fail("sync of a new file", base, source))?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(source) => Err(self.not_opened("opening a new file for sync", base, path, source)),
        }
    }

    fn sync_segment(&self, dirty: &Dirty) -> Result<(), FlushError> {
        let base = dirty.segment.base;
        let fail = |operation| move |source| self.fail(operation, base, source);
        let file = self.open_for_sync(&dirty.segment)?;
        if let Some(len) = dirty.full_len {
            self.release_reserved(&dirty.segment, file.as_ref(), len).map_err(fail("releasing space"))?;
        }
        Ok(file.sync_data().map_err(fail("sync"))?)
    }

    pub(crate) fn open_for_sync(&self, segment: &Arc<Segment>) -> Result<Arc<dyn File>, FlushError> {
        let (base, file) = (segment.base, self.open_file(segment));
        file.map_err(|source| self.not_opened("open for sync", base, self.path(base), source))
    }

    /// Where the next entry goes as readers see it. `None` before the first segment. Waits for nobody.
    pub fn end(&self) -> Option<Location> {
        let segments = self.segments.read();
        let last = segments.last()?;
        // The length of the last segment is always known: opening and rolling set it.
        Some(Location::new(last.base, last.known_len().unwrap_or(0)))
    }

    /// The base of the active segment.
    pub fn active_segment(&self) -> Option<SegmentBase> {
        self.segments.read().last().map(|segment| segment.base)
    }
}
