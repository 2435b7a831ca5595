//! Which snapshots of the producers' states a log has, and which of them are durable or may go. `snapshots.rs` writes
//! and removes them.

use std::path::Path;

use super::listing;
use crate::error::OpenError;
use crate::formats::{names, producer_snapshot};
use crate::small_file;
use crate::views::producers::Producers;
use mainstem_env::Fs;
use mainstem_types::Offset;

/// The snapshots of a log.
#[derive(Debug, Default)]
pub(crate) struct Snapshots {
    /// The youngest that can be read.
    pub(crate) newest: Option<Offset>,
    /// Not known to be durable.
    unsynced: Vec<Offset>,
    /// Those that were at no segment's base when they were taken, oldest first.
    strays: Vec<Offset>,
}

impl Snapshots {
    /// Sorts out what an opening found: `used` is the one that it began with.
    pub(crate) fn settle(
        fs: &dyn Fs,
        folder: &Path,
        found: &FoundSnapshots<'_>,
        durable_up_to: Option<Offset>,
    ) -> Result<Snapshots, OpenError> {
        let mut snapshots = Snapshots { newest: found.used, ..Snapshots::default() };
        let younger = |offset: &&Offset| **offset <= found.end && found.used.is_none_or(|used| **offset > used);
        for offset in found.listed.iter().rev().filter(younger) {
            if load(fs, folder, *offset)?.is_some() {
                snapshots.newest = Some(*offset);
                break;
            }
        }
        let mut above_end = false;
        for offset in found.listed {
            let of_segment = found.segments.binary_search(offset).is_ok();
            let useful = of_segment || Some(*offset) == snapshots.newest || Some(*offset) == found.used;
            if *offset > found.end || !useful {
                let path = file(folder, *offset);
                listing::remove_if_present(fs, &path).map_err(crate::error::io_error(&path))?;
                above_end |= *offset > found.end;
                continue;
            }
            if durable_up_to.is_none_or(|point| *offset > point) {
                snapshots.unsynced.push(*offset);
            }
            if !of_segment {
                snapshots.strays.push(*offset);
            }
        }
        if above_end {
            // Other batches will have these offsets: what a power cut brings back must not speak of them.
            fs.sync_dir(folder).map_err(crate::error::io_error(folder))?;
        }
        Ok(snapshots)
    }

    /// There is one, which is durable.
    pub(super) fn settled_at(&mut self, offset: Offset) {
        self.newest = Some(offset);
    }

    pub(super) fn taken(&mut self, offset: Offset, of_segment: bool) {
        self.newest = Some(offset);
        self.unsynced.retain(|known| *known != offset);
        self.unsynced.push(offset);
        if !of_segment {
            self.left_alone(offset);
        }
    }

    /// The segment that begins there is none any more; the snapshot stays.
    pub(super) fn left_alone(&mut self, offset: Offset) {
        self.strays.retain(|known| *known != offset);
        self.strays.push(offset);
    }

    /// Forgets those above `end`; `newest` is the youngest that is left.
    pub(super) fn cut(&mut self, end: Offset, newest: Option<Offset>) {
        self.newest = newest;
        self.unsynced.retain(|offset| *offset <= end);
        self.strays.retain(|offset| *offset <= end);
    }

    /// Those that are not known to be durable.
    pub(super) fn unsynced(&self) -> Vec<Offset> {
        self.unsynced.clone()
    }

    pub(super) fn synced(&mut self, offset: Offset) {
        self.unsynced.retain(|known| *known != offset);
    }

    /// All that were taken are durable.
    pub(super) fn all_synced(&mut self) {
        self.unsynced.clear();
    }

    /// Takes out of the list what may go, given the recovery point on the disk.
    pub(super) fn superseded(&mut self, recovery_point: Offset) -> Vec<Offset> {
        let durable = |offset: &Offset| *offset <= recovery_point && !self.unsynced.contains(offset);
        let Some(successor) = self.strays.iter().copied().chain(self.newest).filter(durable).max() else {
            return Vec::new();
        };
        let (gone, kept) = std::mem::take(&mut self.strays).into_iter().partition(|offset| *offset < successor);
        self.strays = kept;
        gone
    }
}

/// What an opening knows when it comes to the snapshots.
pub(crate) struct FoundSnapshots<'a> {
    /// Ascending.
    pub(crate) listed: &'a [Offset],
    /// Ascending.
    pub(crate) segments: &'a [Offset],
    pub(crate) end: Offset,
    /// The one with which the opening began.
    pub(crate) used: Option<Offset>,
}

/// The state that a snapshot holds; `None`: it is absent, or cannot be believed.
pub(crate) fn load(fs: &dyn Fs, folder: &Path, offset: Offset) -> Result<Option<Producers>, OpenError> {
    let entries = small_file::load(fs, &file(folder, offset), producer_snapshot::decode)?.content();
    Ok(entries.map(|entries| Producers::from_snapshot(&entries, offset)))
}

pub(super) fn file(folder: &Path, offset: Offset) -> std::path::PathBuf {
    folder.join(names::segment_file(offset, names::PRODUCER_SNAPSHOT))
}
