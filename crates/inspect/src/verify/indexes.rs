//! The indexes of a segment against its batches.
//!
//! An index is right if every entry is true and the index is not short. The broker writes an entry every
//! `index.interval.bytes`. A restart or another setting moves the places, so an entry need not be where it would be
//! now.

use std::path::{Path, PathBuf};

use mainstem_record::BatchHeader;
use mainstem_store::AbortedTransaction;
use mainstem_store::formats::offset_index::{self, OffsetIndexEntry};
use mainstem_store::formats::time_index::{self, TimeIndexEntry};
use mainstem_store::formats::{names, transaction_index};
use mainstem_store::rebuild::SegmentIndexes;
use mainstem_types::{Offset, TopicPartition};

use super::report::{About, Report};
use super::{Check, load, read_small};

/// A stretch of bytes without an entry is too long from so many intervals on.
const INTERVALS_MAX: u64 = 4;

pub(super) struct SegmentCheck<'a> {
    folder: &'a Path,
    partition: &'a TopicPartition,
    base: Offset,
    interval: u64,
    /// The files are complete: the stop was clean, or the segment was done long before.
    settled: bool,
    /// The largest timestamp has its entry: a Kafka does not close its metadata log so.
    pub(super) sealed: bool,
    /// Some bytes of the segment are no batches.
    pub(super) damaged: bool,
    rebuilt: SegmentIndexes,
    offsets: Entries<OffsetIndexEntry>,
    times: Entries<TimeIndexEntry>,
    aborted_in_file: Option<Vec<AbortedTransaction>>,
    aborted: Vec<AbortedTransaction>,
    /// The largest timestamp so far.
    newest_ms: i64,
    largest_batch: u64,
    /// The longest stretch of bytes between two entries.
    longest_stretch: u64,
    last_indexed: u64,
}

/// What an index file has, and how much of it was compared.
struct Entries<E> {
    path: PathBuf,
    is_there: bool,
    entries: Vec<E>,
    next: usize,
    told: bool,
}

impl<E: Copy> Entries<E> {
    fn due(&self) -> Option<E> {
        self.entries.get(self.next).copied().filter(|_| !self.told)
    }
}

impl<'a> SegmentCheck<'a> {
    pub(super) fn read(
        check: &mut Check<'_, '_, '_>,
        folder: &'a Path,
        partition: &'a TopicPartition,
        base: Offset,
        interval: u32,
        settled: bool,
    ) -> SegmentCheck<'a> {
        let about = About::partition(partition);
        let offsets = read_entries(check, folder, about, base, names::INDEX, settled, |bytes| {
            let content = offset_index::decode(bytes);
            (content.entries, content.damaged)
        });
        let times = read_entries(check, folder, about, base, names::TIME_INDEX, settled, |bytes| {
            let content = time_index::decode(bytes);
            (content.entries, content.damaged)
        });
        let transactions = folder.join(names::segment_file(base, names::TRANSACTION_INDEX));
        let aborted_in_file = load(check.fs, &transactions, about, check.report, transaction_index::decode);
        SegmentCheck {
            folder,
            partition,
            base,
            interval: interval.into(),
            settled,
            sealed: true,
            damaged: false,
            rebuilt: SegmentIndexes::new(base, interval),
            offsets,
            times,
            aborted_in_file,
            aborted: Vec::new(),
            newest_ms: -1,
            largest_batch: 0,
            longest_stretch: 0,
            last_indexed: 0,
        }
    }

    pub(super) fn batch(
        &mut self,
        report: &mut Report<'_, '_>,
        header: &BatchHeader,
        position: u64,
        aborted: Option<AbortedTransaction>,
    ) {
        self.rebuilt.observe(header, position);
        self.aborted.extend(aborted);
        self.newest_ms = self.newest_ms.max(header.max_timestamp.0);
        self.largest_batch = self.largest_batch.max(header.size_in_bytes() as u64);
        let relative = header.last_offset().0 - self.base.0;
        while let Some(entry) = self.offsets.due().filter(|entry| u64::from(entry.position) <= position) {
            let right = u64::from(entry.position) == position && i64::from(entry.relative_offset) == relative;
            if right {
                self.longest_stretch = self.longest_stretch.max(position - self.last_indexed);
                self.last_indexed = position;
            } else if !self.damaged {
                self.wrong_offset(entry, report);
            }
            self.offsets.next += 1;
        }
        while let Some(entry) = self.times.due().filter(|entry| i64::from(entry.relative_offset) <= relative) {
            if entry.timestamp_ms != self.newest_ms && !self.damaged {
                self.wrong_time(entry, report);
            }
            self.times.next += 1;
        }
    }

    fn wrong_offset(&mut self, entry: OffsetIndexEntry, report: &mut Report<'_, '_>) {
        self.offsets.told = true;
        let offset = self.base.plus(entry.relative_offset.into());
        let detail =
            format!("entry {}: no batch at byte {} ends with offset {offset}", self.offsets.next, entry.position);
        report.finding("index-wrong", About::partition(self.partition).at(&self.offsets.path), detail);
    }

    fn wrong_time(&mut self, entry: TimeIndexEntry, report: &mut Report<'_, '_>) {
        self.times.told = true;
        let offset = self.base.plus(entry.relative_offset.into());
        let detail = format!(
            "entry {}: {} is not the largest timestamp up to offset {offset}; {} is",
            self.times.next, entry.timestamp_ms, self.newest_ms
        );
        report.finding("index-wrong", About::partition(self.partition).at(&self.times.path), detail);
    }

    /// The segment was gone through. `incomplete`: batches before are missing.
    pub(super) fn finish(mut self, report: &mut Report<'_, '_>, len: u64, incomplete: bool) {
        if let (Some(entry), false) = (self.offsets.due(), self.damaged) {
            self.wrong_offset(entry, report);
        }
        if let (Some(entry), false) = (self.times.due(), self.damaged) {
            self.wrong_time(entry, report);
        }
        if !self.damaged && self.settled {
            self.check_length(report, len);
        }
        if !self.damaged && !incomplete {
            self.check_aborted(report);
        }
    }

    fn check_length(&mut self, report: &mut Report<'_, '_>, len: u64) {
        let about = About::partition(self.partition);
        let allowed = (INTERVALS_MAX * self.interval).max(2 * self.longest_stretch) + 2 * self.largest_batch;
        let due = self.rebuilt.offsets().len();
        // The same entries as would be made now, and some are lacking. A Kafka counts anew after a restart, so one may
        // be.
        let is_cut = self.rebuilt.offsets().starts_with(&self.offsets.entries) && due > self.offsets.entries.len() + 1;
        if !self.offsets.told && due > 0 && (is_cut || len - self.last_indexed > allowed) {
            let last = self.offsets.entries.last().map_or(0, |entry| i64::from(entry.relative_offset) + 1);
            let detail = if self.offsets.is_there {
                format!(
                    "the index has {} entries, and none for later offsets; a new index would have {due}",
                    self.offsets.next
                )
            } else {
                format!("a new index would have {due} entries")
            };
            let problem = if self.offsets.is_there { "index-short" } else { "index-missing" };
            let about = about.at(&self.offsets.path).offsets(self.base.0 + last, self.last_offset());
            report.finding(problem, about, detail);
        } else if !self.offsets.is_there {
            report.finding("index-missing", about.at(&self.offsets.path), "the next start rebuilds it");
        }
        self.rebuilt.seal();
        let newest = self.rebuilt.times().last().copied();
        if !self.times.is_there {
            report.finding("index-missing", about.at(&self.times.path), "the next start rebuilds it");
        } else if let Some(newest) = newest.filter(|_| self.sealed && !self.times.told)
            && self.times.entries.last().is_none_or(|last| last.timestamp_ms < newest.timestamp_ms)
        {
            let detail =
                format!("the index does not have the largest timestamp of the segment, {}", newest.timestamp_ms);
            report.finding("index-short", about.at(&self.times.path), detail);
        }
    }

    fn last_offset(&self) -> i64 {
        self.rebuilt.offsets().last().map_or(self.base.0, |last| self.base.0 + i64::from(last.relative_offset))
    }

    fn check_aborted(&self, report: &mut Report<'_, '_>) {
        let path = self.folder.join(names::segment_file(self.base, names::TRANSACTION_INDEX));
        let about = About::partition(self.partition).at(&path);
        let in_file = self.aborted_in_file.as_deref().unwrap_or_default();
        for due in &self.aborted {
            let found = in_file.iter().find(|one| one.last_offset == due.last_offset);
            let about = about.offsets(due.first_offset.0, due.last_offset.0);
            let missing = if self.aborted_in_file.is_some() { "aborted-wrong" } else { "index-missing" };
            match found {
                Some(found) if found.producer_id == due.producer_id && found.first_offset == due.first_offset => {}
                Some(found) => {
                    let detail =
                        format!("it says producer {} from offset {} on", found.producer_id, found.first_offset);
                    report.finding("aborted-wrong", about, detail);
                }
                None => report.finding(
                    missing,
                    about,
                    "the index lacks an aborted transaction: its records would be served",
                ),
            }
        }
    }
}

fn read_entries<E>(
    check: &mut Check<'_, '_, '_>,
    folder: &Path,
    about: About<'_>,
    base: Offset,
    suffix: &str,
    settled: bool,
    decode: impl FnOnce(&[u8]) -> (Vec<E>, bool),
) -> Entries<E> {
    let path = folder.join(names::segment_file(base, suffix));
    let mut found = Entries { path, is_there: false, entries: Vec::new(), next: 0, told: false };
    match read_small(check.fs, &found.path) {
        Ok(None) => {}
        Ok(Some(bytes)) => {
            check.report.summary.files += 1;
            check.report.summary.bytes += bytes.len() as u64;
            let (entries, damaged) = decode(&bytes);
            if damaged && settled {
                let detail = format!("what follows entry {} is neither an entry nor zeros", entries.len());
                check.report.finding("index-wrong", about.at(&found.path), detail);
                found.told = true;
            }
            (found.is_there, found.entries) = (true, entries);
        }
        Err(error) => {
            check.report.finding("file-unreadable", about.at(&found.path), format!("cannot be read: {error}"));
            (found.is_there, found.told) = (true, true);
        }
    }
    found
}
