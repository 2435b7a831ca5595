//! A partition of a group: its role and its high watermark follow from the group's.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use mainstem_replica::{EventError, GroupMember, ReplicaOutcome};
use mainstem_store::{LogEnds, StorageError};
use mainstem_types::{LeaderEpoch, Offset};
use parking_lot::MutexGuard;

use super::{Partition, Replication};
use crate::commit_wait::CommitFailed;
use crate::group_unit::{Committed, GroupUnit, Member, MemberRole, Moved};

impl Partition {
    /// The unit of the partition's group. `None`: the partition is a unit of its own.
    pub fn group_unit(&self) -> Option<&Arc<GroupUnit>> {
        match &self.replication {
            Replication::Own(_) => None,
            Replication::Group { unit, .. } => Some(unit),
        }
    }

    /// With the ends of the log as they are now. `None`: not in a group.
    fn member(&self) -> Option<(MutexGuard<'_, GroupMember>, LogEnds)> {
        let Replication::Group { member, .. } = &self.replication else { return None };
        let member = member.lock();
        let ends = self.log.ends();
        Some((member, ends))
    }

    /// The member's lock is still held.
    fn moved(&self, outcome: Result<ReplicaOutcome, EventError>) -> Moved {
        match outcome {
            Ok(ReplicaOutcome::HighWatermarkAdvanced { to }) => {
                let before = Offset(self.high_watermark.swap(to.0, Ordering::SeqCst));
                Moved { high_watermark: Some((before, to)), ..Moved::default() }
            }
            Ok(ReplicaOutcome::HighWatermarkLowered { to, .. }) => {
                self.high_watermark.store(to.0, Ordering::SeqCst);
                Moved { changed: true, ..Moved::default() }
            }
            Ok(_) => Moved::default(),
            Err(error) => {
                tracing::error!("{}-{}: {error}", self.topic, self.index);
                Moved::default()
            }
        }
    }
}

impl Member for Partition {
    fn has_role(&self) -> bool {
        self.leader_epoch() != LeaderEpoch::NONE
    }

    fn before_role(&self, leads: bool, epoch: LeaderEpoch) {
        self.prepare_role(leads, epoch);
    }

    fn take_role(&self, role: &MemberRole) -> Moved {
        let Some((mut member, ends)) = self.member() else { return Moved::default() };
        let mut outcome = member.local_ends(ends.log_end, ends.acknowledged);
        if role.leads && role.is_new_epoch {
            member.leads();
        }
        match role.committed {
            Committed::ToItsEnd => member.committed_to_end(),
            Committed::To(end) => member.committed_to(end),
            Committed::AsBefore => {}
        }
        outcome = outcome.and_then(|before| match member.in_sync_changed(role.in_sync)? {
            ReplicaOutcome::Nothing => Ok(before),
            advanced => Ok(advanced),
        });
        let moved = self.moved(outcome);
        drop(member);
        self.leader_epoch.store(role.epoch.0, Ordering::Release);
        self.leads.store(role.leads, Ordering::Release);
        Moved { resigned: !role.leads, changed: true, ..moved }
    }

    fn committed_to(&self, next_offset: Offset) -> Moved {
        let Some((mut member, ends)) = self.member() else { return Moved::default() };
        member.committed_to(next_offset);
        let outcome = member.local_ends(ends.log_end, ends.acknowledged);
        self.moved(outcome)
    }

    fn was_cut(&self) -> Moved {
        let Some((mut member, ends)) = self.member() else { return Moved::default() };
        let outcome = member.truncated(ends.log_end);
        Moved { changed: true, ..self.moved(Ok(outcome)) }
    }

    fn wake(&self, moved: Moved) {
        if let Some((before, to)) = moved.high_watermark {
            self.wake_committed(before, to);
        }
        if moved.resigned {
            self.commit_waiters.fail(CommitFailed::NotLeader);
        }
        if moved.changed {
            self.fetch_waiters.wake_all();
        }
    }

    fn fail(&self, error: &StorageError) {
        self.failed(error);
    }
}
