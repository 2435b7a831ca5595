//! Consumer groups: runs the coordinator's state machines over the partitions of `__consumer_offsets`.
//!
//! - One [`GroupShard`] a partition, each under a lock of its own, held over "decide, append, apply" so that the order
//!   in the log is the order of the decisions. An append writes to the page cache, nothing under the lock waits for a
//!   disk.
//! - An answer leaves when the records it stands on are committed.
//! - Timers run on one thread, which sleeps until the earliest deadline of all shards.

mod load;
mod shard;
mod timer;
mod verify;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwapOption;
use mainstem_coordinator::{
    DeletedOffsets, DescribedGroup, FetchedTopic, GroupConfig, GroupError, HeartbeatRequest, JoinGroupRequest,
    JoinedGroup, LeaveGroupRequest, LeftMember, ListedGroup, Now, OffsetCommitRequest, OffsetDeleteRequest,
    OffsetFetchRequest, Reply, ReplyToken, SyncGroupRequest, SyncedGroup, partition_for_group,
};
use mainstem_env::Clock;

use crate::partition::Partition;
use shard::Shard;
pub use shard::{Answer, Pending};
use timer::TimerThread;

/// The topic that keeps groups and offsets.
pub const OFFSETS_TOPIC: &str = "__consumer_offsets";

/// The group coordinator of this node.
pub struct Groups {
    shared: Arc<Shared>,
    timer: TimerThread,
}

/// What the callers and the timer thread share.
struct Shared {
    clock: Arc<dyn Clock>,
    config: GroupConfig,
    /// By partition of the offsets topic; nothing as long as that topic does not exist.
    shards: ArcSwapOption<Vec<Arc<Shard>>>,
    next_token: AtomicU64,
}

impl Shared {
    /// When an operation comes. Rounded up: what is to be waited from now on is not over too early.
    fn now(&self) -> Now {
        let monotonic_ms = self.clock.monotonic().as_nanos().div_ceil(1_000_000) as u64;
        Now { monotonic_ms, wall: self.clock.wall_ms() }
    }

    /// Up to when timers are due.
    fn timers_now(&self) -> Now {
        Now { monotonic_ms: self.clock.monotonic().as_millis() as u64, wall: self.clock.wall_ms() }
    }

    fn token(&self) -> ReplyToken {
        ReplyToken(self.next_token.fetch_add(1, Ordering::Relaxed))
    }
}

impl Groups {
    pub(crate) fn start(clock: Arc<dyn Clock>, config: GroupConfig) -> std::io::Result<Groups> {
        let shared = Arc::new(Shared { clock, config, shards: ArcSwapOption::empty(), next_token: AtomicU64::new(0) });
        let timer = TimerThread::start(Arc::clone(&shared))?;
        Ok(Groups { shared, timer })
    }

    /// The offsets topic is there: its partitions are read, on a thread of their own, and then served. Until then
    /// clients are told that the coordinator loads.
    pub(crate) fn serve(&self, partitions: &[Arc<Partition>]) -> std::io::Result<()> {
        if self.is_available() {
            return Ok(());
        }
        let shards: Vec<_> =
            partitions.iter().map(|p| Arc::new(Shard::new(self.shared.config.clone(), Arc::clone(p)))).collect();
        self.shared.shards.store(Some(Arc::new(shards.clone())));
        if shards.iter().all(|shard| shard.is_empty_log()) {
            let now = self.shared.now();
            shards.iter().for_each(|shard| shard.loaded(now));
            self.timer.look();
            return Ok(());
        }
        let shared = Arc::clone(&self.shared);
        let timer = self.timer.waker();
        let load = move || {
            load::load(&shards, || shared.now());
            timer.look();
        };
        std::thread::Builder::new().name("group-load".to_owned()).spawn(load).map(drop)
    }

    /// Whether the offsets topic exists, loaded or not.
    pub fn is_available(&self) -> bool {
        self.shared.shards.load().is_some()
    }

    fn shard(&self, group_id: &str) -> Result<Arc<Shard>, GroupError> {
        let shards = self.shared.shards.load_full().ok_or(GroupError::NotCoordinator)?;
        let place = partition_for_group(group_id, shards.len() as i32);
        // What a failed log holds will never be committed, so nothing is answered from it.
        let shard = shards.get(place.0 as usize).filter(|shard| shard.partition().log().failure().is_none());
        shard.map(Arc::clone).ok_or(GroupError::NotCoordinator)
    }

    fn submit(
        &self,
        group_id: &str,
        operation: impl FnOnce(&mut mainstem_coordinator::GroupShard, ReplyToken, Now) -> mainstem_coordinator::Outcome,
    ) -> Result<Pending, GroupError> {
        let shard = self.shard(group_id)?;
        let (pending, deadline) = shard.submit(self.shared.token(), self.shared.now(), operation);
        self.timer.look_at(deadline);
        Ok(pending)
    }

    fn submit_parts(
        &self,
        group_id: &str,
        operation: impl FnOnce(&mut mainstem_coordinator::GroupShard, ReplyToken) -> Vec<mainstem_coordinator::Outcome>,
    ) -> Result<Pending, GroupError> {
        let shard = self.shard(group_id)?;
        let (pending, deadline) = shard.submit_parts(self.shared.token(), self.shared.now(), operation);
        self.timer.look_at(deadline);
        Ok(pending)
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
        let pending = self.submit_parts(group_id, |shard, token| shard.delete_group(token, group_id));
        Answer::new(pending, |reply| match reply {
            Reply::DeleteGroup(result) => Some(result),
            _ => None,
        })
    }

    /// Deletes single offsets of a group. One result a partition, in the order of the request.
    pub fn delete_offsets(&self, request: &OffsetDeleteRequest<'_>) -> Answer<Vec<DeletedOffsets>> {
        let pending = self.submit_parts(request.group_id, |shard, token| shard.offset_delete(token, request));
        Answer::new(pending, |reply| match reply {
            Reply::OffsetDelete(result) => Some(result),
            _ => None,
        })
    }

    pub fn heartbeat(&self, request: &HeartbeatRequest<'_>) -> Result<(), GroupError> {
        let shard = self.shard(request.group_id)?;
        shard.with(|machine| machine.heartbeat(request, self.shared.now()))
    }

    /// Offsets of one group.
    pub fn fetch_offsets(&self, request: &OffsetFetchRequest<'_>) -> Result<Vec<FetchedTopic>, GroupError> {
        self.shard(request.group_id)?.with(|machine| machine.offset_fetch(request))
    }

    pub fn describe(&self, group_id: &str) -> Result<DescribedGroup, GroupError> {
        self.shard(group_id)?.with(|machine| machine.describe_group(group_id))
    }

    /// All groups in one of `states` and of one of `types`; empty lists ask for all.
    pub fn list(&self, states: &[&str], types: &[&str]) -> Result<Vec<ListedGroup>, GroupError> {
        let Some(shards) = self.shared.shards.load_full() else { return Ok(Vec::new()) };
        let mut all = Vec::new();
        for shard in shards.iter() {
            all.extend(shard.with(|machine| machine.list_groups(states, types))?);
        }
        Ok(all)
    }

    /// The offsets of topics that were deleted go; everything goes with the offsets topic itself.
    pub(crate) fn topics_deleted(&self, topics: &[&str]) {
        if topics.contains(&OFFSETS_TOPIC) {
            return self.unload();
        }
        let Some(shards) = self.shared.shards.load_full() else { return };
        for shard in shards.iter() {
            shard.run(self.shared.now(), |machine, _| machine.topics_deleted(topics));
        }
    }

    /// Compares each shard with a replay of its journal; one line for each difference.
    pub(crate) fn verify(&self) -> Vec<String> {
        let Some(shards) = self.shared.shards.load_full() else { return Vec::new() };
        shards.iter().flat_map(|shard| verify::verify(shard, &self.shared.config, self.shared.now())).collect()
    }

    /// Ends all waits with NOT_COORDINATOR, and the thread.
    pub(crate) fn stop(&self) {
        self.timer.stop();
        self.unload();
    }

    fn unload(&self) {
        if let Some(shards) = self.shared.shards.swap(None) {
            shards.iter().for_each(|shard| shard.unload(self.shared.now()));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_wait_that_begins_within_a_millisecond_is_not_over_too_early() {
        let clock = Arc::new(mainstem_env::ManualClock::at(mainstem_types::TimestampMs(0)));
        clock.advance(Duration::from_micros(10_900));
        let shared = Shared {
            clock: clock.clone(),
            config: GroupConfig::default(),
            shards: ArcSwapOption::empty(),
            next_token: AtomicU64::new(0),
        };
        let deadline_ms = shared.now().monotonic_ms + 200;
        clock.advance(Duration::from_millis(199));
        assert!(shared.timers_now().monotonic_ms < deadline_ms);
        clock.advance(Duration::from_millis(2));
        assert!(shared.timers_now().monotonic_ms >= deadline_ms);
    }
}
