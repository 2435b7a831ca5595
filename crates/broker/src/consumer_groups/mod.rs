//! Consumer groups: runs the coordinator's state machines over the partitions of `__consumer_offsets`.
//!
//! - One [`GroupShard`] a partition that this node leads, each under a lock of its own, held over "decide, append,
//!   apply" so that the order in the log is the order of the decisions. An append writes to the page cache, nothing
//!   under the lock waits for a disk.
//! - A shard lives as long as this node leads its partition: [`ConsumerGroups::partition_elected`] loads it,
//!   [`ConsumerGroups::partition_resigned`] ends it and answers waiting requests with NOT_COORDINATOR.
//! - An answer leaves when all records before it are committed; reads are answered from the committed records, as soon
//!   as everything from before the leader's epoch is committed.
//! - Timers run on one thread, which sleeps until the earliest deadline of all shards. What is due also happens before
//!   each operation, so that no answer depends on how fast that thread is.

mod answer;
mod load;
mod shard;
mod shards;
mod timer;
mod verify;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use mainstem_coordinator::{
    CoordinatorOutcome, DeletedOffsets, DescribedGroup, FetchedTopic, GroupConfig, GroupError, GroupShard,
    HeartbeatRequest, JoinGroupRequest, JoinedGroup, LeaveGroupRequest, LeftMember, ListedGroup, Now,
    OffsetCommitRequest, OffsetDeleteRequest, OffsetFetchRequest, Reply, ReplyToken, SyncGroupRequest, SyncedGroup,
};
use mainstem_env::Clock;
use mainstem_types::{LeaderEpoch, PartitionIndex};

use crate::partition::Partition;
pub use answer::{Answer, Pending};
use load::Loader;
use shard::Shard;
use shards::Shards;
use timer::{TimerThread, Waker};

/// The group coordinator of this node.
pub struct ConsumerGroups {
    shared: Arc<ConsumerGroupsState>,
    loader: Loader,
    timer: TimerThread,
}

/// The state that callers and threads share.
struct ConsumerGroupsState {
    clock: Arc<dyn Clock>,
    config: GroupConfig,
    shards: Shards,
    next_token: AtomicU64,
}

impl ConsumerGroupsState {
    fn now(&self) -> Now {
        Now { monotonic: self.clock.monotonic(), wall: self.clock.wall_ms() }
    }

    fn token(&self) -> ReplyToken {
        ReplyToken(self.next_token.fetch_add(1, Ordering::Relaxed))
    }
}

impl ConsumerGroups {
    pub(crate) fn start(clock: Arc<dyn Clock>, config: GroupConfig) -> std::io::Result<ConsumerGroups> {
        let shared =
            Arc::new(ConsumerGroupsState { clock, config, shards: Shards::default(), next_token: AtomicU64::new(0) });
        let waker = Waker::new();
        let loader = Loader::new(Arc::clone(&shared), waker.clone());
        let for_retries = loader.clone();
        let timer = TimerThread::start(waker, Arc::clone(&shared), move |shard| for_retries.load(shard))?;
        Ok(ConsumerGroups { shared, loader, timer })
    }

    /// The offsets topic has so many partitions: from now on it is known which of them a group belongs to.
    pub(crate) fn topic_has(&self, partition_count: i32) {
        self.shared.shards.topic_has(partition_count);
    }

    /// This node leads the partition of the offsets topic from `epoch` on: its shard is loaded, and then served. Until
    /// then clients are told that the coordinator loads. An epoch that is not newer than what is known changes nothing.
    pub(crate) fn partition_elected(&self, partition: &Arc<Partition>, epoch: LeaderEpoch) {
        let new = || Arc::new(Shard::new(self.shared.config.clone(), Arc::clone(partition)));
        let elected = self.shared.shards.elected(partition.index, epoch, partition, new);
        if let Some(replaced) = elected.replaced {
            replaced.close(self.shared.now());
        }
        if let Some(shard) = elected.to_load {
            self.loader.load(shard);
        }
    }

    /// This node does not lead the partition any more: another does from `epoch` on, or, without an epoch, the
    /// partition is gone. Waiting joins, syncs and commits are answered NOT_COORDINATOR; state and timers are dropped.
    /// An epoch that is not newer than the shard's changes nothing.
    pub(crate) fn partition_resigned(&self, index: PartitionIndex, epoch: Option<LeaderEpoch>) {
        if let Some(shard) = self.shared.shards.resigned(index, epoch) {
            shard.close(self.shared.now());
        }
    }

    /// Whether the offsets topic exists, loaded or not.
    pub fn is_available(&self) -> bool {
        self.shared.shards.is_known()
    }

    fn shard(&self, group_id: &str) -> Result<Arc<Shard>, GroupError> {
        // What a failed log holds will never be committed, so nothing is answered from it.
        let shard = self.shared.shards.of_group(group_id).filter(|shard| shard.partition().log().failure().is_none());
        shard.ok_or(GroupError::NotCoordinator)
    }

    fn submit(
        &self,
        group_id: &str,
        operation: impl FnOnce(&mut GroupShard, ReplyToken, Now) -> CoordinatorOutcome,
    ) -> Result<Pending, GroupError> {
        self.submit_parts(group_id, |shard, token, now| vec![operation(shard, token, now)])
    }

    fn submit_parts(
        &self,
        group_id: &str,
        operation: impl FnOnce(&mut GroupShard, ReplyToken, Now) -> Vec<CoordinatorOutcome>,
    ) -> Result<Pending, GroupError> {
        let shard = self.shard(group_id)?;
        let (pending, deadline) = shard.submit(self.shared.token(), self.shared.now(), operation)?;
        self.timer.look_at(deadline);
        Ok(pending)
    }

    fn look<T>(
        &self,
        group_id: &str,
        operation: impl FnOnce(&mut GroupShard, Now) -> Result<T, GroupError>,
    ) -> Result<T, GroupError> {
        let (shard, now) = (self.shard(group_id)?, self.shared.now());
        shard.look(now, |machine| operation(machine, now))
    }

    fn look_at_committed<T>(
        &self,
        group_id: &str,
        operation: impl FnOnce(&mut GroupShard) -> Result<T, GroupError>,
    ) -> Result<T, GroupError> {
        self.shard(group_id)?.look_at_committed(self.shared.now(), operation)
    }

    pub fn join(&self, request: &JoinGroupRequest<'_>) -> Answer<JoinedGroup> {
        let pending = self.submit(request.group_id, |shard, token, now| shard.join_group(token, request, now));
        Answer::new(pending, |reply| match reply {
            Reply::Join(result) => Some(result),
            _ => None,
        })
    }

    pub fn sync(&self, request: &SyncGroupRequest<'_>) -> Answer<SyncedGroup> {
        let pending = self.submit(request.group_id, |shard, token, now| shard.sync_group(token, request, now));
        Answer::new(pending, |reply| match reply {
            Reply::Sync(result) => Some(result),
            _ => None,
        })
    }

    pub fn leave(&self, request: &LeaveGroupRequest<'_>) -> Answer<Vec<LeftMember>> {
        let pending = self.submit(request.group_id, |shard, token, now| shard.leave_group(token, request, now));
        Answer::new(pending, |reply| match reply {
            Reply::Leave(result) => Some(result),
            _ => None,
        })
    }

    pub fn commit_offsets(
        &self,
        request: &OffsetCommitRequest<'_>,
    ) -> Answer<Vec<mainstem_coordinator::CommittedTopic>> {
        let pending = self.submit(request.group_id, |shard, token, now| shard.offset_commit(token, request, now));
        Answer::new(pending, |reply| match reply {
            Reply::OffsetCommit(result) => Some(result),
            _ => None,
        })
    }

    /// Deletes an empty group with its offsets.
    pub fn delete(&self, group_id: &str) -> Answer<()> {
        let pending = self.submit_parts(group_id, |shard, token, _| shard.delete_group(token, group_id));
        Answer::new(pending, |reply| match reply {
            Reply::DeleteGroup(result) => Some(result),
            _ => None,
        })
    }

    /// Deletes single offsets of a group. One result a partition, in the order of the request.
    pub fn delete_offsets(&self, request: &OffsetDeleteRequest<'_>) -> Answer<Vec<DeletedOffsets>> {
        let pending = self.submit_parts(request.group_id, |shard, token, _| shard.offset_delete(token, request));
        Answer::new(pending, |reply| match reply {
            Reply::OffsetDelete(result) => Some(result),
            _ => None,
        })
    }

    pub fn heartbeat(&self, request: &HeartbeatRequest<'_>) -> Result<(), GroupError> {
        self.look(request.group_id, |machine, now| machine.heartbeat(request, now))
    }

    /// Offsets of one group.
    pub fn fetch_offsets(&self, request: &OffsetFetchRequest<'_>) -> Result<Vec<FetchedTopic>, GroupError> {
        self.look_at_committed(request.group_id, |machine| machine.offset_fetch(request))
    }

    pub fn describe(&self, group_id: &str) -> Result<DescribedGroup, GroupError> {
        self.look_at_committed(group_id, |machine| machine.describe_group(group_id))
    }

    /// The groups of this node in one of `states` and of one of `types`; empty lists ask for all.
    pub fn list(&self, states: &[&str], types: &[&str]) -> Result<Vec<ListedGroup>, GroupError> {
        let mut all = Vec::new();
        for shard in self.shared.shards.all() {
            match shard.look_at_committed(self.shared.now(), |machine| machine.list_groups(states, types)) {
                Ok(groups) => all.extend(groups),
                // Resigned while it was looked at: its groups are another node's.
                Err(GroupError::NotCoordinator) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(all)
    }

    /// The offsets of topics that were deleted go.
    pub(crate) fn topics_deleted(&self, topics: &[&str]) {
        for shard in self.shared.shards.all() {
            shard.topics_deleted(topics, self.shared.now());
        }
    }

    /// The offsets topic is gone, and every shard with it.
    pub(crate) fn topic_deleted(&self) {
        for shard in self.shared.shards.clear() {
            shard.close(self.shared.now());
        }
    }

    /// Compares each shard with a replay of its journal; one line for each difference.
    pub(crate) fn verify(&self) -> Vec<String> {
        self.shared.shards.all().iter().flat_map(|shard| verify::verify(shard, &self.shared.config)).collect()
    }

    /// Ends all waits with NOT_COORDINATOR, and the thread.
    pub(crate) fn stop(&self) {
        self.timer.stop();
        self.topic_deleted();
    }
}

#[cfg(test)]
mod tests;
