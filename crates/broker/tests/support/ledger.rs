//! What the clients of a broker did, and what they were told.

use std::collections::{BTreeMap, BTreeSet};

use mainstem_env::CrashPolicy;
use mainstem_types::TopicId;

/// How safe something is, as its client was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Acked {
    /// No answer, or an error: it may be there or not.
    #[default]
    No,
    /// With `mainstem.durability=os`: it survives a killed process.
    Os,
    /// It survives a power cut.
    Disk,
}

impl Acked {
    pub fn after(self, policy: CrashPolicy) -> Acked {
        match self {
            Acked::Os if policy != CrashPolicy::Everything => Acked::No,
            known => known,
        }
    }
}

#[derive(Debug, Clone, Default)]
pub struct RecordFact {
    pub value: String,
    /// As the append said.
    pub offset: Option<i64>,
    pub acked: Acked,
}

#[derive(Debug, Clone, Default)]
pub struct PartitionFacts {
    /// In the order in which they were sent.
    pub records: Vec<RecordFact>,
    /// The log start that is known to be durable, and the largest that was asked for.
    pub log_start: (i64, i64),
    /// The largest leader epoch that anybody was told.
    pub leader_epoch: i32,
    /// Values that were found missing after a start: they must not come back.
    pub lost: BTreeSet<String>,
}

#[derive(Debug, Clone, Default)]
pub struct TopicFacts {
    pub name: String,
    /// Acknowledged, and the largest number that was asked for.
    pub partitions: (i32, i32),
    pub deletion: Acked,
    pub deletion_tried: bool,
    /// Of each setting the values since the last acknowledged one, that first; `None`: it was not set.
    pub configs: BTreeMap<String, Vec<Option<String>>>,
}

/// A number that is replaced by larger ones: what was acknowledged last, and what else may be found.
#[derive(Debug, Clone, Default)]
pub struct Latest {
    pub durable: Option<i64>,
    pub os: Option<i64>,
    pub tried: BTreeSet<i64>,
}

impl Latest {
    pub fn acknowledge(&mut self, value: i64, acked: Acked) {
        if acked == Acked::Disk {
            *self = Latest { durable: Some(value), ..Latest::default() };
        } else {
            self.tried.extend(self.os.replace(value));
        }
    }

    /// Nothing is promised any more.
    pub fn release(&mut self) {
        self.tried.extend(self.os.take());
        self.tried.extend(self.durable.take());
    }

    pub fn allows(&self, found: Option<i64>) -> bool {
        let promised = self.durable.max(self.os);
        match found {
            None => promised.is_none(),
            Some(found) => promised <= Some(found) && (promised == Some(found) || self.tried.contains(&found)),
        }
    }
}

#[derive(Debug, Clone, Default)]
pub struct Ledger {
    pub topics: BTreeMap<TopicId, TopicFacts>,
    /// Topics whose creation was asked for and not answered with success: name, numbers of partitions.
    pub tried: BTreeMap<String, BTreeSet<i32>>,
    pub partitions: BTreeMap<(TopicId, i32), PartitionFacts>,
    /// By group, topic and partition. Values of one key ascend.
    pub commits: BTreeMap<(String, String, i32), Latest>,
    /// Members of groups with their generation, from the last sync that was answered.
    pub members: BTreeMap<String, (String, i32, Acked)>,
    pub producer_ids: BTreeSet<i64>,
    pub broker_epoch: i64,
    /// Of the metadata log.
    pub term: i32,
}

impl Ledger {
    /// What is still promised when the disk is as `policy` leaves it.
    pub fn after(&self, policy: CrashPolicy) -> Ledger {
        let mut next = self.clone();
        for partition in next.partitions.values_mut() {
            partition.records.iter_mut().for_each(|record| record.acked = record.acked.after(policy));
        }
        for latest in next.commits.values_mut() {
            if Acked::Os.after(policy) == Acked::No {
                latest.tried.extend(latest.os.take());
            }
        }
        next.members.retain(|_, (_, _, acked)| acked.after(policy) != Acked::No);
        next
    }

    pub fn partition(&mut self, topic: TopicId, index: i32) -> &mut PartitionFacts {
        self.partitions
            .entry((topic, index))
            .or_insert_with(|| PartitionFacts { leader_epoch: -1, ..Default::default() })
    }

    /// The live topic of this name, as far as clients know.
    pub fn topic_named(&self, name: &str) -> Option<TopicId> {
        let live = self.topics.iter().filter(|(_, topic)| topic.name == name && !topic.deletion_tried);
        live.map(|(id, _)| *id).next_back()
    }
}
