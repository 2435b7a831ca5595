//! A cluster of replicas as a model: appends, fetches, elections, cuts, crashes, and changes of the in-sync set in any
//! order. What was committed once stays committed, on every leader that follows, whatever the unit is measured in.

use mainstem_replica::{
    EpochEnd, Event, ReplicaOutcome, ReplicaSet, ReplicaSetState, Role, UnitPosition, cut_at, diverging,
};
use mainstem_types::{LeaderEpoch, NodeId, Offset, Position};
use proptest::prelude::*;

const NODES: usize = 4;

/// A unit whose records lie where their count says.
trait Unit: UnitPosition {
    fn of(records: usize) -> Self;
    fn records(self) -> usize;
}

impl Unit for Offset {
    fn of(records: usize) -> Offset {
        Offset(records as i64)
    }

    fn records(self) -> usize {
        self.0 as usize
    }
}

/// Entries of 40, 140, 240, 40, … bytes.
impl Unit for Position {
    fn of(records: usize) -> Position {
        Position((0..records).map(|record| 40 + 100 * (record as u64 % 3)).sum())
    }

    fn records(self) -> usize {
        (0..).find(|records| Position::of(*records) >= self).unwrap()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Record {
    epoch: LeaderEpoch,
    value: u32,
}

struct Node<P> {
    log: Vec<Record>,
    durable: usize,
    set: ReplicaSet<P>,
}

/// What the controller knows.
struct Metadata {
    leader: Option<usize>,
    epoch: LeaderEpoch,
    in_sync: Vec<NodeId>,
}

#[derive(Debug, Clone)]
enum Step {
    Append {
        node: usize,
        count: usize,
    },
    Sync {
        node: usize,
    },
    Fetch {
        node: usize,
        max: usize,
    },
    /// The controller elects a member of the in-sync set; not everybody hears of it.
    Elect {
        choice: usize,
        heard: [bool; NODES],
    },
    Hear {
        node: usize,
    },
    /// The power goes: what is not durable is lost, and the checkpoint of the high watermark is behind.
    Crash {
        node: usize,
        behind: usize,
    },
    Propose {
        member: usize,
        decided: bool,
    },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let node = || 0..NODES;
    let step = prop_oneof![
        4 => (node(), 1..4usize).prop_map(|(node, count)| Step::Append { node, count }),
        4 => node().prop_map(|node| Step::Sync { node }),
        10 => (node(), 1..5usize).prop_map(|(node, max)| Step::Fetch { node, max }),
        2 => (node(), any::<[bool; NODES]>()).prop_map(|(choice, heard)| Step::Elect { choice, heard }),
        3 => node().prop_map(|node| Step::Hear { node }),
        1 => (node(), 0..6usize).prop_map(|(node, behind)| Step::Crash { node, behind }),
        3 => (node(), any::<bool>()).prop_map(|(member, decided)| Step::Propose { member, decided }),
    ];
    prop::collection::vec(step, 0..200)
}

struct Cluster<P> {
    nodes: Vec<Node<P>>,
    metadata: Metadata,
    /// An in-sync set that a leader has asked for, with the epoch in which it did.
    asked: Option<(LeaderEpoch, Vec<NodeId>)>,
    /// The controller has agreed, and the leader does not know.
    unheard: bool,
    committed: Vec<Record>,
    durably: bool,
    values: u32,
}

impl<P: Unit> Cluster<P> {
    fn new(durably: bool) -> Cluster<P> {
        let nodes = (0..NODES).map(|node| Node { log: Vec::new(), durable: 0, set: set(node, 0, 0, 0, durably) });
        let metadata = Metadata { leader: None, epoch: LeaderEpoch(0), in_sync: vec![id(0)] };
        Cluster {
            nodes: nodes.collect(),
            metadata,
            asked: None,
            unheard: false,
            committed: Vec::new(),
            durably,
            values: 0,
        }
    }

    fn apply(&mut self, node: usize, event: Event<P>) {
        let is_leader = self.nodes[node].set.is_leader();
        let Ok(outcome) = self.nodes[node].set.apply(event) else { return };
        let end = self.nodes[node].set.high_watermark().records();
        assert!(!matches!(outcome, ReplicaOutcome::HighWatermarkLowered { .. }), "nothing that is committed is cut");
        let log = &self.nodes[node].log;
        if self.nodes[node].set.is_leader() {
            let known = end.min(self.committed.len());
            assert_eq!(log[..known], self.committed[..known], "another record is committed at the same place");
            self.committed.extend_from_slice(&log[known..end.max(known)]);
        } else if !is_leader {
            assert!(end <= self.committed.len(), "a follower tells of what no leader has committed");
        }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Append { node, count } => self.append(node, count),
            Step::Sync { node } => {
                self.nodes[node].durable = self.nodes[node].log.len();
                self.tell_ends(node);
            }
            Step::Fetch { node, max } => self.fetch(node, max),
            Step::Elect { choice, heard } => self.elect(choice, heard),
            Step::Hear { node } => self.hear(node),
            Step::Crash { node, behind } => self.crash(node, behind),
            Step::Propose { member, decided } => self.propose(member, decided),
        }
    }

    fn tell_ends(&mut self, node: usize) {
        let (end, durable) = (self.nodes[node].log.len(), self.nodes[node].durable);
        let acknowledged = P::of(if self.durably { durable } else { end });
        self.apply(node, Event::LocalEnds { log_end: P::of(end), acknowledged });
    }

    fn append(&mut self, node: usize, count: usize) {
        if self.nodes[node].set.role() != Role::Leader {
            return;
        }
        let epoch = self.nodes[node].set.leader_epoch();
        for _ in 0..count {
            self.values += 1;
            self.nodes[node].log.push(Record { epoch, value: self.values });
        }
        self.tell_ends(node);
    }

    fn fetch(&mut self, node: usize, max: usize) {
        let Role::Follower { leader: Some(NodeId(leader)) } = self.nodes[node].set.role() else { return };
        let (leader, epoch) = (leader as usize, self.nodes[node].set.leader_epoch());
        if self.nodes[leader].set.check_leader_epoch(epoch).is_err() {
            return;
        }
        let end = self.nodes[node].log.len();
        let last = self.nodes[node].log.last().map_or(LeaderEpoch::NONE, |record| record.epoch);
        if let Some(answer) = diverging(last, P::of(end), epoch_end(&self.nodes[leader].log, last)) {
            let own = epoch_end(&self.nodes[node].log, answer.epoch);
            let to = cut_at(answer, own, P::of(end)).records();
            assert!(to < end, "each round takes something away");
            self.nodes[node].log.truncate(to);
            self.nodes[node].durable = self.nodes[node].durable.min(to);
            return self.apply(node, Event::LocalTruncated(P::of(to)));
        }
        // With `disk` a follower asks for more when it has synced what it has.
        let said = if self.durably { self.nodes[node].durable } else { end };
        let high_watermark = self.nodes[leader].set.high_watermark();
        let new: Vec<Record> =
            self.nodes[leader].log.get(end..).unwrap_or_default().iter().take(max).copied().collect();
        self.apply(leader, Event::FollowerFetched { node: id(node), epoch, from: P::of(said) });
        self.nodes[node].log.extend(new);
        self.tell_ends(node);
        self.apply(node, Event::LeaderCommitted { epoch, high_watermark });
    }

    fn elect(&mut self, choice: usize, heard: [bool; NODES]) {
        let member = self.metadata.in_sync[choice % self.metadata.in_sync.len()];
        self.metadata.leader = Some(member.0 as usize);
        self.metadata.epoch.0 += 1;
        (self.asked, self.unheard) = (None, false);
        (0..NODES).filter(|node| heard[*node]).for_each(|node| self.hear(node));
    }

    fn hear(&mut self, node: usize) {
        let Metadata { leader, epoch, in_sync } = &self.metadata;
        let leader = leader.map(id);
        let replicas = (0..NODES).map(id).collect();
        let event = Event::LeaderElected { replicas, leader, epoch: *epoch, in_sync: in_sync.clone() };
        if self.nodes[node].set.leader_epoch() == *epoch && self.asked.is_some() {
            // A confirmation of the same epoch would take the proposal back.
            return;
        }
        self.unheard &= self.metadata.leader != Some(node);
        self.apply(node, event);
    }

    fn crash(&mut self, node: usize, behind: usize) {
        let durably = self.durably;
        let this = &mut self.nodes[node];
        if durably {
            this.log.truncate(this.durable);
        }
        let known = this.set.high_watermark().records().saturating_sub(behind);
        this.set = set(node, known, this.log.len(), this.durable, durably);
        if self.metadata.leader == Some(node) {
            self.metadata.leader = None;
            self.metadata.epoch.0 += 1;
            (self.asked, self.unheard) = (None, false);
        }
    }

    /// The leader asks for a set with or without a member; the controller decides now or never.
    fn propose(&mut self, member: usize, decided: bool) {
        let Some(leader) = self.metadata.leader else { return };
        let set = &self.nodes[leader].set;
        let epoch = set.leader_epoch();
        if !set.is_leader() || epoch != self.metadata.epoch || member == leader {
            return;
        }
        if self.unheard {
            return;
        }
        if self.asked.is_none() {
            let mut wanted = self.metadata.in_sync.clone();
            match wanted.iter().position(|node| *node == id(member)) {
                Some(place) => drop(wanted.remove(place)),
                None if set.may_join(id(member)) => wanted.push(id(member)),
                None => return,
            }
            self.apply(leader, Event::InSyncProposed(wanted.clone()));
            self.asked = Some((epoch, wanted));
        }
        if decided && let Some((_, wanted)) = self.asked.take() {
            self.metadata.in_sync = wanted;
            // The leader hears of it later, and counts both sets until then.
            self.unheard = true;
        }
    }
}

fn id(node: usize) -> NodeId {
    NodeId(node as i32)
}

fn set<P: Unit>(node: usize, known: usize, end: usize, durable: usize, durably: bool) -> ReplicaSet<P> {
    let state = ReplicaSetState {
        local: id(node),
        replicas: (0..NODES).map(id).collect(),
        log_start: P::ZERO,
        high_watermark: P::of(known),
        log_end: P::of(end),
        acknowledged: P::of(if durably { durable } else { end }),
    };
    ReplicaSet::new(state).unwrap()
}

/// The end of the largest epoch at or below `epoch`; without any, that epoch ends where the log begins.
fn epoch_end<P: Unit>(log: &[Record], epoch: LeaderEpoch) -> EpochEnd<P> {
    let end = log.partition_point(|record| record.epoch <= epoch);
    EpochEnd { epoch: log[..end].last().map_or(epoch, |record| record.epoch), end: P::of(end) }
}

fn run<P: Unit>(steps: Vec<Step>, durably: bool) {
    let mut cluster = Cluster::<P>::new(durably);
    for step in steps {
        cluster.step(step);
    }
    // In the end one leader remains, everybody follows it, and all that was ever committed is there.
    cluster.elect(0, [true; NODES]);
    for _ in 0..2000 {
        (0..NODES).for_each(|node| cluster.step(Step::Sync { node }));
        (0..NODES).for_each(|node| cluster.fetch(node, 5));
    }
    let leader = cluster.metadata.leader.unwrap();
    let all = cluster.nodes[leader].log.clone();
    assert_eq!(all, cluster.committed, "everything is committed when everybody has it");
    assert!(cluster.nodes.iter().all(|node| node.log == all));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn what_is_committed_stays_so_in_units_of_offsets(steps in steps(), durable in any::<bool>()) {
        run::<Offset>(steps, durable);
    }

    #[test]
    fn what_is_committed_stays_so_in_units_of_bytes(steps in steps(), durable in any::<bool>()) {
        run::<Position>(steps, durable);
    }
}
