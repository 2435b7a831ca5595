//! What a run consists of: faults and client operations, all derived from the seed before the run begins.

use std::fmt;

use mainstem_store::Durability;

use crate::random::Random;
use crate::{ACTIVE_MS, BROKERS, LIFETIME_MS, PARTITIONS};

/// A rule broken on purpose, to see which invariant notices. Never set by a seed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mutation {
    /// The high watermark follows the leader's log end, whatever followers have.
    WatermarkOfLeaderAlone,
    /// `acks=all` is answered after the append.
    AnswerBeforeInSync,
    /// A follower that differs from its leader cuts nothing and goes on at its own end.
    NoTruncation,
    /// A follower cuts to its high watermark, as Kafka did before leader epochs (KIP-101).
    TruncateToWatermark,
    /// A coordinator forgets each third record when it loads.
    LossyReplay,
    /// Replies of the coordinator do not wait for their records.
    GroupAnswersEarly,
    /// A broker skips each seventh metadata record.
    LossyMetadata,
    /// The controller elects any active replica.
    UncleanElection,
    /// A fetch of a former incarnation counts (KIP-903).
    OldIncarnationCounts,
    /// A follower joins the in-sync set at the high watermark, not at the start of the epoch (KAFKA-7128).
    JoinAtWatermark,
    /// An expansion of the in-sync set counts only when it is confirmed (KIP-497).
    PendingNotCounted,
    /// With `durability=disk` a follower fetches on before its records are on the disk.
    FollowerDoesNotSync,
    /// A leader does not check the epoch that a follower names.
    FetchEpochUnchecked,
}

impl Mutation {
    pub const ALL: [Mutation; 13] = [
        Mutation::WatermarkOfLeaderAlone,
        Mutation::AnswerBeforeInSync,
        Mutation::NoTruncation,
        Mutation::TruncateToWatermark,
        Mutation::LossyReplay,
        Mutation::GroupAnswersEarly,
        Mutation::LossyMetadata,
        Mutation::UncleanElection,
        Mutation::OldIncarnationCounts,
        Mutation::JoinAtWatermark,
        Mutation::PendingNotCounted,
        Mutation::FollowerDoesNotSync,
        Mutation::FetchEpochUnchecked,
    ];
}

/// One thing that happens to the cluster from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// The process dies between two events, or at the given write to its disk, and starts again later.
    KillBroker {
        node: i32,
        at_write: Option<u64>,
        down_ms: u64,
    },
    /// All brokers die in the same moment: the power of the room.
    KillAll {
        down_ms: u64,
    },
    /// The broker dies and comes back with an empty disk, if no in-sync set counts on it any more.
    ReplaceDisk {
        node: i32,
        down_ms: u64,
    },
    KillController {
        at_write: Option<u64>,
        down_ms: u64,
    },
    /// No message reaches the broker or leaves it.
    Isolate {
        node: i32,
        for_ms: u64,
    },
    /// Messages between two brokers are lost, all others arrive.
    Cut {
        nodes: (i32, i32),
        for_ms: u64,
    },
    /// The broker and the controller do not hear each other, all others do.
    CutController {
        node: i32,
        for_ms: u64,
    },
    Lose {
        percent: u64,
        for_ms: u64,
    },
    Duplicate {
        percent: u64,
        for_ms: u64,
    },
    /// Messages take up to `up_to_ms` and so overtake each other.
    Delay {
        up_to_ms: u64,
        for_ms: u64,
    },
    /// The wall clock of a broker jumps.
    StepClock {
        node: i32,
        by_ms: i64,
    },
    Produce {
        client: u32,
        partition: i32,
    },
    /// A member of the group stops for a while, or leaves and comes back.
    PauseMember {
        client: u32,
        for_ms: u64,
    },
    LeaveGroup {
        client: u32,
    },
    CreateTopic {
        number: u64,
    },
    DeleteTopic {
        number: u64,
    },
    /// Segments that are older than the records of the last moments go.
    DeleteRecords {
        partition: i32,
    },
}

impl Action {
    /// Faults are tried first when a run is shrunk.
    pub fn is_fault(&self) -> bool {
        !matches!(
            self,
            Action::Produce { .. }
                | Action::CreateTopic { .. }
                | Action::DeleteTopic { .. }
                | Action::LeaveGroup { .. }
                | Action::DeleteRecords { .. }
        )
    }
}

/// An action, when it happens, and its number within the seed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Item {
    pub number: usize,
    pub at_ms: u64,
    pub action: Action,
}

impl fmt::Display for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>4}: at {:>5} ms {:?}", self.number, self.at_ms, self.action)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scenario {
    pub seed: u64,
    /// `Os`: processes are killed, the page cache survives. `Disk`: power cuts, what was not synced is lost or torn.
    pub durability: Durability,
    pub mutation: Option<Mutation>,
    pub items: Vec<Item>,
}

/// Writers 1-3, readers 11-12, members 21-23.
pub const WRITERS: [u32; 3] = [1, 2, 3];
pub const READERS: [u32; 2] = [11, 12];
pub const MEMBERS: [u32; 3] = [21, 22, 23];

impl Scenario {
    pub fn of(seed: u64) -> Scenario {
        let random = Random::new(seed, 1);
        let durability = if random.percent(50) { Durability::Os } else { Durability::Disk };
        let mut timed: Vec<(u64, Action)> = Vec::new();
        for _ in 0..random.between(3, 14) {
            timed.push((random.between(300, ACTIVE_MS - 200), fault(&random)));
        }
        for _ in 0..random.between(20, 70) {
            timed.push((random.between(100, ACTIVE_MS), operation(&random)));
        }
        timed.sort_by_key(|(at_ms, _)| *at_ms);
        let items = timed.into_iter().enumerate();
        let items = items.map(|(number, (at_ms, action))| Item { number, at_ms, action }).collect();
        Scenario { seed, durability, mutation: None, items }
    }

    #[must_use]
    pub fn with(mut self, mutation: Option<Mutation>) -> Scenario {
        self.mutation = mutation;
        self
    }

    /// The same run with these items only.
    #[must_use]
    pub fn keeping(&self, numbers: &[usize]) -> Scenario {
        let items = self.items.iter().filter(|item| numbers.contains(&item.number)).copied().collect();
        Scenario { items, ..self.clone() }
    }

    pub fn is_mutated(&self, mutation: Mutation) -> bool {
        self.mutation == Some(mutation)
    }

    /// The command that runs this again.
    pub fn command(&self) -> String {
        let mut command = format!("cargo xtask sim --seed {}", self.seed);
        if self.items.len() != Scenario::of(self.seed).items.len() {
            let numbers: Vec<String> = self.items.iter().map(|item| item.number.to_string()).collect();
            command += &format!(" --keep {}", if numbers.is_empty() { "none".to_owned() } else { numbers.join(",") });
        }
        if let Some(mutation) = self.mutation {
            command += &format!(" --mutation {mutation:?}");
        }
        command
    }
}

fn fault(random: &Random) -> Action {
    let node = random.pick(&BROKERS);
    let for_ms = random.between(50, 1_800);
    let at_write = random.percent(50).then(|| random.between(0, 40));
    match random.between(0, 18) {
        0..=4 => Action::KillBroker { node, at_write, down_ms: random.between(20, 2_500) },
        5 => Action::KillController { at_write, down_ms: random.between(20, 900) },
        6..=7 => Action::Isolate { node, for_ms },
        8 => {
            let other = BROKERS[(node as usize) % BROKERS.len()];
            Action::Cut { nodes: (node, other), for_ms }
        }
        9 => Action::Lose { percent: random.between(5, 50), for_ms },
        10 => Action::Duplicate { percent: random.between(5, 50), for_ms },
        11 => Action::Delay { up_to_ms: random.between(20, LIFETIME_MS), for_ms },
        12 => Action::StepClock { node, by_ms: random.between(0, 3_600_000) as i64 - 1_800_000 },
        13 => Action::PauseMember { client: random.pick(&MEMBERS), for_ms: random.between(500, 3_000) },
        14 => Action::KillAll { down_ms: random.between(20, 1_000) },
        15 => Action::ReplaceDisk { node, down_ms: random.between(20, 1_500) },
        _ => Action::CutController { node, for_ms },
    }
}

fn operation(random: &Random) -> Action {
    let partition = random.between(0, PARTITIONS as u64) as i32;
    match random.between(0, 30) {
        0 => Action::CreateTopic { number: random.between(0, 3) },
        1 => Action::DeleteTopic { number: random.between(0, 3) },
        2 => Action::LeaveGroup { client: random.pick(&MEMBERS) },
        3 => Action::DeleteRecords { partition },
        _ => Action::Produce { client: random.pick(&WRITERS), partition },
    }
}
