//! Which batches of a log fit together, as far as this process has looked.
//!
//! A batch's checksum does not cover its base offset. If a bit of it changed on the disk, its records would be served
//! under wrong offsets. The log therefore checks the headers of what was there when it was opened, once, before it
//! serves them. What this process appends needs no check.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::damage::{self, DamagedArea, SurveyedSegment};
use super::headers::Step;
use super::look::{Disk, LogLook};
use super::span::{Region, Span};
use super::{PartitionLog, SealedSegment, segment_base};
use crate::error::ReadError;
use crate::formats::{names, offset_index};
use mainstem_journal::Location;
use mainstem_types::Offset;
use parking_lot::Mutex;

/// The segments that were checked.
#[derive(Debug)]
pub(super) struct Checked {
    /// The active segment when the log was opened, and its end then.
    opened: (Offset, u64),
    /// By the base of an older segment.
    stretches: Mutex<BTreeMap<Offset, Stretch>>,
    /// By the base of a segment that has damage, with the number that the log had.
    surveys: Mutex<BTreeMap<Offset, (u64, Arc<Survey>)>>,
    /// There is one.
    is_damaged: AtomicBool,
}

/// The damaged areas of a segment, in order. Between them every batch may be served.
#[derive(Debug)]
pub(super) struct Survey {
    areas: Vec<DamagedArea>,
}

impl Survey {
    /// The region that holds an offset, or the first batch after it. `Err`: the offset lies in damage.
    pub(super) fn region_of(&self, offset: Offset, end: u64, next: Offset) -> Result<Region, DamagedArea> {
        let mut region = Region { start: 0, end, next };
        for area in &self.areas {
            if offset < area.first {
                return Ok(Region { end: area.start, next: area.first, ..region });
            }
            if offset < area.next {
                return Err(*area);
            }
            region.start = area.end;
        }
        Ok(region)
    }

    /// All parts without damage, of a segment that ends at `end`.
    pub(super) fn regions(&self, end: u64, next: Offset) -> Vec<Region> {
        let starts = std::iter::once(0).chain(self.areas.iter().map(|area| area.end));
        let ends = self.areas.iter().map(|area| (area.start, area.first)).chain([(end, next)]);
        let regions = starts.zip(ends).map(|(start, (end, next))| Region { start, end, next });
        regions.filter(|region| region.start < region.end).collect()
    }
}

/// Batches one behind the other whose offsets ascend.
#[derive(Debug, Clone, Copy)]
struct Stretch {
    /// The log's, when it was looked at: with another one the files are not the same.
    number: u64,
    from: u64,
    to: u64,
    next_offset: Offset,
}

impl Checked {
    pub(super) fn new(active: Offset, end: u64) -> Self {
        Checked {
            opened: (active, end),
            stretches: Mutex::default(),
            surveys: Mutex::default(),
            is_damaged: AtomicBool::new(false),
        }
    }

    /// The known damage in a segment.
    pub(super) fn survey(&self, base: Offset, number: u64) -> Option<Arc<Survey>> {
        if !self.is_damaged.load(Ordering::Acquire) {
            return None;
        }
        let surveys = self.surveys.lock();
        surveys.get(&base).filter(|(known, _)| *known == number).map(|(_, survey)| Arc::clone(survey))
    }

    fn is_ours(&self, base: Offset, position: u64) -> bool {
        (base, position) >= self.opened
    }
}

impl PartitionLog {
    /// Where a reader of a sealed segment goes on that met damage at `position`: the end of the segment, or where the
    /// next batch begins that may be served.
    pub(crate) fn behind_damage(&self, segment: &SealedSegment, position: u64) -> Result<u64, ReadError> {
        self.unmixed(|| {
            let look = self.look(Disk::MayWait);
            let survey = look.known_survey(segment.base, segment.bytes, segment.next)?;
            let holding = survey.areas.iter().find(|area| (area.start..area.end).contains(&position));
            if let Some(area) = holding {
                return Ok(area.end);
            }
            // Its neighbours say where it ends; only its checksum is wrong.
            let header = look.header_at(segment.base, position)?;
            Ok(header.map_or(segment.bytes, |header| position + header.size_in_bytes() as u64))
        })
    }

    /// The first offset behind the damage that holds `offset`; `offset` itself, if it lies in none.
    pub(super) fn offset_behind_damage(&self, offset: Offset) -> Result<Offset, ReadError> {
        self.unmixed(|| {
            let look = self.look(Disk::MayWait);
            let (base, next, active_end) = {
                let state = self.state.lock();
                let here = state.segments.starting_with(offset);
                let (base, next) = (here[0].base, here.get(1).map(|next| next.base));
                (base, next.unwrap_or(state.next_offset), next.is_none().then(|| state.segments.end_position()))
            };
            let end = active_end.map_or_else(|| look.segment_len(base), Ok)?;
            let survey = look.known_survey(base, end, next)?;
            let holding = survey.areas.iter().find(|area| (area.first..area.next).contains(&offset));
            Ok(holding.map_or(offset, |area| area.next))
        })
    }

    fn may_have_gaps(&self) -> bool {
        self.config.load().cleanup_compact || self.state.lock().cleaned_to.is_some()
    }
}

impl LogLook<'_> {
    /// Looks at the batches in `start..end` of a segment that ends at `span.end`; the next segment, or the log's end,
    /// is at `next`. If one of them does not follow from the one before, or the one behind does not follow from them,
    /// that is an error.
    pub(super) fn check(&self, span: Span, end: u64, next: Offset) -> Result<(), ReadError> {
        let (base, checked) = (span.base, &self.log.checked);
        if checked.is_ours(base, span.start) {
            return Ok(());
        }
        let known = checked.stretches.lock().get(&base).copied();
        let known = known.filter(|known| known.number == self.number && (known.from..=known.to).contains(&span.start));
        let begun = Stretch { number: self.number, from: span.start, to: span.start, next_offset: base };
        let mut stretch = known.unwrap_or(begun);
        if end <= stretch.to {
            return Ok(());
        }
        let mut wrong = None;
        self.walk(Span { base, start: stretch.to, end: span.end }, |position, header| {
            let follows = header.base_offset >= stretch.next_offset && header.last_offset_delta >= 0;
            if !follows || header.last_offset() >= next {
                wrong = Some(position);
                return Step::Stop;
            }
            if position >= end {
                return Step::Stop;
            }
            stretch.to = position + header.size_in_bytes() as u64;
            stretch.next_offset = header.next_offset();
            Step::Next
        })?;
        if let Some(position) = wrong {
            return Err(self.log.corrupt(base, position));
        }
        if stretch.to == span.end && stretch.next_offset < next && !self.log.may_have_gaps() {
            let (partition, from) = (&self.log.partition, stretch.next_offset);
            tracing::error!(%partition, "records {from} to {} are missing: a segment is gone, or its end", next.plus(-1));
        }
        checked.stretches.lock().insert(base, stretch);
        Ok(())
    }

    /// As [`LogLook::survey`], unless the segment was looked through before.
    fn known_survey(&self, base: Offset, end: u64, next: Offset) -> Result<Arc<Survey>, ReadError> {
        let known = self.log.checked.survey(base, self.number);
        known.map_or_else(|| self.survey(base, end, next), Ok)
    }

    /// A read met damage in a segment that ends at `end`, before the offset `next`: looks through all of it, once.
    /// Takes a read of each header of the segment.
    pub(super) fn survey(&self, base: Offset, end: u64, next: Offset) -> Result<Arc<Survey>, ReadError> {
        if self.disk == Disk::Never {
            return Err(ReadError::WouldBlock);
        }
        let log = self.log;
        let index = log.view_file(base, names::INDEX);
        let bytes = log.fs().read_if_present(&index).map_err(|error| log.read_failed(index, error))?;
        let slice = self.slice(Location::new(segment_base(base), 0), end)?;
        let segment = SurveyedSegment {
            file: slice.file.as_ref(),
            base,
            len: slice.len,
            next,
            may_have_gaps: log.may_have_gaps(),
            entries: &offset_index::decode(&bytes.unwrap_or_default()).entries,
        };
        let path = log.file(base, names::LOG);
        let areas = damage::survey(&segment).map_err(|error| log.read_failed(path.clone(), error))?;
        for DamagedArea { start, end, first, next } in &areas {
            let (partition, path) = (&log.partition, path.display());
            let lost = match first < next {
                true => format!("records {first} to {} cannot be read", next.plus(-1)),
                false => "no record is lost".to_owned(),
            };
            tracing::error!(%partition, "{path} is damaged from byte {start} to {end}: {lost}; all others can");
        }
        let survey = Arc::new(Survey { areas });
        log.checked.surveys.lock().insert(base, (self.number, Arc::clone(&survey)));
        log.checked.is_damaged.store(true, Ordering::Release);
        Ok(survey)
    }
}
