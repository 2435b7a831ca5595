//! A shard with a log, a clock and clients: runs outcomes as a broker would, and watches over the answers.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use mainstem_coordinator::{
    AppendFailure, CommitPartition, CommitTopic, CommittedTopic, CoordinatorOutcome, FetchTopic, FetchedPartition,
    FetchedTopic, GroupConfig, GroupError, GroupShard, HeartbeatRequest, JoinGroupRequest, JoinProtocol, JoinedGroup,
    LeaveGroupRequest, LeavingMember, LeftMember, Now, OffsetCommitRequest, OffsetFetchRequest, Reply, ReplyToken,
    SyncGroupRequest, SyncedGroup,
};
use mainstem_types::{LeaderEpoch, Offset, PartitionIndex, ProducerId, TimestampMs, TopicId};

pub const GROUP: &str = "group";
const CLOCK_START: Duration = Duration::from_secs(5_000);
pub const WALL_START_MS: i64 = 1_700_000_000_000;

/// What the log holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogEntry {
    Record { producer: Option<ProducerId>, key: Vec<u8>, value: Option<Vec<u8>> },
    EndTransaction { producer: ProducerId, committed: bool },
}

/// A client's join, with the defaults of a Java consumer that knows nothing yet.
#[derive(Debug, Clone)]
pub struct Join {
    pub group: String,
    pub member_id: String,
    pub instance_id: Option<String>,
    pub session_timeout_ms: i32,
    pub rebalance_timeout_ms: i32,
    pub protocol_type: String,
    pub protocols: Vec<(String, Vec<u8>)>,
    /// v4+.
    pub requires_known_member_id: bool,
    /// v9+.
    pub supports_skipping_assignment: bool,
}

impl Default for Join {
    fn default() -> Join {
        Join {
            group: GROUP.into(),
            member_id: String::new(),
            instance_id: None,
            session_timeout_ms: 10_000,
            rebalance_timeout_ms: 60_000,
            protocol_type: "consumer".into(),
            protocols: vec![("range".into(), subscription(&["orders"]))],
            requires_known_member_id: false,
            supports_skipping_assignment: true,
        }
    }
}

impl Join {
    pub fn as_member(member_id: &str) -> Join {
        Join { member_id: member_id.into(), ..Join::default() }
    }

    pub fn as_instance(instance_id: &str) -> Join {
        Join { instance_id: Some(instance_id.into()), ..Join::default() }
    }
}

/// Subscription bytes of the consumer protocol, version 1.
pub fn subscription(topics: &[&str]) -> Vec<u8> {
    let mut bytes = vec![0, 1];
    bytes.extend((topics.len() as i32).to_be_bytes());
    for topic in topics {
        bytes.extend((topic.len() as i16).to_be_bytes());
        bytes.extend(topic.as_bytes());
    }
    bytes.extend([0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0]);
    bytes
}

pub struct Bed {
    pub shard: GroupShard,
    pub log: Vec<LogEntry>,
    pub answers: BTreeMap<ReplyToken, Reply>,
    pub parked: BTreeSet<ReplyToken>,
    pub fail_next_append: Option<AppendFailure>,
    /// Since the last restart: what is live may be further than what is stored, for example empty.
    pub append_failed: bool,
    /// False: the test says what is committed, with [`GroupShard::committed`].
    pub commits_at_once: bool,
    config: GroupConfig,
    elapsed: Duration,
    next_token: u64,
}

impl Bed {
    pub fn new() -> Bed {
        Bed::with_config(GroupConfig::default())
    }

    pub fn with_config(config: GroupConfig) -> Bed {
        let mut bed = Bed {
            shard: GroupShard::new(config.clone()),
            log: Vec::new(),
            answers: BTreeMap::new(),
            parked: BTreeSet::new(),
            fail_next_append: None,
            append_failed: false,
            commits_at_once: true,
            config,
            elapsed: Duration::ZERO,
            next_token: 0,
        };
        let outcome = bed.shard.loaded(bed.now());
        bed.run(outcome);
        bed
    }

    pub fn now(&self) -> Now {
        let wall = TimestampMs(WALL_START_MS + self.elapsed.as_millis() as i64);
        Now { monotonic: CLOCK_START + self.elapsed, wall }
    }

    pub fn token(&mut self) -> ReplyToken {
        let token = ReplyToken(self.next_token);
        self.next_token += 1;
        assert!(self.parked.insert(token));
        token
    }

    /// Appends and answers, as the crate's documentation tells a broker to. True if the append succeeded.
    pub fn run(&mut self, mut outcome: CoordinatorOutcome) -> bool {
        let mut succeeded = true;
        while !outcome.records.is_empty() {
            if let Some(failure) = self.fail_next_append.take() {
                outcome = self.shard.append_failed(outcome, failure, self.now());
                succeeded = false;
                self.append_failed = true;
                continue;
            }
            let base_offset = Offset(self.log.len() as i64);
            for record in &outcome.records {
                let (key, value) = (record.encode_key().unwrap(), record.encode_value().unwrap());
                self.log.push(LogEntry::Record { producer: None, key, value });
            }
            let records = std::mem::take(&mut outcome.records);
            self.shard.appended(records, base_offset);
            assert_eq!(self.shard.applied(), Some(Offset(self.log.len() as i64 - 1)));
            if self.commits_at_once {
                self.shard.committed(Offset(self.log.len() as i64));
            }
        }
        for (token, reply) in outcome.replies {
            self.answer(token, reply);
        }
        succeeded
    }

    fn answer(&mut self, token: ReplyToken, reply: Reply) {
        assert!(self.parked.remove(&token), "{token:?} is answered twice, now with {reply:?}");
        self.answers.insert(token, reply);
    }

    /// Lets time pass, and every timer fire at its moment.
    pub fn pass_ms(&mut self, ms: u64) {
        self.pass(Duration::from_millis(ms));
    }

    pub fn pass(&mut self, time: Duration) {
        let end = self.elapsed + time;
        while let Some(deadline) = self.shard.next_deadline().filter(|d| *d <= CLOCK_START + end) {
            self.elapsed = self.elapsed.max(deadline - CLOCK_START);
            self.fire_due();
        }
        self.elapsed = end;
    }

    /// Lets time pass without a look at the timers.
    pub fn skip(&mut self, time: Duration) {
        self.elapsed += time;
    }

    /// Fires what is due, as a broker does before each operation.
    pub fn fire_due(&mut self) {
        while let Some(outcome) = self.shard.poll_timer(self.now()) {
            self.run(outcome);
        }
    }

    /// A new shard out of the log; the old one's parked requests are answered.
    pub fn restart(&mut self) {
        for (token, reply) in self.shard.unload(self.now()) {
            self.answer(token, reply);
        }
        assert_eq!(self.parked, BTreeSet::new(), "these requests were never answered");
        self.shard = self.replayed();
        self.append_failed = false;
        let outcome = self.shard.loaded(self.now());
        self.run(outcome);
    }

    /// A shard that has read the log and is not loaded yet.
    pub fn replayed(&self) -> GroupShard {
        self.replayed_to(self.log.len())
    }

    /// As [`replayed`](Self::replayed), of the first `count` entries alone.
    pub fn replayed_to(&self, count: usize) -> GroupShard {
        self.replay(count, count)
    }

    /// As [`replayed`](Self::replayed), where `count` entries are committed.
    pub fn replayed_with_committed(&self, count: usize) -> GroupShard {
        self.replay(self.log.len(), count)
    }

    fn replay(&self, count: usize, committed: usize) -> GroupShard {
        let mut shard = GroupShard::new(self.config.clone());
        shard.committed(Offset(committed as i64));
        for offset in 0..count {
            self.replay_entry(&mut shard, offset);
        }
        shard
    }

    /// Replays the entry at `offset` of the log into a shard that has those before it.
    pub fn replay_entry(&self, shard: &mut GroupShard, offset: usize) {
        let at = Offset(offset as i64);
        match &self.log[offset] {
            LogEntry::Record { producer, key, value } => shard.replay(at, *producer, key, value.as_deref()).unwrap(),
            LogEntry::EndTransaction { producer, committed } => {
                shard.replay_end_transaction(at, *producer, *committed);
            }
        }
    }

    pub fn join(&mut self, join: &Join) -> ReplyToken {
        let token = self.token();
        let request = JoinGroupRequest {
            group_id: &join.group,
            member_id: &join.member_id,
            instance_id: join.instance_id.as_deref(),
            client_id: "client",
            client_host: "/127.0.0.1",
            session_timeout_ms: join.session_timeout_ms,
            rebalance_timeout_ms: join.rebalance_timeout_ms,
            protocol_type: &join.protocol_type,
            protocols: join.protocols.iter().map(|(name, metadata)| JoinProtocol { name, metadata }).collect(),
            requires_known_member_id: join.requires_known_member_id,
            supports_skipping_assignment: join.supports_skipping_assignment,
            member_uuid: u128::from(token.0).to_be_bytes(),
        };
        let outcome = self.shard.join_group(token, &request, self.now());
        self.run(outcome);
        token
    }

    /// What a join was answered; it must have been.
    pub fn joined(&self, token: ReplyToken) -> Result<JoinedGroup, GroupError> {
        match self.answers.get(&token) {
            Some(Reply::Join(joined)) => joined.clone(),
            other => panic!("{token:?} should have the answer to a join, it has {other:?}"),
        }
    }

    pub fn join_now(&mut self, join: &Join) -> Result<JoinedGroup, GroupError> {
        let token = self.join(join);
        self.joined(token)
    }

    pub fn is_parked(&self, token: ReplyToken) -> bool {
        self.parked.contains(&token)
    }

    pub fn sync(&mut self, member_id: &str, generation: i32, assignments: &[(&str, &[u8])]) -> ReplyToken {
        self.sync_as(SyncGroupRequest {
            group_id: GROUP,
            generation,
            member_id,
            instance_id: None,
            protocol_type: Some("consumer"),
            protocol_name: Some("range"),
            assignments: assignments.to_vec(),
        })
    }

    pub fn sync_as(&mut self, request: SyncGroupRequest<'_>) -> ReplyToken {
        let token = self.token();
        let outcome = self.shard.sync_group(token, &request, self.now());
        self.run(outcome);
        token
    }

    pub fn synced(&self, token: ReplyToken) -> Result<SyncedGroup, GroupError> {
        match self.answers.get(&token) {
            Some(Reply::Sync(synced)) => synced.clone(),
            other => panic!("{token:?} should have the answer to a sync, it has {other:?}"),
        }
    }

    pub fn heartbeat(&mut self, member_id: &str, generation: i32) -> Result<(), GroupError> {
        let request = HeartbeatRequest { group_id: GROUP, generation, member_id, instance_id: None };
        self.shard.heartbeat(&request, self.now())
    }

    pub fn leave(&mut self, members: &[(&str, Option<&str>)]) -> Vec<LeftMember> {
        let token = self.token();
        let members =
            members.iter().map(|(member_id, instance_id)| LeavingMember { member_id, instance_id: *instance_id });
        let request = LeaveGroupRequest { group_id: GROUP, members: members.collect() };
        let outcome = self.shard.leave_group(token, &request, self.now());
        self.run(outcome);
        match self.answers.get(&token) {
            Some(Reply::Leave(Ok(left))) => left.clone(),
            other => panic!("a leave was answered {other:?}"),
        }
    }

    /// Commits one offset of `orders-0`, with whatever `change` makes different.
    pub fn commit_with(
        &mut self,
        offset: i64,
        change: impl FnOnce(&mut OffsetCommitRequest<'_>),
    ) -> Result<Vec<CommittedTopic>, GroupError> {
        let token = self.token();
        let partition = CommitPartition {
            partition: PartitionIndex(0),
            offset: Offset(offset),
            leader_epoch: LeaderEpoch(7),
            metadata: Some("note"),
        };
        let topic = CommitTopic { name: "orders", topic_id: TopicId::ZERO, partitions: vec![partition] };
        let mut request = OffsetCommitRequest {
            group_id: GROUP,
            generation: -1,
            member_id: "",
            instance_id: None,
            retention_ms: None,
            reports_missing_group: true,
            topics: vec![topic],
        };
        change(&mut request);
        let outcome = self.shard.offset_commit(token, &request, self.now());
        self.run(outcome);
        match self.answers.get(&token) {
            Some(Reply::OffsetCommit(committed)) => committed.clone(),
            other => panic!("a commit was answered {other:?}"),
        }
    }

    pub fn commit_as(&mut self, member_id: &str, generation: i32, offset: i64) -> Result<(), GroupError> {
        let committed = self.commit_with(offset, |request| {
            request.generation = generation;
            // The borrow of the id ends with the request, the compiler cannot see it through the closure.
            request.member_id = Box::leak(member_id.to_owned().into_boxed_str());
        });
        committed.map(|topics| assert_eq!(topics[0].partitions[0].result, Ok(())))
    }

    /// Fetches `orders-0` of the group.
    pub fn fetch(&self, require_stable: bool) -> FetchedPartition {
        let topic = FetchTopic { name: "orders", topic_id: TopicId::ZERO, partitions: vec![PartitionIndex(0)] };
        let request = OffsetFetchRequest {
            group_id: GROUP,
            member_id: None,
            member_epoch: -1,
            topics: Some(vec![topic]),
            require_stable,
        };
        self.shard.offset_fetch(&request).unwrap()[0].partitions[0].clone()
    }

    pub fn fetch_all(&self, group_id: &str) -> Vec<FetchedTopic> {
        let request =
            OffsetFetchRequest { group_id, member_id: None, member_epoch: -1, topics: None, require_stable: false };
        self.shard.offset_fetch(&request).unwrap()
    }

    pub fn state(&self) -> &'static str {
        self.shard.describe_group(GROUP).map_or("Dead", |group| group.state.name())
    }

    /// A stable group of `count` dynamic members that joined together; the first leads. Their ids, and the generation.
    pub fn stable_group(&mut self, count: usize) -> (Vec<String>, i32) {
        let tokens: Vec<ReplyToken> = (0..count).map(|_| self.join(&Join::default())).collect();
        self.pass_ms(6_000);
        let joined: Vec<JoinedGroup> = tokens.iter().map(|token| self.joined(*token).unwrap()).collect();
        let ids: Vec<String> = joined.iter().map(|joined| joined.member_id.to_string()).collect();
        let generation = joined[0].generation;
        let assignments: Vec<(&str, &[u8])> = ids.iter().map(|id| (id.as_str(), id.as_bytes())).collect();
        let followers: Vec<ReplyToken> = ids[1..].iter().map(|id| self.sync(id, generation, &[])).collect();
        let leader = self.sync(&ids[0], generation, &assignments);
        for (token, id) in followers.iter().chain([&leader]).zip(ids[1..].iter().chain([&ids[0]])) {
            assert_eq!(&*self.synced(*token).unwrap().assignment, id.as_bytes());
        }
        assert_eq!(self.state(), "Stable");
        (ids, generation)
    }
}
