//! Random members of random groups, failing appends, restarts: every request is answered once, a restart changes nothing
//! that is stored, and the same seed gives the same bytes.

use std::collections::BTreeMap;

use mainstem_coordinator::{AppendFailure, GroupConfig, GroupError, GroupState, HeartbeatRequest, Reply, ReplyToken};
use mainstem_coordinator::{LeaveGroupRequest, LeavingMember, SyncGroupRequest};
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
    Restart,
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
        1 => Just(Step::Restart),
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
}

fn group_of(client: usize) -> &'static str {
    if client < 5 { "first" } else { "second" }
}

fn instance_of(client: usize) -> Option<String> {
    client.is_multiple_of(3).then(|| format!("instance-{client}"))
}

impl World {
    fn new() -> World {
        let bed = Bed::with_config(GroupConfig { max_group_size: 4, ..GroupConfig::default() });
        World { bed, clients: vec![Client::default(); CLIENTS] }
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
            Step::Restart => self.restart(),
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

    /// Restarts, and checks that what is stored is what was there.
    fn restart(&mut self) {
        let offsets = ["first", "second"].map(|group| self.bed.fetch_all(group));
        let stable = self.stable_groups();
        self.bed.restart();
        assert_eq!(offsets, ["first", "second"].map(|group| self.bed.fetch_all(group)));
        let after = self.stable_groups();
        for (group, description) in stable {
            assert_eq!(after.get(&group), Some(&description), "{group} was stable");
        }
    }

    fn stable_groups(&self) -> BTreeMap<&'static str, String> {
        let described = ["first", "second"].map(|group| (group, self.bed.shard.describe_group(group)));
        let stable = described.into_iter().filter_map(|(name, group)| Some((name, group.ok()?)));
        stable
            .filter(|(_, group)| group.state == GroupState::Stable)
            .map(|(name, g)| (name, format!("{g:?}")))
            .collect()
    }

    /// What must hold after each step.
    fn check(&self) {
        for name in ["first", "second"] {
            let Ok(group) = self.bed.shard.describe_group(name) else { continue };
            let waits = matches!(group.state, GroupState::PreparingRebalance | GroupState::CompletingRebalance);
            assert!(!waits || self.bed.shard.next_deadline().is_some(), "{name} waits for nothing");
            assert_eq!(group.state == GroupState::Empty, group.members.is_empty() && !waits, "{group:?}");
        }
    }

    /// Everybody goes silent: all that is parked comes to its end by time alone.
    fn end(&mut self) {
        self.bed.fail_next_append = None;
        self.bed.pass_ms(700_000);
        assert!(self.bed.parked.is_empty(), "never answered: {:?}", self.bed.parked);
        for name in ["first", "second"] {
            let state = self.bed.shard.describe_group(name).map(|group| group.state);
            assert!(matches!(state, Ok(GroupState::Empty) | Err(GroupError::GroupIdNotFound)), "{name}: {state:?}");
        }
        self.restart();
    }
}

fn play(steps: &[Step]) -> (Vec<LogEntry>, BTreeMap<ReplyToken, Reply>) {
    let mut world = World::new();
    for step in steps {
        world.take(step);
        world.check();
    }
    world.end();
    (world.bed.log, world.bed.answers)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn every_request_is_answered_once_and_restarts_lose_nothing(steps in prop::collection::vec(step(), 1..120)) {
        let first = play(&steps);
        prop_assert!(first == play(&steps), "the same steps gave other bytes");
    }
}
