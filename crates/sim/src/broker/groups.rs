//! The coordinator of the consumer group: runs the loop around a [`GroupShard`] as the crate's documentation says.

use std::collections::BTreeMap;

use bytes::Bytes;
use mainstem_coordinator::{
    AppendFailure, CommitPartition, CommitTopic, CoordinatorOutcome, FetchTopic, GroupConfig, GroupError, GroupShard,
    HeartbeatRequest, JoinGroupRequest, JoinProtocol, LeaveGroupRequest, LeavingMember, Now, OffsetCommitRequest,
    OffsetFetchRequest, OffsetsRecord, Reply, ReplyToken, SyncGroupRequest,
};
use mainstem_record::{BatchBuilder, Batches};
use mainstem_store::{Origin, PartitionLog};
use mainstem_types::{LeaderEpoch, Offset, PartitionIndex, TopicId, TopicPartition};

use super::replica::Waiting;
use super::{Out, Process};
use crate::fact::Fact;
use crate::message::{Address, GroupAnswer, GroupCall, Message};
use crate::scenario::Mutation;
use crate::stored::{self, Checked, failed};
use crate::{OFFSETS_TOPIC, TOPIC};

pub const GROUP: &str = "group";

/// The group shard of the one partition of the offsets topic, while this node leads it.
#[derive(Debug)]
pub struct Coordinator {
    shard: GroupShard,
    epoch: LeaderEpoch,
    asked: BTreeMap<ReplyToken, Asked>,
    tokens: u64,
}

#[derive(Debug, Clone, Copy)]
struct Asked {
    from: Address,
    request: u64,
    generation: i32,
}

fn config() -> GroupConfig {
    GroupConfig { min_session_timeout_ms: 100, initial_rebalance_delay_ms: 150, ..GroupConfig::default() }
}

pub fn offsets_partition() -> TopicPartition {
    TopicPartition::new(OFFSETS_TOPIC, PartitionIndex(0))
}

/// Applies the records of a log up to `end`. `skip`: never set in a correct run.
fn replayed(log: &PartitionLog, end: Offset, skip: bool) -> Checked<GroupShard> {
    let mut shard = GroupShard::new(config());
    for part in stored::read_all(log, log.log_start(), end)? {
        for batch in Batches::new(&part) {
            let batch = batch.map_err(failed("split group batches"))?;
            let mut scratch = Vec::new();
            for record in batch.records(&mut scratch, 1 << 20).map_err(failed("read a group batch"))? {
                let record = record.map_err(failed("read a group record"))?;
                if skip && record.offset.0 % 3 == 2 {
                    continue;
                }
                let replayed = shard.replay(record.offset, None, record.key.unwrap_or_default(), record.value);
                replayed.map_err(failed("replay a group record"))?;
            }
        }
    }
    Ok(shard)
}

fn offset_of(shard: &GroupShard, partition: i32) -> Result<Offset, GroupError> {
    let topic = FetchTopic { name: TOPIC, topic_id: TopicId::ZERO, partitions: vec![PartitionIndex(partition)] };
    let request = OffsetFetchRequest {
        group_id: GROUP,
        member_id: None,
        member_epoch: -1,
        topics: Some(vec![topic]),
        require_stable: false,
    };
    let topics = shard.offset_fetch(&request)?;
    Ok(topics.first().and_then(|topic| topic.partitions.first()).map_or(Offset::NONE, |found| found.offset))
}

impl Process {
    fn group_now(&self) -> Now {
        use mainstem_env::Clock;
        Now { monotonic: self.clock.monotonic(), wall: self.wall() }
    }

    pub(super) fn load_groups(&mut self, now_ms: u64, out: &mut Out) -> Checked {
        self.unload_groups(out);
        let Some(replica) = self.replicas.get(&offsets_partition()) else { return Ok(()) };
        let end = replica.log.log_end();
        let shard = replayed(&replica.log, end, self.settings.is_mutated(Mutation::LossyReplay))?;
        let epoch = replica.leader_epoch;
        self.groups = Some(Coordinator { shard, epoch, asked: BTreeMap::new(), tokens: 0 });
        let now = self.group_now();
        let Some(groups) = &mut self.groups else { return Ok(()) };
        let outcome = groups.shard.loaded(now);
        out.notes.push(format!("coordinator loaded up to {end}"));
        self.settle(outcome, now_ms, out)?;
        self.state_groups(out)
    }

    pub(super) fn unload_groups(&mut self, out: &mut Out) {
        let now = self.group_now();
        let Some(mut groups) = self.groups.take() else { return };
        for (token, _) in groups.shard.unload(now) {
            if let Some(asked) = groups.asked.remove(&token) {
                out.send(asked.from, Message::GroupReply { request: asked.request, answer: GroupAnswer::Retry });
            }
        }
    }

    /// Fires the timers of the shard that are due.
    pub(super) fn poll_groups(&mut self, now_ms: u64, out: &mut Out) -> Checked {
        let now = self.group_now();
        while let Some(outcome) = self.groups.as_mut().and_then(|groups| groups.shard.poll_timer(now)) {
            self.settle(outcome, now_ms, out)?;
        }
        Ok(())
    }

    pub(super) fn group_call(
        &mut self,
        from: Address,
        request: u64,
        call: GroupCall,
        now_ms: u64,
        out: &mut Out,
    ) -> Checked {
        self.poll_groups(now_ms, out)?;
        let now = self.group_now();
        let answer = |answer| Message::GroupReply { request, answer };
        // Until a new leader has committed up to the start of its epoch, it does not know what its predecessor
        // committed:
        // what readers would be shown may be older than what was acknowledged.
        let knows = self
            .replicas
            .get(&offsets_partition())
            .is_some_and(|replica| replica.high_watermark() >= replica.set.epoch_start());
        let Some(groups) = self.groups.as_mut().filter(|_| knows) else {
            out.send(from, answer(GroupAnswer::Retry));
            return Ok(());
        };
        groups.tokens += 1;
        let token = ReplyToken(groups.tokens);
        let generation = match &call {
            GroupCall::Sync { generation, .. } => *generation,
            _ => -1,
        };
        let shard = &mut groups.shard;
        let outcome = match &call {
            GroupCall::Heartbeat { member, generation } => {
                let beat =
                    HeartbeatRequest { group_id: GROUP, generation: *generation, member_id: member, instance_id: None };
                let result = shard.heartbeat(&beat, now);
                out.send(from, answer(result.map_or_else(|error| refused(&error), |()| GroupAnswer::Done)));
                return Ok(());
            }
            GroupCall::Offsets { partition } => return self.serve_offset(from, request, *partition, out),
            GroupCall::Join { member } => join(shard, token, member, from, self.incarnation, now),
            GroupCall::Sync { member, generation, assignments } => {
                sync(shard, token, member, *generation, assignments, now)
            }
            GroupCall::Leave { member } => {
                let members = vec![LeavingMember { member_id: member, instance_id: None }];
                shard.leave_group(token, &LeaveGroupRequest { group_id: GROUP, members }, now)
            }
            GroupCall::Commit { member, generation, partition, value } => {
                commit(shard, token, (member, *generation), *partition, *value, now)
            }
        };
        groups.asked.insert(token, Asked { from, request, generation });
        self.settle(outcome, now_ms, out)
    }

    /// Answers from what is committed.
    fn serve_offset(&mut self, from: Address, request: u64, partition: i32, out: &mut Out) -> Checked {
        self.note_committed();
        let Some(groups) = &self.groups else { return Ok(()) };
        let value = match offset_of(&groups.shard, partition) {
            Ok(offset) => offset.0,
            Err(_) => {
                out.send(from, Message::GroupReply { request, answer: GroupAnswer::Retry });
                return Ok(());
            }
        };
        out.facts.push(Fact::OffsetServed { client: from, request, epoch: groups.epoch, value });
        out.send(from, Message::GroupReply { request, answer: GroupAnswer::Offset { value } });
        Ok(())
    }

    /// Lets readers of the shard see what is committed now.
    fn note_committed(&mut self) {
        let committed = self.replicas.get(&offsets_partition()).map(|replica| replica.high_watermark());
        if let (Some(groups), Some(committed)) = (&mut self.groups, committed) {
            groups.shard.committed(committed);
        }
    }

    fn answer_group(
        &mut self,
        end: Offset,
        to: Address,
        request: u64,
        reply: Message,
        fact: Option<Fact>,
        out: &mut Out,
    ) {
        let end = if self.settings.is_mutated(Mutation::GroupAnswersEarly) { Offset::ZERO } else { end };
        let refusal = Message::GroupReply { request, answer: GroupAnswer::Retry };
        self.reply_when_committed(&offsets_partition(), Waiting { end, to, reply, fact, refusal }, out);
    }

    /// Appends what an outcome asks for, and hands out its answers.
    fn settle(&mut self, mut outcome: CoordinatorOutcome, now_ms: u64, out: &mut Out) -> Checked {
        let mut appended = None;
        while !outcome.records.is_empty() {
            let batch = encoded(&outcome.records, self.wall())?;
            let result = self.append(&offsets_partition(), &batch, Origin::Coordinator, now_ms, out)?;
            let now = self.group_now();
            // First, so that nothing is kept of what is committed already.
            self.note_committed();
            let Some(groups) = &mut self.groups else { return Ok(()) };
            match result {
                Ok(done) => {
                    groups.shard.appended(outcome.records, done.base_offset);
                    appended = Some(());
                    outcome.records = Vec::new();
                }
                Err(_) => outcome = groups.shard.append_failed(outcome, AppendFailure::NotWritable, now),
            }
        }
        self.note_committed();
        let end = self.groups.as_ref().and_then(|groups| groups.shard.answers_wait_for()).unwrap_or(Offset::ZERO);
        for (token, reply) in outcome.replies {
            let Some(groups) = &mut self.groups else { return Ok(()) };
            let Some(asked) = groups.asked.remove(&token) else { continue };
            let served = matches!(reply, Reply::Sync(Ok(_)));
            let fact = served.then_some(Fact::SyncServed { epoch: groups.epoch, generation: asked.generation });
            let message = Message::GroupReply { request: asked.request, answer: answer_of(reply) };
            self.answer_group(end, asked.from, asked.request, message, fact, out);
        }
        appended.map_or(Ok(()), |()| self.state_groups(out))
    }

    /// States how the live state differs from a replay of the log, and what readers see from a replay of what
    /// is committed.
    fn state_groups(&mut self, out: &mut Out) -> Checked {
        self.note_committed();
        let (Some(groups), Some(replica)) = (&self.groups, self.replicas.get(&offsets_partition())) else {
            return Ok(());
        };
        let whole = replayed(&replica.log, replica.log.log_end(), false)?;
        let mut committed = replayed(&replica.log, replica.high_watermark(), false)?;
        committed.committed(replica.high_watermark());
        let difference = groups.shard.difference(&whole).or_else(|| groups.shard.committed_difference(&committed));
        out.facts.push(Fact::Groups { node: self.id, difference });
        Ok(())
    }
}

fn encoded(records: &[OffsetsRecord], now: mainstem_types::TimestampMs) -> Checked<Bytes> {
    let mut builder = BatchBuilder::new();
    for record in records {
        let key = record.encode_key().map_err(failed("encode a group key"))?;
        let value = record.encode_value().map_err(failed("encode a group value"))?;
        builder.append(now, Some(&key), value.as_deref(), &[]);
    }
    builder.build().map(Bytes::from).map_err(failed("build a group batch"))
}

fn join(
    shard: &mut GroupShard,
    token: ReplyToken,
    member: &str,
    from: Address,
    incarnation: u64,
    now: Now,
) -> CoordinatorOutcome {
    let Address::Client(client) = from else { return CoordinatorOutcome::default() };
    // Unique in the run, as a random number would be.
    let unique = (u128::from(client) << 96) | (u128::from(incarnation) << 64) | u128::from(token.0);
    let request = JoinGroupRequest {
        group_id: GROUP,
        member_id: member,
        instance_id: None,
        client_id: "member",
        client_host: "/127.0.0.1",
        session_timeout_ms: 1_200,
        rebalance_timeout_ms: 1_500,
        protocol_type: "consumer",
        protocols: vec![JoinProtocol { name: "range", metadata: &[0, 1, 0, 0, 0, 0, 255, 255, 255, 255, 0, 0, 0, 0] }],
        requires_known_member_id: true,
        supports_skipping_assignment: true,
        member_uuid: (unique ^ (u128::from(now.monotonic.as_millis() as u64) << 32)).to_be_bytes(),
    };
    shard.join_group(token, &request, now)
}

fn sync(
    shard: &mut GroupShard,
    token: ReplyToken,
    member: &str,
    generation: i32,
    assignments: &[(String, Vec<u8>)],
    now: Now,
) -> CoordinatorOutcome {
    let request = SyncGroupRequest {
        group_id: GROUP,
        generation,
        member_id: member,
        instance_id: None,
        protocol_type: Some("consumer"),
        protocol_name: Some("range"),
        assignments: assignments.iter().map(|(member, bytes)| (member.as_str(), bytes.as_slice())).collect(),
    };
    shard.sync_group(token, &request, now)
}

fn commit(
    shard: &mut GroupShard,
    token: ReplyToken,
    (member, generation): (&str, i32),
    partition: i32,
    value: i64,
    now: Now,
) -> CoordinatorOutcome {
    let partition = CommitPartition {
        partition: PartitionIndex(partition),
        offset: Offset(value),
        leader_epoch: LeaderEpoch(0),
        metadata: None,
    };
    let request = OffsetCommitRequest {
        group_id: GROUP,
        generation,
        member_id: member,
        instance_id: None,
        retention_ms: None,
        reports_missing_group: true,
        topics: vec![CommitTopic { name: TOPIC, topic_id: TopicId::ZERO, partitions: vec![partition] }],
    };
    shard.offset_commit(token, &request, now)
}

fn refused(error: &GroupError) -> GroupAnswer {
    match error {
        GroupError::MemberIdRequired { member_id } => GroupAnswer::MemberIdRequired { member: member_id.clone() },
        GroupError::RebalanceInProgress => GroupAnswer::Rejoin,
        GroupError::UnknownMemberId | GroupError::IllegalGeneration | GroupError::GroupIdNotFound => {
            GroupAnswer::Unknown
        }
        _ => GroupAnswer::Retry,
    }
}

fn answer_of(reply: Reply) -> GroupAnswer {
    match reply {
        Reply::Join(Ok(joined)) => GroupAnswer::Joined {
            member: joined.member_id.to_string(),
            generation: joined.generation,
            leads: joined.leader == joined.member_id && !joined.skip_assignment,
            members: joined.members.iter().map(|member| member.member_id.to_string()).collect(),
        },
        Reply::Sync(Ok(synced)) => GroupAnswer::Synced { assignment: synced.assignment.to_vec() },
        Reply::Leave(Ok(_)) => GroupAnswer::Done,
        Reply::OffsetCommit(Ok(topics)) => {
            let result = topics.first().and_then(|topic| topic.partitions.first()).map(|found| &found.result);
            match result {
                Some(Ok(())) => GroupAnswer::Done,
                Some(Err(error)) => refused(error),
                None => GroupAnswer::Retry,
            }
        }
        Reply::Join(Err(error))
        | Reply::Sync(Err(error))
        | Reply::Leave(Err(error))
        | Reply::OffsetCommit(Err(error)) => refused(&error),
        _ => GroupAnswer::Retry,
    }
}
