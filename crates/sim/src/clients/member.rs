//! A member of the consumer group: joins, syncs, beats, commits ascending offsets, and looks at committed ones.

use super::Routes;
use crate::broker::{Out, offsets_partition};
use crate::fact::Fact;
use crate::message::{Address, GroupAnswer, GroupCall, Message};
use crate::{LIFETIME_MS, PARTITIONS};

const BEAT_MS: u64 = 180;
/// Longer than a message can be under way: nothing older of this member can still arrive.
const TIMEOUT_MS: u64 = LIFETIME_MS + 200;
const JOIN_TIMEOUT_MS: u64 = 2_500;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MembershipState {
    Out,
    Joining {
        since_ms: u64,
    },
    /// The sync goes out with the next tick.
    Joined,
    Syncing {
        since_ms: u64,
    },
    Stable,
}

#[derive(Debug, Clone, Copy)]
struct Asked {
    request: u64,
    kind: Kind,
    since_ms: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Membership,
    Beat,
    Commit { partition: i32, value: i64 },
    Offsets,
}

#[derive(Debug)]
pub struct Member {
    pub id: u32,
    state: MembershipState,
    member: String,
    generation: i32,
    owned: Vec<i32>,
    /// From a join's answer, to be sent with the next tick.
    assignments: Vec<(String, Vec<u8>)>,
    asked: Vec<Asked>,
    requests: u64,
    beat_ms: u64,
    paused_until_ms: u64,
    leaves: bool,
    rests: bool,
}

impl Member {
    pub fn new(id: u32) -> Member {
        Member {
            id,
            state: MembershipState::Out,
            member: String::new(),
            generation: -1,
            owned: Vec::new(),
            assignments: Vec::new(),
            asked: Vec::new(),
            requests: 0,
            beat_ms: 0,
            paused_until_ms: 0,
            leaves: false,
            rests: false,
        }
    }

    pub fn pause(&mut self, until_ms: u64) {
        self.paused_until_ms = until_ms;
    }

    pub fn leave(&mut self) {
        self.leaves = true;
    }

    /// Beats on, but commits nothing any more.
    pub fn rest(&mut self) {
        self.rests = true;
    }

    pub fn unfinished(&self) -> Option<String> {
        (self.state != MembershipState::Stable).then(|| format!("member {} is {:?}", self.id, self.state))
    }

    pub fn tick(&mut self, now_ms: u64, routes: &dyn Routes, out: &mut Out) {
        if now_ms < self.paused_until_ms || now_ms < self.beat_ms + BEAT_MS {
            return;
        }
        self.beat_ms = now_ms;
        self.asked.retain(|asked| {
            let limit_ms = if asked.kind == Kind::Membership { JOIN_TIMEOUT_MS } else { TIMEOUT_MS };
            now_ms < asked.since_ms + limit_ms
        });
        let Some(coordinator) = routes.leader(&offsets_partition()) else { return };
        if std::mem::take(&mut self.leaves) && self.state == MembershipState::Stable {
            let member = std::mem::take(&mut self.member);
            self.state = MembershipState::Out;
            self.owned.clear();
            self.call(coordinator, Kind::Beat, GroupCall::Leave { member }, now_ms, out);
            return;
        }
        match self.state {
            MembershipState::Joining { since_ms } | MembershipState::Syncing { since_ms }
                if now_ms < since_ms + JOIN_TIMEOUT_MS => {}
            MembershipState::Joined => self.sync(coordinator, now_ms, out),
            MembershipState::Stable => self.work(coordinator, now_ms, out),
            MembershipState::Out | MembershipState::Joining { .. } | MembershipState::Syncing { .. } => {
                self.join(coordinator, now_ms, out)
            }
        }
    }

    fn join(&mut self, coordinator: i32, now_ms: u64, out: &mut Out) {
        self.state = MembershipState::Joining { since_ms: now_ms };
        self.owned.clear();
        let member = self.member.clone();
        self.call(coordinator, Kind::Membership, GroupCall::Join { member }, now_ms, out);
    }

    fn sync(&mut self, coordinator: i32, now_ms: u64, out: &mut Out) {
        self.state = MembershipState::Syncing { since_ms: now_ms };
        let assignments = std::mem::take(&mut self.assignments);
        let (member, generation) = (self.member.clone(), self.generation);
        self.call(coordinator, Kind::Membership, GroupCall::Sync { member, generation, assignments }, now_ms, out);
    }

    fn work(&mut self, coordinator: i32, now_ms: u64, out: &mut Out) {
        let (member, generation) = (self.member.clone(), self.generation);
        self.call(coordinator, Kind::Beat, GroupCall::Heartbeat { member: member.clone(), generation }, now_ms, out);
        for partition in self.owned.clone() {
            let busy = |asked: &Asked| matches!(asked.kind, Kind::Commit { partition: p, .. } if p == partition);
            if !self.rests && !self.asked.iter().any(busy) {
                // Ascending over all members and the whole run.
                let value = now_ms as i64;
                let call = GroupCall::Commit { member: member.clone(), generation, partition, value };
                self.call(coordinator, Kind::Commit { partition, value }, call, now_ms, out);
            }
        }
        let partition = (now_ms / BEAT_MS) as i32 % PARTITIONS;
        let request = self.call(coordinator, Kind::Offsets, GroupCall::Offsets { partition }, now_ms, out);
        out.facts.push(Fact::OffsetAsked { client: Address::Client(self.id), request, partition });
    }

    fn call(&mut self, coordinator: i32, kind: Kind, call: GroupCall, now_ms: u64, out: &mut Out) -> u64 {
        self.requests += 1;
        let request = self.requests;
        self.asked.push(Asked { request, kind, since_ms: now_ms });
        out.send(Address::Broker(coordinator), Message::Group { request, call });
        request
    }

    pub fn answered(&mut self, request: u64, answer: GroupAnswer, out: &mut Out) {
        let Some(place) = self.asked.iter().position(|asked| asked.request == request) else { return };
        let asked = self.asked.remove(place);
        match (asked.kind, answer) {
            (Kind::Commit { partition, value }, GroupAnswer::Done) => {
                out.facts.push(Fact::OffsetKept { partition, value });
            }
            (Kind::Membership, GroupAnswer::MemberIdRequired { member }) => {
                self.member = member;
                self.state = MembershipState::Out;
            }
            (Kind::Membership, GroupAnswer::Joined { member, generation, leads, members }) => {
                self.member = member;
                self.generation = generation;
                self.assignments = if leads { shared_out(&members) } else { Vec::new() };
                self.state = MembershipState::Joined;
            }
            (Kind::Membership, GroupAnswer::Synced { assignment }) => {
                self.owned = assignment.iter().map(|byte| i32::from(*byte)).collect();
                self.state = MembershipState::Stable;
                let (generation, member) = (self.generation, self.member.clone());
                out.facts.push(Fact::Owns { generation, member, partitions: self.owned.clone() });
            }
            (Kind::Membership, GroupAnswer::Retry | GroupAnswer::Rejoin) => self.state = MembershipState::Out,
            (Kind::Beat | Kind::Commit { .. }, GroupAnswer::Rejoin) if self.state == MembershipState::Stable => {
                self.state = MembershipState::Out;
            }
            (_, GroupAnswer::Unknown) => {
                self.member.clear();
                self.state = MembershipState::Out;
                self.owned.clear();
            }
            _ => {}
        }
    }
}

/// Partitions in turn; one byte each.
fn shared_out(members: &[String]) -> Vec<(String, Vec<u8>)> {
    let mut sorted = members.to_vec();
    sorted.sort();
    let owned = |place: usize| {
        (0..PARTITIONS as usize).filter(|partition| partition % sorted.len() == place).map(|p| p as u8).collect()
    };
    sorted.iter().enumerate().map(|(place, member)| (member.clone(), owned(place))).collect()
}
