//! One replica: its log, its role, and who waits for it.

use std::collections::BTreeMap;
use std::sync::Arc;

use mainstem_metadata::image::PartitionImage;
use mainstem_replica::{Event, ReplicaOutcome, ReplicaSet, ReplicaSetState};
use mainstem_store::{Durability, PartitionLog};
use mainstem_types::{LeaderEpoch, NodeId, Offset, TimestampMs, TopicId, TopicPartition};

use super::{Out, Process, Settings};
use crate::OFFSETS_TOPIC;
use crate::fact::{BatchFact, Fact};
use crate::message::{Address, FetchRequest, Message, Refusal};
use crate::stored::{self, Checked, failed};

/// `min.insync.replicas`.
pub(super) const IN_SYNC_MIN: usize = 2;

/// What a leader knows of a follower beside its log end.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct FollowerState {
    pub end: Option<Offset>,
    pub broker_epoch: i64,
    pub fetched_ms: u64,
    /// The leader's end at the previous fetch.
    pub leader_end: Offset,
    pub caught_up_ms: u64,
}

/// A reply that leaves when the high watermark has reached `end`.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub end: Offset,
    pub to: Address,
    pub reply: Message,
    /// Stated when the reply leaves.
    pub fact: Option<Fact>,
    /// Sent when the node loses its role.
    pub refusal: Message,
}

/// A fetch that found nothing new.
#[derive(Debug)]
pub(crate) struct Parked {
    pub from: Address,
    pub request: FetchRequest,
    pub until_ms: u64,
}

/// A change of the in-sync set that the controller has not confirmed.
#[derive(Debug, Clone)]
pub(crate) struct PendingSet {
    pub members: Vec<(i32, i64)>,
    pub partition_epoch: i32,
    pub sent_ms: u64,
}

/// The fetch of a follower that is under way.
#[derive(Debug, Clone, Copy)]
pub(crate) struct InFlight {
    pub number: u64,
    pub offset: Offset,
    pub sent_ms: u64,
}

#[derive(Debug)]
pub struct Replica {
    pub(crate) settings: Settings,
    pub partition: TopicPartition,
    pub log: Arc<PartitionLog>,
    pub(crate) nodes: Vec<i32>,
    pub leader: i32,
    pub leader_epoch: LeaderEpoch,
    pub(crate) partition_epoch: i32,
    pub in_sync: Vec<i32>,
    pub(crate) set: ReplicaSet,
    /// Up to here the batches were stated as committed by this process.
    pub(crate) stated: Offset,
    /// A fetch said that everything below is here, to survive a power cut.
    pub(crate) told: Offset,
    /// No more is promised than what lies below: a cut is under way, or the log was begun anew and has no batch since.
    pub(crate) promise_max: Option<Offset>,
    pub(crate) followers: BTreeMap<i32, FollowerState>,
    pub(crate) pending: Option<PendingSet>,
    pub(crate) waiting: Vec<Waiting>,
    pub(crate) parked: Vec<Parked>,
    pub(crate) in_flight: Option<InFlight>,
    /// A follower waits until then after an error.
    pub(crate) back_off_until_ms: u64,
}

impl Replica {
    /// What the log has to have when it is opened again.
    pub(super) fn promised(&self) -> Offset {
        let end = match self.settings.durability {
            Durability::Disk => self.log.durable_end().max(self.told),
            _ => self.log.log_end(),
        };
        self.promise_max.map_or(end, |most| end.min(most))
    }

    /// Whether this log ends inside a batch of the leader, above what is committed. The logs differ where that batch
    /// begins. No epoch tells of it: the leader's log start lies in the batch (DeleteRecords), and its epochs begin
    /// there.
    pub(super) fn ends_inside(&self, batch: &BatchFact) -> bool {
        let end = self.log.log_end();
        batch.base < end && end <= batch.last && self.high_watermark() <= batch.base
    }

    pub fn is_leader(&self) -> bool {
        self.set.is_leader()
    }

    pub fn high_watermark(&self) -> Offset {
        self.set.high_watermark()
    }

    pub(crate) fn apply(&mut self, event: Event) -> Checked<ReplicaOutcome> {
        let text = format!("{event:?}");
        self.set.apply(event).map_err(|error| format!("{}: {text} is refused: {error}", self.partition))
    }

    /// Tells the set where the log ends, and up to where it is as safe as `durability` promises.
    pub(crate) fn note_ends(&mut self) -> Checked {
        let log_end = self.log.log_end();
        let acknowledged = acknowledged(&self.log, self.settings.durability);
        self.apply(Event::LocalEnds { log_end, acknowledged }).map(|_| ())
    }

    /// Ends what belongs to a role that is over.
    pub(crate) fn give_up_role(&mut self, out: &mut Out) {
        for waiting in self.waiting.drain(..) {
            out.send(waiting.to, waiting.refusal);
        }
        for parked in self.parked.drain(..) {
            out.send(
                parked.from,
                Message::FetchReply {
                    number: parked.request.number,
                    partition: parked.request.partition,
                    fetched: crate::message::Fetched::Refused(Refusal::NotLeader),
                },
            );
        }
        self.in_flight = None;
        self.back_off_until_ms = 0;
        self.pending = None;
        self.followers.clear();
    }

    pub(crate) fn raise_log_start(&mut self, to: Offset, wall: TimestampMs) -> Checked {
        let high_watermark = self.high_watermark();
        self.log.raise_log_start(to, high_watermark).map_err(failed("raise a log start"))?;
        self.log.retention_pass(wall, high_watermark).map_err(failed("remove old segments"))?;
        self.apply(Event::LocalLogStart(self.log.log_start())).map(|_| ())
    }

    /// The four positions, with the ends as the log itself has them.
    pub(crate) fn positions(&self) -> mainstem_replica::Positions {
        let (log_start, log_end) = (self.log.log_start(), self.log.log_end());
        mainstem_replica::Positions { log_start, log_end, ..self.set.positions(self.high_watermark()) }
    }
}

/// Up to where a log counts towards the high watermark.
fn acknowledged(log: &PartitionLog, durability: Durability) -> Offset {
    match durability {
        Durability::Disk => log.durable_end().min(log.log_end()),
        _ => log.log_end(),
    }
}

pub(crate) fn elected(image: &PartitionImage) -> Event {
    Event::LeaderElected {
        replicas: image.replicas.iter().map(|node| NodeId(*node)).collect(),
        leader: (image.leader >= 0).then_some(NodeId(image.leader)),
        epoch: LeaderEpoch(image.leader_epoch),
        in_sync: image.isr.iter().map(|node| NodeId(*node)).collect(),
    }
}

impl Process {
    /// Opens the log of a partition that this node holds.
    pub(crate) fn host(
        &mut self,
        partition: &TopicPartition,
        topic_id: TopicId,
        nodes: &[i32],
        out: &mut Out,
    ) -> Checked {
        let log = stored::open(&self.env, partition, topic_id, self.settings.durability)?;
        let known = self.promised.remove(partition).unwrap_or(Offset::ZERO);
        let (node, end) = (self.id, log.log_end());
        let batches = stored::facts_between(&log, log.log_start(), end)?;
        out.facts.push(Fact::Recovered { node, partition: partition.clone(), end, known, log: batches });
        let checkpointed = self.checkpointed.get(partition).copied().unwrap_or(Offset::ZERO);
        let state = ReplicaSetState {
            local: NodeId(node),
            replicas: nodes.iter().map(|node| NodeId(*node)).collect(),
            log_start: log.log_start(),
            high_watermark: checkpointed,
            log_end: end,
            acknowledged: acknowledged(&log, self.settings.durability),
        };
        let mut set = ReplicaSet::new(state).map_err(failed("make a replica set"))?;
        set.apply(Event::MinInSyncChanged(IN_SYNC_MIN)).map_err(failed("say how many replicas must be in sync"))?;
        let replica = Replica {
            settings: self.settings,
            partition: partition.clone(),
            nodes: nodes.to_vec(),
            leader: -1,
            leader_epoch: LeaderEpoch::NONE,
            partition_epoch: -1,
            in_sync: Vec::new(),
            set,
            stated: log.log_start(),
            told: Offset::ZERO,
            promise_max: None,
            log,
            followers: BTreeMap::new(),
            pending: None,
            waiting: Vec::new(),
            parked: Vec::new(),
            in_flight: None,
            back_off_until_ms: 0,
        };
        self.replicas.insert(partition.clone(), replica);
        Ok(())
    }

    /// Follows a change of one partition: leader, follower, or another in-sync set.
    pub(crate) fn follow_partition(
        &mut self,
        partition: &TopicPartition,
        image: &PartitionImage,
        now_ms: u64,
        out: &mut Out,
    ) -> Checked {
        let Some(replica) = self.replicas.get_mut(partition) else { return Ok(()) };
        if image.partition_epoch <= replica.partition_epoch {
            return Ok(());
        }
        replica.partition_epoch = image.partition_epoch;
        replica.in_sync = image.isr.clone();
        replica.pending = None;
        let epoch = LeaderEpoch(image.leader_epoch);
        let new_epoch = epoch > replica.leader_epoch;
        replica.leader = image.leader;
        replica.leader_epoch = epoch;
        if image.leader == self.id && new_epoch {
            // Before the first append of the epoch.
            replica.log.begin_epoch(epoch).map_err(failed("begin an epoch"))?;
        }
        match replica.apply(elected(image))? {
            ReplicaOutcome::BecameLeader { .. } => self.become_leader(partition, now_ms, out)?,
            _ if new_epoch => self.become_follower(partition, now_ms, out)?,
            _ if replica.is_leader() => self.watermark_moved(partition, now_ms, out)?,
            _ => {}
        }
        self.state_positions(partition, out);
        Ok(())
    }

    fn become_leader(&mut self, partition: &TopicPartition, now_ms: u64, out: &mut Out) -> Checked {
        let Some(replica) = self.replicas.get_mut(partition) else { return Ok(()) };
        replica.give_up_role(out);
        let epoch = replica.leader_epoch;
        let fresh = FollowerState { fetched_ms: now_ms, caught_up_ms: now_ms, ..FollowerState::default() };
        replica.followers = replica.nodes.iter().filter(|node| **node != self.id).map(|node| (*node, fresh)).collect();
        let (end, node) = (replica.log.log_end(), self.id);
        let log = stored::facts_between(&replica.log, replica.log.log_start(), end)?;
        out.notes.push(format!("{partition}: leads, epoch {epoch}, end {end}, watermark {}", replica.high_watermark()));
        out.facts.push(Fact::LeaderBegan { node, partition: partition.clone(), epoch, log, end });
        self.watermark_moved(partition, now_ms, out)?;
        if &*partition.topic == OFFSETS_TOPIC {
            self.load_groups(now_ms, out)?;
        }
        Ok(())
    }

    fn become_follower(&mut self, partition: &TopicPartition, now_ms: u64, out: &mut Out) -> Checked {
        let Some(replica) = self.replicas.get_mut(partition) else { return Ok(()) };
        replica.give_up_role(out);
        out.notes.push(format!("{partition}: follows {}, epoch {}", replica.leader, replica.leader_epoch));
        if &*partition.topic == OFFSETS_TOPIC {
            self.unload_groups(out);
        }
        self.begin_following(partition, out)?;
        self.fetch_next(partition, now_ms, out);
        Ok(())
    }

    pub(crate) fn state_positions(&self, partition: &TopicPartition, out: &mut Out) {
        if let Some(replica) = self.replicas.get(partition) {
            let positions = replica.positions();
            out.facts.push(Fact::Positions { node: self.id, partition: partition.clone(), positions });
        }
    }

    /// States what is committed now and was not before. Readers, invariants and replies all go by this.
    pub(crate) fn state_committed(&mut self, partition: &TopicPartition, out: &mut Out) -> Checked {
        let Some(replica) = self.replicas.get_mut(partition) else { return Ok(()) };
        let to = replica.high_watermark();
        let from = replica.stated.max(replica.log.log_start());
        if to > from {
            let batches = stored::facts_between(&replica.log, from, to)?;
            out.facts.push(Fact::Committed { node: self.id, partition: partition.clone(), to, batches });
            replica.stated = to;
        }
        Ok(())
    }
}
