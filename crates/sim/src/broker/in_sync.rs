//! The in-sync set: who joins, who leaves, and who counts until the controller has answered.

use mainstem_replica::Event;
use mainstem_types::{NodeId, TopicPartition};

use super::replica::PendingSet;
use super::{Out, Process};
use crate::LIFETIME_MS;
use crate::message::{Address, AlterPartition, AlterRefusal, Message};
use crate::scenario::Mutation;
use crate::stored::Checked;

/// `replica.lag.time.max.ms`.
const LAG_MAX_MS: u64 = 700;
/// A change of the in-sync set that the controller did not answer is sent again when the last request cannot
/// arrive any
/// more: a leader that gives a change up must know that no copy of its request can still be granted.
const ALTER_AGAIN_MS: u64 = LIFETIME_MS + 100;

impl Process {
    /// Lets a follower join the in-sync set once it has everything that may be committed.
    pub(super) fn expand(&mut self, node: i32, partition: &TopicPartition, now_ms: u64, out: &mut Out) -> Checked {
        let active = |broker_epoch| {
            let any_incarnation = self.settings.is_mutated(Mutation::OldIncarnationCounts);
            self.image
                .broker(node)
                .is_some_and(|broker| broker.is_active() && (any_incarnation || broker.epoch() == broker_epoch))
        };
        let Some(replica) = self.replicas.get(partition) else { return Ok(()) };
        let Some(follower) = replica.followers.get(&node) else { return Ok(()) };
        let has_enough = match self.settings.is_mutated(Mutation::JoinAtWatermark) {
            true => follower.end.is_some_and(|end| end >= replica.high_watermark()),
            false => replica.set.may_join(NodeId(node)),
        };
        let joins = has_enough
            && !replica.in_sync.contains(&node)
            && replica.pending.is_none()
            && active(follower.broker_epoch);
        if joins {
            let mut members = replica.in_sync.clone();
            members.push(node);
            return self.ask_for_set(partition, &members, now_ms, out);
        }
        Ok(())
    }

    /// Asks the controller, and counts the union of old and new until it has answered.
    fn ask_for_set(&mut self, partition: &TopicPartition, members: &[i32], now_ms: u64, out: &mut Out) -> Checked {
        let Some(broker_epoch) = self.broker_epoch else { return Ok(()) };
        let me = self.id;
        let counts = !self.settings.is_mutated(Mutation::PendingNotCounted);
        let Some(replica) = self.replicas.get_mut(partition) else { return Ok(()) };
        let epoch_of = |node: &i32| match replica.followers.get(node) {
            _ if *node == me => broker_epoch,
            Some(follower) if follower.end.is_some() => follower.broker_epoch,
            _ => -1,
        };
        let proposed = members.iter().map(|node| NodeId(*node)).collect();
        let members: Vec<(i32, i64)> = members.iter().map(|node| (*node, epoch_of(node))).collect();
        let partition_epoch = replica.partition_epoch;
        replica.pending = Some(PendingSet { members, partition_epoch, sent_ms: now_ms });
        if counts {
            replica.apply(Event::InSyncProposed(proposed))?;
        }
        self.send_pending(partition, out);
        Ok(())
    }

    fn send_pending(&self, partition: &TopicPartition, out: &mut Out) {
        let Some(replica) = self.replicas.get(partition) else { return };
        let (Some(pending), Some(broker_epoch)) = (&replica.pending, self.broker_epoch) else { return };
        let alter = AlterPartition {
            broker_epoch,
            partition: partition.clone(),
            leader_epoch: replica.leader_epoch,
            partition_epoch: pending.partition_epoch,
            in_sync: pending.members.clone(),
        };
        out.send(Address::Controller, Message::AlterPartition(alter));
    }

    pub(super) fn alter_refused(
        &mut self,
        partition: &TopicPartition,
        partition_epoch: i32,
        refusal: AlterRefusal,
        out: &mut Out,
    ) -> Checked {
        let Some(replica) = self.replicas.get_mut(partition) else { return Ok(()) };
        let is_ours = replica.pending.as_ref().is_some_and(|pending| pending.partition_epoch == partition_epoch);
        if is_ours && refusal == AlterRefusal::Ineligible {
            replica.pending = None;
            out.notes.push(format!("{partition}: gives up a change of the in-sync set"));
            replica.apply(Event::InSyncProposed(Vec::new()))?;
        }
        Ok(())
    }

    /// Time-outs of leaders and followers.
    pub(super) fn look_after_replicas(&mut self, now_ms: u64, out: &mut Out) -> Checked {
        let names: Vec<TopicPartition> = self.replicas.keys().cloned().collect();
        for partition in names {
            let Some(replica) = self.replicas.get_mut(&partition) else { continue };
            if !replica.is_leader() {
                self.fetch_if_due(&partition, now_ms, out);
                continue;
            }
            self.answer_parked(&partition, now_ms, out)?;
            let Some(replica) = self.replicas.get_mut(&partition) else { continue };
            if let Some(pending) = &mut replica.pending {
                if now_ms >= pending.sent_ms + ALTER_AGAIN_MS {
                    pending.sent_ms = now_ms;
                    self.send_pending(&partition, out);
                }
                continue;
            }
            let end = replica.log.log_end();
            let lags = |node: &i32| {
                replica
                    .followers
                    .get(node)
                    .is_some_and(|follower| follower.end != Some(end) && now_ms > follower.caught_up_ms + LAG_MAX_MS)
            };
            let left: Vec<i32> = replica.in_sync.iter().filter(|node| !lags(node)).copied().collect();
            if left.len() < replica.in_sync.len() {
                self.ask_for_set(&partition, &left, now_ms, out)?;
            }
        }
        Ok(())
    }
}
