//! Opening: finds the segments, checks how far they are valid, and cuts the rest.
//!
//! ```text
//!    trusted, not read │ scanned                    │ cut │ parked
//!   ───────────────────┼────────────────────────────┼─────┼──────────────
//!                  checkpoint                 last whole entry   later segments
//! ```
//! Recovery parks later segments *before* the cut: a crash between the two must not leave a segment that ends cleanly
//! in front of a segment that does not follow it. If a segment begins before the end of the previous one, recovery
//! parks only that segment. Recovery keeps the cut bytes next to their segment (`kept_tail.rs`), unless they are only
//! zeros.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use mainstem_env::{Fs, OpenOptions};

use crate::deleted_names::DELETED_SUFFIX;
use crate::kept_tail::{Tail, free_name};
use crate::next_segment::prepared_name;
use crate::scan::scan_segment;
use crate::segment::Segment;
use crate::{
    EntryScanner, JournalHost, JournalOptions, Location, OpenError, RecoverFrom, ScanEnd, ScanOutcome, SegmentBase,
};

/// What recovery found and did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RecoveryReport {
    /// Segments that were scanned, and how many entries and bytes in them were whole and valid.
    pub segments_scanned: u64,
    pub entries: u64,
    pub bytes_scanned: u64,
    /// The bytes that were cut off.
    pub cut: Option<Cut>,
    /// What was set aside under these names: segments that do not follow from what is before them, and bytes that were
    /// cut off.
    pub parked: Vec<PathBuf>,
    /// Files of earlier deletions that were unlinked.
    pub deleted_files_removed: u64,
    /// The journal is shorter than the checkpoint says: bytes that were durable are gone.
    pub shorter_than_checkpoint: bool,
    pub elapsed: Duration,
}

/// Bytes that recovery cut off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cut {
    pub at: Location,
    pub bytes: u64,
    pub reason: ScanEnd,
}

impl RecoveryReport {
    /// Whether something was repaired or is missing.
    pub fn found_damage(&self) -> bool {
        self.cut.is_some() || !self.parked.is_empty() || self.shorter_than_checkpoint
    }
}

impl fmt::Display for RecoveryReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "scanned {} bytes, {} entries in {} segments; ",
            self.bytes_scanned, self.entries, self.segments_scanned
        )?;
        match &self.cut {
            Some(cut) => write!(f, "cut {} bytes at {} ({})", cut.bytes, cut.at, reason(cut.reason))?,
            None => f.write_str("cut nothing")?,
        }
        if !self.parked.is_empty() {
            write!(f, "; set aside {} files, the first as {}", self.parked.len(), self.parked[0].display())?;
        }
        if self.shorter_than_checkpoint {
            f.write_str("; SHORTER THAN ITS CHECKPOINT, durable data is missing")?;
        }
        write!(f, "; {} ms", self.elapsed.as_millis())
    }
}

fn reason(end: ScanEnd) -> &'static str {
    match end {
        ScanEnd::Whole => "nothing follows",
        ScanEnd::Torn => "torn entry",
        ScanEnd::Corrupt { reason } => reason,
        ScanEnd::Gap => "gap",
    }
}

/// A journal after recovery.
pub(crate) struct Recovered {
    pub(crate) segments: Vec<Arc<Segment>>,
    /// The end, durable. `None`: no segment.
    pub(crate) end: Option<Location>,
    pub(crate) report: RecoveryReport,
}

pub(crate) fn recover(
    host: &JournalHost,
    dir: &Path,
    options: &JournalOptions,
    from: RecoverFrom,
    scanner: &mut dyn EntryScanner,
) -> Result<Recovered, OpenError> {
    let start = host.clock.monotonic();
    let mut recovery =
        Recovery { host, fs: host.fs.as_ref(), dir, options, bases: Vec::new(), report: RecoveryReport::default() };
    recovery.list()?;
    let end = match from {
        RecoverFrom::Clean => recovery.trust()?,
        RecoverFrom::Checkpoint(checkpoint) => recovery.scan_from(Some(checkpoint), scanner)?,
        RecoverFrom::Start => recovery.scan_from(None, scanner)?,
    };
    let segments: Vec<_> = recovery.bases.iter().map(|base| Arc::new(Segment::found(*base))).collect();
    if let (Some(last), Some(end)) = (segments.last(), end) {
        last.set_len(end.position);
    }
    let mut report = recovery.report;
    report.elapsed = host.clock.monotonic().saturating_sub(start);
    Ok(Recovered { segments, end, report })
}

struct Recovery<'a> {
    host: &'a JournalHost,
    fs: &'a dyn Fs,
    dir: &'a Path,
    options: &'a JournalOptions,
    bases: Vec<SegmentBase>,
    report: RecoveryReport,
}

impl Recovery<'_> {
    /// Finds the segments, and unlinks files that were deleted before.
    fn list(&mut self) -> Result<(), OpenError> {
        let directory = |source| OpenError::Directory { dir: self.dir.to_path_buf(), source };
        let entries = match self.fs.read_dir(self.dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.fs.create_dir_all_synced(self.dir).map_err(directory)?;
                Vec::new()
            }
            entries => entries.map_err(directory)?,
        };
        let deleted_suffix = format!("{}{DELETED_SUFFIX}", self.options.suffix);
        let prepared = prepared_name(self.options.suffix);
        for entry in entries.iter().filter(|entry| !entry.is_dir) {
            let Some(name) = entry.name.to_str() else { continue };
            if let Some(base) = Segment::parse_name(name, self.options.suffix) {
                self.bases.push(base);
            } else if Segment::parse_name(name, &deleted_suffix).is_some() || name == prepared {
                // A leftover costs space only; the next start tries again.
                self.report.deleted_files_removed += u64::from(self.fs.remove_file(&self.dir.join(name)).is_ok());
            }
        }
        self.bases.sort_unstable();
        Ok(())
    }

    /// After a clean close: the end is where the last file ends.
    fn trust(&self) -> Result<Option<Location>, OpenError> {
        self.bases.last().map(|base| Ok(Location::new(*base, self.len(*base)?))).transpose()
    }

    fn scan_from(
        &mut self,
        checkpoint: Option<Location>,
        scanner: &mut dyn EntryScanner,
    ) -> Result<Option<Location>, OpenError> {
        let Some(last) = self.bases.last().copied() else {
            self.report.shorter_than_checkpoint = checkpoint.is_some_and(|checkpoint| checkpoint.position > 0);
            return Ok(None);
        };
        let end = Location::new(last, self.len(last)?);
        if checkpoint == Some(end) {
            return Ok(Some(end));
        }
        // Without a checkpoint nothing is known to be durable, not even the name of an empty segment at zero.
        let (first, position) = match checkpoint {
            Some(checkpoint) => self.first_to_scan(checkpoint, end)?,
            None => (0, 0),
        };
        let mut reached = Location::new(self.bases[first], position);
        let mut index = first;
        while index < self.bases.len() {
            if self.host.is_stopped() {
                return Err(OpenError::Stopped { dir: self.dir.to_path_buf() });
            }
            let start = Location::new(self.bases[index], if index == first { position } else { 0 });
            let follows = scanner.begin_segment(start);
            if !follows && index > first {
                let base = self.bases.remove(index);
                self.park(&[base])?;
                continue;
            }
            let len = self.len(start.segment)?;
            let outcome = self.scan_one(start, len, scanner)?;
            reached = outcome.end;
            if outcome.reason != ScanEnd::Whole {
                let later = self.bases.split_off(index + 1);
                self.park(&later)?;
                self.keep_tail(reached, len, outcome.reason)?;
                self.report.cut = Some(Cut { at: reached, bytes: len - reached.position, reason: outcome.reason });
            }
            self.settle(reached, len)?;
            index += 1;
        }
        // The names of the scanned segments may be in memory only: after a killed process nothing else made them
        // durable.
        let synced = self.fs.sync_dir(self.dir);
        synced.map_err(|source| self.repair_error(self.dir.to_path_buf(), "sync of the directory", source))?;
        Ok(Some(reached))
    }

    /// The index of the segment where the scan begins, and where in it.
    fn first_to_scan(&mut self, checkpoint: Location, end: Location) -> Result<(usize, u64), OpenError> {
        self.report.shorter_than_checkpoint = checkpoint > end;
        match self.bases.binary_search(&checkpoint.segment) {
            Ok(index) if checkpoint.position <= self.len(checkpoint.segment)? => Ok((index, checkpoint.position)),
            // Where entries begin is known at the start of the segment only.
            Ok(index) => {
                self.report.shorter_than_checkpoint = true;
                Ok((index, 0))
            }
            Err(index) => Ok((index.min(self.bases.len() - 1), 0)),
        }
    }

    fn scan_one(
        &mut self,
        start: Location,
        len: u64,
        scanner: &mut dyn EntryScanner,
    ) -> Result<ScanOutcome, OpenError> {
        let path = self.path(start.segment);
        let file = self.fs.open(&path, &OpenOptions::read());
        let outcome =
            file.and_then(|file| scan_segment(file.as_ref(), start, len, self.options.max_entry_bytes, scanner));
        let outcome = outcome.map_err(|source| OpenError::Read { path, source })?;
        self.report.segments_scanned += 1;
        self.report.entries += outcome.entries;
        self.report.bytes_scanned += outcome.bytes;
        Ok(outcome)
    }

    /// Cuts what follows the last whole entry and makes what is before it durable: after a killed process it may be in
    /// memory only, and everybody takes it for durable from now on.
    fn settle(&self, end: Location, len: u64) -> Result<(), OpenError> {
        let path = self.path(end.segment);
        let settled = self.fs.open(&path, &OpenOptions::read_write()).and_then(|file| {
            if end.position < len {
                file.set_len(end.position)?;
            }
            file.sync_data()
        });
        settled.map_err(|source| self.repair_error(path, "cut and sync", source))
    }

    /// Keeps what is about to be cut in a file of its own, durably. A torn entry may go without that where there is no
    /// room.
    fn keep_tail(&mut self, from: Location, len: u64, reason: ScanEnd) -> Result<(), OpenError> {
        let path = self.path(from.segment);
        let tail = Tail { fs: self.fs, dir: self.dir, path: &path, from: from.position, len };
        match tail.keep(reason == ScanEnd::Torn) {
            Ok(kept) => self.report.parked.extend(kept),
            Err(source) => return Err(self.repair_error(path, "keeping what is to be cut off", source)),
        }
        Ok(())
    }

    /// Sets segments aside, durably.
    fn park(&mut self, parked: &[SegmentBase]) -> Result<(), OpenError> {
        for base in parked {
            let path = self.path(*base);
            if self.len(*base)? == 0 {
                // Its name outlived its bytes; there is nothing to keep.
                let removed = self.fs.remove_file(&path);
                removed.map_err(|source| self.repair_error(path, "removing an empty segment", source))?;
                continue;
            }
            let to = free_name(self.fs, &path).and_then(|to| self.fs.rename(&path, &to).map(|()| to));
            let to = to.map_err(|source| self.repair_error(path, "parking", source))?;
            self.report.parked.push(to);
        }
        if !parked.is_empty() {
            let synced = self.fs.sync_dir(self.dir);
            synced.map_err(|source| self.repair_error(self.dir.to_path_buf(), "sync of the directory", source))?;
        }
        Ok(())
    }

    fn len(&self, base: SegmentBase) -> Result<u64, OpenError> {
        let path = self.path(base);
        let found = self.fs.metadata(&path).and_then(|found| found.ok_or(io::ErrorKind::NotFound.into()));
        found.map(|metadata| metadata.len).map_err(|source| OpenError::Read { path, source })
    }

    fn path(&self, base: SegmentBase) -> PathBuf {
        Segment::path(self.dir, base, self.options.suffix)
    }

    fn repair_error(&self, path: PathBuf, operation: &'static str, source: io::Error) -> OpenError {
        OpenError::Repair { path, operation, source }
    }
}
