//! The queue of everything that is to happen, and what happens to messages on the way.

use std::collections::BTreeMap;

use crate::LIFETIME_MS;
use crate::message::{Address, Message};
use crate::random::Random;
use crate::scenario::Action;

/// Something that happens at a moment.
#[derive(Debug, Clone)]
pub enum Event {
    Deliver {
        from: Address,
        to: Address,
        message: Message,
    },
    Tick(Address),
    /// Item of the scenario.
    Act(Action),
    Restart(Address),
    /// Faults end, everything that is down comes back.
    Heal,
    /// Clients begin nothing new.
    Rest,
}

/// Events in the order of their time; of the same time in the order in which they were planned.
#[derive(Debug, Default)]
pub struct Queue {
    events: BTreeMap<(u64, u64), Event>,
    planned: u64,
}

impl Queue {
    pub fn plan(&mut self, at_us: u64, event: Event) {
        self.events.insert((at_us, self.planned), event);
        self.planned += 1;
    }

    pub fn take(&mut self) -> Option<(u64, Event)> {
        self.events.pop_first().map(|((at_us, _), event)| (at_us, event))
    }
}

/// A disturbance and when it ends.
#[derive(Debug, Clone, Copy)]
struct Disturbance {
    action: Action,
    until_us: u64,
}

#[derive(Debug)]
pub struct Network {
    random: Random,
    disturbances: Vec<Disturbance>,
}

impl Network {
    pub fn new(seed: u64) -> Network {
        Network { random: Random::new(seed, 2), disturbances: Vec::new() }
    }

    pub fn disturb(&mut self, action: Action, until_us: u64) {
        self.disturbances.push(Disturbance { action, until_us });
    }

    pub fn heal(&mut self) {
        self.disturbances.clear();
    }

    /// When the message arrives: never, once, or twice. A connection of TCP repeats nothing, so requests are
    /// not repeated
    /// by which a receiver could not tell a copy: calls of group members, and changes of in-sync sets.
    pub fn arrivals(&mut self, from: Address, to: Address, message: &Message, now_us: u64) -> Vec<u64> {
        self.disturbances.retain(|disturbance| disturbance.until_us > now_us);
        let repeats = !matches!(message, Message::Group { .. } | Message::AlterPartition(_));
        let (mut lost, mut copies, mut slowest_us) = (false, 1, 3_000);
        for disturbance in &self.disturbances {
            match disturbance.action {
                Action::Lose { percent, .. } => lost |= self.random.percent(percent),
                Action::Duplicate { percent, .. } if self.random.percent(percent) && repeats => copies = 2,
                Action::Delay { up_to_ms, .. } => slowest_us = slowest_us.max(up_to_ms * 1_000),
                _ => {}
            }
        }
        if lost || !self.connected(from, to, now_us) {
            return Vec::new();
        }
        let slowest_us = slowest_us.min(LIFETIME_MS * 1_000);
        (0..copies).map(|_| now_us + self.random.between(200, slowest_us)).collect()
    }

    /// False while a disturbance keeps messages from passing. Asked when a message leaves and when it arrives.
    pub fn connected(&self, from: Address, to: Address, now_us: u64) -> bool {
        let touches = |node: i32| from == Address::Broker(node) || to == Address::Broker(node);
        !self.disturbances.iter().any(|disturbance| {
            disturbance.until_us > now_us
                && match disturbance.action {
                    Action::Isolate { node, .. } => touches(node),
                    Action::Cut { nodes: (one, other), .. } => touches(one) && touches(other),
                    Action::CutController { node, .. } => {
                        touches(node) && (from == Address::Controller || to == Address::Controller)
                    }
                    _ => false,
                }
        })
    }
}
