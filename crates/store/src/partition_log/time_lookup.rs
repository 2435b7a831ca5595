//! Finding records by time, and the transactions that a read overlaps.

use super::headers::Step;
use super::look::Disk;
use super::span::{Region, Span};
use super::{PartitionLog, segment_base};
use crate::error::ReadError;
use crate::formats::names;
use crate::formats::time_index::TimeIndexEntry;
use crate::formats::transaction_index::{self, AbortedTransaction};
use crate::log_types::TimestampOffset;
use crate::views::index_file;
use mainstem_journal::Location;
use mainstem_record::{BatchHeader, BatchView, Record};
use mainstem_types::{Offset, TimestampMs};

/// The most bytes that the decompressed records of a batch may take in a look-up.
const DECOMPRESSED_BYTES_MAX: usize = 1 << 30;

/// A segment to look into.
#[derive(Debug, Clone, Copy)]
struct Place {
    base: Offset,
    end: u64,
    /// The base of the next segment, or the log end.
    next: Offset,
    largest_time_ms: Option<i64>,
}

impl PartitionLog {
    /// The first record with a timestamp at or above `target`, from the log start up to `upper` (exclusive).
    pub fn find_by_time(&self, target: TimestampMs, upper: Offset) -> Result<Option<TimestampOffset>, ReadError> {
        self.unmixed(|| self.find_by_time_once(target, upper))
    }

    fn find_by_time_once(&self, target: TimestampMs, upper: Offset) -> Result<Option<TimestampOffset>, ReadError> {
        let log_start = self.log_start();
        for place in self.places(log_start)? {
            if place.base >= upper || place.largest_time_ms.is_none_or(|largest| largest < target.0) {
                continue;
            }
            if let Some(found) = self.find_in_segment(&place, target, log_start)? {
                // Offsets ascend: if this one is too far, every later one is.
                return Ok(Some(found).filter(|found| found.offset < upper));
            }
        }
        Ok(None)
    }

    /// The first record that has the largest timestamp (ListOffsets -3) of those from the log start up to `upper`
    /// (exclusive).
    pub fn find_max_timestamp(&self, upper: Offset) -> Result<Option<TimestampOffset>, ReadError> {
        self.unmixed(|| self.find_max_timestamp_once(upper))
    }

    fn find_max_timestamp_once(&self, upper: Offset) -> Result<Option<TimestampOffset>, ReadError> {
        let log_start = self.log_start();
        let places = self.places(log_start)?;
        let largest = places.iter().filter(|place| place.base < upper).filter_map(|p| p.largest_time_ms).max();
        let Some(largest) = largest else { return Ok(None) };
        if let Some(found) = self.find_by_time_once(TimestampMs(largest), upper)? {
            return Ok(Some(found));
        }
        // That one was deleted, or lies above.
        match self.newest_below(places, log_start, upper)? {
            Some(newest) => self.find_by_time_once(newest, upper),
            None => Ok(None),
        }
    }

    /// The largest timestamp of the records from the log start up to `upper`, by their batches.
    fn newest_below(
        &self,
        mut places: Vec<Place>,
        log_start: Offset,
        upper: Offset,
    ) -> Result<Option<TimestampMs>, ReadError> {
        places.sort_by_key(|place| std::cmp::Reverse(place.largest_time_ms));
        let mut newest: Option<TimestampMs> = None;
        for place in places.iter().filter(|place| place.base < upper) {
            if newest >= place.largest_time_ms.map(TimestampMs) {
                break;
            }
            let base = place.base;
            let mut in_part = Vec::new();
            self.in_each_region(place, |region| {
                let start = self.look(Disk::MayWait).locate_in(base, region, base.max(log_start))?;
                self.look(Disk::MayWait).walk(Span { base, start, end: region.end }, |position, header| {
                    if header.base_offset >= upper {
                        return Step::Stop;
                    }
                    if header.base_offset < log_start || header.next_offset() > upper {
                        in_part.push((position, *header));
                    } else {
                        newest = newest.max(Some(header.max_timestamp));
                    }
                    Step::Next
                })?;
                Ok(None::<()>)
            })?;
            // The first one and the last one at most; a batch that lies below as a whole has none of the records.
            for (position, header) in in_part.iter().filter(|(_, header)| header.last_offset() >= log_start) {
                self.look_into(base, *position, header, |record| {
                    if record.offset >= log_start && record.offset < upper {
                        newest = newest.max(Some(record.timestamp));
                    }
                    true
                })?;
            }
        }
        Ok(newest)
    }

    /// The segments from the one that holds `from` on.
    fn places(&self, from: Offset) -> Result<Vec<Place>, ReadError> {
        let (segments, active) = {
            let state = self.state.lock();
            if state.closed {
                return Err(ReadError::Closed { partition: self.partition.clone() });
            }
            let segments: Vec<_> = state.segments.starting_with(from).to_vec();
            let largest_time_ms = state.segments.active().largest_time.map(|largest| largest.timestamp_ms);
            let (base, end, next) = (state.segments.active().base, state.segments.end_position(), state.next_offset);
            (segments, Place { base, end, next, largest_time_ms })
        };
        let next_of = |at: usize| segments.get(at + 1).map_or(active.next, |segment| segment.base);
        let place = |(at, base): (usize, Offset)| {
            if base == active.base {
                return Ok(active);
            }
            let path = self.file(base, names::TIME_INDEX);
            let largest_time_ms = self.largest_time(base).map_err(|error| self.read_failed(path, error))?;
            let end = self.journal.segment_len(segment_base(base)).map_err(|error| self.journal_read_failed(error))?;
            Ok(Place { base, end, next: next_of(at), largest_time_ms })
        };
        segments.iter().enumerate().map(|(at, segment)| place((at, segment.base))).collect()
    }

    /// Looks into the parts of a segment that have no damage, one after the other, until something is found. Until
    /// damage is met, that is the whole segment.
    fn in_each_region<R>(
        &self,
        place: &Place,
        mut look: impl FnMut(Region) -> Result<Option<R>, ReadError>,
    ) -> Result<Option<R>, ReadError> {
        let Place { base, end, next, .. } = *place;
        let files = self.look(Disk::MayWait);
        let known = self.checked.survey(base, files.number);
        if known.is_none() {
            match look(Region { start: 0, end, next }) {
                Err(ReadError::Corrupt { .. }) => {}
                found => return found,
            }
        }
        let survey = match known {
            Some(survey) => survey,
            None => files.survey(base, end, next)?,
        };
        for region in survey.regions(end, next) {
            if let Some(found) = look(region)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    fn find_in_segment(
        &self,
        place: &Place,
        target: TimestampMs,
        log_start: Offset,
    ) -> Result<Option<TimestampOffset>, ReadError> {
        let base = place.base;
        // No record up to the offset of that entry is as late as the target.
        let path = self.file(base, names::TIME_INDEX);
        let below = |entry: &TimeIndexEntry| entry.timestamp_ms < target.0;
        let entry = self.time_entry(base, below).map_err(|error| self.read_failed(path, error))?;
        let from = entry.map_or(base, |entry| base.plus(entry.relative_offset.into())).max(log_start);
        self.in_each_region(place, |region| self.find_in_region(place, region, (from, target, log_start)))
    }

    fn find_in_region(
        &self,
        place: &Place,
        region: Region,
        (from, target, log_start): (Offset, TimestampMs, Offset),
    ) -> Result<Option<TimestampOffset>, ReadError> {
        let base = place.base;
        let look = self.look(Disk::MayWait);
        let mut start = look.locate_in(base, region, from)?;
        loop {
            let mut candidate: Option<(u64, BatchHeader)> = None;
            look.walk(Span { base, start, end: region.end }, |position, header| {
                if header.max_timestamp >= target {
                    candidate = Some((position, *header));
                    return Step::Stop;
                }
                Step::Next
            })?;
            let Some((position, header)) = candidate else { return Ok(None) };
            let batch_end = position + header.size_in_bytes() as u64;
            if self.checked.survey(base, look.number).is_none() {
                look.check(Span { base, start: position, end: place.end }, batch_end, place.next)?;
            }
            if let Some(found) = self.find_in_batch(base, position, &header, target, log_start)? {
                return Ok(Some(found));
            }
            start = batch_end;
        }
    }

    fn time_entry(
        &self,
        base: Offset,
        below: impl Fn(&TimeIndexEntry) -> bool,
    ) -> std::io::Result<Option<TimeIndexEntry>> {
        let in_file = {
            let state = self.state.lock();
            if state.segments.active().base == base {
                let times = &state.segments.active().times;
                let after = times.pending.partition_point(&below);
                if after > 0 {
                    return Ok(Some(times.pending[after - 1]));
                }
                Some(times.in_file)
            } else {
                None
            }
        };
        index_file::last_where(self.fs(), &self.view_file(base, names::TIME_INDEX), in_file, below)
    }

    fn find_in_batch(
        &self,
        base: Offset,
        position: u64,
        header: &BatchHeader,
        target: TimestampMs,
        log_start: Offset,
    ) -> Result<Option<TimestampOffset>, ReadError> {
        let mut found = None;
        self.look_into(base, position, header, |record| {
            if record.timestamp >= target && record.offset >= log_start {
                let (offset, timestamp) = (record.offset, record.timestamp);
                found = Some(TimestampOffset { offset, timestamp, leader_epoch: header.leader_epoch });
            }
            found.is_none()
        })?;
        Ok(found)
    }

    /// Shows the records of a batch, as long as it is answered that there is more to look for. A batch whose checksum
    /// is wrong has none that could be found.
    fn look_into(
        &self,
        base: Offset,
        position: u64,
        header: &BatchHeader,
        mut look: impl FnMut(&Record<'_>) -> bool,
    ) -> Result<(), ReadError> {
        let mut bytes = vec![0; header.size_in_bytes()];
        let count = self.read_bytes(Location::new(segment_base(base), position), &mut bytes)?;
        let Some(view) = BatchView::parse(&bytes[..count]).ok().filter(BatchView::crc_is_valid) else { return Ok(()) };
        let corrupt = |_| self.corrupt(base, position);
        let mut scratch = Vec::new();
        for record in view.records(&mut scratch, DECOMPRESSED_BYTES_MAX).map_err(corrupt)? {
            if !look(&record.map_err(|_| self.corrupt(base, position))?) {
                break;
            }
        }
        Ok(())
    }

    /// As [`PartitionLog::aborted_transactions`], for threads that must not wait for the disk.
    pub fn aborted_transactions_nowait(&self, from: Offset) -> Result<Vec<AbortedTransaction>, ReadError> {
        let state = self.state.lock();
        let any = state.segments.starting_with(from).iter().any(|segment| segment.has_aborted);
        if any { Err(ReadError::WouldBlock) } else { Ok(Vec::new()) }
    }

    /// Aborted transactions that overlap `from..upper`, ascending by first offset.
    pub fn aborted_transactions(&self, from: Offset, upper: Offset) -> Result<Vec<AbortedTransaction>, ReadError> {
        self.unmixed(|| self.aborted_transactions_once(from, upper))
    }

    fn aborted_transactions_once(&self, from: Offset, upper: Offset) -> Result<Vec<AbortedTransaction>, ReadError> {
        let (segments, active, unwritten) = {
            let state = self.state.lock();
            let unwritten = state.unsynced.unwritten_aborted().to_vec();
            (state.segments.starting_with(from).to_vec(), state.segments.active().base, unwritten)
        };
        let mut found = Vec::new();
        for segment in segments.iter().filter(|segment| segment.has_aborted) {
            let path = self.view_file(segment.base, names::TRANSACTION_INDEX);
            let bytes = self.fs().read_if_present(&path).map_err(|error| self.read_failed(path, error))?;
            let mut bytes = bytes.unwrap_or_default();
            if segment.base == active {
                bytes.truncate(transaction_index::whole_entries(bytes.len() as u64) as usize);
            }
            let Ok(mut entries) = transaction_index::decode(&bytes) else {
                return Err(self.corrupt(segment.base, 0));
            };
            if segment.base == active {
                // Some may have been written since.
                let written = entries.last().map_or(Offset::NONE, |entry| entry.last_offset);
                entries.extend(unwritten.iter().filter(|entry| entry.last_offset > written));
            }
            for entry in entries {
                if entry.last_offset >= from && entry.first_offset < upper {
                    found.push(entry);
                }
                // Nothing that aborts later can have begun below this.
                if entry.last_stable_offset >= upper {
                    found.sort_unstable_by_key(|entry| entry.first_offset);
                    return Ok(found);
                }
            }
        }
        found.sort_unstable_by_key(|entry| entry.first_offset);
        Ok(found)
    }
}
