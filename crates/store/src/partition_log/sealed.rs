//! Compaction's view of a log: its sealed segments, and the facts about them.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use super::look::Disk;
use super::{PartitionLog, segment_base};
use crate::compaction::CompactError;
use crate::error::{ReadError, StorageError};
use crate::formats::names;
use crate::views::producers::Producer;
use mainstem_env::File;
use mainstem_journal::{Location, ReadError as JournalError};
use mainstem_types::{Offset, ProducerEpoch, ProducerId};

/// A segment that nothing is appended to any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SealedSegment {
    pub(crate) base: Offset,
    /// The base of the segment after it.
    pub(crate) next: Offset,
    pub(crate) bytes: u64,
}

/// The sealed segments at one moment.
#[derive(Debug, Clone)]
pub(crate) struct Sealed {
    pub(crate) segments: Vec<SealedSegment>,
    /// The base of the active segment.
    pub(crate) active: Offset,
    pub(crate) log_start: Offset,
    pub(crate) log_end: Offset,
    /// Compacted up to here, as far as is known.
    pub(crate) cleaned_to: Option<Offset>,
    pub(crate) recovery_point: Offset,
    /// How often something was cut off the end until now.
    pub(crate) cuts: u64,
}

/// The newest thing that is known of a producer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LastOfProducer {
    /// The last offset of its last batch; `None`: only a marker is known.
    pub(crate) last_offset: Option<Offset>,
    pub(crate) epoch: ProducerEpoch,
}

impl PartitionLog {
    /// Everything that compaction needs to know. `None`: the log is closed.
    pub(crate) fn sealed(&self) -> Result<Option<Sealed>, StorageError> {
        let (bases, mut sealed) = {
            let state = self.state.lock();
            if state.closed {
                return Ok(None);
            }
            let bases: Vec<Offset> = state.segments.bases().collect();
            let sealed = Sealed {
                segments: Vec::with_capacity(bases.len()),
                active: state.segments.active().base,
                log_start: state.log_start,
                log_end: state.next_offset,
                cleaned_to: state.cleaned_to,
                recovery_point: state.unsynced.recovery_point(),
                cuts: state.segments.cuts(),
            };
            (bases, sealed)
        };
        for pair in bases.windows(2) {
            // A segment that went meanwhile has no bytes; a pass that wants to replace it is told.
            let bytes = self.journal.segment_len(segment_base(pair[0])).unwrap_or(0);
            sealed.segments.push(SealedSegment { base: pair[0], next: pair[1], bytes });
        }
        Ok(Some(sealed))
    }

    /// The open file of a segment.
    pub(crate) fn segment_reader(&self, base: Offset) -> Result<Arc<dyn File>, CompactError> {
        let at = Location::new(segment_base(base), 0);
        let slice = self.journal.slice(at, 0).map_err(|error| match error {
            JournalError::Io { path, source } => CompactError::io("open", path, source),
            _ => CompactError::Superseded { partition: self.partition.clone() },
        })?;
        Ok(slice.file)
    }

    /// The position in its segment of the first batch that ends at `offset` or above.
    pub(crate) fn position_of(&self, base: Offset, offset: Offset) -> Result<u64, ReadError> {
        let find = || {
            let look = self.look(Disk::MayWait);
            let len = look.segment_len(base)?;
            look.locate(base, offset, len)
        };
        self.unmixed(find)
    }

    pub(crate) fn last_of_producers(&self) -> HashMap<ProducerId, LastOfProducer> {
        let state = self.state.lock();
        let last = |producer: &Producer| LastOfProducer {
            last_offset: producer.last_batch().map(|batch| Offset(batch.last_offset)),
            epoch: producer.epoch,
        };
        state.producers.iter().map(|(id, producer)| (*id, last(producer))).collect()
    }

    /// Notes up to where the log is compacted, unless something was cut since.
    pub(crate) fn set_cleaned_to(&self, to: Offset, cuts: u64) {
        let mut state = self.state.lock();
        if state.segments.cuts() == cuts {
            state.cleaned_to = Some(to);
        }
    }

    /// The checkpoint file says this of the log now.
    pub(crate) fn checkpoint_written(&self, recovery_point: Offset) {
        let mut state = self.state.lock();
        let end = state.next_offset;
        state.unsynced.written(recovery_point.min(end));
    }

    /// The checkpoint file says no more than this of the log now.
    pub(crate) fn checkpoint_lowered(&self, offset: Offset) {
        self.state.lock().unsynced.lower_recovery_point(offset);
    }

    /// Everything below is durable, views included, and the checkpoint file on the disk says so.
    pub fn checkpointed_end(&self) -> Offset {
        self.state.lock().unsynced.recovery_point()
    }

    /// The time of the newest record of a sealed segment. If no record has a time, the time of the file, as in Kafka.
    pub(crate) fn newest_ms(&self, base: Offset) -> io::Result<i64> {
        if let Some(time) = self.largest_time(base)? {
            return Ok(time);
        }
        self.file_time_ms(base)
    }

    /// When the file of a segment was last written.
    pub(super) fn file_time_ms(&self, base: Offset) -> io::Result<i64> {
        let metadata = self.fs().metadata(&self.file(base, names::LOG))?;
        Ok(metadata.map_or(i64::MAX, |metadata| metadata.modified_ms.0))
    }

    /// The largest time in the first batch of a segment; `None`: it is empty.
    pub(crate) fn first_batch_ms(&self, base: Offset) -> Result<Option<i64>, ReadError> {
        let header = self.unmixed(|| self.look(Disk::MayWait).header_at(base, 0))?;
        Ok(header.map(|header| header.max_timestamp.0))
    }
}
