//! Making a journal durable.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use mainstem_env::OpenOptions;

use crate::segment::Segment;
use crate::{Journal, JournalFailure, Location, SegmentBase};

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
    /// Flushes of one journal run one after the other; appends go on meanwhile.
    pub fn flush(&self) -> Result<Option<Location>, Arc<JournalFailure>> {
        let _order = self.flush_order.lock();
        if let Some(failure) = self.failure() {
            return Err(failure);
        }
        let Some(round) = self.begin_round()? else { return Ok(self.durable()) };
        let fail = |source| self.fail("sync of the directory", round.target.segment, source);
        // Before the entries, which mean nothing without them.
        for name in round.new_files {
            self.sync_new_file(name).map_err(fail)?;
        }
        for dirty in &round.segments {
            self.sync_segment(dirty)?;
        }
        if round.sync_dir {
            self.host.fs.sync_dir(&self.dir).map_err(fail)?;
            self.names_durable.store(true, Ordering::Release);
        }
        let mut durable = self.durable.lock();
        *durable = round.target.max(*durable);
        Ok(Some(*durable))
    }

    /// What is not durable at this moment; `None` if everything is.
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

    fn sync_new_file(&self, name: &str) -> io::Result<()> {
        match self.host.fs.open(&self.dir.join(name), &OpenOptions::read_write()) {
            Ok(file) => file.sync_data(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn sync_segment(&self, dirty: &Dirty) -> Result<(), Arc<JournalFailure>> {
        let base = dirty.segment.base;
        let fail = |operation| move |source| self.fail(operation, base, source);
        let file = self.open_file(&dirty.segment).map_err(fail("open for sync"))?;
        if let Some(len) = dirty.full_len {
            self.release_reserved(&dirty.segment, file.as_ref(), len).map_err(fail("releasing space"))?;
        }
        file.sync_data().map_err(fail("sync"))
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
