//! Recovery: which batches are whole, and the views they give.

use std::io;
use std::path::Path;

use super::active_index::ActiveIndex;
use crate::formats::names;
use crate::formats::transaction_index::{self, AbortedTransaction};
use crate::prepare::marker_of;
use crate::views::epochs::Epochs;
use crate::views::index_file;
use crate::views::producers::Producers;
use mainstem_env::Fs;
use mainstem_journal::{EntryScanner, Location, Scan};
use mainstem_record::{BatchHeader, BatchView, FramingError};
use mainstem_types::Offset;

/// Takes the files as they are: for journals that were closed cleanly.
pub(crate) struct NoScan;

impl EntryScanner for NoScan {
    fn begin_segment(&mut self, _: Location) -> bool {
        true
    }

    fn scan(&mut self, _: Location, bytes: &[u8]) -> Scan {
        Scan::Entry { len: bytes.len() }
    }
}

/// Checks batches in the order of the log, and makes the views of every segment it goes through.
pub(crate) struct RecoveryScanner<'a> {
    pub(crate) fs: &'a dyn Fs,
    pub(crate) folder: &'a Path,
    pub(crate) interval_bytes: u32,
    /// Segments may begin above the end of the one before: the log was compacted, and nobody knows how far.
    pub(crate) gaps_allowed: bool,
    /// Segments up to here were durable: a gap before them is no sign of a power cut.
    pub(crate) durable_before: Offset,
    pub(crate) next_offset: Offset,
    pub(crate) producers: Producers,
    pub(crate) epochs: Epochs,
    /// The views of the segment being scanned; at first, what is kept of the segment in the middle of which the scan
    /// begins.
    pub(crate) index: Option<ActiveIndex>,
    /// Aborted transactions of the segment being scanned.
    pub(crate) aborted: Vec<AbortedTransaction>,
    /// Segments that have some.
    pub(crate) segments_with_aborted: Vec<Offset>,
    /// Segments whose views were written.
    pub(crate) rebuilt: Vec<Offset>,
    pub(crate) error: Option<io::Error>,
}

impl RecoveryScanner<'_> {
    /// Writes the views of the segment that was scanned last.
    pub(crate) fn finish_segment(&mut self, sealed: bool) -> io::Result<()> {
        let Some(index) = &mut self.index else { return Ok(()) };
        if sealed {
            index.note_largest_time();
        }
        let path = |suffix| self.folder.join(names::segment_file(index.base, suffix));
        index_file::write(self.fs, &path(names::INDEX), index.offsets.in_file, &index.offsets.pending)?;
        index_file::write(self.fs, &path(names::TIME_INDEX), index.times.in_file, &index.times.pending)?;
        let transactions = path(names::TRANSACTION_INDEX);
        if self.aborted.is_empty() {
            super::listing::remove_if_present(self.fs, &transactions)?;
        } else {
            self.fs.atomic_write(&transactions, &transaction_index::encode(&self.aborted))?;
            self.segments_with_aborted.push(index.base);
        }
        self.aborted.clear();
        index.offsets.written();
        index.times.written();
        self.rebuilt.push(index.base);
        Ok(())
    }

    fn accept(&mut self, location: Location, view: &BatchView<'_>) {
        let header = view.header();
        if let Some(index) = &mut self.index {
            index.observe(header, location.position, self.interval_bytes);
        }
        self.epochs.assign(header.leader_epoch, header.base_offset);
        match marker_of(view).ok().flatten() {
            Some(end) => self.aborted.extend(self.producers.observe_marker(header, end)),
            None => self.producers.observe(header),
        }
        self.next_offset = header.next_offset();
    }
}

impl EntryScanner for RecoveryScanner<'_> {
    fn begin_segment(&mut self, start: Location) -> bool {
        let base = Offset(start.segment.0 as i64);
        let follows =
            base == self.next_offset || (base > self.next_offset && (self.gaps_allowed || base <= self.durable_before));
        let in_the_middle = self.index.as_ref().is_some_and(|index| index.base == base);
        if in_the_middle {
            return true;
        }
        if !follows && self.index.is_some() {
            // The journal parks this one. The segment before is the last, and is finished as such: once, because its
            // aborted transactions are let go of then.
            return false;
        }
        if let Err(error) = self.finish_segment(true) {
            self.error.get_or_insert(error);
        }
        self.index = Some(ActiveIndex::new(base));
        self.next_offset = self.next_offset.max(base);
        follows
    }

    fn scan(&mut self, location: Location, bytes: &[u8]) -> Scan {
        let view = match BatchView::parse(bytes) {
            Ok(view) => view,
            Err(FramingError::Partial { needed, .. }) => return Scan::Incomplete { needed },
            Err(FramingError::LengthTooSmall { .. }) => return Scan::Corrupt { reason: "a batch length below 49" },
            Err(FramingError::UnsupportedMagic { .. }) => return Scan::Corrupt { reason: "not a batch of format 2" },
        };
        let header = view.header();
        if let Err(reason) = check_order(header, self.next_offset, location) {
            return Scan::Corrupt { reason };
        }
        // The checksum does not cover the offset.
        if header.base_offset > self.next_offset.max(self.durable_before) && !self.gaps_allowed {
            return Scan::Corrupt { reason: "offsets are missing" };
        }
        if !view.crc_is_valid() {
            return Scan::Corrupt { reason: "a checksum does not match" };
        }
        self.accept(location, &view);
        Scan::Entry { len: view.size_in_bytes() }
    }
}

fn check_order(header: &BatchHeader, next_offset: Offset, location: Location) -> Result<(), &'static str> {
    if header.base_offset < next_offset {
        return Err("an offset goes back");
    }
    if header.last_offset_delta < 0 || header.last_offset().0 == i64::MAX {
        return Err("an offset delta is negative");
    }
    let relative = header.last_offset().0.saturating_sub(location.segment.0 as i64);
    if relative > i64::from(i32::MAX) { Err("an offset is out of reach of its segment") } else { Ok(()) }
}
