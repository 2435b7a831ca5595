//! What a leader does: appends, answers fetches, moves the high watermark.

use bytes::Bytes;
use mainstem_record::BatchView;
use mainstem_replica::{EpochCheckError, EpochEnd, Event, diverging};
use mainstem_store::{AppendContext, AppendError, Appended, Origin};
use mainstem_types::{LeaderEpoch, NodeId, Offset, TopicPartition};

use super::replica::{IN_SYNC_MIN, Parked, Waiting};
use super::{Out, Process};
use crate::fact::Fact;
use crate::message::{Address, FetchRequest, Fetched, Message, Refusal};
use crate::scenario::Mutation;
use crate::stored::{self, Checked, failed};

/// `replica.fetch.wait.max.ms`.
const PARKED_MS: u64 = 150;
/// Small, so that a follower that is behind needs several rounds.
const FETCH_BYTES: u32 = 250;

impl Process {
    #[allow(clippy::too_many_arguments)]
    pub(super) fn produce(
        &mut self,
        from: Address,
        request: u64,
        partition: &TopicPartition,
        batch: &Bytes,
        all: bool,
        now_ms: u64,
        out: &mut Out,
    ) -> Checked {
        let refuse = |refusal| Message::ProduceReply { request, result: Err(refusal) };
        let Some(replica) = self.replicas.get(partition) else { return Ok(()) };
        if !replica.is_leader() {
            out.send(from, refuse(Refusal::NotLeader));
            return Ok(());
        }
        if all && replica.set.check_min_in_sync(IN_SYNC_MIN).is_err() {
            out.send(from, refuse(Refusal::NotEnoughReplicas));
            return Ok(());
        }
        let appended = match self.append(partition, batch, Origin::Client, now_ms, out)? {
            Ok(appended) => appended,
            Err(refusal) => {
                out.send(from, refuse(refusal));
                return Ok(());
            }
        };
        let reply = Message::ProduceReply { request, result: Ok(appended.base_offset) };
        let early = self.settings.is_mutated(Mutation::AnswerBeforeInSync);
        let end = if all && !early { appended.next_offset() } else { Offset::ZERO };
        let refusal = refuse(Refusal::NotLeader);
        self.reply_when_committed(partition, Waiting { end, to: from, reply, fact: None, refusal }, out);
        Ok(())
    }

    /// Appends as the leader. The inner error is an answer to the client.
    pub(super) fn append(
        &mut self,
        partition: &TopicPartition,
        batch: &Bytes,
        origin: Origin,
        now_ms: u64,
        out: &mut Out,
    ) -> Checked<Result<Appended, Refusal>> {
        let now = self.wall();
        let Some(replica) = self.replicas.get_mut(partition) else { return Ok(Err(Refusal::NotLeader)) };
        if !replica.is_leader() {
            return Ok(Err(Refusal::NotLeader));
        }
        let leader_epoch = replica.leader_epoch;
        let context = AppendContext { origin, leader_epoch, now, zstd_allowed: true, unpacked_bytes_max: usize::MAX };
        let appended = match replica.log.append(batch, &context) {
            Ok(appended) => appended,
            Err(AppendError::OutOfOrderSequence { .. }) => return Ok(Err(Refusal::OutOfOrderSequence)),
            Err(error) => return Err(failed("append as the leader")(error)),
        };
        if !appended.duplicate {
            replica.note_ends()?;
            let sent = stored::fact(&BatchView::parse(batch).map_err(failed("parse a batch"))?);
            let (base, last) = (appended.base_offset, appended.last_offset);
            let batch = crate::fact::BatchFact { base, last, epoch: leader_epoch, ..sent };
            out.facts.push(Fact::Stored { node: self.id, partition: partition.clone(), batch });
            self.watermark_moved(partition, now_ms, out)?;
            self.answer_parked(partition, now_ms, out)?;
            self.state_positions(partition, out);
        }
        Ok(Ok(appended))
    }

    pub(super) fn reply_when_committed(&mut self, partition: &TopicPartition, waiting: Waiting, out: &mut Out) {
        let Some(replica) = self.replicas.get_mut(partition) else { return };
        if replica.high_watermark() >= waiting.end {
            out.facts.extend(waiting.fact);
            out.send(waiting.to, waiting.reply);
        } else {
            replica.waiting.push(waiting);
        }
    }

    /// To be called after anything that may have moved the high watermark of a leader.
    pub(super) fn watermark_moved(&mut self, partition: &TopicPartition, now_ms: u64, out: &mut Out) -> Checked {
        if self.settings.is_mutated(Mutation::WatermarkOfLeaderAlone) {
            self.pretend_followers_have_all(partition)?;
        }
        self.state_committed(partition, out)?;
        let Some(replica) = self.replicas.get_mut(partition) else { return Ok(()) };
        let high_watermark = replica.high_watermark();
        let (ready, waiting) = replica.waiting.drain(..).partition(|waiting| waiting.end <= high_watermark);
        replica.waiting = waiting;
        let ready: Vec<Waiting> = ready;
        for waiting in ready {
            out.facts.extend(waiting.fact);
            out.send(waiting.to, waiting.reply);
        }
        self.poll_groups(now_ms, out)
    }

    fn pretend_followers_have_all(&mut self, partition: &TopicPartition) -> Checked {
        let Some(replica) = self.replicas.get_mut(partition) else { return Ok(()) };
        let (epoch, nodes) = (replica.leader_epoch, replica.nodes.clone());
        let followers = nodes.into_iter().filter(|node| *node != self.id && replica.set.is_leader());
        for node in followers.map(NodeId).collect::<Vec<_>>() {
            let from = replica.set.log_end();
            replica.apply(Event::FollowerFetched { node, epoch, from })?;
        }
        Ok(())
    }

    /// Syncs what was asked for, and tells the replica sets.
    pub(super) fn flush(&mut self, now_ms: u64, out: &mut Out) -> Checked {
        if self.env.run_pending_flushes() == 0 {
            return Ok(());
        }
        let names: Vec<TopicPartition> = self.replicas.keys().cloned().collect();
        for partition in names {
            let Some(replica) = self.replicas.get_mut(&partition) else { continue };
            if let Some(failure) = replica.log.failure() {
                return Err(failed("sync a log")(failure));
            }
            replica.note_ends()?;
            if replica.is_leader() {
                self.watermark_moved(&partition, now_ms, out)?;
            }
        }
        Ok(())
    }

    pub(super) fn serve_read(
        &mut self,
        from: Address,
        request: u64,
        partition: &TopicPartition,
        offset: Offset,
        out: &mut Out,
    ) -> Checked {
        let Some(replica) = self.replicas.get(partition) else { return Ok(()) };
        let epoch = replica.leader_epoch;
        let mut latest = None;
        let log_start = replica.log.log_start();
        let result = if !replica.is_leader() {
            Err(Refusal::NotLeader)
        } else if offset < log_start {
            Err(Refusal::OffsetOutOfRange { log_start })
        } else {
            let high_watermark = replica.high_watermark();
            // KIP-207: a new leader does not say where the log ends before it has reached its own epoch.
            latest = Some(high_watermark).filter(|offset| *offset >= replica.set.epoch_start());
            Ok(stored::read(&replica.log, offset, high_watermark, FETCH_BYTES)?)
        };
        out.send(from, Message::ReadReply { request, epoch, latest, result });
        Ok(())
    }

    /// A follower's fetch.
    pub(super) fn fetch(&mut self, from: Address, request: FetchRequest, now_ms: u64, out: &mut Out) -> Checked {
        let Address::Broker(node) = from else { return Ok(()) };
        let (number, partition) = (request.number, request.partition.clone());
        let fetched = match self.check_fetch(node, &request) {
            Err(refusal) => Some(Fetched::Refused(refusal)),
            Ok(()) => self.answer_fetch(&request)?,
        };
        match fetched {
            Some(Fetched::Refused(_) | Fetched::Diverging { .. } | Fetched::OutOfRange { .. }) => {}
            _ => self.count_fetch(node, &request, now_ms, out)?,
        }
        match fetched {
            Some(fetched) => out.send(from, Message::FetchReply { number, partition, fetched }),
            None => {
                let Some(replica) = self.replicas.get_mut(&partition) else { return Ok(()) };
                replica.parked.push(Parked { from, request, until_ms: now_ms + PARKED_MS });
            }
        }
        Ok(())
    }

    fn check_fetch(&self, node: i32, request: &FetchRequest) -> Result<(), Refusal> {
        let replica = self.replicas.get(&request.partition).ok_or(Refusal::NotLeader)?;
        if !replica.is_leader() {
            return Err(Refusal::NotLeader);
        }
        if !self.settings.is_mutated(Mutation::FetchEpochUnchecked) {
            replica.set.check_leader_epoch(request.leader_epoch).map_err(|error| match error {
                EpochCheckError::NotLeader => Refusal::NotLeader,
                EpochCheckError::Fenced { .. } => Refusal::FencedEpoch,
                EpochCheckError::Unknown { .. } => Refusal::UnknownEpoch,
            })?;
        }
        let registered = self.image.broker(node).map_or(i64::MAX, |broker| broker.epoch());
        if request.broker_epoch < registered && !self.settings.is_mutated(Mutation::OldIncarnationCounts) {
            return Err(Refusal::StaleBrokerEpoch);
        }
        Ok(())
    }

    /// `None`: there is nothing new.
    fn answer_fetch(&self, request: &FetchRequest) -> Checked<Option<Fetched>> {
        let Some(replica) = self.replicas.get(&request.partition) else { return Ok(None) };
        let (log_start, log_end) = (replica.log.log_start(), replica.log.log_end());
        if request.offset < log_start {
            return Ok(Some(Fetched::OutOfRange { log_start, log_end }));
        }
        let (epoch, end) = replica.log.end_offset_for_epoch(request.last_fetched_epoch);
        if request.last_fetched_epoch != LeaderEpoch::NONE && epoch == LeaderEpoch::NONE {
            return Ok(Some(Fetched::OutOfRange { log_start, log_end }));
        }
        if let Some(EpochEnd { epoch, end }) =
            diverging(request.last_fetched_epoch, request.offset, EpochEnd { epoch, end })
        {
            return Ok(Some(Fetched::Diverging { epoch, end }));
        }
        if request.offset > log_end {
            return Ok(Some(Fetched::OutOfRange { log_start, log_end }));
        }
        if request.offset == log_end {
            return Ok(None);
        }
        let bytes = stored::read(&replica.log, request.offset, log_end, FETCH_BYTES)?;
        Ok(Some(Fetched::Records { bytes, high_watermark: replica.high_watermark(), log_start }))
    }

    fn count_fetch(&mut self, node: i32, request: &FetchRequest, now_ms: u64, out: &mut Out) -> Checked {
        let Some(replica) = self.replicas.get_mut(&request.partition) else { return Ok(()) };
        let end = replica.log.log_end();
        if let Some(follower) = replica.followers.get_mut(&node) {
            if request.offset >= end {
                follower.caught_up_ms = now_ms;
            } else if request.offset >= follower.leader_end {
                follower.caught_up_ms = follower.caught_up_ms.max(follower.fetched_ms);
            }
            follower.end = Some(request.offset);
            follower.broker_epoch = request.broker_epoch;
            follower.fetched_ms = now_ms;
            follower.leader_end = end;
        }
        let epoch = match self.settings.is_mutated(Mutation::FetchEpochUnchecked) {
            true => replica.leader_epoch,
            false => request.leader_epoch,
        };
        replica.apply(Event::FollowerFetched { node: NodeId(node), epoch, from: request.offset })?;
        self.expand(node, &request.partition, now_ms, out)?;
        self.watermark_moved(&request.partition, now_ms, out)?;
        self.state_positions(&request.partition, out);
        Ok(())
    }

    /// Answers fetches that waited, of which some may have become stale meanwhile.
    pub(super) fn answer_parked(&mut self, partition: &TopicPartition, now_ms: u64, out: &mut Out) -> Checked {
        let Some(replica) = self.replicas.get_mut(partition) else { return Ok(()) };
        for parked in std::mem::take(&mut replica.parked) {
            let Address::Broker(node) = parked.from else { continue };
            let fetched = match self.check_fetch(node, &parked.request) {
                Err(refusal) => Some(Fetched::Refused(refusal)),
                Ok(()) => self.answer_fetch(&parked.request)?,
            };
            let Some(replica) = self.replicas.get_mut(partition) else { return Ok(()) };
            let fetched = match fetched {
                None if now_ms < parked.until_ms => {
                    replica.parked.push(parked);
                    continue;
                }
                None => Fetched::Records {
                    bytes: Bytes::new(),
                    high_watermark: replica.high_watermark(),
                    log_start: replica.log.log_start(),
                },
                Some(fetched) => fetched,
            };
            let number = parked.request.number;
            out.send(parked.from, Message::FetchReply { number, partition: partition.clone(), fetched });
        }
        Ok(())
    }
}
