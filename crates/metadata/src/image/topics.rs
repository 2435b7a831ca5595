//! Topics and partitions.

use std::collections::BTreeMap;
use std::sync::Arc;

use mainstem_kafka_wire::metadata_records::{PartitionChangeRecord, PartitionRecord};
use mainstem_types::TopicId;

/// "Nobody leads" in records and in Metadata answers.
pub const NO_LEADER: i32 = -1;
/// In a PartitionChangeRecord: the leader stays.
pub(crate) const LEADER_UNCHANGED: i32 = -2;
/// In a PartitionChangeRecord: the recovery state stays.
const RECOVERY_UNCHANGED: i8 = -1;

/// Directory ids that name no folder (Kafka's `DirectoryId`).
pub const DIRECTORY_MIGRATING: TopicId = TopicId([0; 16]);
pub const DIRECTORY_UNASSIGNED: TopicId = TopicId([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
pub const DIRECTORY_LOST: TopicId = TopicId([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);

/// One topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicImage {
    pub name: Arc<str>,
    pub id: TopicId,
    /// By number. Kafka numbers them 0, 1, 2, …
    pub partitions: BTreeMap<i32, PartitionImage>,
}

/// One partition: its replicas and its leader.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionImage {
    pub replicas: Vec<i32>,
    /// The folder of each replica, in the order of `replicas`.
    pub directories: Vec<TopicId>,
    pub isr: Vec<i32>,
    pub removing_replicas: Vec<i32>,
    pub adding_replicas: Vec<i32>,
    /// Replicas outside the in-sync set that are known to have everything up to the high watermark (KIP-966).
    pub eligible_leader_replicas: Vec<i32>,
    pub last_known_eligible: Vec<i32>,
    /// [`NO_LEADER`] when no node leads.
    pub leader: i32,
    /// 1 after an unclean election, until the leader has recovered.
    pub leader_recovery_state: i8,
    /// One more with each record that names a leader.
    pub leader_epoch: i32,
    /// One more with each change.
    pub partition_epoch: i32,
}

impl PartitionImage {
    pub(super) fn from_record(record: &PartitionRecord) -> Self {
        let mut directories = record.directories.clone();
        // Records older than the directories say nothing about them.
        directories.resize(record.replicas.len(), DIRECTORY_MIGRATING);
        PartitionImage {
            replicas: record.replicas.clone(),
            directories,
            isr: record.isr.clone(),
            removing_replicas: record.removing_replicas.clone(),
            adding_replicas: record.adding_replicas.clone(),
            eligible_leader_replicas: record.eligible_leader_replicas.clone().unwrap_or_default(),
            last_known_eligible: record.last_known_elr.clone().unwrap_or_default(),
            leader: record.leader,
            leader_recovery_state: record.leader_recovery_state,
            leader_epoch: record.leader_epoch,
            partition_epoch: record.partition_epoch,
        }
    }

    /// The record that creates this partition as it is. Fields that `with_directories` or `with_eligible` rule out are
    /// left unset, because older record versions cannot carry them.
    pub(crate) fn to_record(
        &self,
        topic_id: TopicId,
        partition: i32,
        with_directories: bool,
        with_eligible: bool,
    ) -> PartitionRecord {
        let eligible = |list: &Vec<i32>| Some(list.clone()).filter(|list| with_eligible && !list.is_empty());
        PartitionRecord {
            partition_id: partition,
            topic_id,
            replicas: self.replicas.clone(),
            isr: self.isr.clone(),
            removing_replicas: self.removing_replicas.clone(),
            adding_replicas: self.adding_replicas.clone(),
            leader: self.leader,
            leader_recovery_state: self.leader_recovery_state,
            leader_epoch: self.leader_epoch,
            partition_epoch: self.partition_epoch,
            directories: if with_directories { self.directories.clone() } else { Vec::new() },
            eligible_leader_replicas: eligible(&self.eligible_leader_replicas),
            last_known_elr: eligible(&self.last_known_eligible),
        }
    }

    pub(crate) fn change(&mut self, record: &PartitionChangeRecord) {
        if let Some(replicas) = &record.replicas {
            if record.directories.is_none() {
                self.directories = self.directories_for(replicas);
            }
            self.replicas = replicas.clone();
        }
        let lists = [
            (&mut self.isr, &record.isr),
            (&mut self.removing_replicas, &record.removing_replicas),
            (&mut self.adding_replicas, &record.adding_replicas),
            (&mut self.eligible_leader_replicas, &record.eligible_leader_replicas),
            (&mut self.last_known_eligible, &record.last_known_elr),
        ];
        for (list, change) in lists {
            if let Some(change) = change {
                list.clone_from(change);
            }
        }
        if let Some(directories) = &record.directories {
            self.directories.clone_from(directories);
            // One for each replica, also if the record has fewer: a snapshot of this image is read that way.
            self.directories.resize(self.replicas.len(), DIRECTORY_MIGRATING);
        }
        if record.leader != LEADER_UNCHANGED {
            self.leader = record.leader;
            self.leader_epoch += 1;
        }
        if record.leader_recovery_state != RECOVERY_UNCHANGED {
            self.leader_recovery_state = record.leader_recovery_state;
        }
        self.partition_epoch += 1;
    }

    /// A replica that stays keeps its folder; where a new one lies is not known yet.
    fn directories_for(&self, replicas: &[i32]) -> Vec<TopicId> {
        let folder = |node: &i32| {
            let index = self.replicas.iter().position(|other| other == node)?;
            self.directories.get(index).copied()
        };
        replicas.iter().map(|node| folder(node).unwrap_or(DIRECTORY_UNASSIGNED)).collect()
    }
}
