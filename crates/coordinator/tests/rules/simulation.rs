//! Random members of random groups, failing appends, records that are committed late or lost, restarts: every request
//! is answered once, state is what a replay of the log gives, what is shown is what a replay of the committed log
//! gives, a restart changes nothing that was shown, and the same seed gives the same bytes.

use std::collections::BTreeMap;

use mainstem_coordinator::{
    AppendFailure, FetchedTopic, GroupConfig, GroupError, GroupShard, GroupState, HeartbeatRequest, LeaveGroupRequest,
    LeavingMember, OffsetFetchRequest, Reply, ReplyToken, SyncGroupRequest,
};
use mainstem_types::Offset;
use proptest::prelude::*;

use crate::bed::{Bed, Join, LogEntry};

/// One step; the numbers choose among what there is.
#[derive(Debug, Clone)]
enum Step {
    Join {
        client: usize,
        changed: bool,
    },
    Sync {
        client: usize,
    },
    Heartbeat {
        client: usize,
    },
    Commit {
        client: usize,
        offset: i64,
    },
    Leave {
        client: usize,
    },
    /// The client forgets its id, as a process that was killed and started again.
    Die {
        client: usize,
    },
    Pass {
        ms: u64,
    },
    FailNextAppend {
        which: u8,
    },
    /// So many more records are committed.
    Advance {
        records: usize,
    },
    /// A restart on the whole log, or on what was committed of it.
    Restart {
        loses: bool,
    },
    DeleteTopic,
}

fn step() -> impl Strategy<Value = Step> {
    let client = 0..CLIENTS;
    prop_oneof![
        8 => (client.clone(), prop::bool::weighted(0.2)).prop_map(|(client, changed)| Step::Join { client, changed }),
        8 => client.clone().prop_map(|client| Step::Sync { client }),
        4 => client.clone().prop_map(|client| Step::Heartbeat { client }),
        4 => (client.clone(), 0..1_000i64).prop_map(|(client, offset)| Step::Commit { client, offset }),
        1 => client.clone().prop_map(|client| Step::Leave { client }),
        1 => client.prop_map(|client| Step::Die { client }),
        6 => prop_oneof![0..100u64, 1_000..4_000u64, 9_000..12_000u64].prop_map(|ms| Step::Pass { ms }),
        1 => (0..3u8).prop_map(|which| Step::FailNextAppend { which }),
        8 => (0..6usize).prop_map(|records| Step::Advance { records }),
        1 => any::<bool>().prop_map(|loses| Step::Restart { loses }),
        1 => Just(Step::DeleteTopic),
    ]
}

const CLIENTS: usize = 9;

/// A client as it sees itself. Clients 0-4 are in one group, 5-8 in another; every third is static.
#[derive(Debug, Default, Clone)]
struct Client {
    member_id: String,
    generation: i32,
    leads: bool,
    members: Vec<String>,
    join: Option<ReplyToken>,
}

struct World {
    bed: Bed,
    clients: Vec<Client>,
    /// How much of the log is committed.
    committed: usize,
    /// Shards that did nothing but read: the whole log, and what is committed of it.
    reader: GroupShard,
    committed_reader: GroupShard,
    read: (usize, usize),
}

fn config() -> GroupConfig {
    GroupConfig { max_group_size: 4, ..GroupConfig::default() }
}

fn group_of(client: usize) -> &'static str {
    if client < 5 { "first" } else { "second" }
}

fn instance_of(client: usize) -> Option<String> {
    client.is_multiple_of(3).then(|| format!("instance-{client}"))
}

impl World {
    /// With `commits_at_once` there are no uncommitted records.
    fn new(commits_at_once: bool) -> World {
        let mut bed = Bed::with_config(config());
        bed.commits_at_once = commits_at_once;
        let reader = || GroupShard::new(config());
        let clients = vec![Client::default(); CLIENTS];
        World { bed, clients, committed: 0, reader: reader(), committed_reader: reader(), read: (0, 0) }
    }

    fn commit(&mut self, records: usize) {
        self.committed = self.committed.saturating_add(records).min(self.bed.log.len());
        self.bed.shard.committed(Offset(self.committed as i64));
    }

    fn take(&mut self, step: &Step) {
        self.read_answers();
        match *step {
            Step::Join { client, changed } => self.join(client, changed),
            Step::Sync { client } => self.sync(client),
            Step::Heartbeat { client } => {
                let Client { member_id, generation, .. } = &self.clients[client];
                let instance = instance_of(client);
                let request = HeartbeatRequest {
                    group_id: group_of(client),
                    generation: *generation,
                    member_id,
                    instance_id: instance.as_deref(),
                };
                let now = self.bed.now();
                let _ = self.bed.shard.heartbeat(&request, now);
            }
            Step::Commit { client, offset } => {
                let Client { member_id, generation, .. } = self.clients[client].clone();
                let _ = self.bed.commit_with(offset, |request| {
                    request.group_id = group_of(client);
                    request.generation = if member_id.is_empty() { -1 } else { generation };
                    request.member_id = Box::leak(member_id.into_boxed_str());
                });
            }
            Step::Leave { client } => {
                let member_id = std::mem::take(&mut self.clients[client]).member_id;
                let token = self.bed.token();
                let members = vec![LeavingMember { member_id: &member_id, instance_id: None }];
                let request = LeaveGroupRequest { group_id: group_of(client), members };
                let outcome = self.bed.shard.leave_group(token, &request, self.bed.now());
                self.bed.run(outcome);
            }
            Step::Die { client } => self.clients[client] = Client::default(),
            Step::Pass { ms } => self.bed.pass_ms(ms),
            Step::FailNextAppend { which } => {
                let all = [AppendFailure::NotReplicated, AppendFailure::NotWritable, AppendFailure::TooLarge];
                self.bed.fail_next_append = Some(all[usize::from(which)]);
            }
            Step::Advance { records } => self.commit(records),
            Step::Restart { loses } => self.restart(loses),
            Step::DeleteTopic => {
                for outcome in self.bed.shard.topics_deleted(&["orders"]) {
                    self.bed.run(outcome);
                }
            }
        }
    }

    fn join(&mut self, client: usize, changed: bool) {
        let join = Join {
            group: group_of(client).into(),
            member_id: self.clients[client].member_id.clone(),
            instance_id: instance_of(client),
            rebalance_timeout_ms: 20_000,
            protocols: vec![("range".into(), vec![u8::from(changed)])],
            requires_known_member_id: client.is_multiple_of(2),
            supports_skipping_assignment: client.is_multiple_of(4),
            ..Join::default()
        };
        self.clients[client].join = Some(self.bed.join(&join));
        self.read_answers();
    }

    fn sync(&mut self, client: usize) {
        let Client { member_id, generation, leads, members, .. } = self.clients[client].clone();
        if member_id.is_empty() {
            return;
        }
        let assignments = members.iter().map(|member| (member.as_str(), member.as_bytes()));
        let instance = instance_of(client);
        self.bed.sync_as(SyncGroupRequest {
            group_id: group_of(client),
            generation,
            member_id: &member_id,
            instance_id: instance.as_deref(),
            protocol_type: None,
            protocol_name: None,
            assignments: if leads { assignments.collect() } else { vec![] },
        });
    }

    /// Lets clients learn from the answers to their joins.
    fn read_answers(&mut self) {
        for client in &mut self.clients {
            let Some(reply) = client.join.and_then(|token| self.bed.answers.get(&token)) else { continue };
            client.join = None;
            match reply {
                Reply::Join(Ok(joined)) => {
                    client.member_id = joined.member_id.to_string();
                    client.generation = joined.generation;
                    client.leads = joined.leader == joined.member_id && !joined.skip_assignment;
                    client.members = joined.members.iter().map(|member| member.member_id.to_string()).collect();
                }
                Reply::Join(Err(GroupError::MemberIdRequired { member_id })) => client.member_id.clone_from(member_id),
                Reply::Join(Err(GroupError::UnknownMemberId | GroupError::FencedInstanceId)) => {
                    client.member_id.clear();
                }
                Reply::Join(Err(_)) => {}
                other => panic!("a join was answered {other:?}"),
            }
        }
    }

    /// Restarts, and checks that what was shown is there.
    fn restart(&mut self, loses: bool) {
        if loses {
            self.bed.log.truncate(self.committed);
        } else {
            self.commit(usize::MAX);
        }
        let offsets = ["first", "second"].map(|group| self.bed.fetch_all(group));
        let stable = self.stable_groups();
        self.bed.restart();
        self.commit(usize::MAX);
        assert_eq!(offsets, ["first", "second"].map(|group| self.bed.fetch_all(group)));
        let after = self.stable_groups();
        for (group, description) in stable {
            assert_eq!(after.get(&group), Some(&description), "{group} was stable");
        }
        self.reader = GroupShard::new(config());
        self.read.0 = 0;
    }

    fn stable_groups(&self) -> BTreeMap<&'static str, String> {
        let described = ["first", "second"].map(|group| (group, self.bed.shard.describe_group(group)));
        let stable = described.into_iter().filter_map(|(name, group)| Some((name, group.ok()?)));
        stable
            .filter(|(_, group)| group.state == GroupState::Stable)
            .map(|(name, g)| (name, format!("{g:?}")))
            .collect()
    }

    /// The state is what a replay of the log gives, and what is shown is what one of the committed log gives.
    fn check_against_readers(&mut self) {
        if self.bed.commits_at_once {
            self.committed = self.bed.log.len();
        }
        while self.read.0 < self.bed.log.len() {
            self.bed.replay_entry(&mut self.reader, self.read.0);
            self.read.0 += 1;
        }
        while self.read.1 < self.committed {
            self.bed.replay_entry(&mut self.committed_reader, self.read.1);
            self.read.1 += 1;
        }
        let shard = &self.bed.shard;
        assert_eq!(shard.difference(&self.reader), None);
        assert_eq!(shard.committed_difference(&self.committed_reader), None);
        let waits = (self.committed < self.bed.log.len()).then_some(Offset(self.bed.log.len() as i64));
        assert_eq!(shard.answers_wait_for(), waits);
    }

    /// What readers are told is what they are told by a shard that knows the committed log alone.
    fn check_reads(&self) {
        let mut alone = self.bed.replayed_to(self.committed);
        let _ = alone.loaded(self.bed.now());
        let names = |shard: &GroupShard| -> Vec<String> {
            shard.list_groups(&[], &[]).unwrap().iter().map(|group| group.group_id.to_string()).collect()
        };
        assert_eq!(names(&self.bed.shard), names(&alone));
        for name in ["first", "second"] {
            assert_eq!(fetched(&self.bed.shard, name), fetched(&alone, name));
            let Ok(group) = self.bed.shard.describe_group(name) else { continue };
            // Between generations the members are in memory alone.
            if matches!(group.state, GroupState::Stable | GroupState::Empty) && !self.bed.append_failed {
                assert_eq!(alone.describe_group(name), Ok(group), "{name}");
            }
        }
    }

    /// What must hold after each step.
    fn check(&mut self) {
        self.check_against_readers();
        for name in ["first", "second"] {
            let Ok(group) = self.bed.shard.describe_group(name) else { continue };
            let waits = matches!(group.state, GroupState::PreparingRebalance | GroupState::CompletingRebalance);
            assert!(!waits || self.bed.shard.next_deadline().is_some(), "{name} waits for nothing");
            assert_eq!(group.state == GroupState::Empty, group.members.is_empty() && !waits, "{group:?}");
        }
    }

    /// Everybody goes silent and all is committed: all that is parked comes to its end by time alone.
    fn end(&mut self) {
        self.bed.fail_next_append = None;
        self.bed.pass_ms(700_000);
        self.commit(usize::MAX);
        assert!(self.bed.parked.is_empty(), "never answered: {:?}", self.bed.parked);
        for name in ["first", "second"] {
            let state = self.bed.shard.describe_group(name).map(|group| group.state);
            assert!(matches!(state, Ok(GroupState::Empty) | Err(GroupError::GroupIdNotFound)), "{name}: {state:?}");
        }
        self.restart(false);
    }
}

fn fetched(shard: &GroupShard, group_id: &str) -> Vec<FetchedTopic> {
    let all = OffsetFetchRequest { group_id, member_id: None, member_epoch: -1, topics: None, require_stable: false };
    shard.offset_fetch(&all).unwrap()
}

fn play(steps: &[Step], commits_at_once: bool) -> (Vec<LogEntry>, BTreeMap<ReplyToken, Reply>) {
    let mut world = World::new(commits_at_once);
    for (number, step) in steps.iter().enumerate() {
        world.take(step);
        world.check();
        if number.is_multiple_of(4) {
            world.check_reads();
        }
    }
    world.end();
    (world.bed.log, world.bed.answers)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn every_request_is_answered_once_and_restarts_lose_nothing(
        steps in prop::collection::vec(step(), 1..120),
        commits_at_once: bool,
    ) {
        let first = play(&steps, commits_at_once);
        prop_assert!(first == play(&steps, commits_at_once), "the same steps gave other bytes");
    }
}
