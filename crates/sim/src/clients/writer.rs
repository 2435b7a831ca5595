//! A producer: one request in flight. Writers with a producer id ask for `acks=all` and repeat until they are
//! answered;
//! the others ask for `acks=1` and never repeat.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use mainstem_record::{BatchBuilder, BatchView};
use mainstem_types::{Offset, PartitionIndex, ProducerEpoch, ProducerId, TimestampMs, TopicPartition};

use super::Routes;
use crate::broker::{Out, WALL_START_MS};
use crate::fact::Fact;
use crate::message::{Address, Message, Refusal};
use crate::stored::{Checked, failed};
use crate::{LIFETIME_MS, TOPIC};

/// A request without an answer is sent again after this.
const TIMEOUT_MS: u64 = 500;
const BACK_OFF_MS: u64 = 80;

#[derive(Debug)]
pub struct Writer {
    pub id: u32,
    idempotent: bool,
    queue: VecDeque<i32>,
    sequences: BTreeMap<i32, i32>,
    in_flight: Option<InFlight>,
    requests: u64,
    values: u64,
}

#[derive(Debug, Clone)]
struct InFlight {
    request: u64,
    partition: TopicPartition,
    batch: Bytes,
    crc: u32,
    again_ms: u64,
}

impl Writer {
    pub fn new(id: u32, idempotent: bool) -> Writer {
        Writer {
            id,
            idempotent,
            queue: VecDeque::new(),
            sequences: BTreeMap::new(),
            in_flight: None,
            requests: 0,
            values: 0,
        }
    }

    pub fn queue(&mut self, partition: i32) {
        self.queue.push_back(partition);
    }

    pub fn unfinished(&self) -> Option<String> {
        let left = self.queue.len() + usize::from(self.in_flight.is_some());
        (self.idempotent && left > 0).then(|| format!("writer {} has {left} batches without an answer", self.id))
    }

    pub fn tick(&mut self, now_ms: u64, routes: &dyn Routes, out: &mut Out) -> Checked {
        match &self.in_flight {
            Some(flight) if now_ms < flight.again_ms => Ok(()),
            Some(_) if self.idempotent => {
                self.send(now_ms, routes, out);
                Ok(())
            }
            _ => self.next(now_ms, routes, out),
        }
    }

    fn next(&mut self, now_ms: u64, routes: &dyn Routes, out: &mut Out) -> Checked {
        self.in_flight = None;
        let Some(partition) = self.queue.pop_front() else { return Ok(()) };
        let sequence = self.sequences.entry(partition).or_default();
        let mut builder = BatchBuilder::new();
        if self.idempotent {
            builder = builder.producer(ProducerId(i64::from(self.id)), ProducerEpoch(0), *sequence);
        }
        let count = 1 + self.values % 3;
        for _ in 0..count {
            self.values += 1;
            let value = format!("writer {} value {}", self.id, self.values);
            builder.append(TimestampMs(WALL_START_MS), None, Some(value.as_bytes()), &[]);
        }
        *sequence += count as i32;
        let batch = Bytes::from(builder.build().map_err(failed("build a batch"))?);
        let crc = BatchView::parse(&batch).map_err(failed("parse an own batch"))?.header().crc;
        let partition = TopicPartition::new(TOPIC, PartitionIndex(partition));
        self.in_flight = Some(InFlight { request: 0, partition, batch, crc, again_ms: 0 });
        self.send(now_ms, routes, out);
        Ok(())
    }

    fn send(&mut self, now_ms: u64, routes: &dyn Routes, out: &mut Out) {
        let Some(flight) = &mut self.in_flight else { return };
        self.requests += 1;
        flight.request = self.requests;
        let Some(leader) = routes.leader(&flight.partition) else {
            flight.again_ms = now_ms + BACK_OFF_MS;
            return;
        };
        // Without a producer id a repeated request would be a second record: it is waited for as long as it may
        // be under way.
        flight.again_ms = now_ms + if self.idempotent { TIMEOUT_MS } else { 2 * LIFETIME_MS };
        let (partition, batch) = (flight.partition.clone(), flight.batch.clone());
        let produce = Message::Produce { request: flight.request, partition, batch, all: self.idempotent };
        out.send(Address::Broker(leader), produce);
    }

    pub fn answered(
        &mut self,
        request: u64,
        result: Result<Offset, Refusal>,
        now_ms: u64,
        routes: &dyn Routes,
        out: &mut Out,
    ) -> Checked {
        let Some(flight) = &mut self.in_flight else { return Ok(()) };
        if flight.request != request {
            return Ok(());
        }
        match result {
            Ok(base) => {
                let (partition, crc) = (flight.partition.clone(), flight.crc);
                out.facts.push(Fact::Acknowledged { partition, base, crc, all: self.idempotent });
                self.next(now_ms, routes, out)
            }
            Err(_) => {
                flight.again_ms = now_ms + BACK_OFF_MS;
                Ok(())
            }
        }
    }
}
