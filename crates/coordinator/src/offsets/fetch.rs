//! OffsetFetch: answered from the committed records alone.

use std::sync::Arc;

use indexmap::IndexMap;
use mainstem_types::{LeaderEpoch, Offset, PartitionIndex, TopicId};

use crate::stored::StoredGroup;
use crate::{CommittedOffset, FetchedPartition, FetchedTopic, GroupError, GroupShard, OffsetFetchRequest};

impl GroupShard {
    /// The committed offsets of a group. A group that does not exist has none; that is no error.
    pub fn offset_fetch(&self, request: &OffsetFetchRequest<'_>) -> Result<Vec<FetchedTopic>, GroupError> {
        self.check_loaded()?;
        let exists = match self.stored.committed_group(request.group_id) {
            None => false,
            Some(StoredGroup::Simple | StoredGroup::Classic(_)) => true,
            // Members of KIP-848 groups are not served here, so an epoch can only be out of date.
            Some(StoredGroup::Foreign(_)) if request.member_id.is_some() && request.member_epoch >= 0 => {
                return Err(GroupError::UnknownMemberId);
            }
            Some(StoredGroup::Foreign(_)) => true,
        };
        Ok(match &request.topics {
            None if exists => self.fetch_all(request),
            None => Vec::new(),
            Some(topics) => topics
                .iter()
                .map(|topic| FetchedTopic {
                    name: topic.name.into(),
                    partitions: topic
                        .partitions
                        .iter()
                        .map(|partition| self.fetch_one(request, topic.name, topic.topic_id, *partition, exists))
                        .collect(),
                })
                .collect(),
        })
    }

    fn fetch_all(&self, request: &OffsetFetchRequest<'_>) -> Vec<FetchedTopic> {
        let mut topics: IndexMap<Arc<str>, Vec<FetchedPartition>> = IndexMap::new();
        for (topic, partition) in self.stored.offsets.committed_partitions_of(request.group_id) {
            let fetched = self.fetch_one(request, &topic, TopicId::ZERO, PartitionIndex(partition), true);
            topics.entry(topic).or_default().push(fetched);
        }
        topics.into_iter().map(|(name, partitions)| FetchedTopic { name, partitions }).collect()
    }

    fn fetch_one(
        &self,
        request: &OffsetFetchRequest<'_>,
        topic: &str,
        topic_id: TopicId,
        partition: PartitionIndex,
        exists: bool,
    ) -> FetchedPartition {
        if request.require_stable && self.stored.offsets.is_pending_committed(request.group_id, topic, partition.0) {
            return fetched(partition, None, Some(GroupError::UnstableOffsetCommit));
        }
        let offset = self.stored.offsets.committed(request.group_id, topic, partition.0);
        // A topic that was deleted and created again has no committed offset, though its name has.
        let of_this_topic =
            |known: &&CommittedOffset| known.topic_id.is_zero() || topic_id.is_zero() || known.topic_id == topic_id;
        fetched(partition, offset.filter(|_| exists).filter(of_this_topic), None)
    }
}

fn fetched(partition: PartitionIndex, offset: Option<&CommittedOffset>, error: Option<GroupError>) -> FetchedPartition {
    match offset {
        None => FetchedPartition {
            partition,
            offset: Offset::NONE,
            leader_epoch: LeaderEpoch::NONE,
            metadata: Arc::default(),
            error,
        },
        Some(known) => FetchedPartition {
            partition,
            offset: known.offset,
            leader_epoch: known.leader_epoch,
            metadata: known.metadata.clone(),
            error,
        },
    }
}
