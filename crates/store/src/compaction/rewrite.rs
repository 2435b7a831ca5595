//! One pass over a log: the map of its dirty part, then each group rewritten and put in its place.

use mainstem_record::BatchView;
use mainstem_types::{Offset, TimestampMs};

use super::batch_filter::{BatchFilter, Verdict};
use super::cleaned_segment::{CleanedSegment, FinishedSegment, discard};
use super::damaged::DamagedSegments;
use super::group::{self, GroupLimits, Sized, Step, steps};
use super::offset_map::OffsetMap;
use super::pass::{Pass, proceed, record_error};
use super::segment_reader::SegmentReader;
use super::transactions::Transactions;
use super::{Cleanable, CleanerLimits, CleaningControl, CompactError, key_map};
use crate::formats::names;
use crate::partition_log::{PartitionLog, Replacement, SealedSegment};

/// What a pass did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Compaction {
    pub from: Offset,
    /// Compacted up to here now: the next pass begins its map here. Below what could have been compacted when the map
    /// was full.
    pub to: Offset,
    /// Distinct keys of the dirty part.
    pub keys: usize,
    /// Segments with damage, which stay as they are.
    pub segments_damaged: usize,
    /// Rewritten segments, and what became of them.
    pub segments_before: usize,
    pub segments_after: usize,
    pub bytes_before: u64,
    pub bytes_after: u64,
    pub records_read: u64,
    pub records_kept: u64,
    /// Dropped, because nothing could ever replace them. A compacted topic takes none; these were there before.
    pub records_without_key: u64,
}

impl PartitionLog {
    /// Compacts what [`PartitionLog::cleanable`] found, as far as the checkpoint on the disk
    /// ([`PartitionLog::checkpointed_end`]) reaches and the memory suffices. [`Compaction::to`] says how far that was;
    /// [`crate::DataFolder::write_checkpoint_of`] makes it durable.
    ///
    /// Takes long; call it where no request waits. A crash, an error or a stop in the middle leaves a log that reads
    /// the same.
    pub fn compact(
        &self,
        work: &Cleanable,
        limits: &CleanerLimits,
        now: TimestampMs,
        control: &mut dyn CleaningControl,
    ) -> Result<Compaction, CompactError> {
        let Some(_one) = self.compacting.try_lock() else {
            return Err(CompactError::Busy { partition: self.partition().clone() });
        };
        self.check_alive()?;
        let closed = || CompactError::Closed { partition: self.partition().clone() };
        let sealed = self.sealed()?.ok_or_else(closed)?;
        let durable = sealed.segments.iter().rev().find(|segment| segment.next <= sealed.recovery_point);
        let end = work.end.min(durable.map_or(Offset::ZERO, |segment| segment.next));
        let mut done = Compaction { from: work.first_dirty, to: work.first_dirty, ..Compaction::default() };
        if end <= work.first_dirty {
            return Ok(done);
        }
        let pass = Pass { log: self, limits, first_dirty: work.first_dirty, end, now, sealed };
        let dirty = pass.segments(|segment| segment.next > pass.first_dirty && segment.base < end);
        let mut damaged = DamagedSegments::default();
        let map = key_map::build(&pass, &dirty, &mut damaged, control)?;
        done.to = map.latest().plus(1).max(done.from);
        done.keys = map.keys();
        pass.rewrite(&map, &mut damaged, &mut done, control)?;
        done.segments_damaged = damaged.count();
        self.set_cleaned_to(done.to, pass.sealed.cuts);
        Ok(done)
    }
}

impl Pass<'_> {
    fn rewrite(
        &self,
        map: &OffsetMap,
        damaged: &mut DamagedSegments,
        done: &mut Compaction,
        control: &mut dyn CleaningControl,
    ) -> Result<(), CompactError> {
        let config = self.log.config();
        let segments = self.segments(|segment| segment.base < done.to.min(self.end));
        let sized = segments.iter().map(|segment| self.sized(segment)).collect::<Result<Vec<_>, _>>()?;
        let limits = GroupLimits {
            log_bytes: config.segment_bytes.into(),
            index_bytes: config.segment_index_bytes.into(),
            end: self.end,
        };
        let producers = self.log.last_of_producers();
        let mut filter = BatchFilter::new(map, producers, self.end, self.now, config.delete_retention_ms);
        let mut transactions = Transactions::default();
        let mut steps = steps(&sized, damaged, &limits);
        while let Some(step) = steps.pop_front() {
            let group = match step {
                Step::Rewrite(group) => group,
                Step::PassOver(segment) => {
                    self.announce(&segment, &mut transactions)?;
                    transactions.pass_over(segment.next);
                    filter.tombstones_stay = true;
                    continue;
                }
            };
            if !self.log.config().cleanup_compact {
                return Err(CompactError::Stopped { partition: self.log.partition().clone() });
            }
            // Each time anew: producers go on meanwhile, and a batch that was their last one may go.
            filter.producers = self.log.last_of_producers();
            let base = group[0].base;
            let before = (filter.counts, transactions.clone());
            let finished = self.write_group(&group, &mut filter, &mut transactions, control);
            let (finished, _first) = match finished.inspect_err(|_| discard(self.log, base)) {
                Ok(finished) => finished,
                Err(error) => {
                    damaged.note(self, &group, error)?;
                    // Again, without the segment that cannot be read.
                    (filter.counts, transactions) = before;
                    let from = sized.partition_point(|sized| sized.segment.base < base);
                    steps = group::steps(&sized[from..], damaged, &limits);
                    continue;
                }
            };
            done.segments_before += group.len();
            done.segments_after += 1;
            done.bytes_before += group.iter().map(|segment| segment.bytes).sum::<u64>();
            done.bytes_after += finished.len;
            self.put_in_place(&group, finished)?;
        }
        done.records_read = filter.counts.records_read;
        done.records_kept = filter.counts.records_kept;
        done.records_without_key = filter.counts.records_without_key;
        Ok(())
    }

    fn announce(&self, segment: &SealedSegment, transactions: &mut Transactions) -> Result<(), CompactError> {
        let aborted = self.log.aborted_transactions(segment.base, segment.next).map_err(CompactError::of_read)?;
        transactions.announce(aborted);
        Ok(())
    }

    fn sized(&self, segment: &SealedSegment) -> Result<Sized, CompactError> {
        let size = |suffix| {
            let path = self.log.file(segment.base, suffix);
            let metadata = self.log.fs().metadata(&path);
            metadata.map(|found| found.map_or(0, |found| found.len)).map_err(|e| CompactError::io("look at", path, e))
        };
        let (index_bytes, time_index_bytes) = (size(names::INDEX)?, size(names::TIME_INDEX)?);
        Ok(Sized { segment: *segment, index_bytes, time_index_bytes })
    }

    /// Gives the new segment, and the file whose name it will get.
    fn write_group(
        &self,
        group: &[SealedSegment],
        filter: &mut BatchFilter<'_>,
        transactions: &mut Transactions,
        control: &mut dyn CleaningControl,
    ) -> Result<(FinishedSegment, std::sync::Arc<dyn mainstem_env::File>), CompactError> {
        let log = self.log;
        let base = group[0].base;
        let mut cleaned = CleanedSegment::create(log, base, self.buffer_bytes())?;
        let mut first = None;
        transactions.still_aborted.clear();
        for segment in group {
            self.announce(segment, transactions)?;
            let mut reader = SegmentReader::open(log, segment, 0, self.buffer_bytes())?;
            first.get_or_insert_with(|| reader.file());
            while let Some(batch) = reader.next(log, control)? {
                let can_go = transactions.can_go(&batch).map_err(|error| record_error(self, segment, &batch, error))?;
                let verdict = filter.judge(&batch, can_go);
                let written = match verdict.map_err(|error| record_error(self, segment, &batch, error))? {
                    Verdict::Goes => 0,
                    Verdict::Stays => cleaned.append(batch.header(), batch.as_bytes())?,
                    Verdict::Becomes(bytes) => match BatchView::parse(&bytes) {
                        Ok(new) => cleaned.append(new.header(), new.as_bytes())?,
                        Err(error) => return Err(record_error(self, segment, &batch, error)),
                    },
                };
                proceed(log, control, written)?;
            }
        }
        let old_index = log.file(base, names::TRANSACTION_INDEX);
        let had_index = log.fs().exists(&old_index).map_err(|error| CompactError::io("look at", old_index, error))?;
        let finished = cleaned.finish(&transactions.still_aborted, had_index)?;
        let first = match first {
            Some(first) => first,
            None => log.segment_reader(base)?,
        };
        Ok((finished, first))
    }

    fn put_in_place(&self, group: &[SealedSegment], finished: FinishedSegment) -> Result<(), CompactError> {
        let last = group[group.len() - 1];
        self.log.replace(&Replacement {
            bases: group.iter().map(|segment| segment.base).collect(),
            next: last.next,
            cuts: self.sealed.cuts,
            file: finished.file,
            len: finished.len,
            largest_time: finished.largest_time,
            suffixes: finished.suffixes,
        })
    }
}
