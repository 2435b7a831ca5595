//! Reading whole batches.

use super::checked::Survey;
use super::headers::Step;
use super::look::{Disk, LogLook};
use super::span::{Region, Span};
use super::{PartitionLog, segment_base};
use crate::error::ReadError;
use crate::log_types::{ReadChunk, ReadRequest, Reading};
use mainstem_journal::Location;
use mainstem_types::Offset;

/// Answers up to this size are copied out of the tail cache when it has them; larger ones are cheaper with sendfile.
const TAIL_READ_BYTES_MAX: u64 = 64 << 10;
/// Answers up to this size are copied wherever they come from.
const COPIED_BYTES_MAX: u64 = 4 << 10;

/// The segment that a read looks into.
#[derive(Debug, Clone, Copy)]
struct Place {
    base: Offset,
    /// Exclusive; a batch ends there.
    end: u64,
    /// The base of the next segment, or the log end.
    next: Offset,
    /// Positions of the offsets `from` and `upper`, when they are recent appends.
    from_position: Option<u64>,
    upper_position: Option<u64>,
}

impl PartitionLog {
    /// Whole batches from `from` on, of one segment. Empty at the log end and at or above `upper`. Does not read
    /// payload bytes.
    ///
    /// May wait for the disk: for index entries, batch headers, and files that are not open.
    pub fn read(&self, request: &ReadRequest) -> Result<Reading, ReadError> {
        self.unmixed(|| self.look(Disk::MayWait).read(request))
    }

    /// As [`PartitionLog::read`], for threads that must not wait for the disk: [`ReadError::WouldBlock`] if the answer
    /// cannot be given from memory. Where the system cannot say what is in memory, that is the answer far from the
    /// tail.
    pub fn read_nowait(&self, request: &ReadRequest) -> Result<Reading, ReadError> {
        self.unmixed(|| self.look(Disk::Never).read(request))
    }
}

impl LogLook<'_> {
    fn read(&self, request: &ReadRequest) -> Result<Reading, ReadError> {
        let mut from = request.from;
        loop {
            let read = match self.plan(from, request) {
                Ok(None) => return Ok(Reading::default()),
                Ok(Some(place)) => self.read_segment(&place, from, request).map(|read| read.ok_or(place.next)),
                Err(error) => Err(error),
            };
            match read {
                Ok(Ok(reading)) => return Ok(reading),
                // Compaction left nothing at or above the offset in this segment.
                Ok(Err(next)) => from = next,
                // Retention was faster; if it took this offset, the next plan says so.
                Err(ReadError::Gone { .. }) if request.from < self.log.log_start() => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn plan(&self, from: Offset, request: &ReadRequest) -> Result<Option<Place>, ReadError> {
        let state = self.log.state.lock();
        if state.closed {
            return Err(ReadError::Closed { partition: self.log.partition.clone() });
        }
        let (log_start, log_end) = (state.log_start, state.next_offset);
        if request.from < log_start || request.from > log_end {
            let partition = self.log.partition.clone();
            return Err(ReadError::OutOfRange { partition, offset: request.from, log_start, log_end });
        }
        let upper = request.upper.min(log_end);
        if from >= upper {
            return Ok(None);
        }
        let index = state.segments.index_of(from);
        let base = state.segments.all()[index].base;
        let next_segment = state.segments.all().get(index + 1).map(|segment| segment.base);
        if let Some(next) = next_segment {
            drop(state);
            let end = self.segment_len(base)?;
            return Ok(Some(Place { base, end, next, from_position: None, upper_position: None }));
        }
        self.note_end(base, state.segments.end_position());
        Ok(Some(Place {
            base,
            end: state.segments.end_position(),
            next: log_end,
            from_position: state.segments.recent_position(from),
            upper_position: state.segments.recent_position(upper),
        }))
    }

    /// Batches from `from` on, up to the first damage. `None`: the segment has none.
    fn read_segment(&self, place: &Place, from: Offset, request: &ReadRequest) -> Result<Option<Reading>, ReadError> {
        let known = self.log.checked.survey(place.base, self.number);
        if known.is_none() {
            match self.read_undamaged(place, from, request) {
                Err(ReadError::Corrupt { .. }) => {}
                read => return read,
            }
        }
        let is_new = known.is_none();
        let survey = match known {
            Some(survey) => survey,
            None => self.survey(place.base, place.end, place.next)?,
        };
        match self.read_region(place, self.region(&survey, place, from)?, from, request) {
            // There is damage that was not there then.
            Err(ReadError::Corrupt { .. }) if !is_new => {
                let survey = self.survey(place.base, place.end, place.next)?;
                self.read_region(place, self.region(&survey, place, from)?, from, request)
            }
            read => read,
        }
    }

    /// The part without damage that has the offset. An offset that lies in damage is an error, and no other.
    fn region(&self, survey: &Survey, place: &Place, from: Offset) -> Result<Region, ReadError> {
        let region = survey.region_of(from, place.end, place.next);
        region.map_err(|area| self.log.corrupt(place.base, area.start))
    }

    /// As [`LogLook::read_segment`]; any damage on the way is an error.
    fn read_undamaged(&self, place: &Place, from: Offset, request: &ReadRequest) -> Result<Option<Reading>, ReadError> {
        let base = place.base;
        let start = match place.from_position.or_else(|| self.hinted(base, from)) {
            Some(position) => position,
            None => self.locate(base, from, place.end)?,
        };
        if start >= place.end {
            return Ok(None);
        }
        let upper_end = match place.upper_position {
            _ if request.upper >= place.next => place.end,
            Some(position) => position,
            None => self.locate(base, request.upper, place.end)?,
        };
        let end = self.cut(Span { base, start, end: upper_end }, request)?;
        if end <= start {
            return Ok(Some(Reading::default()));
        }
        self.check(Span { base, start, end: place.end }, end, place.next)?;
        if end == place.end {
            self.log.hints.lock().add(place.next, self.number, Location::new(segment_base(base), end));
        }
        let chunk = self.chunk(base, start, end)?;
        Ok(Some(Reading { bytes: chunk.len(), chunks: vec![chunk] }))
    }

    /// Batches from `from` on, of a part of a segment that has no damage.
    fn read_region(
        &self,
        place: &Place,
        region: Region,
        from: Offset,
        request: &ReadRequest,
    ) -> Result<Option<Reading>, ReadError> {
        let base = place.base;
        let start = self.locate_in(base, region, from)?;
        if start >= region.end {
            return Ok(None);
        }
        let end = if request.upper >= region.next { region.end } else { self.locate_in(base, region, request.upper)? };
        let end = self.cut(Span { base, start, end }, request)?;
        if end <= start {
            return Ok(Some(Reading::default()));
        }
        let chunk = self.chunk(base, start, end)?;
        Ok(Some(Reading { bytes: chunk.len(), chunks: vec![chunk] }))
    }

    fn hinted(&self, base: Offset, from: Offset) -> Option<u64> {
        let location = self.log.hints.lock().get(from, self.number)?;
        (location.segment == segment_base(base)).then_some(location.position)
    }

    /// The end of the last batch of the span that fits into `max_bytes`; of the first one, if that is asked for.
    fn cut(&self, span: Span, request: &ReadRequest) -> Result<u64, ReadError> {
        let limit = span.start.saturating_add(u64::from(request.max_bytes));
        if span.end <= limit {
            return Ok(span.end);
        }
        // An indexed batch begins where another one ends.
        let indexed = self.index_start(span.base, span.end, |entry| u64::from(entry.position) <= limit)?;
        let mut end = indexed.max(span.start);
        let mut next_offset = None;
        self.walk(Span { start: end, ..span }, |position, header| {
            let batch_end = position + header.size_in_bytes() as u64;
            if batch_end > limit && !(request.min_one_batch && position == span.start) {
                return Step::Stop;
            }
            (end, next_offset) = (batch_end, Some(header.next_offset()));
            Step::Next
        })?;
        if let Some(next_offset) = next_offset {
            self.log.hints.lock().add(next_offset, self.number, Location::new(segment_base(span.base), end));
        }
        Ok(end)
    }

    fn chunk(&self, base: Offset, start: u64, end: u64) -> Result<ReadChunk, ReadError> {
        let (at, len) = (Location::new(segment_base(base), start), end - start);
        if len <= TAIL_READ_BYTES_MAX
            && let Some(bytes) = self.log.journal.tail(at, len as usize)
            && bytes.len() as u64 == len
        {
            return Ok(ReadChunk::Bytes(bytes));
        }
        let slice = self.slice(at, len)?;
        if slice.len < len {
            return Err(ReadError::Gone { partition: self.log.partition.clone() });
        }
        if len <= COPIED_BYTES_MAX {
            // Cheaper than another system call when it is sent; and an answer of many small parts holds no file for
            // each.
            let mut bytes = vec![0; len as usize];
            let read = self.read_segment_file(base, slice.file.as_ref(), &mut bytes, start);
            if matches!(read, Ok(count) if count as u64 == len) {
                return Ok(ReadChunk::Bytes(bytes.into()));
            }
        }
        Ok(ReadChunk::Slice(slice))
    }
}
