//! The one imagined controller: the real operations and image over a real metadata log, with Kafka's rules for
//! sessions,
//! elections and in-sync sets around them.

mod elections;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use mainstem_env::{Clock, CrashPolicy, ManualClock, MemFs};
use mainstem_kafka_wire::Writer;
use mainstem_kafka_wire::metadata_records::MetadataRecord;
use mainstem_metadata::config::BrokerConfig;
use mainstem_metadata::controller::{Controller, NewTopic, TopicRef, bootstrap_records};
use mainstem_metadata::image::{ImageDelta, record_version};
use mainstem_record::BatchBuilder;
use mainstem_store::{Durability, PartitionLog, StoreEnv};
use mainstem_types::{LeaderEpoch, NodeId, Offset, TimestampMs, TopicId};

use crate::broker::{Out, Settings, WALL_START_MS, metadata_partition, replay};
use crate::fact::Fact;
use crate::message::{Address, Message};
use crate::stored::{self, Checked, failed};
use crate::{BROKERS, OFFSETS_TOPIC, PARTITIONS, TOPIC};

/// `broker.session.timeout.ms`.
const SESSION_MS: u64 = 600;
/// A metadata fetch that finds nothing waits this long.
const PARKED_MS: u64 = 50;

#[derive(Debug)]
pub struct ControllerNode {
    pub settings: Settings,
    pub disk: MemFs,
    pub clock: Arc<ManualClock>,
    pub process: Option<ControllerProcess>,
    starts: u64,
}

#[derive(Debug)]
pub struct ControllerProcess {
    settings: Settings,
    env: Arc<StoreEnv>,
    clock: Arc<ManualClock>,
    log: Arc<PartitionLog>,
    controller: Controller,
    term: LeaderEpoch,
    /// When each broker was heard last.
    heard_ms: BTreeMap<i32, u64>,
    parked: Vec<(Address, Offset, u64)>,
    topics_created: u64,
    config: BrokerConfig,
}

impl ControllerNode {
    pub fn new(settings: Settings) -> ControllerNode {
        let clock = Arc::new(ManualClock::at(TimestampMs(WALL_START_MS)));
        ControllerNode { settings, disk: MemFs::with_clock(clock.clone()), clock, process: None, starts: 0 }
    }

    /// Begins a new term on what is on the disk.
    pub fn start(&mut self, now_ms: u64, out: &mut Out) -> Checked {
        self.starts += 1;
        let env = stored::store(&self.disk, &self.clock, self.settings.seed ^ self.starts)?;
        env.fs.create_dir_all_synced(Path::new("data")).map_err(failed("create the data folder"))?;
        let log = stored::open(&env, &metadata_partition(), TopicId::CLUSTER_METADATA, Durability::Os)?;
        // What a crash left at the end of the log counts from here on: nobody has seen it before it is on the disk.
        log.flush_blocking().map_err(failed("sync the metadata log"))?;
        let mut image = Controller::default().image().clone();
        for part in stored::read_all(&log, log.log_start(), log.log_end())? {
            replay(&mut image, &part, |_| false)?;
            out.facts.push(Fact::MetadataCommitted { bytes: part });
        }
        let term = LeaderEpoch(log.latest_epoch().map_or(0, |entry| entry.epoch.0) + 1);
        let config = BrokerConfig::parse(&BTreeMap::new()).map_err(failed("parse the settings"))?;
        let mut process = ControllerProcess {
            settings: self.settings,
            env,
            clock: self.clock.clone(),
            log,
            controller: Controller::new(image),
            term,
            // A new controller gives every broker a session (KAFKA-18138).
            heard_ms: BROKERS.iter().map(|node| (*node, now_ms)).collect(),
            parked: Vec::new(),
            topics_created: 0,
            config,
        };
        out.notes.push(format!("starts, term {term}, log end {}", process.log.log_end()));
        if !process.controller.image().is_bootstrapped() {
            process.commit(&bootstrap_records(), out)?;
        }
        process.state_image(out);
        self.process = Some(process);
        Ok(())
    }

    pub fn crash(&mut self, seed: u64) {
        self.process = None;
        let policy = match self.settings.durability {
            Durability::Disk => CrashPolicy::Torn(seed),
            _ => CrashPolicy::Everything,
        };
        self.disk = self.disk.crash(policy);
    }
}

impl ControllerProcess {
    pub fn image(&self) -> &mainstem_metadata::image::ClusterImage {
        self.controller.image()
    }

    /// Appends the records as one batch, syncs them, replays them, and hands them out.
    fn commit(&mut self, records: &[MetadataRecord<'static>], out: &mut Out) -> Checked {
        if records.is_empty() {
            return Ok(());
        }
        let base = self.log.log_end();
        let level = self.controller.image().metadata_version();
        let now = self.clock.wall_ms();
        let mut builder = BatchBuilder::new().base_offset(base).leader_epoch(self.term);
        for record in records {
            let mut writer = Writer::new();
            let encoded = record.encode_framed(&mut writer, record_version(record, level));
            encoded.map_err(failed("encode a metadata record"))?;
            builder.append(now, None, Some(writer.as_bytes()), &[]);
        }
        let batch = Bytes::from(builder.build().map_err(failed("build a metadata batch"))?);
        self.log.append_stamped(&batch, now).map_err(failed("append metadata"))?;
        self.log.flush_blocking().map_err(failed("sync metadata"))?;
        for (offset, record) in (base.0..).zip(records) {
            let replayed = self.controller.replay(record, Offset(offset), self.term, &mut ImageDelta::default());
            replayed.map_err(failed("replay an own record"))?;
        }
        out.facts.push(Fact::MetadataCommitted { bytes: batch });
        self.state_image(out);
        for (from, offset, _) in std::mem::take(&mut self.parked) {
            self.send_metadata(from, offset, out)?;
        }
        Ok(())
    }

    fn state_image(&self, out: &mut Out) {
        out.facts.push(Fact::Image { node: Address::Controller, image: self.controller.image().clone() });
    }

    fn send_metadata(&self, to: Address, from: Offset, out: &mut Out) -> Checked {
        let bytes = stored::read(&self.log, from, self.log.log_end(), 3_000)?;
        out.send(to, Message::MetadataBatches { from, bytes });
        Ok(())
    }

    pub fn tick(&mut self, now_ms: u64, out: &mut Out) -> Checked {
        for (from, offset, until_ms) in std::mem::take(&mut self.parked) {
            if now_ms >= until_ms {
                self.send_metadata(from, offset, out)?;
            } else {
                self.parked.push((from, offset, until_ms));
            }
        }
        for node in BROKERS {
            let silent = self.heard_ms.get(&node).is_none_or(|heard| now_ms > heard + SESSION_MS);
            let active = self.controller.image().broker(node).is_some_and(|broker| !broker.record.fenced);
            if silent && active {
                out.notes.push(format!("fences broker {node}"));
                let records = self.fencing(node);
                self.commit(&records, out)?;
            }
        }
        self.create_first_topics(out)
    }

    pub fn receive(&mut self, from: Address, message: Message, now_ms: u64, out: &mut Out) -> Checked {
        match (from, message) {
            (Address::Broker(node), Message::Register { incarnation }) => self.register(node, incarnation, now_ms, out),
            (Address::Broker(node), Message::Heartbeat { broker_epoch, metadata_end }) => {
                self.heartbeat(node, broker_epoch, metadata_end, now_ms, out)
            }
            (Address::Broker(node), Message::AlterPartition(alter)) => self.alter(node, &alter, out),
            (_, Message::MetadataFetch { from: offset }) => {
                if offset < self.log.log_end() {
                    return self.send_metadata(from, offset, out);
                }
                self.parked.push((from, offset, now_ms + PARKED_MS));
                Ok(())
            }
            (_, Message::CreateTopic { name }) => self.create_topic(&name, 1, 2, out),
            (_, Message::DeleteTopic { name }) => {
                let decision = self.controller.delete_topics(&[TopicRef::Name(name)], &self.config);
                self.commit(&decision.records, out)
            }
            _ => Ok(()),
        }
    }

    /// Once all brokers are there.
    fn create_first_topics(&mut self, out: &mut Out) -> Checked {
        if self.controller.image().active_brokers().count() < BROKERS.len() {
            return Ok(());
        }
        if self.controller.image().topic(OFFSETS_TOPIC).is_none() {
            self.create_topic(OFFSETS_TOPIC, 1, BROKERS.len(), out)?;
        }
        if self.controller.image().topic(TOPIC).is_none() {
            self.create_topic(TOPIC, PARTITIONS, BROKERS.len(), out)?;
        }
        Ok(())
    }

    fn create_topic(&mut self, name: &str, partitions: i32, replicas: usize, out: &mut Out) -> Checked {
        let topic = NewTopic { partitions, replication_factor: replicas as i16, ..NewTopic::named(name) };
        self.topics_created += 1;
        let id = TopicId(((u128::from(self.term.0 as u32) << 64) | u128::from(self.topics_created)).to_be_bytes());
        let decision = self.controller.create_topics(&[topic], false, &self.config, &mut || id);
        self.commit(&decision.records, out)
    }

    /// The last use of a broker's own producer ids keeps [`Controller::allocate_producer_ids`] in the run.
    fn take_producer_ids(&mut self, node: i32, broker_epoch: i64, out: &mut Out) -> Checked {
        match self.controller.allocate_producer_ids(NodeId(node), broker_epoch) {
            Ok(decision) => self.commit(&decision.records, out),
            // A broker of an earlier epoch gets none.
            Err(_) => Ok(()),
        }
    }

    fn is_mutated(&self, mutation: crate::Mutation) -> bool {
        self.settings.is_mutated(mutation)
    }

    /// The store that the log lies in; kept so that its files stay open.
    pub fn store(&self) -> &Arc<StoreEnv> {
        &self.env
    }
}
