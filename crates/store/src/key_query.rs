//! Looking up records by their key: the question and the result.

use mainstem_record::BatchView;
use mainstem_types::{Offset, PartitionIndex, ProducerId, TimestampMs};

use crate::config::KeyIndexing;
use crate::error::{ReadError, StorageError};
use crate::views::inspect::{INSPECTED_BYTES_MAX, for_each_key};

/// Batches that are compared in one look-up: about a second, if they have to be read from a disk.
pub(crate) const COMPARED_MAX: usize = if cfg!(test) { 1024 } else { 16_384 };

/// Bytes of logs that one look-up takes into indexes that are behind: about a second. Those who ask again find more of
/// it done.
pub const INDEXED_BYTES_MAX: u64 = 1 << 30;

/// Which records of a topic are looked for: those that have the key as their own, as a word of the header `KEYS`, or in
/// the header `UNIQ_KEY`.
#[derive(Clone, Copy)]
pub struct KeyQuery<'q> {
    pub key: &'q str,
    /// The first and the last time that a record may have.
    pub from: TimestampMs,
    pub to: TimestampMs,
    /// As many records are enough.
    pub max: usize,
    /// Records of aborted transactions, too.
    pub with_aborted: bool,
    /// Before which offset the records of a partition may be told; `None`: it is not asked for.
    pub upper: &'q dyn Fn(PartitionIndex) -> Option<Offset>,
}

/// A record found by its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FoundByKey {
    pub partition: PartitionIndex,
    pub offset: Offset,
    pub timestamp: TimestampMs,
    /// Of its batch in the commit log; in layout `partition` the batch's base offset.
    pub position: u64,
}

/// Why records were not looked up.
#[derive(Debug, Clone, thiserror::Error)]
pub enum FindByKeyError {
    #[error(transparent)]
    Read(#[from] ReadError),
    /// Of offsets, or of positions in a commit log.
    #[error("the broker is building the key index of {log} (offset {done} of {end}): ask again")]
    Behind { log: String, done: u64, end: u64 },
}

impl From<StorageError> for FindByKeyError {
    fn from(error: StorageError) -> Self {
        FindByKeyError::Read(error.into())
    }
}

/// What a look-up found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyMatches {
    /// Newest first: the record that was appended last to a partition, or to a group, comes first.
    pub records: Vec<FoundByKey>,
    /// There are no others, unless as many were found as were asked for. `false`: so many records have the key, or one
    /// with the same hash, that older ones were not looked at.
    pub complete: bool,
}

/// Where a batch that may have records with the key was found.
pub(crate) struct Candidate<'b> {
    pub(crate) view: &'b BatchView<'b>,
    pub(crate) partition: PartitionIndex,
    pub(crate) position: u64,
    pub(crate) log_start: Offset,
}

impl<'q> KeyQuery<'q> {
    /// All records that have the key.
    pub fn new(key: &'q str, max: usize) -> KeyQuery<'q> {
        let (from, to) = (TimestampMs(i64::MIN), TimestampMs(i64::MAX));
        KeyQuery { key, from, to, max, with_aborted: true, upper: &|_| Some(Offset(i64::MAX)) }
    }

    /// Adds the records of a batch that are asked for, the last one first. `aborted` tells of transactional records
    /// whether they were aborted.
    pub(crate) fn take(
        &self,
        batch: &Candidate<'_>,
        mut aborted: impl FnMut(ProducerId, Offset) -> Result<bool, ReadError>,
        found: &mut Vec<FoundByKey>,
    ) -> Result<(), ReadError> {
        let header = batch.view.header();
        let Some(upper) = (self.upper)(batch.partition).filter(|_| !header.attributes.is_control()) else {
            return Ok(());
        };
        let mut scratch = Vec::new();
        let Ok(records) = batch.view.records(&mut scratch, INSPECTED_BYTES_MAX) else { return Ok(()) };
        let first = found.len();
        for record in records.map_while(Result::ok) {
            let (offset, timestamp) = (record.offset, record.timestamp);
            if offset < batch.log_start || offset >= upper || timestamp < self.from || timestamp > self.to {
                continue;
            }
            let mut has_key = false;
            for_each_key(&record, KeyIndexing::All, |word| has_key |= word == self.key);
            let may_be_aborted = !self.with_aborted && header.attributes.is_transactional();
            if has_key && !(may_be_aborted && aborted(header.producer_id, offset)?) {
                found.push(FoundByKey { partition: batch.partition, offset, timestamp, position: batch.position });
            }
        }
        found[first..].reverse();
        Ok(())
    }
}
