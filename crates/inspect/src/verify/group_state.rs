//! Compares a partition according to the commit log with the group's checkpoint.

use std::path::Path;

use mainstem_record::{BatchHeader, BatchView};
use mainstem_store::AbortedTransaction;
use mainstem_store::formats::group_checkpoint::{self, PartitionState, Share};
use mainstem_store::rebuild::{self, ProducerStates};
use mainstem_types::{LeaderEpoch, Offset, PartitionIndex, Position, TopicId, TopicPartition};

use super::producers;
use super::report::{About, Report};

/// A partition, as entries of the commit log name it.
pub(super) type Key = (TopicId, PartitionIndex);

/// Where an entry is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Placed {
    pub(super) file: u64,
    pub(super) position: Position,
    pub(super) size: u32,
}

pub(super) struct Tracked {
    /// `None`: of a topic that the metadata does not know.
    pub(super) name: Option<TopicPartition>,
    state: Option<PartitionState>,
    /// The offset that is due; `None` before the first batch.
    next: Option<Offset>,
    last: Option<Placed>,
    producers: ProducerStates,
    aborted: Vec<AbortedTransaction>,
    shares: Vec<Share>,
    incomplete: bool,
    /// What is wrong with the checkpoint was told.
    told: bool,
}

impl Tracked {
    pub(super) fn new(name: Option<TopicPartition>, state: Option<PartitionState>) -> Tracked {
        Tracked {
            name,
            state,
            next: None,
            last: None,
            producers: ProducerStates::default(),
            aborted: Vec::new(),
            shares: Vec::new(),
            incomplete: false,
            told: false,
        }
    }

    pub(super) fn log_start(&self) -> Offset {
        self.state.as_ref().map_or(Offset::ZERO, |state| state.log_start)
    }

    pub(super) fn topic_id(&self) -> Option<TopicId> {
        self.state.as_ref().map(|state| state.topic_id)
    }

    /// The log ends here, as far as its batches tell.
    pub(super) fn end(&self) -> Offset {
        self.next.unwrap_or_else(|| self.log_start())
    }

    pub(super) fn batch(
        &mut self,
        report: &mut Report<'_, '_>,
        view: &BatchView<'_>,
        placed: Placed,
        damaged: bool,
        settled: bool,
    ) {
        let header = view.header();
        let due = self.next.unwrap_or_else(|| self.log_start().min(header.base_offset));
        if header.base_offset < due {
            // An entry that was written again after a cut; the one that counts is the first.
            return;
        }
        if header.base_offset > due {
            self.gap(report, due, header.base_offset, damaged, "no entry of the commit log has these offsets");
        }
        self.next = Some(header.next_offset());
        self.last = Some(placed);
        self.aborted.extend(self.producers.observe(view));
        self.add_share(header, placed);
        if settled {
            self.check_against_state(report, header);
        }
    }

    fn gap(&mut self, report: &mut Report<'_, '_>, from: Offset, to: Offset, damaged: bool, detail: &str) {
        self.incomplete = true;
        let Some(name) = &self.name else { return };
        let problem = if damaged { "offsets-damaged" } else { "offsets-missing" };
        report.finding(problem, About::partition(name).offsets(from.0, to.0 - 1), detail);
    }

    fn add_share(&mut self, header: &BatchHeader, placed: Placed) {
        // What retention had hidden before more was written to the same file is not counted there.
        let is_hidden =
            |state: &PartitionState| state.shares.first().is_some_and(|first| header.base_offset < first.first_offset);
        if self.state.as_ref().is_some_and(is_hidden) {
            return;
        }
        let (bytes, newest_ms) = (u64::from(placed.size), header.max_timestamp.0);
        match self.shares.last_mut().filter(|share| share.segment == placed.file) {
            Some(share) => {
                share.bytes += bytes;
                share.newest_ms = share.newest_ms.max(newest_ms);
            }
            None => {
                let first_offset = header.base_offset;
                self.shares.push(Share { segment: placed.file, first_offset, bytes, newest_ms });
            }
        }
    }

    /// Epoch and time of a batch.
    fn check_against_state(&mut self, report: &mut Report<'_, '_>, header: &BatchHeader) {
        let (Some(state), Some(name)) = (&self.state, &self.name) else { return };
        let covered = header.base_offset >= state.log_start && header.next_offset() <= state.next_offset;
        if self.told || !covered {
            return;
        }
        let about = About::partition(name).offsets(header.base_offset.0, header.last_offset().0);
        let after = state.epochs.partition_point(|entry| entry.start_offset <= header.base_offset);
        let epoch = after.checked_sub(1).map(|index| state.epochs[index].epoch);
        if header.leader_epoch != LeaderEpoch::NONE && epoch != Some(header.leader_epoch) {
            self.told = true;
            let detail = format!(
                "the checkpoint of the group does not have the leader epoch of the batch, {}",
                header.leader_epoch
            );
            report.finding("epochs-wrong", about, detail);
        } else if !rebuild::time_marks_cover(&state.marks, header) {
            self.told = true;
            let detail = "the time marks in the group's checkpoint say that the batch is older than it is";
            report.finding("checkpoint-wrong", about, detail);
        }
    }

    pub(super) fn finish(&mut self, report: &mut Report<'_, '_>, folder: &Path, damaged: bool, clean: bool) {
        let (Some(state), Some(name)) = (self.state.take(), self.name.clone()) else { return };
        let end = self.next.unwrap_or(state.log_start);
        if end < state.next_offset {
            let detail = "the log had these offsets when the checkpoint was written";
            self.gap(report, end, state.next_offset, damaged, detail);
        } else if clean && !self.incomplete {
            let path = folder.join(group_checkpoint::FILE_NAME);
            if let Some(detail) = self.difference(&state, end) {
                report.finding("checkpoint-wrong", About::partition(&name).at(&path), detail);
            }
        }
        self.state = Some(state);
    }

    /// What a checkpoint of an orderly stop has otherwise than the commit log.
    fn difference(&self, state: &PartitionState, end: Offset) -> Option<String> {
        if end != state.next_offset {
            return Some(format!("the log ends at {end}; the checkpoint says {}", state.next_offset));
        }
        let said = (state.last_position, state.last_size);
        // Of what nobody needs any more the file may be gone, with the last entry.
        let other = self.last.map(|last| (last.position, last.size)).filter(|last| *last != said);
        if let Some(last) = other.filter(|_| state.last_size > 0) {
            return Some(format!(
                "the last entry is at {} and has {} bytes; the checkpoint says {} and {}",
                last.0, last.1, said.0, said.1
            ));
        }
        for share in &state.shares {
            let ours = self.shares.iter().find(|one| one.segment == share.segment);
            let same = ours.is_some_and(|ours| (ours.bytes, ours.newest_ms) == (share.bytes, share.newest_ms));
            if !same {
                return Some(format!(
                    "the checkpoint does not match the partition's entries in the commit log file {}",
                    share.segment
                ));
            }
        }
        let aborted = self.aborted.iter().filter(|one| one.last_offset >= state.log_start);
        let lacking =
            |one: &&AbortedTransaction| !state.aborted.iter().any(|noted| noted.last_offset == one.last_offset);
        if let Some(one) = aborted.clone().find(lacking) {
            return Some(format!(
                "the checkpoint lacks the transaction that was aborted at offset {}",
                one.last_offset
            ));
        }
        producers::compare(&state.producers, &self.producers.snapshot(), state.log_start, false)
    }
}
