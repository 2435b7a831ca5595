//! The group of each partition, and the names of the groups' folders.

use std::sync::Arc;

use mainstem_types::{TopicId, TopicPartition};

use crate::config::LogConfig;
use crate::group_log::{LivePartition, PartitionKey};

const SHARED: &str = "shared";
const TOPIC: &str = "topic";

/// Into which groups the partitions of a topic go (`mainstem.layout`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupPlacement {
    /// The common groups; their number is `mainstem.shared.groups`.
    Shared { groups: u32 },
    /// PartitionGroups of the topic's own (`mainstem.groups`).
    Topic { groups: u32 },
}

/// A partition that belongs into a group.
#[derive(Debug, Clone)]
pub struct GroupedPartition {
    pub name: TopicPartition,
    pub topic_id: TopicId,
    pub config: Arc<LogConfig>,
    pub placement: GroupPlacement,
}

impl GroupedPartition {
    pub(super) fn key(&self) -> PartitionKey {
        (self.topic_id, self.name.partition)
    }

    pub(super) fn live(&self) -> LivePartition {
        LivePartition { name: self.name.clone(), topic_id: self.topic_id, config: Arc::clone(&self.config) }
    }

    /// The group that a new partition goes into.
    pub(super) fn place(&self) -> GroupName {
        let index = self.name.partition.0.unsigned_abs();
        match self.placement {
            GroupPlacement::Topic { groups } => GroupName::Topic(self.topic_id, index % groups.max(1)),
            GroupPlacement::Shared { groups } => {
                // Partitions of one topic lie in different groups, thin topics are spread.
                let topic = crate::crc32c(&self.topic_id.0);
                GroupName::Shared(topic.wrapping_add(index) % groups.max(1))
            }
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum GroupName {
    Shared(u32),
    Topic(TopicId, u32),
}

impl GroupName {
    pub(super) fn folder(&self) -> String {
        match self {
            GroupName::Shared(number) => format!("{SHARED}-{number}"),
            GroupName::Topic(id, number) => format!("{TOPIC}-{id}-{number}"),
        }
    }

    /// `None`: not the name of a group.
    pub(super) fn parse(name: &str) -> Option<GroupName> {
        let (rest, number) = name.rsplit_once('-')?;
        let number = number.parse().ok()?;
        let parsed = match rest.split_once('-') {
            None if rest == SHARED => GroupName::Shared(number),
            Some((TOPIC, id)) => GroupName::Topic(id.parse().ok()?, number),
            _ => return None,
        };
        (parsed.folder() == name).then_some(parsed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    use mainstem_types::PartitionIndex;

    #[test]
    fn names_of_groups_are_read_as_written() {
        let ids = [TopicId([7; 16]), TopicId([0xfb; 16]), TopicId([0xff; 16])];
        let names = ids.iter().map(|id| GroupName::Topic(*id, 3)).chain([GroupName::Shared(0), GroupName::Shared(12)]);
        for name in names {
            assert_eq!(GroupName::parse(&name.folder()), Some(name), "{}", name.folder());
        }
        for other in ["shared", "shared-", "shared-01", "shared-1.deleted", "topic-x-1", "other-1", "shared-a"] {
            assert_eq!(GroupName::parse(other), None, "{other}");
        }
    }

    #[test]
    fn partitions_are_spread_and_stay_within_the_number_of_groups() {
        let place = |index, placement| {
            let name = TopicPartition::new("t", PartitionIndex(index));
            GroupedPartition { name, topic_id: TopicId([7; 16]), config: Arc::default(), placement }.place()
        };
        let shared: BTreeSet<_> = (0..8).map(|index| place(index, GroupPlacement::Shared { groups: 4 })).collect();
        assert_eq!(shared.len(), 4);
        assert!(shared.iter().all(|name| matches!(name, GroupName::Shared(0..4))));
        let topic: BTreeSet<_> = (0..8).map(|index| place(index, GroupPlacement::Topic { groups: 3 })).collect();
        assert_eq!(topic.len(), 3);
        assert_eq!(place(5, GroupPlacement::Topic { groups: 0 }), GroupName::Topic(TopicId([7; 16]), 0));
    }
}
