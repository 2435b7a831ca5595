//! What a follower does: fetches, appends what its leader has, cuts what its leader does not have.

use bytes::Bytes;
use mainstem_replica::{EpochEnd, Event, cut_at};
use mainstem_store::{AppendError, Durability};
use mainstem_types::{LeaderEpoch, Offset, TopicPartition};

use super::replica::InFlight;
use super::{Out, Process};
use crate::fact::Fact;
use crate::message::{Address, FetchRequest, Fetched, Message, Refusal};
use crate::scenario::Mutation;
use crate::stored::{self, Checked, failed};

/// A fetch without an answer is given up after this.
const FETCH_TIMEOUT_MS: u64 = 400;
/// `replica.fetch.backoff.ms`.
const BACK_OFF_MS: u64 = 100;

impl Process {
    /// Without epochs in the log nothing is known about what lies above the high watermark (KIP-101).
    pub(super) fn begin_following(&mut self, partition: &TopicPartition, out: &mut Out) -> Checked {
        let Some(replica) = self.replicas.get(partition) else { return Ok(()) };
        let to_watermark =
            replica.log.latest_epoch().is_none() || self.settings.is_mutated(Mutation::TruncateToWatermark);
        if to_watermark && !self.settings.is_mutated(Mutation::NoTruncation) {
            let to = replica.high_watermark();
            self.truncate(partition, to, out)?;
        }
        Ok(())
    }

    pub(super) fn fetch_if_due(&mut self, partition: &TopicPartition, now_ms: u64, out: &mut Out) {
        let Some(replica) = self.replicas.get_mut(partition) else { return };
        let given_up = replica.in_flight.is_none_or(|flight| now_ms >= flight.sent_ms + FETCH_TIMEOUT_MS);
        if given_up && now_ms >= replica.back_off_until_ms {
            self.fetch_next(partition, now_ms, out);
        }
    }

    pub(super) fn fetch_next(&mut self, partition: &TopicPartition, now_ms: u64, out: &mut Out) {
        let Some(broker_epoch) = self.broker_epoch else { return };
        let Some(replica) = self.replicas.get_mut(partition) else { return };
        if replica.leader < 0 || replica.is_leader() {
            return;
        }
        self.fetches += 1;
        let offset = replica.log.log_end();
        let request = FetchRequest {
            number: self.fetches,
            partition: partition.clone(),
            broker_epoch,
            leader_epoch: replica.leader_epoch,
            offset,
            last_fetched_epoch: replica.log.latest_epoch().map_or(LeaderEpoch::NONE, |entry| entry.epoch),
        };
        replica.told = offset;
        replica.in_flight = Some(InFlight { number: self.fetches, offset, sent_ms: now_ms });
        out.send(Address::Broker(replica.leader), Message::Fetch(request));
    }

    /// An answer counts only for the fetch that is under way (KAFKA-18991).
    pub(super) fn fetched(
        &mut self,
        number: u64,
        partition: &TopicPartition,
        fetched: Fetched,
        now_ms: u64,
        out: &mut Out,
    ) -> Checked {
        let Some(replica) = self.replicas.get_mut(partition) else { return Ok(()) };
        let log_end = replica.log.log_end();
        let is_current = replica.in_flight.is_some_and(|flight| flight.number == number && flight.offset == log_end);
        if replica.is_leader() || !is_current {
            return Ok(());
        }
        replica.in_flight = None;
        match fetched {
            Fetched::Refused(refusal) => {
                // A fenced follower waits for newer metadata; anything else may be over soon.
                let pause_ms = if refusal == Refusal::FencedEpoch { 2 * BACK_OFF_MS } else { BACK_OFF_MS };
                replica.back_off_until_ms = now_ms + pause_ms;
                return Ok(());
            }
            Fetched::Diverging { epoch, end } => {
                if self.settings.is_mutated(Mutation::NoTruncation) {
                    self.pretend_agreement(partition, end)?;
                } else {
                    let to = self.common_end(partition, epoch, end);
                    self.truncate(partition, to, out)?;
                }
            }
            Fetched::OutOfRange { log_start, log_end: leader_end } => {
                if leader_end < log_end {
                    self.truncate(partition, leader_end, out)?;
                } else if log_start > log_end {
                    self.begin_anew(partition, log_start, out)?;
                }
            }
            Fetched::Records { bytes, high_watermark, log_start } => {
                self.copy(partition, &bytes, high_watermark, log_start, out)?;
            }
        }
        self.fetch_next(partition, now_ms, out);
        Ok(())
    }

    /// Where this log and the leader's may agree, given the leader's end of an epoch (KIP-595).
    fn common_end(&self, partition: &TopicPartition, epoch: LeaderEpoch, end: Offset) -> Offset {
        let Some(replica) = self.replicas.get(partition) else { return end };
        let (own_epoch, own_end) = replica.log.end_offset_for_epoch(epoch);
        let (leader, log_end) = (EpochEnd { epoch, end }, replica.log.log_end());
        match own_epoch {
            LeaderEpoch::NONE => end.min(log_end),
            own => cut_at(leader, EpochEnd { epoch: own, end: own_end }, log_end),
        }
    }

    fn truncate(&mut self, partition: &TopicPartition, to: Offset, out: &mut Out) -> Checked {
        let Some(replica) = self.replicas.get_mut(partition) else { return Ok(()) };
        replica.promise_max = Some(to);
        let end = replica.log.truncate_to(to).map_err(failed("truncate a log"))?;
        (replica.promise_max, replica.told) = (None, replica.told.min(end));
        replica.apply(Event::LocalTruncated(end))?;
        replica.stated = replica.stated.min(end);
        out.notes.push(format!("{partition}: cut to {end}"));
        out.facts.push(Fact::Truncated { node: self.id, partition: partition.clone(), to: end });
        self.state_positions(partition, out);
        Ok(())
    }

    fn begin_anew(&mut self, partition: &TopicPartition, at: Offset, out: &mut Out) -> Checked {
        let Some(replica) = self.replicas.get_mut(partition) else { return Ok(()) };
        (replica.promise_max, replica.told) = (Some(Offset::ZERO), Offset::ZERO);
        replica.log.restart_at(at).map_err(failed("begin a log anew"))?;
        let epoch = replica.leader_epoch;
        replica.note_ends()?;
        replica.apply(Event::LeaderCommitted { epoch, high_watermark: at })?;
        replica.apply(Event::LocalLogStart(at))?;
        replica.stated = at;
        out.notes.push(format!("{partition}: begins anew at {at}"));
        out.facts.push(Fact::Truncated { node: self.id, partition: partition.clone(), to: Offset::ZERO });
        self.state_positions(partition, out);
        Ok(())
    }

    fn copy(
        &mut self,
        partition: &TopicPartition,
        bytes: &Bytes,
        high_watermark: Offset,
        log_start: Offset,
        out: &mut Out,
    ) -> Checked {
        let wall = self.wall();
        let Some(replica) = self.replicas.get_mut(partition) else { return Ok(()) };
        let mut facts = stored::facts(bytes)?;
        // Written by a later leader than the one that was asked (KAFKA-18723): left out.
        facts.retain(|fact| fact.epoch <= replica.leader_epoch);
        if !facts.is_empty() {
            match replica.log.append_replicated(bytes, replica.leader_epoch, wall) {
                Ok(_) => replica.promise_max = None,
                Err(AppendError::NotNext { .. }) if self.settings.is_mutated(Mutation::NoTruncation) => return Ok(()),
                Err(AppendError::NotNext { .. }) if replica.ends_inside(&facts[0]) => {
                    return self.truncate(partition, facts[0].base, out);
                }
                Err(error) => return Err(failed("append as a follower")(error)),
            }
            // What the next fetch acknowledges has to survive a power cut.
            let syncs = self.settings.durability == Durability::Disk
                && !self.settings.is_mutated(Mutation::FollowerDoesNotSync);
            if syncs {
                replica.log.flush_blocking().map_err(failed("sync as a follower"))?;
            }
            for batch in facts {
                out.facts.push(Fact::Stored { node: self.id, partition: partition.clone(), batch });
            }
        }
        // After the append (KAFKA-14704), and never beyond what is here.
        replica.note_ends()?;
        let epoch = replica.leader_epoch;
        replica.apply(Event::LeaderCommitted { epoch, high_watermark })?;
        let log_start = log_start.min(replica.high_watermark());
        if log_start > replica.log.log_start() {
            // In the same step: what lies below may differ from what the leader had there, and nobody finds out
            // any more.
            replica.raise_log_start(log_start, wall)?;
        }
        self.state_committed(partition, out)?;
        self.state_positions(partition, out);
        Ok(())
    }

    /// [`Mutation::NoTruncation`]: as if the follower had what its leader has up to `end`.
    fn pretend_agreement(&mut self, partition: &TopicPartition, _end: Offset) -> Checked {
        let Some(replica) = self.replicas.get_mut(partition) else { return Ok(()) };
        replica.log.begin_epoch(replica.leader_epoch).map_err(failed("pretend an epoch"))
    }
}
