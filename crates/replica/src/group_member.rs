//! A partition of a group, whose replica set is the group's: how far its records are committed.
//!
//! ```text
//! high watermark ≤ acknowledged end, as its topic's durability promises
//! high watermark ≤ end of its last batch below the high watermark of the group
//! ```
//! It does not move while fewer replicas of the group are in sync than the topic's `min.insync.replicas` asks for.

use mainstem_types::Offset;

use crate::event::{EventError, MinInSyncError, ReplicaOutcome};
use crate::positions::Positions;

/// What an event leads to. After an error the state is as before.
type Applied = Result<ReplicaOutcome, EventError>;

/// How many replicas the group has, and how many of them are in sync.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct InSync {
    pub in_sync: usize,
    pub replicas: usize,
}

impl InSync {
    /// More than all replicas are never asked for (KIP-966).
    pub fn check(self, required: usize) -> Result<(), MinInSyncError> {
        let required = required.min(self.replicas);
        if self.in_sync < required { Err(MinInSyncError { in_sync: self.in_sync, required }) } else { Ok(()) }
    }
}

/// One partition of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupMember {
    log_start: Offset,
    high_watermark: Offset,
    log_end: Offset,
    acknowledged: Offset,
    /// The end of its last batch that is known to lie below the group's high watermark.
    committed: Offset,
    /// Where its log ended when this node began to lead.
    epoch_start: Offset,
    in_sync: InSync,
    min_in_sync: usize,
}

impl GroupMember {
    /// Of a log with these ends. Nothing above the log start is known to be committed.
    pub fn new(log_start: Offset, log_end: Offset, acknowledged: Offset) -> GroupMember {
        GroupMember {
            log_start,
            high_watermark: log_start,
            log_end: log_end.max(log_start),
            acknowledged: acknowledged.max(log_start),
            committed: log_start,
            epoch_start: log_end,
            in_sync: InSync::default(),
            min_in_sync: 1,
        }
    }

    /// The ends of the log as they are now. See [`crate::ReplicaSet::local_ends`].
    pub fn local_ends(&mut self, log_end: Offset, acknowledged: Offset) -> Applied {
        if log_end < self.log_end {
            return Err(EventError::WentBack { what: "the log end", from: self.log_end, to: log_end });
        }
        if acknowledged > log_end {
            return Err(EventError::BeyondLogEnd { what: "the acknowledged end", given: acknowledged, log_end });
        }
        self.log_end = log_end;
        self.acknowledged = self.acknowledged.max(acknowledged);
        self.advance()
    }

    /// A batch that ends at `to` lies below the group's high watermark. To be told with [`GroupMember::local_ends`].
    pub fn committed_to(&mut self, to: Offset) {
        self.committed = self.committed.max(to);
    }

    /// Everything that is in the log lies below the group's high watermark.
    pub fn committed_to_end(&mut self) {
        self.committed = self.log_end;
    }

    /// The group has another in-sync set.
    pub fn in_sync_changed(&mut self, in_sync: InSync) -> Applied {
        self.in_sync = in_sync;
        self.advance()
    }

    /// This node begins to lead the group.
    pub fn leads(&mut self) {
        self.epoch_start = self.log_end;
    }

    /// The log start moved up.
    pub fn local_log_start(&mut self, position: Offset) -> Applied {
        if position < self.log_start {
            return Err(EventError::WentBack { what: "the log start", from: self.log_start, to: position });
        }
        let (high_watermark, log_end) = (self.high_watermark, self.log_end);
        Positions { log_start: position, last_stable: high_watermark, high_watermark, log_end }.check()?;
        self.log_start = position;
        self.acknowledged = self.acknowledged.max(position);
        Ok(ReplicaOutcome::Nothing)
    }

    /// The group's log was cut, and this partition now ends at `to`.
    pub fn truncated(&mut self, to: Offset) -> ReplicaOutcome {
        let from = self.high_watermark;
        self.log_end = to;
        self.log_start = self.log_start.min(to);
        self.acknowledged = self.acknowledged.min(to);
        self.committed = self.committed.min(to);
        self.high_watermark = from.min(to);
        if to < from { ReplicaOutcome::HighWatermarkLowered { from, to } } else { ReplicaOutcome::Nothing }
    }

    /// The topic's `min.insync.replicas`.
    pub fn min_in_sync_changed(&mut self, required: usize) -> Applied {
        self.min_in_sync = required;
        self.advance()
    }

    pub fn high_watermark(&self) -> Offset {
        self.high_watermark
    }

    pub fn log_end(&self) -> Offset {
        self.log_end
    }

    /// See [`crate::ReplicaSet::epoch_start`].
    pub fn epoch_start(&self) -> Offset {
        self.epoch_start
    }

    fn advance(&mut self) -> Applied {
        let to = self.acknowledged.min(self.committed).min(self.log_end);
        if self.in_sync.check(self.min_in_sync).is_err() || to <= self.high_watermark {
            return Ok(ReplicaOutcome::Nothing);
        }
        let positions =
            Positions { log_start: self.log_start, last_stable: to, high_watermark: to, log_end: self.log_end };
        positions.check()?;
        self.high_watermark = to;
        Ok(ReplicaOutcome::HighWatermarkAdvanced { to })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ALONE: InSync = InSync { in_sync: 1, replicas: 1 };

    fn member() -> GroupMember {
        let mut member = GroupMember::new(Offset(0), Offset(10), Offset(4));
        member.in_sync_changed(ALONE).unwrap();
        member
    }

    #[test]
    fn what_the_group_has_committed_and_the_log_acknowledges_is_committed() {
        let mut member = member();
        assert_eq!(member.high_watermark(), Offset(0));
        member.committed_to(Offset(7));
        assert_eq!(
            member.local_ends(Offset(10), Offset(4)),
            Ok(ReplicaOutcome::HighWatermarkAdvanced { to: Offset(4) })
        );
        assert_eq!(
            member.local_ends(Offset(10), Offset(9)),
            Ok(ReplicaOutcome::HighWatermarkAdvanced { to: Offset(7) })
        );
        member.committed_to_end();
        assert_eq!(
            member.local_ends(Offset(12), Offset(12)),
            Ok(ReplicaOutcome::HighWatermarkAdvanced { to: Offset(10) })
        );
    }

    #[test]
    fn with_too_few_replicas_in_sync_nothing_is_committed() {
        let mut member = member();
        member.in_sync_changed(InSync { in_sync: 1, replicas: 3 }).unwrap();
        member.min_in_sync_changed(2).unwrap();
        member.committed_to_end();
        assert_eq!(member.local_ends(Offset(10), Offset(10)), Ok(ReplicaOutcome::Nothing));
        let advanced = Ok(ReplicaOutcome::HighWatermarkAdvanced { to: Offset(10) });
        assert_eq!(member.in_sync_changed(InSync { in_sync: 2, replicas: 3 }), advanced);
        member.min_in_sync_changed(9).unwrap();
        member.in_sync_changed(ALONE).unwrap();
        member.committed_to(Offset(11));
        let advanced = Ok(ReplicaOutcome::HighWatermarkAdvanced { to: Offset(11) });
        assert_eq!(member.local_ends(Offset(11), Offset(11)), advanced, "more than all are never asked for");
    }

    proptest! {
        #[test]
        fn the_order_holds_whatever_happens(steps in prop::collection::vec((0u8..6, 0i64..30, 0i64..30), 0..60)) {
            let mut member = member();
            for (step, one, other) in steps {
                let before = member.clone();
                let outcome = match step {
                    0 => member.local_ends(Offset(one), Offset(other)),
                    1 => { member.committed_to(Offset(one)); Ok(ReplicaOutcome::Nothing) }
                    2 => member.local_log_start(Offset(one)),
                    3 => Ok(member.truncated(Offset(one.min(member.log_end().0)))),
                    4 => member.min_in_sync_changed(one as usize % 3),
                    _ => member.in_sync_changed(InSync { in_sync: one as usize % 3, replicas: 2 }),
                };
                if outcome.is_err() {
                    prop_assert_eq!(&member, &before);
                }
                prop_assert!(member.log_start <= member.high_watermark && member.high_watermark <= member.log_end);
                prop_assert!(step == 3 || member.high_watermark >= before.high_watermark);
                prop_assert!(member.high_watermark <= member.acknowledged);
                prop_assert!(member.high_watermark <= member.committed.max(member.log_start));
            }
        }
    }
}
