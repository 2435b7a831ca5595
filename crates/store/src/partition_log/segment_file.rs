//! Rebuilds the views of a segment from its bytes, or from the parts that are left on the disk.

use std::io;
use std::path::Path;

use super::active_index::{ActiveIndex, IndexTail};
use super::headers::{self, Step, Walked};
use crate::formats::names;
use crate::formats::offset_index::OffsetIndexEntry;
use crate::formats::time_index::TimeIndexEntry;
use crate::views::epochs::Epochs;
use crate::views::index_file;
use crate::views::producers::Producers;
use mainstem_env::{File, Fs, Rng};
use mainstem_record::{BatchHeader, BatchView};
use mainstem_types::Offset;

/// Control batches are small; a larger one is not read for its marker.
const CONTROL_BYTES_MAX: usize = 64 << 10;

/// A segment file to make views of.
#[derive(Clone, Copy)]
pub(crate) struct SegmentFile<'a> {
    pub(crate) fs: &'a dyn Fs,
    pub(crate) folder: &'a Path,
    pub(crate) base: Offset,
    pub(crate) file: &'a dyn File,
    pub(crate) len: u64,
}

/// The views of a segment whose end was reached, and the offset after its last batch.
pub(crate) struct SegmentEnd {
    pub(crate) index: ActiveIndex,
    pub(crate) next_offset: Offset,
}

impl SegmentFile<'_> {
    fn path(&self, suffix: &str) -> std::path::PathBuf {
        self.folder.join(names::segment_file(self.base, suffix))
    }

    /// Goes from the last index entry to the end. `None`: index and bytes do not agree, or the last batch does not end
    /// where the file ends. Checks no checksum.
    pub(crate) fn load_end(&self, interval_bytes: u32) -> io::Result<Option<SegmentEnd>> {
        let offsets = index_file::tail::<OffsetIndexEntry>(self.fs, &self.path(names::INDEX))?;
        let times = index_file::tail::<TimeIndexEntry>(self.fs, &self.path(names::TIME_INDEX))?;
        // With one of them lost both are made again: entries of the two belong together.
        let (offsets, times) = offsets.zip(times).unwrap_or_default();
        let mut index = ActiveIndex::new(self.base);
        index.offsets = IndexTail::new(offsets.0, offsets.1);
        index.times = IndexTail::new(times.0, times.1);
        index.largest_time = times.1;
        let mut start = 0;
        if let Some(last) = offsets.1 {
            start = u64::from(last.position);
            let header = if start < self.len { headers::header_at(self.file, start)? } else { None };
            let agrees = header.is_some_and(|h| h.last_offset() == self.base.plus(last.relative_offset.into()));
            if !agrees {
                return Ok(None);
            }
        }
        let end = self.extend(index, start, interval_bytes)?;
        let within =
            |end: &SegmentEnd| times.1.is_none_or(|last| self.base.plus(last.relative_offset.into()) < end.next_offset);
        Ok(end.filter(within))
    }

    /// Makes the views from the first byte on.
    pub(crate) fn rebuild(&self, interval_bytes: u32) -> io::Result<Option<SegmentEnd>> {
        self.extend(ActiveIndex::new(self.base), 0, interval_bytes)
    }

    fn extend(&self, mut index: ActiveIndex, start: u64, interval_bytes: u32) -> io::Result<Option<SegmentEnd>> {
        let mut next_offset = self.base;
        let mut ordered = true;
        let walked = headers::walk(self.file, start, self.len, |position, header| {
            ordered = header.base_offset >= next_offset && header.last_offset_delta >= 0;
            if !ordered {
                return Step::Stop;
            }
            index.observe(header, position, interval_bytes);
            next_offset = header.next_offset();
            Step::Next
        })?;
        Ok((walked == Walked::Whole && ordered).then_some(SegmentEnd { index, next_offset }))
    }

    /// The position of the first batch whose last offset is `offset` or above, by the index file as far as it is right.
    /// `None`: the bytes on the way are damaged.
    pub(crate) fn locate(&self, offset: Offset) -> io::Result<Option<(u64, Option<BatchHeader>)>> {
        let relative = offset.0 - self.base.0;
        let holds = |entry: &OffsetIndexEntry| i64::from(entry.relative_offset) <= relative;
        let entry = index_file::last_where(self.fs, &self.path(names::INDEX), None, holds)?;
        let mut start = 0;
        if let Some(entry) = entry.filter(|entry| u64::from(entry.position) < self.len) {
            let header = headers::header_at(self.file, entry.position.into())?;
            if header.is_some_and(|h| h.last_offset() == self.base.plus(entry.relative_offset.into())) {
                start = entry.position.into();
            }
        }
        let mut found = (self.len, None);
        let walked = headers::walk(self.file, start, self.len, |position, header| {
            if header.last_offset() >= offset {
                found = (position, Some(*header));
                return Step::Stop;
            }
            Step::Next
        })?;
        Ok((walked == Walked::Whole).then_some(found))
    }

    /// The index of the batches before `position`, which is where `offset` is.
    pub(crate) fn index_before(&self, position: u64, offset: Offset, interval_bytes: u32) -> io::Result<ActiveIndex> {
        let mut index = ActiveIndex::new(self.base);
        let read = |suffix| self.fs.read_if_present(&self.path(suffix));
        if let Some(bytes) = read(names::INDEX)? {
            let entries = crate::formats::offset_index::decode(&bytes).entries;
            let kept = entries.partition_point(|entry| u64::from(entry.position) < position);
            let last = kept.checked_sub(1).map(|last| entries[last]);
            index.offsets = IndexTail::new(kept, last);
        }
        if let Some(bytes) = read(names::TIME_INDEX)? {
            let entries = crate::formats::time_index::decode(&bytes).entries;
            let kept = entries.partition_point(|entry| self.base.plus(entry.relative_offset.into()) < offset);
            let last = kept.checked_sub(1).map(|last| entries[last]);
            index.times = IndexTail::new(kept, last);
            index.largest_time = last;
        }
        // Entries that were in memory alone when the process ended are made again.
        index.bytes_since_entry = 0;
        let start = index.offsets.last.map_or(0, |last| u64::from(last.position));
        headers::walk(self.file, start, position, |at, header| {
            index.observe(header, at, interval_bytes);
            Step::Next
        })?;
        Ok(index)
    }

    /// Writes both index files as the index has them. Not durable.
    pub(crate) fn write_index(&self, index: &mut ActiveIndex) -> io::Result<()> {
        index_file::write(self.fs, &self.path(names::INDEX), index.offsets.in_file, &index.offsets.pending)?;
        index_file::write(self.fs, &self.path(names::TIME_INDEX), index.times.in_file, &index.times.pending)?;
        index.offsets.written();
        index.times.written();
        Ok(())
    }

    /// Shows the batches of offsets `from..upper` to the producers' state.
    pub(crate) fn replay(&self, producers: &mut Producers, from: Offset, upper: Offset) -> io::Result<()> {
        let Some((start, _)) = self.locate(from)? else { return Ok(()) };
        let mut failed = Ok(());
        headers::walk(self.file, start, self.len, |position, header| {
            if header.base_offset >= upper {
                return Step::Stop;
            }
            failed = observe(self.file, position, header, producers);
            if failed.is_ok() { Step::Next } else { Step::Stop }
        })?;
        failed
    }

    /// Notes the leader epochs of the batches of offsets `from..upper`.
    pub(crate) fn note_epochs(&self, epochs: &mut Epochs, from: Offset, upper: Offset) -> io::Result<()> {
        let Some((start, _)) = self.locate(from)? else { return Ok(()) };
        headers::walk(self.file, start, self.len, |_, header| {
            if header.base_offset >= upper {
                return Step::Stop;
            }
            epochs.assign(header.leader_epoch, header.base_offset);
            Step::Next
        })?;
        Ok(())
    }
}

/// Shows one batch to the producers' state; reads the record of a control batch.
fn observe(file: &dyn File, position: u64, header: &BatchHeader, producers: &mut Producers) -> io::Result<()> {
    let size = header.size_in_bytes();
    if header.attributes.is_control() && header.has_producer_id() && size <= CONTROL_BYTES_MAX {
        let mut bytes = vec![0; size];
        file.read_exact_at(&mut bytes, position)?;
        let marker = BatchView::parse(&bytes).ok().and_then(|view| crate::prepare::marker_of(&view).ok()).flatten();
        if let Some(end) = marker {
            producers.observe_marker(header, end);
            return Ok(());
        }
    }
    producers.observe(header);
    Ok(())
}

/// A random number in `0..limit`; 0 where the system has no randomness to give: nothing depends on it being hard to
/// guess.
pub(crate) fn random_below(rng: &dyn Rng, limit: i64) -> i64 {
    if limit <= 0 { 0 } else { rng.next_u64().map_or(0, |number| (number % limit as u64) as i64) }
}
