//! What an item of the scenario does.

use mainstem_types::{PartitionIndex, TopicPartition};

use super::{Violation, World};
use crate::broker::Out;
use crate::message::{Address, Message};
use crate::network::Event;
use crate::scenario::Action;
use crate::{BROKERS, TOPIC};

impl World {
    fn kill(&mut self, address: Address, at_write: Option<u64>, down_ms: u64) {
        if self.is_up(address) {
            let disk = match address {
                Address::Broker(id) => &self.broker(id).disk,
                _ => &self.controller.disk,
            };
            match at_write {
                Some(writes) => disk.stop_after(writes),
                None => self.crash(address),
            }
        }
        self.queue.plan(self.now_us + down_ms * 1_000, Event::Restart(address));
    }

    pub(super) fn act(&mut self, action: Action) -> Result<(), Violation> {
        self.trace.line(self.now_us, &"world", &format!("{action:?}"));
        let until_us = |for_ms: u64| self.now_us + for_ms * 1_000;
        match action {
            Action::KillBroker { node, at_write, down_ms } => self.kill(Address::Broker(node), at_write, down_ms),
            Action::KillController { at_write, down_ms } => self.kill(Address::Controller, at_write, down_ms),
            Action::KillAll { down_ms } => {
                for id in BROKERS {
                    self.kill(Address::Broker(id), None, down_ms + 40 * id as u64);
                }
            }
            Action::ReplaceDisk { node, down_ms } => {
                self.kill(Address::Broker(node), None, down_ms);
                self.broker_mut(node).has_new_disk = true;
            }
            Action::Isolate { for_ms, .. }
            | Action::CutController { for_ms, .. }
            | Action::Cut { for_ms, .. }
            | Action::Lose { for_ms, .. }
            | Action::Duplicate { for_ms, .. }
            | Action::Delay { for_ms, .. } => self.network.disturb(action, until_us(for_ms)),
            Action::StepClock { node, by_ms } => {
                let clock = &self.broker(node).clock;
                let wall = mainstem_env::Clock::wall_ms(&**clock);
                clock.set_wall(mainstem_types::TimestampMs(wall.0 + by_ms));
            }
            Action::Produce { client, .. } | Action::PauseMember { client, .. } | Action::LeaveGroup { client } => {
                let now_ms = self.now_ms();
                let client = self.clients.iter_mut().find(|known| known.address() == Address::Client(client));
                if let Some(client) = client {
                    client.act(action, now_ms);
                }
            }
            Action::CreateTopic { number } => self.ask_controller(Message::CreateTopic { name: format!("t-{number}") }),
            Action::DeleteTopic { number } => self.ask_controller(Message::DeleteTopic { name: format!("t-{number}") }),
            Action::DeleteRecords { partition } => {
                let partition = TopicPartition::new(TOPIC, PartitionIndex(partition));
                for id in BROKERS {
                    let mut out = Out::default();
                    let process = &mut self.broker_mut(id).process;
                    let result =
                        process.as_mut().map_or(Ok(()), |process| process.delete_records(&partition, &mut out));
                    self.settle(Address::Broker(id), result, out)?;
                }
            }
        }
        Ok(())
    }

    fn ask_controller(&mut self, message: Message) {
        let (from, to) = (Address::Client(0), Address::Controller);
        for at_us in self.network.arrivals(from, to, &message, self.now_us) {
            self.queue.plan(at_us, Event::Deliver { from, to, message: message.clone() });
        }
    }
}
