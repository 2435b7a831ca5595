//! After an append: makes it visible, and tells the waiters.

use mainstem_replica::{EventError, GroupMember, ReplicaOutcome, ReplicaSet};
use mainstem_store::{Appended, LogEnds};
use mainstem_types::Offset;
use parking_lot::Mutex;
use std::sync::atomic::Ordering;

use super::{Partition, Replication, UNKNOWN_BYTES};
use crate::group_unit::GroupUnit;

/// What an append did to the high watermark.
struct Counted {
    /// `None`: another thread has counted the append.
    outcome: Option<Result<ReplicaOutcome, EventError>>,
    /// Records of earlier appends become visible, too: they are not among the bytes of this one.
    shows_earlier_ones: bool,
}

impl Partition {
    /// Counts what was appended, and tells readers of its `bytes`. Appends of several threads may arrive here out of
    /// order: the log end is read anew, and who comes late finds its records counted, but not its bytes.
    pub(super) fn log_end_moved(&self, appended: &Appended, bytes: usize) {
        let counted = match &self.replication {
            Replication::Own(replica) => self.count_own(replica),
            Replication::Group { unit, member } => match self.count_in_group(unit, member, appended) {
                Some(counted) => counted,
                // The group tells when it is committed.
                None => return,
            },
        };
        match counted.outcome {
            Some(Ok(ReplicaOutcome::HighWatermarkAdvanced { to })) => self.commit_waiters.advance(to),
            Some(Ok(_)) => return,
            Some(Err(EventError::Order(error))) => return self.out_of_order(&error),
            Some(Err(error)) => return tracing::error!("{}-{}: {error}", self.topic, self.index),
            None => {}
        }
        if counted.shows_earlier_ones {
            self.fetch_waiters.wake(UNKNOWN_BYTES);
        } else if self.high_watermark() >= appended.next_offset() {
            self.fetch_waiters.wake(bytes as i64);
        }
    }

    fn count_own(&self, replica: &Mutex<ReplicaSet>) -> Counted {
        let mut replica = replica.lock();
        let LogEnds { log_end, acknowledged } = self.log.ends();
        if log_end <= replica.log_end() {
            return Counted { outcome: None, shows_earlier_ones: false };
        }
        let shows_earlier_ones = replica.high_watermark() < replica.log_end();
        let outcome = replica.local_ends(log_end, acknowledged);
        self.show(&outcome);
        Counted { outcome: Some(outcome), shows_earlier_ones }
    }

    /// `None`: the group has not committed it.
    fn count_in_group(&self, unit: &GroupUnit, member: &Mutex<GroupMember>, appended: &Appended) -> Option<Counted> {
        let (end, key) = (appended.next_offset(), (self.topic_id, self.index));
        if let Some(position) = appended.end_position
            && !unit.is_committed(position)
            && unit.add_uncommitted(position, end, key)
        {
            return None;
        }
        let mut member = member.lock();
        let LogEnds { log_end, acknowledged } = self.log.ends();
        let is_counted = log_end <= member.log_end();
        let shows_earlier_ones = !is_counted && member.high_watermark() < member.log_end();
        member.committed_to(end);
        let outcome = member.local_ends(log_end, acknowledged);
        self.show(&outcome);
        let nothing_new = is_counted && outcome == Ok(ReplicaOutcome::Nothing);
        Some(Counted { outcome: Some(outcome).filter(|_| !nothing_new), shows_earlier_ones })
    }

    /// With the lock of what decides held.
    fn show(&self, outcome: &Result<ReplicaOutcome, EventError>) {
        if let Ok(ReplicaOutcome::HighWatermarkAdvanced { to: Offset(to) }) = outcome {
            self.high_watermark.store(*to, Ordering::SeqCst);
            self.fetch_waiters.changed();
        }
    }
}
