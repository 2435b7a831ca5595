//! What lies in the folder of a partition, after the leftovers of interrupted work were dealt with.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use super::headers::{self, Step};
use crate::formats::names;
use mainstem_env::{Fs, OpenOptions};
use mainstem_types::Offset;

/// The end of temporary files of an atomic replacement.
const TEMPORARY: &str = ".tmp";

#[derive(Debug, Default)]
pub(crate) struct Listing {
    /// Base offsets of `.log` files, ascending.
    pub(crate) segments: Vec<Offset>,
    /// Offsets of producer snapshots, ascending.
    pub(crate) snapshots: Vec<Offset>,
    pub(crate) indexes: BTreeSet<Offset>,
    pub(crate) time_indexes: BTreeSet<Offset>,
    pub(crate) transaction_indexes: BTreeSet<Offset>,
}

impl Listing {
    pub(crate) fn read(fs: &dyn Fs, folder: &Path) -> io::Result<Listing> {
        let names = file_names(fs, folder)?;
        let leftover = |name: &&String| {
            [names::DELETED, names::CLEANED, names::SWAP, TEMPORARY].iter().any(|suffix| name.ends_with(suffix))
        };
        if names.iter().any(|name| leftover(&name)) {
            settle_leftovers(fs, folder, &names)?;
            return Ok(Listing::of(&file_names(fs, folder)?));
        }
        Ok(Listing::of(&names))
    }

    /// As [`Listing::read`], of a log that is open: leftovers are somebody's work.
    pub(crate) fn look(fs: &dyn Fs, folder: &Path) -> io::Result<Listing> {
        Ok(Listing::of(&file_names(fs, folder)?))
    }

    fn of(names: &[String]) -> Listing {
        let mut listing = Listing::default();
        for name in names {
            if let Some(base) = names::parse_segment_file(name, names::LOG) {
                listing.segments.push(base);
            } else if let Some(offset) = names::parse_segment_file(name, names::PRODUCER_SNAPSHOT) {
                listing.snapshots.push(offset);
            } else if let Some(base) = names::parse_segment_file(name, names::INDEX) {
                listing.indexes.insert(base);
            } else if let Some(base) = names::parse_segment_file(name, names::TIME_INDEX) {
                listing.time_indexes.insert(base);
            } else if let Some(base) = names::parse_segment_file(name, names::TRANSACTION_INDEX) {
                listing.transaction_indexes.insert(base);
            }
        }
        listing.segments.sort_unstable();
        listing.snapshots.sort_unstable();
        listing
    }

    /// Removes index files without a segment.
    pub(crate) fn remove_orphans(&self, fs: &dyn Fs, folder: &Path, segments: &[Offset]) -> io::Result<()> {
        let of_no_segment = |base: &&Offset| segments.binary_search(base).is_err();
        let sets = [
            (&self.indexes, names::INDEX),
            (&self.time_indexes, names::TIME_INDEX),
            (&self.transaction_indexes, names::TRANSACTION_INDEX),
        ];
        for (set, suffix) in sets {
            for base in set.iter().filter(of_no_segment) {
                remove_if_present(fs, &folder.join(names::segment_file(*base, suffix)))?;
            }
        }
        Ok(())
    }
}

fn file_names(fs: &dyn Fs, folder: &Path) -> io::Result<Vec<String>> {
    let entries = fs.read_dir(folder)?;
    Ok(entries.into_iter().filter(|entry| !entry.is_dir).filter_map(|entry| entry.name.into_string().ok()).collect())
}

/// Ends what a crash interrupted: a compaction that was about to swap its result in is finished if all of it had been
/// written (`.swap`), and undone if not (`.cleaned`). Everything that was on its way out goes.
fn settle_leftovers(fs: &dyn Fs, folder: &Path, all: &[String]) -> io::Result<()> {
    let incomplete_from = all.iter().filter_map(|name| name.strip_suffix(names::CLEANED).and_then(segment_of)).min();
    let undone = |name: &&String| {
        let swap = name.strip_suffix(names::SWAP).and_then(segment_of);
        swap.is_some_and(|base| incomplete_from.is_some_and(|from| base >= from))
    };
    if all.iter().any(|name| undone(&name)) {
        // First: without the `.cleaned` files beside them they would be taken for complete.
        all.iter().filter(undone).try_for_each(|name| remove_if_present(fs, &folder.join(name)))?;
        fs.sync_dir(folder)?;
    }
    for name in all {
        if [names::DELETED, names::CLEANED, TEMPORARY].iter().any(|suffix| name.ends_with(suffix)) {
            remove_if_present(fs, &folder.join(name))?;
        }
    }
    let kept = |base: Offset| incomplete_from.is_none_or(|from| base < from);
    let swaps: Vec<&str> = all.iter().filter_map(|name| name.strip_suffix(names::SWAP)).collect();
    let swaps: Vec<&str> = swaps.into_iter().filter(|name| segment_of(name).is_some_and(kept)).collect();
    for name in swaps.iter().filter(|name| name.ends_with(names::LOG)) {
        remove_covered(fs, folder, all, name)?;
    }
    // What a new segment covers is gone for good before the segment has its name: else a power cut could leave both.
    fs.sync_dir(folder)?;
    for name in swaps.iter().filter(|name| name.ends_with(names::LOG)) {
        fs.rename(&folder.join(format!("{name}{}", names::SWAP)), &folder.join(name))?;
    }
    for name in swaps.iter().filter(|name| !name.ends_with(names::LOG)) {
        fs.rename(&folder.join(format!("{name}{}", names::SWAP)), &folder.join(name))?;
    }
    fs.sync_dir(folder)
}

/// Removes all segments whose offsets the segment `<name>.swap` covers, save the one whose name it will get.
fn remove_covered(fs: &dyn Fs, folder: &Path, all: &[String], name: &str) -> io::Result<()> {
    let swap = folder.join(format!("{name}{}", names::SWAP));
    let Some(base) = segment_of(name) else { return Ok(()) };
    let file = fs.open(&swap, &OpenOptions::read())?;
    let mut next = base;
    headers::walk(file.as_ref(), 0, file.len()?, |_, header| {
        next = header.next_offset();
        Step::Next
    })?;
    for old in all.iter().filter(|old| !old.ends_with(names::SWAP)) {
        let covered = segment_of(old).is_some_and(|old| old >= base && old < next.max(base.plus(1)));
        if covered && !old.ends_with(names::PRODUCER_SNAPSHOT) && old.as_str() != name {
            remove_if_present(fs, &folder.join(old))?;
        }
    }
    Ok(())
}

/// The base offset of any file of a segment.
fn segment_of(name: &str) -> Option<Offset> {
    let suffixes = [names::LOG, names::INDEX, names::TIME_INDEX, names::TRANSACTION_INDEX, names::PRODUCER_SNAPSHOT];
    suffixes.iter().find_map(|suffix| names::parse_segment_file(name, suffix))
}

pub(crate) fn remove_if_present(fs: &dyn Fs, path: &Path) -> io::Result<()> {
    match fs.remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
