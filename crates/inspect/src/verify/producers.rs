//! Snapshots of the producers against the batches before them.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use mainstem_env::Fs;
use mainstem_store::formats::producer_snapshot::{self, ProducerSnapshotEntry};
use mainstem_store::rebuild::ProducerStates;
use mainstem_types::{Offset, TopicPartition};

use super::report::{About, Report};
use super::{load, read_small};

/// The snapshots of a partition that were not compared yet.
pub(super) struct Snapshots {
    partition: TopicPartition,
    waiting: BTreeMap<Offset, (PathBuf, Vec<ProducerSnapshotEntry>)>,
}

impl Snapshots {
    /// Those above `durable_to` may have been under way when a broker was killed: that they are not whole means
    /// nothing.
    pub(super) fn read(
        fs: &dyn Fs,
        files: &BTreeMap<Offset, PathBuf>,
        partition: &TopicPartition,
        durable_to: Offset,
        report: &mut Report<'_, '_>,
    ) -> Snapshots {
        let mut waiting = BTreeMap::new();
        for (offset, path) in files {
            if *offset > durable_to && !is_whole(fs, path) {
                report.note(
                    "unclean",
                    About::partition(partition).at(path),
                    "the file is only partly written, and is not used",
                );
                continue;
            }
            if let Some(entries) = load(fs, path, About::partition(partition), report, producer_snapshot::decode) {
                waiting.insert(*offset, (path.clone(), entries));
            }
        }
        Snapshots { partition: partition.clone(), waiting }
    }

    /// A batch at `offset` follows: snapshots of this offset and below are compared with what the producers did up to
    /// now. `None`: that is not known.
    pub(super) fn before(
        &mut self,
        offset: Offset,
        producers: Option<&ProducerStates>,
        start: Offset,
        compacted: bool,
        report: &mut Report<'_, '_>,
    ) {
        while let Some(entry) = self.waiting.first_entry().filter(|entry| *entry.key() <= offset) {
            let (path, entries) = entry.remove();
            let Some(producers) = producers else { continue };
            if let Some(detail) = compare(&entries, &producers.snapshot(), start, compacted) {
                report.finding("producers-wrong", About::partition(&self.partition).at(&path), detail);
            }
        }
    }

    pub(super) fn finish(
        mut self,
        end: Offset,
        producers: Option<&ProducerStates>,
        start: Offset,
        compacted: bool,
        clean: bool,
        report: &mut Report<'_, '_>,
    ) {
        self.before(end, producers, start, compacted, report);
        let Some(_) = producers.filter(|_| clean) else { return };
        for (offset, (path, _)) in &self.waiting {
            let detail = format!("the snapshot is for offset {offset}, and the log ends at {end}");
            report.finding("producers-wrong", About::partition(&self.partition).at(path), detail);
        }
    }
}

fn is_whole(fs: &dyn Fs, path: &Path) -> bool {
    let decodes = |bytes: Option<Vec<u8>>| bytes.is_none_or(|bytes| producer_snapshot::decode(&bytes).is_ok());
    read_small(fs, path).is_ok_and(decodes)
}

/// What is wrong with a snapshot. Producers that were silent for long are left out of it, those whose batches are all
/// gone stay in it: both are right.
pub(super) fn compare(
    snapshot: &[ProducerSnapshotEntry],
    rebuilt: &[ProducerSnapshotEntry],
    start: Offset,
    compacted: bool,
) -> Option<String> {
    let rebuilt: HashMap<_, _> = rebuilt.iter().map(|entry| (entry.producer_id, entry)).collect();
    for entry in snapshot.iter().filter(|entry| entry.last_offset >= start) {
        let Some(known) = rebuilt.get(&entry.producer_id) else {
            if compacted {
                continue;
            }
            return Some(format!("the snapshot has producer {}, which wrote nothing", entry.producer_id));
        };
        let told = |entry: &ProducerSnapshotEntry| (entry.epoch, entry.last_sequence, entry.last_offset);
        // Of a producer that wrote on, compaction takes the batches that it had written by then.
        let is_ahead = (entry.epoch, entry.last_offset) > (known.epoch, known.last_offset);
        if told(entry) != told(known) && !(compacted && is_ahead) {
            return Some(format!(
                "producer {}: epoch {}, sequence {} at offset {}; the log has epoch {}, sequence {} at offset {}",
                entry.producer_id,
                entry.epoch,
                entry.last_sequence,
                entry.last_offset,
                known.epoch,
                known.last_sequence,
                known.last_offset
            ));
        }
        let open = (entry.transaction_first_offset, known.transaction_first_offset);
        // Of a transaction that began with records that are gone by now nothing is known.
        let began_before = open.0 >= Offset::ZERO && open.0 < start;
        if open.0 != open.1 && !began_before {
            return Some(format!(
                "producer {}: a transaction open since offset {} (-1: none); the log has one since {}",
                entry.producer_id, open.0, open.1
            ));
        }
    }
    let in_it = |id| snapshot.iter().any(|entry| entry.producer_id == id);
    let open =
        rebuilt.values().find(|entry| entry.transaction_first_offset >= Offset::ZERO && !in_it(entry.producer_id));
    open.map(|entry| {
        let since = entry.transaction_first_offset;
        format!("the snapshot lacks producer {}, which has a transaction open since offset {since}", entry.producer_id)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use mainstem_types::{ProducerEpoch, ProducerId, TimestampMs};

    fn entry(last_sequence: i32, last_offset: i64) -> ProducerSnapshotEntry {
        ProducerSnapshotEntry {
            producer_id: ProducerId(1),
            epoch: ProducerEpoch(0),
            last_sequence,
            last_offset: Offset(last_offset),
            offset_delta: 0,
            timestamp: TimestampMs(0),
            coordinator_epoch: -1,
            transaction_first_offset: Offset::NONE,
        }
    }

    #[test]
    fn a_snapshot_of_a_compacted_log_may_know_more_than_the_log_has_and_never_less() {
        let complaint = |snapshot, rebuilt, compacted| compare(&[snapshot], &[rebuilt], Offset::ZERO, compacted);
        assert_eq!(complaint(entry(7, 20), entry(6, 11), true), None);
        assert!(complaint(entry(7, 20), entry(6, 11), false).is_some());
        assert!(complaint(entry(6, 11), entry(7, 20), true).is_some());
    }
}
