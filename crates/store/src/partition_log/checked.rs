//! Which batches of a log fit together, as far as this process has looked.
//!
//! A batch's own checksum leaves out its base offset: with a bit of it changed on the disk, its records would be served as others. So what
//! was there when the log was opened is looked at once before it is served: the headers, not the payload. What this process
//! appends needs no look.

use std::collections::BTreeMap;

use super::PartitionLog;
use super::headers::Step;
use super::locate::Span;
use super::look::Look;
use crate::error::ReadError;
use mainstem_types::Offset;
use parking_lot::Mutex;

/// What was looked at.
#[derive(Debug)]
pub(super) struct Checked {
    /// The active segment when the log was opened, and its end then.
    opened: (Offset, u64),
    /// By the base of an older segment.
    stretches: Mutex<BTreeMap<Offset, Stretch>>,
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
        Checked { opened: (active, end), stretches: Mutex::default() }
    }

    fn is_ours(&self, base: Offset, position: u64) -> bool {
        (base, position) >= self.opened
    }
}

impl PartitionLog {
    fn may_have_gaps(&self) -> bool {
        self.config.load().cleanup_compact || self.state.lock().cleaned_to.is_some()
    }
}

impl Look<'_> {
    /// Looks at the batches in `start..end` of a segment that ends at `span.end`; the next segment, or the log's end, is at `next`. If
    /// one of them does not follow from the one before, or the one behind does not follow from them, that is an error.
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
}
