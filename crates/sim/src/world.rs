//! The scheduler: takes the next event, lets one party handle it, shows what it states to every invariant.

use std::time::Duration;

use mainstem_metadata::image::NO_LEADER;
use mainstem_types::TopicPartition;

use crate::broker::{Broker, Out, Settings};
use crate::clients::{Client, Member, Reader, Routes, Writer};
use crate::controller::ControllerNode;
use crate::fact::Fact;
use crate::invariants::{self, Invariant};
use crate::message::{Address, Message};
use crate::network::{Event, Network, Queue};
use crate::random::Random;
use crate::scenario::{MEMBERS, READERS, Scenario, WRITERS};
use crate::stored::Checked;
use crate::trace::Trace;
use crate::{ACTIVE_MS, BROKERS, EVENTS_MAX, HEALED_MS};

mod act;
mod end;

/// How often every party looks at its clock.
const TICK_US: u64 = 20_000;
/// Before the end clients begin nothing new for this long, so that replicas can agree.
const REST_US: u64 = 1_000_000;

/// A rule that did not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    pub invariant: String,
    pub what: String,
    pub at_us: u64,
}

impl std::fmt::Display for Violation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (at_us, invariant, what) = (self.at_us, &self.invariant, &self.what);
        write!(f, "violated at {}.{:03} ms: {invariant}\n  {what}", at_us / 1000, at_us % 1000)
    }
}

/// The outcome of a run.
#[derive(Debug)]
pub struct Run {
    pub trace: Trace,
    pub violation: Option<Violation>,
    pub events: u64,
    /// Batches that producers were told of.
    pub acknowledged: u64,
    /// Elections of all partitions.
    pub elections: u64,
    pub truncations: u64,
}

/// Plays a scenario to its end, or to the first violation.
pub fn run(scenario: &Scenario) -> Run {
    play(World::new(scenario), scenario)
}

/// As [`run`], with these invariants alone: whether they notice what others would notice before them.
pub fn run_judged_by(scenario: &Scenario, invariants: &[&str]) -> Run {
    let mut world = World::new(scenario);
    world.invariants.retain(|invariant| invariants.contains(&invariant.name()));
    play(world, scenario)
}

fn play(mut world: World, scenario: &Scenario) -> Run {
    let violation = world.play(scenario).err();
    if let Some(violation) = &violation {
        world.trace.line(world.now_us, &"violation", violation);
    }
    let counts = world.counts;
    Run {
        trace: world.trace,
        violation,
        events: world.events,
        acknowledged: counts.acknowledged,
        elections: counts.elections,
        truncations: counts.truncations,
    }
}

#[derive(Debug, Default, Clone, Copy)]
struct Counts {
    acknowledged: u64,
    elections: u64,
    truncations: u64,
}

#[derive(Debug)]
struct World {
    now_us: u64,
    events: u64,
    queue: Queue,
    network: Network,
    random: Random,
    controller: ControllerNode,
    brokers: Vec<Broker>,
    clients: Vec<Client>,
    invariants: Vec<Box<dyn Invariant>>,
    trace: Trace,
    counts: Counts,
    healed: bool,
}

/// What brokers that are up say about leaders; each question goes to one of them at random.
struct Metadata<'a> {
    brokers: &'a [Broker],
    random: &'a Random,
}

impl Routes for Metadata<'_> {
    fn leader(&self, partition: &TopicPartition) -> Option<i32> {
        let up: Vec<&Broker> = self.brokers.iter().filter(|broker| broker.process.is_some()).collect();
        if up.is_empty() {
            return None;
        }
        let process = self.random.pick(&up).process.as_ref()?;
        let topic = process.image.topic_id(&partition.topic)?;
        let image = process.image.partition(topic, partition.partition.0)?;
        (image.leader != NO_LEADER).then_some(image.leader)
    }
}

impl World {
    fn new(scenario: &Scenario) -> World {
        let settings = Settings { seed: scenario.seed, durability: scenario.durability, mutation: scenario.mutation };
        let mut clients: Vec<Client> = Vec::new();
        // The last writer has no producer id.
        let writers = WRITERS.iter().map(|id| Client::Writer(Writer::new(*id, *id != WRITERS[2])));
        clients.extend(writers);
        clients.extend(READERS.iter().map(|id| Client::Reader(Reader::new(*id))));
        clients.extend(MEMBERS.iter().map(|id| Client::Member(Member::new(*id))));
        World {
            now_us: 0,
            events: 0,
            queue: Queue::default(),
            network: Network::new(scenario.seed),
            random: Random::new(scenario.seed, 3),
            controller: ControllerNode::new(settings),
            brokers: BROKERS.iter().map(|id| Broker::new(*id, settings)).collect(),
            clients,
            invariants: invariants::all(),
            trace: Trace::default(),
            counts: Counts::default(),
            healed: false,
        }
    }

    fn play(&mut self, scenario: &Scenario) -> Result<(), Violation> {
        let everybody = std::iter::once(Address::Controller)
            .chain(BROKERS.map(Address::Broker))
            .chain(self.clients.iter().map(Client::address));
        for (place, address) in everybody.enumerate() {
            self.queue.plan(1_000 + 700 * place as u64, Event::Tick(address));
        }
        for address in [Address::Controller].into_iter().chain(BROKERS.map(Address::Broker)) {
            self.queue.plan(0, Event::Restart(address));
        }
        for item in &scenario.items {
            self.queue.plan(item.at_ms * 1_000, Event::Act(item.action));
        }
        self.queue.plan(ACTIVE_MS * 1_000, Event::Heal);
        let end_us = (ACTIVE_MS + HEALED_MS) * 1_000;
        self.queue.plan(end_us - REST_US, Event::Rest);
        while let Some((at_us, event)) = self.queue.take() {
            if at_us > end_us {
                break;
            }
            self.pass_to(at_us);
            self.events += 1;
            if self.events > EVENTS_MAX {
                return Err(self.violation("the cluster comes to rest", "too many events".to_owned()));
            }
            self.handle(event)?;
        }
        self.check_end()
    }

    fn pass_to(&mut self, at_us: u64) {
        let by = Duration::from_micros(at_us - self.now_us);
        self.now_us = at_us;
        self.controller.clock.advance(by);
        self.brokers.iter().for_each(|broker| broker.clock.advance(by));
    }

    fn now_ms(&self) -> u64 {
        self.now_us / 1_000
    }

    fn handle(&mut self, event: Event) -> Result<(), Violation> {
        match event {
            Event::Tick(address) => {
                self.queue.plan(self.now_us + TICK_US, Event::Tick(address));
                self.step(address, None)
            }
            Event::Deliver { from, to, message } => {
                if !self.network.connected(from, to, self.now_us) {
                    return Ok(());
                }
                if self.is_up(to) {
                    self.trace.line(self.now_us, &to, &format!("<- {from:<10} {message}"));
                }
                self.step(to, Some((from, message)))
            }
            Event::Restart(address) => self.restart(address),
            Event::Act(action) => self.act(action),
            Event::Rest => {
                self.clients.iter_mut().for_each(Client::rest);
                Ok(())
            }
            Event::Heal => {
                self.trace.line(self.now_us, &"world", &"heals");
                self.network.heal();
                self.healed = true;
                for address in [Address::Controller].into_iter().chain(BROKERS.map(Address::Broker)) {
                    if !self.is_up(address) {
                        self.restart(address)?;
                    }
                }
                for broker in &self.brokers {
                    // A crash at a write that did not come any more.
                    broker.disk.stop_after(u64::MAX / 2);
                }
                self.controller.disk.stop_after(u64::MAX / 2);
                Ok(())
            }
        }
    }

    fn is_up(&self, address: Address) -> bool {
        match address {
            Address::Controller => self.controller.process.is_some(),
            Address::Broker(id) => self.broker(id).process.is_some(),
            Address::Client(_) => true,
        }
    }

    fn broker(&self, id: i32) -> &Broker {
        &self.brokers[(id - 1) as usize]
    }

    fn broker_mut(&mut self, id: i32) -> &mut Broker {
        &mut self.brokers[(id - 1) as usize]
    }

    /// One party handles a message, or looks at its clock.
    fn step(&mut self, address: Address, message: Option<(Address, Message)>) -> Result<(), Violation> {
        let now_ms = self.now_ms();
        let mut out = Out::default();
        let result = match address {
            Address::Controller => match (&mut self.controller.process, message) {
                (None, _) => Ok(()),
                (Some(process), None) => process.tick(now_ms, &mut out),
                (Some(process), Some((from, message))) => process.receive(from, message, now_ms, &mut out),
            },
            Address::Broker(id) => match (&mut self.broker_mut(id).process, message) {
                (None, _) => Ok(()),
                (Some(process), None) => process.tick(now_ms, &mut out),
                (Some(process), Some((from, message))) => process.receive(from, message, now_ms, &mut out),
            },
            Address::Client(_) => {
                let metadata = Metadata { brokers: &self.brokers, random: &self.random };
                let client = self.clients.iter_mut().find(|client| client.address() == address);
                match (client, message) {
                    (None, _) => Ok(()),
                    (Some(client), None) => client.tick(now_ms, &metadata, &mut out),
                    (Some(client), Some((_, message))) => client.receive(message, now_ms, &metadata, &mut out),
                }
            }
        };
        self.settle(address, result, out)
    }

    /// Takes what a step left. A step in which the disk stopped is the last one of its process, and nobody
    /// hears of it.
    fn settle(&mut self, address: Address, result: Checked, out: Out) -> Result<(), Violation> {
        let stopped = match address {
            Address::Controller => self.controller.disk.stopped(),
            Address::Broker(id) => self.broker(id).disk.stopped(),
            Address::Client(_) => false,
        };
        if stopped {
            self.crash(address);
            let back_us = self.now_us + 1_000 * self.random.between(20, 900);
            self.queue.plan(back_us, Event::Restart(address));
            return Ok(());
        }
        for note in &out.notes {
            self.trace.line(self.now_us, &address, note);
        }
        for fact in &out.facts {
            self.count(fact);
            let violated = self
                .invariants
                .iter_mut()
                .find_map(|invariant| invariant.observe(fact).err().map(|what| (invariant.name(), what)));
            if let Some((name, what)) = violated {
                return Err(self.violation(name, what));
            }
        }
        if let Err(what) = result {
            return Err(self.violation("no unexpected error", format!("{address}: {what}")));
        }
        for (to, message) in out.sends {
            for at_us in self.network.arrivals(address, to, &message, self.now_us) {
                self.queue.plan(at_us, Event::Deliver { from: address, to, message: message.clone() });
            }
        }
        Ok(())
    }

    fn count(&mut self, fact: &Fact) {
        match fact {
            Fact::Acknowledged { .. } => self.counts.acknowledged += 1,
            Fact::LeaderBegan { .. } => self.counts.elections += 1,
            Fact::Truncated { .. } => self.counts.truncations += 1,
            _ => {}
        }
    }

    fn violation(&self, invariant: &str, what: String) -> Violation {
        Violation { invariant: invariant.to_owned(), what, at_us: self.now_us }
    }

    fn crash(&mut self, address: Address) {
        self.trace.line(self.now_us, &address, &"dies");
        let seed = self.random.number();
        match address {
            Address::Controller => self.controller.crash(seed),
            Address::Broker(id) => self.broker_mut(id).crash(seed),
            Address::Client(_) => {}
        }
    }

    /// Whether an in-sync set, as the controller knows it, has this broker.
    fn is_counted_on(&self, id: i32) -> bool {
        let Some(controller) = &self.controller.process else { return true };
        controller.image().topics().flat_map(|topic| topic.partitions.values()).any(|image| image.isr.contains(&id))
    }

    fn restart(&mut self, address: Address) -> Result<(), Violation> {
        if self.is_up(address) {
            return Ok(());
        }
        let now_ms = self.now_ms();
        let mut out = Out::default();
        let result = match address {
            Address::Controller => self.controller.start(now_ms, &mut out),
            Address::Broker(id) => {
                let counted_on = self.is_counted_on(id);
                self.broker_mut(id).start(now_ms, counted_on, &mut out)
            }
            Address::Client(_) => Ok(()),
        };
        self.settle(address, result, out)
    }
}
