//! What is known of a log before its bytes are looked at: where a scan may begin, the producers' state there, lost
//! files.

use std::path::Path;

use super::Opening;
use crate::error::OpenError;
use crate::error::io_error;
use crate::formats::{names, partition_metadata, transaction_index};
use crate::partition_log::active_index::ActiveIndex;
use crate::partition_log::listing::remove_if_present;
use crate::partition_log::{producer_snapshots, segment_base};
use crate::small_file::{self, Loaded};
use crate::views::epochs::Epochs;
use crate::views::producers::Producers;
use mainstem_env::{Fs, OpenOptions};
use mainstem_journal::{Journal, Location, RecoverFrom};
use mainstem_types::{Offset, TopicId, TopicPartition};

/// Where a scan begins, and the known state at that place.
pub(super) struct ScanStart {
    pub(super) from: RecoverFrom,
    pub(super) offset: Offset,
    pub(super) index: Option<ActiveIndex>,
}

impl Opening<'_> {
    /// As late as the recovery point and a producer snapshot allow: at a snapshot in the segment of the recovery point,
    /// or at the beginning of that segment.
    pub(super) fn scan_start(&self) -> Result<ScanStart, OpenError> {
        let segments = &self.listing.segments;
        let first = segments.first().copied().unwrap_or(self.facts.log_start.unwrap_or(Offset::ZERO));
        let known = self.facts.recovery_point.max(self.facts.covered_to);
        let known = known.filter(|point| self.epochs.is_some() && *point >= first);
        let Some(point) = known.filter(|_| !segments.is_empty()) else {
            return Ok(ScanStart { from: RecoverFrom::Start, offset: first, index: None });
        };
        let base = segments[segments.partition_point(|base| *base <= point).saturating_sub(1)];
        let covered = self.facts.covered_to;
        let mut places: Vec<Offset> = self.listing.snapshots.iter().copied().chain(covered).collect();
        places.retain(|offset| *offset > base && *offset <= point);
        places.sort_unstable();
        for snapshot in places.iter().rev() {
            // A metadata log has no state of producers.
            if Some(*snapshot) != covered && self.snapshot(*snapshot)?.is_none() {
                continue;
            }
            let interval = self.config.index_interval_bytes;
            let found = self.segment_file(base, |segment| {
                let Some((position, Some(header))) = segment.locate(*snapshot)? else { return Ok(None) };
                if header.base_offset != *snapshot {
                    return Ok(None);
                }
                Ok(Some((position, segment.index_before(position, *snapshot, interval)?)))
            })?;
            if let Some((position, index)) = found {
                let from = RecoverFrom::Checkpoint(Location::new(segment_base(base), position));
                return Ok(ScanStart { from, offset: *snapshot, index: Some(index) });
            }
        }
        let from = RecoverFrom::Checkpoint(Location::new(segment_base(base), 0));
        Ok(ScanStart { from, offset: base, index: None })
    }

    fn snapshot(&self, offset: Offset) -> Result<Option<Producers>, OpenError> {
        producer_snapshots::load(self.env.fs.as_ref(), self.folder, offset)
    }

    /// The producers' state before the record at `offset`: the newest good snapshot, and what the headers after it
    /// tell. And that snapshot.
    pub(super) fn producers_at(&self, offset: Offset) -> Result<(Producers, Option<Offset>), OpenError> {
        let mut producers = Producers::default();
        let mut used = None;
        for snapshot in self.listing.snapshots.iter().rev().filter(|snapshot| **snapshot <= offset) {
            if let Some(known) = self.snapshot(*snapshot)? {
                (producers, used) = (known, Some(*snapshot));
                break;
            }
        }
        let first = self.listing.segments.first().copied().unwrap_or(offset);
        let from = producers.end.max(first);
        if from < offset {
            let segments = &self.listing.segments;
            let index = segments.partition_point(|base| *base <= from).saturating_sub(1);
            for base in segments[index..].iter().filter(|base| **base < offset) {
                self.segment_file(*base, |segment| segment.replay(&mut producers, from, offset))?;
            }
        }
        producers.end = offset;
        producers.expire(self.env.clock.wall_ms(), self.config.producer_id_expiration_ms);
        Ok((producers, used))
    }

    /// The epochs that began before a scan begins. Where that is above the recovery point, the file may be behind: the
    /// headers tell.
    pub(super) fn epochs_before(&self, start: &ScanStart) -> Result<Epochs, OpenError> {
        let mut epochs = self.epochs.clone().unwrap_or_default();
        // The file may tell of records that were cut before a power cut: what follows is told by the batches alone.
        epochs.truncate_end(start.offset);
        let from = self.facts.recovery_point.unwrap_or(Offset::ZERO);
        if from >= start.offset {
            return Ok(epochs);
        }
        let segments = &self.listing.segments;
        let index = segments.partition_point(|base| *base <= from).saturating_sub(1);
        for base in segments[index..].iter().filter(|base| **base < start.offset) {
            self.segment_file(*base, |segment| segment.note_epochs(&mut epochs, from.max(*base), start.offset))?;
        }
        Ok(epochs)
    }

    /// The earlier entries of the transaction index, for a scan that begins in the middle of a segment.
    pub(super) fn aborted_before(
        &self,
        start: &ScanStart,
    ) -> Result<Vec<transaction_index::AbortedTransaction>, OpenError> {
        let Some(index) = &start.index else { return Ok(Vec::new()) };
        let path = self.folder.join(names::segment_file(index.base, names::TRANSACTION_INDEX));
        let bytes = self.env.fs.read_if_present(&path).map_err(io_error(&path))?;
        let mut known = transaction_index::decode_front(&bytes.unwrap_or_default());
        known.retain(|aborted| aborted.last_offset < start.offset);
        Ok(known)
    }

    /// Takes out of the transaction index of the last segment what is not of records below `end`: where a power cut
    /// took all that followed a checkpoint, the index may have kept more, or half of it. Gives the segments that have
    /// one.
    pub(super) fn settle_transaction_indexes(&self, end: Offset) -> Result<Vec<Offset>, OpenError> {
        let mut segments: Vec<Offset> = self.listing.transaction_indexes.iter().copied().collect();
        let last = self.listing.segments.last().copied();
        let Some(last) = last.filter(|last| !self.facts.clean && segments.contains(last)) else { return Ok(segments) };
        let (fs, path) = (self.env.fs.as_ref(), self.folder.join(names::segment_file(last, names::TRANSACTION_INDEX)));
        let bytes = fs.read_all(&path).map_err(io_error(&path))?;
        let mut known = transaction_index::decode_front(&bytes);
        known.retain(|aborted| aborted.last_offset < end);
        if known.is_empty() {
            remove_if_present(fs, &path).map_err(io_error(&path))?;
            segments.retain(|base| *base != last);
        } else if transaction_index::encode(&known) != bytes {
            fs.atomic_write(&path, &transaction_index::encode(&known)).map_err(io_error(&path))?;
        }
        Ok(segments)
    }

    /// The end of the journal, which gets its first segment here if it has none.
    pub(super) fn end_of(&self, journal: &Journal) -> Result<Location, OpenError> {
        if journal.end().is_none() {
            let base = self.facts.log_start.unwrap_or(Offset::ZERO);
            // A power cut may leave the name of a view without the name of its segment.
            for suffix in [names::INDEX, names::TIME_INDEX, names::TRANSACTION_INDEX] {
                let path = self.folder.join(names::segment_file(base, suffix));
                remove_if_present(self.env.fs.as_ref(), &path).map_err(io_error(&path))?;
            }
            journal.roll(segment_base(base)).map_err(|error| OpenError::Journal(error.to_string()))?;
            self.env.fs.sync_dir(self.folder).map_err(io_error(self.folder))?;
        }
        Ok(journal.end().unwrap_or_default())
    }

    /// Creates the index files of the active segment if they are not there. Where nothing was scanned nothing was
    /// removed either, so the listing tells.
    pub(super) fn complete_active_segment(&self, base: Offset, nothing_was_scanned: bool) -> Result<(), OpenError> {
        let fs = self.env.fs.as_ref();
        for (listed, suffix) in [(&self.listing.indexes, names::INDEX), (&self.listing.time_indexes, names::TIME_INDEX)]
        {
            let path = self.folder.join(names::segment_file(base, suffix));
            let is_there = nothing_was_scanned && listed.contains(&base);
            if !is_there && !fs.exists(&path).map_err(io_error(&path))? {
                fs.open(&path, &OpenOptions::create()).map_err(io_error(&path))?;
            }
        }
        Ok(())
    }

    /// Makes lost index files of sealed segments again; gives those segments.
    pub(super) fn rebuild_missing_indexes(&self, wanted: impl Fn(Offset) -> bool) -> Result<Vec<Offset>, OpenError> {
        let mut rebuilt = Vec::new();
        let Some((_, sealed)) = self.listing.segments.split_last() else { return Ok(rebuilt) };
        let complete = |base: &Offset| self.listing.indexes.contains(base) && self.listing.time_indexes.contains(base);
        for base in sealed.iter().filter(|base| wanted(**base) && !complete(base)) {
            if self.env.is_stopped() {
                return Err(OpenError::Journal(format!("{}: told to stop", self.folder.display())));
            }
            let interval = self.config.index_interval_bytes;
            self.segment_file(*base, |segment| {
                if let Some(mut end) = segment.rebuild(interval)? {
                    end.index.note_largest_time();
                    segment.write_index(&mut end.index)?;
                }
                Ok(())
            })?;
            rebuilt.push(*base);
        }
        Ok(rebuilt)
    }
}

pub(super) fn read_topic_id(
    fs: &dyn Fs,
    folder: &Path,
    partition: &TopicPartition,
) -> Result<Option<TopicId>, OpenError> {
    match small_file::load(fs, &folder.join(partition_metadata::FILE_NAME), partition_metadata::decode)? {
        Loaded::Content(id) => Ok(Some(id)),
        Loaded::Absent => Ok(None),
        damaged => {
            tracing::warn!(%partition, "partition.metadata cannot be used: {damaged:?}");
            Ok(None)
        }
    }
}
