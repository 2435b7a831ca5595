//! OffsetCommit.

use mainstem_types::TimestampMs;

use crate::shard::GroupView;
use crate::{
    CommitPartition, CommittedOffset, CommittedPartition, CommittedTopic, CoordinatorOutcome, GroupError, GroupShard,
    GroupState, Now, OffsetCommitRequest, OffsetsRecord, Reply, ReplyToken,
};

impl GroupShard {
    /// Commits offsets; one record a partition, and the answer leaves when they are committed. A commit of a member is
    /// a sign of life. A commit without group management creates the group if need be.
    pub fn offset_commit(
        &mut self,
        token: ReplyToken,
        request: &OffsetCommitRequest<'_>,
        now: Now,
    ) -> CoordinatorOutcome {
        if let Err(error) = self.validate_commit(request) {
            return CoordinatorOutcome::reply(token, Reply::OffsetCommit(Err(error)));
        }
        let mut outcome = CoordinatorOutcome::default();
        self.on_classic(request.group_id, now, &mut outcome, |group, ctx| {
            if matches!(group.state(), GroupState::Stable | GroupState::PreparingRebalance) {
                group.renew_session(ctx, request.member_id);
            }
        });
        let group_id = self.group_key(request.group_id);
        let expire_timestamp = request.retention_ms.map(|ms| TimestampMs(now.wall.0.saturating_add(ms)));
        let mut topics = Vec::with_capacity(request.topics.len());
        for topic in &request.topics {
            let name: std::sync::Arc<str> = topic.name.into();
            let mut partitions = Vec::with_capacity(topic.partitions.len());
            for asked in &topic.partitions {
                let result = self.check_metadata(asked);
                if result.is_ok() {
                    let value = CommittedOffset {
                        offset: asked.offset,
                        leader_epoch: asked.leader_epoch,
                        metadata: asked.metadata.unwrap_or_default().into(),
                        commit_timestamp: now.wall,
                        expire_timestamp,
                        topic_id: topic.topic_id,
                    };
                    outcome.records.push(OffsetsRecord::OffsetCommit {
                        group: group_id.clone(),
                        topic: name.clone(),
                        partition: asked.partition,
                        value: Some(value),
                    });
                }
                partitions.push(CommittedPartition { partition: asked.partition, result });
            }
            topics.push(CommittedTopic { name: topic.name.to_owned(), topic_id: topic.topic_id, partitions });
        }
        outcome.replies.push((token, Reply::OffsetCommit(Ok(topics))));
        outcome
    }

    fn validate_commit(&self, request: &OffsetCommitRequest<'_>) -> Result<(), GroupError> {
        self.check_loaded()?;
        match self.group(request.group_id) {
            None if request.generation < 0 => Ok(()),
            None if request.reports_missing_group => Err(GroupError::GroupIdNotFound),
            None => Err(GroupError::IllegalGeneration),
            Some(GroupView::Live(group)) => group.validate_commit(request),
            Some(GroupView::Stored(group)) => group.validate_commit(request),
            Some(GroupView::Foreign(group)) => group.validate_commit(request.generation),
        }
    }

    fn check_metadata(&self, asked: &CommitPartition<'_>) -> Result<(), GroupError> {
        let limit = self.config.max_offset_metadata;
        let metadata = asked.metadata.unwrap_or_default();
        // A text has at most as many UTF-16 units as it has bytes.
        if metadata.len() > limit && metadata.encode_utf16().count() > limit {
            return Err(GroupError::OffsetMetadataTooLarge);
        }
        Ok(())
    }
}
