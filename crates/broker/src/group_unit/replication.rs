//! A group with several replicas: what its leader answers to a follower, and what a follower does with the answer.
//!
//! A follower fetches from where its log ends, and names the leader epoch of its last entry. If the leader has another
//! history there, it answers where that epoch ends; the follower cuts its log and fetches again.

use bytes::Bytes;
use mainstem_replica::{EpochEnd, Event, EventError, Role, cut_at, diverging};
use mainstem_store::{EpochStart, ReplicateError, StorageError, UnknownPartitions};
use mainstem_types::{LeaderEpoch, NodeId, Position};

use super::{GroupUnit, UnitState, wake};

/// A fetch of a follower.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FollowerFetch {
    pub node: NodeId,
    /// The leader epoch in which it follows.
    pub epoch: LeaderEpoch,
    /// Where its log ends.
    pub from: Position,
    /// The leader epoch of its last entry; -1 without one.
    pub last_epoch: LeaderEpoch,
    pub bytes_max: usize,
}

/// The leader's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UnitAnswer {
    /// Whole entries from the position on, and the leader's high watermark.
    Entries { bytes: Bytes, high_watermark: Position },
    /// The logs differ: the largest epoch of the leader that is not above the follower's last one, and where it ends.
    Diverging(EpochEnd<Position>),
}

/// Entries that a leader answered.
#[derive(Debug, Clone)]
pub struct LeaderPiece {
    /// Where the follower fetched from.
    pub at: Position,
    pub bytes: Bytes,
    /// The leader epoch in which the follower asked.
    pub epoch: LeaderEpoch,
    pub high_watermark: Position,
    pub unknown: UnknownPartitions,
}

/// Why a group takes no part in a step of the replication. Nothing has changed.
#[derive(Debug, thiserror::Error)]
pub enum UnitError {
    #[error("this node does not lead the group")]
    NotLeader,
    #[error("this node does not follow a leader of the group")]
    NotFollower,
    #[error("epoch {0} of the follower's last entry is newer than any of the leader")]
    UnknownEpoch(LeaderEpoch),
    #[error(transparent)]
    Event(#[from] EventError<Position>),
    #[error(transparent)]
    Log(#[from] ReplicateError),
    #[error(transparent)]
    Storage(#[from] StorageError),
}

impl GroupUnit {
    /// The leader's side of a fetch. May wait for the disk.
    pub fn answer(&self, fetch: &FollowerFetch) -> Result<UnitAnswer, UnitError> {
        if fetch.last_epoch != LeaderEpoch::NONE {
            let found = self.log.end_position_for_epoch(fetch.last_epoch)?;
            let found = found.map(epoch_end).ok_or(UnitError::UnknownEpoch(fetch.last_epoch))?;
            if let Some(end) = diverging(fetch.last_epoch, fetch.from, found) {
                return if self.role() == Role::Leader {
                    Ok(UnitAnswer::Diverging(end))
                } else {
                    Err(UnitError::NotLeader)
                };
            }
        }
        let mut state = self.state.lock();
        if !state.replicas.is_leader() {
            return Err(UnitError::NotLeader);
        }
        let fetched = Event::FollowerFetched { node: fetch.node, epoch: fetch.epoch, from: fetch.from };
        let woken = self.happened(&mut state, fetched)?;
        let high_watermark = state.replicas.high_watermark();
        wake(state, woken);
        let bytes = self.log.read_entries(fetch.from, fetch.bytes_max)?;
        Ok(UnitAnswer::Entries { bytes, high_watermark })
    }

    /// The leader has asked the controller for this in-sync set: until it is answered the members of both count.
    pub fn propose_in_sync(&self, nodes: Vec<NodeId>) -> Result<(), UnitError> {
        let mut state = self.state.lock();
        let woken = self.happened(&mut state, Event::InSyncProposed(nodes))?;
        wake(state, woken);
        Ok(())
    }

    /// Whether a follower has everything that it must have to be in sync.
    pub fn may_join(&self, node: NodeId) -> Result<bool, UnitError> {
        let mut state = self.state.lock();
        self.take_local_end(&mut state)?;
        let may = state.replicas.may_join(node);
        let woken = self.publish(&mut state);
        wake(state, woken);
        Ok(may)
    }

    /// The follower's side: takes what the leader answered, and what of it is committed. Gives where the log ends then.
    pub fn append_replicated(&self, piece: &LeaderPiece) -> Result<Position, UnitError> {
        let _one = self.changing.lock();
        self.check_follows(&self.state.lock(), piece.epoch)?;
        let replicated = self.log.append_replicated(piece.at, &piece.bytes, piece.epoch, piece.unknown)?;
        let mut state = self.state.lock();
        for batch in &replicated.batches {
            state.add(batch.end, batch.next_offset, (batch.topic_id, batch.partition));
        }
        let committed = Event::LeaderCommitted { epoch: piece.epoch, high_watermark: piece.high_watermark };
        let woken = self.happened(&mut state, committed)?;
        wake(state, woken);
        Ok(replicated.end)
    }

    /// The follower's side where the logs differ: cuts its log, durably, and gives where it ends then.
    pub fn cut(&self, epoch: LeaderEpoch, leader: EpochEnd<Position>) -> Result<Position, UnitError> {
        let _one = self.changing.lock();
        let own = match self.log.end_position_for_epoch(leader.epoch)? {
            Some(own) => epoch_end(own),
            // Newer than all of its own: the last of these is the largest at or below.
            None => EpochEnd { epoch: self.log.last_epoch()?, end: self.log.end_position() },
        };
        let to = cut_at(leader, own, self.log.end_position());
        let mut state = self.state.lock();
        self.check_follows(&state, epoch)?;
        self.take_local_end(&mut state)?;
        let kept = state.uncommitted.partition_point(|batch| batch.end <= to);
        state.uncommitted.truncate(kept);
        // With the lock held: a reader that finds a log end below the high watermark waits for both to be right.
        let shorter = self.log.truncate_to(to)?;
        let outcome = state.replicas.apply(Event::LocalTruncated(to))?;
        self.tell_of_a_lower(outcome);
        let mut woken = self.publish(&mut state);
        for partition in shorter {
            let key = (partition.topic_id(), partition.partition().partition);
            if let Some(member) = state.members.get(&key).and_then(std::sync::Weak::upgrade) {
                let moved = member.was_cut();
                woken.push((member, moved));
            }
        }
        wake(state, woken);
        Ok(to)
    }

    fn check_follows(&self, state: &UnitState, epoch: LeaderEpoch) -> Result<(), UnitError> {
        let current = state.replicas.leader_epoch();
        match state.replicas.role() {
            Role::Follower { leader: Some(_) } if epoch == current => Ok(()),
            Role::Follower { leader: Some(_) } if epoch < current => {
                Err(EventError::OldEpoch { given: epoch, current }.into())
            }
            Role::Follower { leader: Some(_) } => Err(EventError::FutureEpoch { given: epoch, current }.into()),
            _ => Err(UnitError::NotFollower),
        }
    }
}

fn epoch_end(start: EpochStart) -> EpochEnd<Position> {
    EpochEnd { epoch: start.epoch, end: start.position }
}
