//! DescribeGroups, ListGroups, DeleteGroups, OffsetDelete, and the offsets of deleted topics.

use std::collections::BTreeSet;
use std::sync::Arc;

use mainstem_types::PartitionIndex;

use crate::shard::GroupView;
use crate::{
    CommittedPartition, CoordinatorOutcome, DeletedOffsets, DescribedGroup, GroupError, GroupShard, GroupType,
    ListedGroup, MAX_TOMBSTONES_PER_OUTCOME, OffsetDeleteRequest, OffsetsRecord, Reply, ReplyToken,
};

impl GroupShard {
    /// Describes a classic group. GROUP_ID_NOT_FOUND: DescribeGroups up to v5 shows a
    /// [`GroupState::Dead`](crate::GroupState::Dead) group without an error instead. The empty name is allowed: simple
    /// consumers of old clients commit to it.
    pub fn describe_group(&self, group_id: &str) -> Result<DescribedGroup, GroupError> {
        self.check_loaded()?;
        let name = self.group_key(group_id);
        let shown = self.stored.committed_group(group_id).and_then(|group| self.shown(&name, group).describe());
        shown.ok_or(GroupError::GroupIdNotFound)
    }

    /// The groups whose state and type are among those asked for, by Kafka's names, in any case; empty asks for all.
    pub fn list_groups(&self, states: &[&str], types: &[&str]) -> Result<Vec<ListedGroup>, GroupError> {
        self.check_loaded()?;
        let asked = |names: &[&str], name: &str| names.is_empty() || names.iter().any(|n| n.eq_ignore_ascii_case(name));
        let groups = self.stored.committed_groups();
        let listed = groups.into_iter().map(|(group_id, group)| self.shown(group_id, group).list(group_id));
        Ok(listed.filter(|g| asked(states, g.state.name()) && asked(types, g.group_type.name())).collect())
    }

    /// Deletes an empty group with its offsets. Handle the outcomes in their order: the answer is in the last one. If
    /// an earlier outcome cannot be appended, the last one has failed as well.
    pub fn delete_group(&self, token: ReplyToken, group_id: &str) -> Vec<CoordinatorOutcome> {
        let found = self.check_loaded().and_then(|()| match self.group(group_id) {
            None => Err(GroupError::GroupIdNotFound),
            Some(GroupView::Live(group)) => group.validate_delete(),
            Some(GroupView::Stored(group)) => group.validate_delete(),
            Some(GroupView::Foreign(group)) if group.is_empty() => Ok(()),
            Some(GroupView::Foreign(_)) => Err(GroupError::NonEmptyGroup),
        });
        let group_id = match found {
            Ok(()) => self.group_key(group_id),
            Err(error) => return vec![CoordinatorOutcome::reply(token, Reply::DeleteGroup(Err(error)))],
        };
        let offsets = self.stored.offsets.partitions_of(&group_id);
        let offsets =
            offsets.iter().map(|(topic, partition)| OffsetsRecord::offset_tombstone(&group_id, topic, *partition));
        let group = self.group(&group_id).map(|group| group.tombstones(&group_id)).unwrap_or_default();
        in_parts(offsets.chain(group).collect(), (token, Reply::DeleteGroup(Ok(()))))
    }

    /// Deletes single offsets. Topics that the group's members read are refused, one by one.
    pub fn offset_delete(&self, token: ReplyToken, request: &OffsetDeleteRequest<'_>) -> Vec<CoordinatorOutcome> {
        let found = self.check_loaded().and_then(|()| match self.group(request.group_id) {
            _ if request.group_id.is_empty() => Err(GroupError::InvalidGroupId),
            None => Err(GroupError::GroupIdNotFound),
            Some(GroupView::Live(group)) => group.validate_offset_delete(),
            Some(GroupView::Stored(group)) => group.validate_offset_delete(),
            Some(GroupView::Foreign(group)) if group.group_type == GroupType::Share => Err(GroupError::GroupIdNotFound),
            Some(GroupView::Foreign(_)) => Ok(()),
        });
        if let Err(error) = found {
            return vec![CoordinatorOutcome::reply(token, Reply::OffsetDelete(Err(error)))];
        }
        let group_id = self.group_key(request.group_id);
        let mut records = Vec::new();
        let mut topics = Vec::with_capacity(request.topics.len());
        for topic in &request.topics {
            let subscribed = self.group(&group_id).is_some_and(|group| group.is_subscribed_to(topic.name));
            let result = if subscribed { Err(GroupError::GroupSubscribedToTopic) } else { Ok(()) };
            let name: Arc<str> = topic.name.into();
            let has = |partition: &&PartitionIndex| self.has_offset(&group_id, topic.name, partition.0);
            if !subscribed {
                let kept = topic.partitions.iter().filter(has);
                records.extend(kept.map(|partition| OffsetsRecord::offset_tombstone(&group_id, &name, partition.0)));
            }
            let partitions = topic.partitions.iter();
            let partitions =
                partitions.map(|partition| CommittedPartition { partition: *partition, result: result.clone() });
            topics.push(DeletedOffsets { name: topic.name.to_owned(), partitions: partitions.collect() });
        }
        in_parts(records, (token, Reply::OffsetDelete(Ok(topics))))
    }

    /// Removes the offsets of topics that were deleted, in all groups. To be called on every shard.
    pub fn topics_deleted(&self, topics: &[&str]) -> Vec<CoordinatorOutcome> {
        let deleted: BTreeSet<&str> = topics.iter().copied().collect();
        let mut records = Vec::new();
        for group in self.stored.offsets.groups() {
            let kept =
                self.stored.offsets.partitions_of(&group).into_iter().filter(|(topic, _)| deleted.contains(&**topic));
            records.extend(kept.map(|(topic, partition)| OffsetsRecord::offset_tombstone(&group, &topic, partition)));
        }
        let mut outcomes = Vec::new();
        while !records.is_empty() {
            let rest = records.split_off(records.len().min(MAX_TOMBSTONES_PER_OUTCOME));
            outcomes.push(CoordinatorOutcome {
                records: std::mem::replace(&mut records, rest),
                ..CoordinatorOutcome::default()
            });
        }
        outcomes
    }

    fn has_offset(&self, group_id: &str, topic: &str, partition: i32) -> bool {
        self.stored.offsets.get(group_id, topic, partition).is_some()
            || self.stored.offsets.is_pending(group_id, topic, partition)
    }
}

/// The records in outcomes of bounded size, the answer with the last.
fn in_parts(mut records: Vec<OffsetsRecord>, reply: (ReplyToken, Reply)) -> Vec<CoordinatorOutcome> {
    let mut outcomes = Vec::new();
    while records.len() > MAX_TOMBSTONES_PER_OUTCOME {
        let rest = records.split_off(MAX_TOMBSTONES_PER_OUTCOME);
        outcomes.push(CoordinatorOutcome {
            records: std::mem::replace(&mut records, rest),
            ..CoordinatorOutcome::default()
        });
    }
    outcomes.push(CoordinatorOutcome { records, replies: vec![reply], ..CoordinatorOutcome::default() });
    outcomes
}
