//! A consumer without a group: reads every partition from the start on, again and again.

use std::collections::BTreeMap;

use bytes::Bytes;
use mainstem_types::{LeaderEpoch, Offset, PartitionIndex, TopicPartition};

use super::Routes;
use crate::broker::Out;
use crate::fact::Fact;
use crate::message::{Address, Message, Refusal};
use crate::stored::{self, Checked};
use crate::{PARTITIONS, TOPIC};

const POLL_MS: u64 = 120;

#[derive(Debug)]
pub struct Reader {
    pub id: u32,
    requests: u64,
    asked: BTreeMap<u64, TopicPartition>,
    positions: BTreeMap<TopicPartition, Offset>,
    poll_ms: u64,
}

impl Reader {
    pub fn new(id: u32) -> Reader {
        Reader { id, requests: 0, asked: BTreeMap::new(), positions: BTreeMap::new(), poll_ms: 0 }
    }

    pub fn tick(&mut self, now_ms: u64, routes: &dyn Routes, out: &mut Out) {
        if now_ms < self.poll_ms + POLL_MS {
            return;
        }
        self.poll_ms = now_ms;
        for number in 0..PARTITIONS {
            let partition = TopicPartition::new(TOPIC, PartitionIndex(number));
            let Some(leader) = routes.leader(&partition) else { continue };
            self.requests += 1;
            let from = self.positions.get(&partition).copied().unwrap_or(Offset::ZERO);
            self.asked.retain(|request, _| *request + 20 > self.requests);
            self.asked.insert(self.requests, partition.clone());
            out.send(Address::Broker(leader), Message::Read { request: self.requests, partition, from });
        }
    }

    pub fn answered(
        &mut self,
        request: u64,
        epoch: LeaderEpoch,
        latest: Option<Offset>,
        result: Result<Bytes, Refusal>,
        out: &mut Out,
    ) -> Checked {
        let Some(partition) = self.asked.remove(&request) else { return Ok(()) };
        match result {
            Ok(bytes) => {
                let batches = stored::facts(&bytes)?;
                if let Some(last) = batches.last() {
                    self.positions.insert(partition.clone(), last.last.plus(1));
                }
                let client = Address::Client(self.id);
                out.facts.push(Fact::Read { client, partition, epoch, latest, batches });
            }
            Err(Refusal::OffsetOutOfRange { log_start }) => {
                self.positions.insert(partition, log_start);
            }
            Err(_) => {}
        }
        Ok(())
    }
}
