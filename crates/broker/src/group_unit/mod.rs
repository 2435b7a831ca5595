//! A partition group as a unit of replication: one replica set over positions of its commit log, and the partitions
//! whose high watermarks follow from it.
//!
//! ```text
//! committed position of the group     everything before is on all in-sync replicas
//!   ≥ end of the last batch below it  of each partition
//!     ≥ high watermark                of the partition: as far as its topic's durability acknowledges
//! ```
//!
//! - All partitions of a group have its leader, its leader epoch and its in-sync set ([`UnitRole::agreed`]). A change
//!   of role is one step: the log is fenced once, then the replica set and all partitions take the role.
//! - As long as the local log alone counts, the committed position is `Position::MAX`: an append looks at it without a
//!   lock, and no list is kept. Otherwise an append adds its batch to the list of uncommitted batches. A move of the
//!   committed position takes the batches below it from the list, and looks at no other partition.
//!
//! Locks, in this order: `changing` (one change of role, copy or cut at a time; held across their IO, taken by no
//! append) → `state` (for moments; across the IO of a cut, and of the list at the first role) → `member` of a partition
//! → the locks of the log.

mod members;
mod registry;
mod replication;

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use mainstem_metadata::image::{PartitionImage, UnitRole};
use mainstem_replica::{
    EpochCheckError, Event, EventError, InSync, MinInSyncError, ReplicaOutcome, ReplicaSet, ReplicaSetState, Role,
};
use mainstem_store::GroupLog;
use mainstem_types::{LeaderEpoch, NodeId, Offset, PartitionIndex, Position, TopicId};
use parking_lot::{Mutex, MutexGuard};

pub(crate) use members::{Committed, Member, MemberRole, Moved};
pub(crate) use registry::{GroupUnits, follow_units};
pub use replication::{FollowerFetch, LeaderPiece, UnitAnswer, UnitError};

/// A partition, as a commit log names it.
pub(crate) type MemberKey = (TopicId, PartitionIndex);

/// A partition group with its replica set.
pub struct GroupUnit {
    log: Arc<GroupLog>,
    node: NodeId,
    /// See the module's documentation.
    changing: Mutex<()>,
    state: Mutex<UnitState>,
    /// [`InSync`], readable without the lock: the in-sync replicas in the upper half.
    in_sync: AtomicU64,
}

struct UnitState {
    replicas: ReplicaSet<Position>,
    /// What all partitions agree on; `None`: they do not, or nobody has said it yet.
    role: Option<UnitRole>,
    members: HashMap<MemberKey, Weak<dyn Member>>,
    /// Above the committed position, ascending by their ends.
    uncommitted: VecDeque<Uncommitted>,
    /// `uncommitted` has everything above the committed position. Before: nobody has asked.
    is_listed: bool,
}

/// A batch that is not committed.
struct Uncommitted {
    end: Position,
    next_offset: Offset,
    member: Weak<dyn Member>,
}

/// See [`GroupUnit::settled`].
pub(crate) struct SettledUnit<'u>(#[allow(dead_code)] MutexGuard<'u, UnitState>);

/// Partitions whose high watermark moved: to be woken when no lock is held.
type Woken = Vec<(Arc<dyn Member>, Moved)>;

impl GroupUnit {
    /// The group as its log has it. It has no role yet.
    pub(crate) fn new(log: Arc<GroupLog>, node: NodeId) -> GroupUnit {
        let (log_start, log_end) = (log.start_position(), log.end_position());
        let high_watermark = log.high_watermark().max(log_start).min(log_end);
        log.set_high_watermark(high_watermark);
        let state = ReplicaSetState {
            local: node,
            replicas: vec![node],
            log_start,
            high_watermark,
            log_end,
            acknowledged: log_end,
        };
        // reason: a commit log ends behind its start, and the high watermark is clamped between them.
        let replicas = ReplicaSet::new(state).expect("the positions of an opened commit log are in order");
        let (members, uncommitted) = (HashMap::new(), VecDeque::new());
        let state = UnitState { replicas, role: None, members, uncommitted, is_listed: false };
        GroupUnit { log, node, changing: Mutex::default(), state: Mutex::new(state), in_sync: AtomicU64::new(0) }
    }

    /// The commit log with its views.
    pub fn log(&self) -> &Arc<GroupLog> {
        &self.log
    }

    /// What this node is to the group.
    pub fn role(&self) -> Role {
        self.state.lock().replicas.role()
    }

    pub fn leader_epoch(&self) -> LeaderEpoch {
        self.state.lock().replicas.leader_epoch()
    }

    /// Everything before is committed, as far as the durability of the topics allows.
    pub fn high_watermark(&self) -> Position {
        self.log.high_watermark().min(self.log.end_position())
    }

    pub(crate) fn in_sync(&self) -> InSync {
        let both = self.in_sync.load(Ordering::Acquire);
        InSync { in_sync: (both >> 32) as usize, replicas: both as u32 as usize }
    }

    /// Checks `min.insync.replicas` of a topic.
    pub(crate) fn check_min_in_sync(&self, required: usize) -> Result<(), MinInSyncError> {
        self.in_sync().check(required)
    }

    pub(crate) fn check_leader_epoch(&self, given: LeaderEpoch) -> Result<(), EpochCheckError> {
        self.state.lock().replicas.check_leader_epoch(given)
    }

    /// Whether a batch that ends there is committed, as far as the group is concerned. Takes no lock.
    pub(crate) fn is_committed(&self, end: Position) -> bool {
        end <= self.log.high_watermark()
    }

    /// Remembers a batch that was appended until it is committed. False: it is committed already.
    pub(crate) fn add_uncommitted(&self, end: Position, next_offset: Offset, key: MemberKey) -> bool {
        let mut state = self.state.lock();
        if self.is_committed(end) {
            return false;
        }
        state.add(end, next_offset, key);
        true
    }

    /// While this is held, no cut is under way.
    pub(crate) fn settled(&self) -> SettledUnit<'_> {
        SettledUnit(self.state.lock())
    }

    /// A partition of the group that has no role yet.
    pub(crate) fn join(&self, key: MemberKey, member: Weak<dyn Member>) {
        self.state.lock().members.insert(key, member);
    }

    /// The partition was deleted.
    pub(crate) fn leave(&self, key: MemberKey) {
        self.state.lock().members.remove(&key);
    }

    pub(crate) fn keys(&self) -> Vec<MemberKey> {
        self.state.lock().members.keys().copied().collect()
    }

    /// Whether the group has the role that the metadata gives one of its partitions. Then a partition that has none yet
    /// takes it.
    pub(crate) fn has_role_of(&self, image: &PartitionImage, member: &dyn Member) -> bool {
        let state = self.state.lock();
        let Some(role) = state.role.as_ref().filter(|role| role.is_of(image)) else { return false };
        if !member.has_role() {
            // A new partition: the commit log has nothing of it.
            let role = self.member_role(&state, role, Committed::ToItsEnd, true);
            member.before_role(role.leads, role.epoch);
            let moved = member.take_role(&role);
            drop(state);
            member.wake(moved);
        }
        true
    }

    /// All partitions of the group take this role. An older epoch changes nothing.
    pub(crate) fn follow(&self, role: UnitRole) {
        let _one = self.changing.lock();
        if role.epoch < self.leader_epoch() {
            return;
        }
        let leads = role.leader == Some(self.node);
        // Under the log's own lock: no append that has read the older epoch comes after this.
        let begun = match leads {
            true => self.log.begin_epoch(role.epoch),
            false => self.log.end_epoch(role.epoch),
        };
        let mut state = self.state.lock();
        if let Err(error) = begun {
            let members = state.members();
            drop(state);
            return members.iter().for_each(|member| member.fail(&error));
        }
        let is_new_epoch = role.epoch > state.replicas.leader_epoch();
        state.members().iter().for_each(|member| member.before_role(leads, role.epoch));
        let (replicas, in_sync) = (role.replicas.clone(), role.in_sync.clone());
        let elected = Event::LeaderElected { replicas, leader: role.leader, epoch: role.epoch, in_sync };
        let woken = self.happened(&mut state, elected).unwrap_or_else(|error| {
            tracing::error!("{}: {error}", self.log.folder().display());
            Vec::new()
        });
        let counts = InSync { in_sync: state.replicas.in_sync_count(), replicas: state.replicas.replicas().count() };
        self.in_sync.store((counts.in_sync as u64) << 32 | counts.replicas as u64, Ordering::Release);
        let woken = woken.into_iter().chain(self.give_role(&mut state, &role, is_new_epoch)).collect();
        state.role = Some(role);
        wake(state, woken);
    }

    /// The partitions of the group do not agree: until they do, nobody leads here.
    pub(crate) fn follow_nobody(&self) {
        let epoch = self.leader_epoch();
        self.follow(UnitRole { replicas: vec![self.node], in_sync: Vec::new(), leader: None, epoch });
        self.state.lock().role = None;
    }

    fn give_role(&self, state: &mut UnitState, role: &UnitRole, is_new_epoch: bool) -> Woken {
        let mut first_uncommitted = HashMap::new();
        let is_alone = self.log.high_watermark() == Position::MAX;
        let must_list = !is_alone && !state.is_listed;
        if must_list {
            first_uncommitted = self.list_uncommitted(state);
        }
        state.is_listed = true;
        let mut woken = Vec::new();
        for (key, member) in state.members_by_key() {
            let committed = match first_uncommitted.get(&key) {
                Some(first) => Committed::To(*first),
                None if is_alone || must_list => Committed::ToItsEnd,
                None => Committed::AsBefore,
            };
            let moved = member.take_role(&self.member_role(state, role, committed, is_new_epoch));
            woken.push((member, moved));
        }
        woken
    }

    fn member_role(&self, state: &UnitState, role: &UnitRole, committed: Committed, is_new_epoch: bool) -> MemberRole {
        let leads = state.replicas.is_leader();
        MemberRole { leads, epoch: role.epoch, is_new_epoch, in_sync: self.in_sync(), committed }
    }

    /// After a start: the batches above what the checkpoint says is committed. Gives the first one of each partition.
    fn list_uncommitted(&self, state: &mut UnitState) -> HashMap<MemberKey, Offset> {
        let mut first = HashMap::new();
        match self.log.batches_from(state.replicas.high_watermark()) {
            Ok(batches) => {
                for batch in batches {
                    let key = (batch.topic_id, batch.partition);
                    first.entry(key).or_insert(batch.base_offset);
                    state.add(batch.end, batch.next_offset, key);
                }
            }
            Err(error) => {
                tracing::error!("{}: what is not committed cannot be found out: {error}", self.log.folder().display());
                // Nothing counts as committed until a leader says it.
                first.extend(state.members.keys().map(|key| (*key, Offset::ZERO)));
            }
        }
        first
    }

    /// Tells the replica set what happened, and the partitions what is committed by it.
    fn happened(
        &self,
        state: &mut MutexGuard<'_, UnitState>,
        event: Event<Position>,
    ) -> Result<Woken, EventError<Position>> {
        self.take_local_end(state)?;
        let outcome = state.replicas.apply(event);
        let woken = self.publish(state);
        outcome.map(|_| woken)
    }

    fn tell_of_a_lower(&self, outcome: ReplicaOutcome<Position>) {
        if let ReplicaOutcome::HighWatermarkLowered { from, to } = outcome {
            let log = self.log.folder().display();
            tracing::warn!(
                "{log}: positions {to} to {from} were committed and are cut, as an unclean election demands"
            );
        }
    }

    /// An append that finds everything committed tells nobody of its end: here it is found out. Whoever looks from here
    /// on waits for the lock; whoever looked before has written.
    fn take_local_end(&self, state: &mut UnitState) -> Result<(), EventError<Position>> {
        self.log.set_high_watermark(state.replicas.high_watermark());
        let end = self.log.end_position();
        state.replicas.local_ends(end, end).map(|_| ())
    }

    /// Appends see the end that the replica set says. Entries below it are committed.
    fn publish(&self, state: &mut UnitState) -> Woken {
        let alone = state.replicas.is_alone();
        let committed = if alone { Position::MAX } else { state.replicas.high_watermark() };
        self.log.set_high_watermark(committed);
        let count = state.uncommitted.partition_point(|batch| batch.end <= committed);
        let batches = state.uncommitted.drain(..count);
        batches
            .filter_map(|batch| {
                let member = batch.member.upgrade()?;
                let moved = member.committed_to(batch.next_offset);
                Some((member, moved))
            })
            .collect()
    }
}

impl UnitState {
    fn add(&mut self, end: Position, next_offset: Offset, key: MemberKey) {
        let Some(member) = self.members.get(&key).cloned() else { return };
        // Appends of several threads come a little out of order.
        let place = self.uncommitted.iter().rposition(|batch| batch.end < end).map_or(0, |before| before + 1);
        self.uncommitted.insert(place, Uncommitted { end, next_offset, member });
    }

    fn members_by_key(&self) -> Vec<(MemberKey, Arc<dyn Member>)> {
        self.members.iter().filter_map(|(key, member)| Some((*key, member.upgrade()?))).collect()
    }

    fn members(&self) -> Vec<Arc<dyn Member>> {
        self.members.values().filter_map(Weak::upgrade).collect()
    }
}

fn wake(state: MutexGuard<'_, UnitState>, woken: Woken) {
    drop(state);
    woken.into_iter().for_each(|(member, moved)| member.wake(moved));
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
