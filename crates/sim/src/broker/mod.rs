//! A broker: a disk, a clock, and a process that may be down.

mod follower;
mod groups;
mod in_sync;
mod leader;
mod metadata;
mod replica;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use mainstem_env::{Clock, CrashPolicy, ManualClock, MemFs};
use mainstem_metadata::image::ClusterImage;
use mainstem_store::formats::offset_checkpoint;
use mainstem_store::{Durability, PartitionLog, StoreEnv};
use mainstem_types::{Offset, TimestampMs, TopicId, TopicPartition};

use crate::fact::Fact;
use crate::message::{Address, Message};
use crate::scenario::Mutation;
use crate::stored::{self, Checked, failed};
use groups::Coordinator;
pub use groups::offsets_partition;
pub(crate) use metadata::replay;
pub use replica::Replica;

/// Heartbeats to the controller, and the look at timeouts.
const HEARTBEAT_MS: u64 = 200;
/// How often high watermarks are written down. Kafka: 5 s.
const CHECKPOINT_MS: u64 = 400;
const CHECKPOINT_FILE: &str = "data/replication-offset-checkpoint";
const METADATA_TOPIC: &str = "__cluster_metadata";
/// The wall clock at the start.
pub const WALL_START_MS: i64 = 1_700_000_000_000;

/// What is the same for all brokers of a run.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    pub seed: u64,
    pub durability: Durability,
    pub mutation: Option<Mutation>,
}

impl Settings {
    pub fn is_mutated(&self, mutation: Mutation) -> bool {
        self.mutation == Some(mutation)
    }
}

/// What a step leaves behind: messages, facts, lines of the trace.
#[derive(Debug, Default)]
pub struct Out {
    pub sends: Vec<(Address, Message)>,
    pub facts: Vec<Fact>,
    pub notes: Vec<String>,
}

impl Out {
    pub fn send(&mut self, to: Address, message: Message) {
        self.sends.push((to, message));
    }
}

#[derive(Debug)]
pub struct Broker {
    pub id: i32,
    pub settings: Settings,
    pub disk: MemFs,
    pub clock: Arc<ManualClock>,
    pub process: Option<Process>,
    /// The next start finds an empty disk, if nobody counts on what is on it.
    pub has_new_disk: bool,
    incarnations: u64,
    /// Where each log ended, as far as it was promised to survive, when the process died.
    promised: BTreeMap<TopicPartition, Offset>,
}

/// A running broker. Everything in here is lost with the process.
#[derive(Debug)]
pub struct Process {
    pub(crate) id: i32,
    pub(crate) settings: Settings,
    pub(crate) incarnation: u64,
    pub(crate) env: Arc<StoreEnv>,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) broker_epoch: Option<i64>,
    pub(crate) metadata: Arc<PartitionLog>,
    pub(crate) image: ClusterImage,
    metadata_asked_ms: u64,
    heartbeat_sent_ms: u64,
    checkpoint_ms: u64,
    pub(crate) replicas: BTreeMap<TopicPartition, Replica>,
    pub(crate) groups: Option<Coordinator>,
    checkpointed: BTreeMap<TopicPartition, Offset>,
    /// Ends of logs before the last stop, until the log is opened.
    promised: BTreeMap<TopicPartition, Offset>,
    pub(crate) fetches: u64,
}

pub(crate) fn metadata_partition() -> TopicPartition {
    TopicPartition::new(METADATA_TOPIC, mainstem_types::PartitionIndex(0))
}

impl Broker {
    pub fn new(id: i32, settings: Settings) -> Broker {
        let clock = Arc::new(ManualClock::at(TimestampMs(WALL_START_MS)));
        let disk = MemFs::with_clock(clock.clone());
        Broker {
            id,
            settings,
            disk,
            clock,
            process: None,
            has_new_disk: false,
            incarnations: 0,
            promised: BTreeMap::new(),
        }
    }

    /// Starts the process on what is on the disk.
    pub fn start(&mut self, now_ms: u64, counted_on: bool, out: &mut Out) -> Checked {
        self.incarnations += 1;
        if std::mem::take(&mut self.has_new_disk) && !counted_on {
            self.disk = MemFs::with_clock(self.clock.clone());
            self.promised.clear();
            out.notes.push("has a new disk".to_owned());
        }
        let seed = self.settings.seed ^ ((self.id as u64) << 32) ^ self.incarnations;
        let env = stored::store(&self.disk, &self.clock, seed)?;
        env.fs.create_dir_all_synced(Path::new("data")).map_err(failed("create the data folder"))?;
        let checkpoint = env.fs.read_if_present(Path::new(CHECKPOINT_FILE)).map_err(failed("read a checkpoint"))?;
        let checkpointed = match checkpoint {
            Some(bytes) => offset_checkpoint::decode(&bytes).map_err(failed("decode a checkpoint"))?,
            None => BTreeMap::new(),
        };
        let partition = metadata_partition();
        let metadata = stored::open(&env, &partition, TopicId::CLUSTER_METADATA, Durability::Os)?;
        let mut process = Process {
            id: self.id,
            settings: self.settings,
            incarnation: self.incarnations,
            env,
            clock: self.clock.clone(),
            broker_epoch: None,
            metadata,
            image: ClusterImage::default(),
            metadata_asked_ms: 0,
            heartbeat_sent_ms: 0,
            checkpoint_ms: now_ms,
            replicas: BTreeMap::new(),
            groups: None,
            checkpointed,
            promised: self.promised.clone(),
            fetches: 0,
        };
        process.load_metadata(now_ms, out)?;
        out.notes.push(format!("starts, incarnation {}", process.incarnation));
        self.process = Some(process);
        Ok(())
    }

    /// The process dies; with `Disk` the machine loses its power.
    pub fn crash(&mut self, seed: u64) {
        if let Some(process) = self.process.take() {
            for (partition, replica) in &process.replicas {
                self.promised.insert(partition.clone(), replica.promised());
            }
        }
        let policy = match self.settings.durability {
            Durability::Disk => CrashPolicy::Torn(seed),
            _ => CrashPolicy::Everything,
        };
        self.disk = self.disk.crash(policy);
    }
}

impl Process {
    pub(crate) fn wall(&self) -> TimestampMs {
        self.clock.wall_ms()
    }

    /// What is due by time.
    pub fn tick(&mut self, now_ms: u64, out: &mut Out) -> Checked {
        self.ask_for_metadata(now_ms, false, out);
        if now_ms >= self.heartbeat_sent_ms + HEARTBEAT_MS {
            self.heartbeat_sent_ms = now_ms;
            out.send(
                Address::Controller,
                match self.broker_epoch {
                    None => Message::Register { incarnation: self.incarnation },
                    Some(broker_epoch) => Message::Heartbeat { broker_epoch, metadata_end: self.metadata.log_end() },
                },
            );
        }
        self.flush(now_ms, out)?;
        self.look_after_replicas(now_ms, out)?;
        self.poll_groups(now_ms, out)?;
        if now_ms >= self.checkpoint_ms + CHECKPOINT_MS {
            self.checkpoint_ms = now_ms;
            self.write_checkpoint()?;
        }
        Ok(())
    }

    pub fn receive(&mut self, from: Address, message: Message, now_ms: u64, out: &mut Out) -> Checked {
        match message {
            Message::Registered { incarnation, broker_epoch } if incarnation == self.incarnation => {
                self.broker_epoch = Some(broker_epoch);
                Ok(())
            }
            Message::MetadataBatches { from, bytes } => self.take_metadata(from, &bytes, now_ms, out),
            Message::AlterRefused { partition, partition_epoch, refusal } => {
                self.alter_refused(&partition, partition_epoch, refusal, out)
            }
            Message::Fetch(request) => self.fetch(from, request, now_ms, out),
            Message::FetchReply { number, partition, fetched } => {
                self.fetched(number, &partition, fetched, now_ms, out)
            }
            Message::Produce { request, partition, batch, all } => {
                self.produce(from, request, &partition, &batch, all, now_ms, out)
            }
            Message::Read { request, partition, from: offset } => {
                self.serve_read(from, request, &partition, offset, out)
            }
            Message::Group { request, call } => self.group_call(from, request, call, now_ms, out),
            _ => Ok(()),
        }
    }

    /// A topic's records below the high watermark are deleted, all but the last few.
    pub fn delete_records(&mut self, partition: &TopicPartition, out: &mut Out) -> Checked {
        let wall = self.wall();
        let Some(replica) = self.replicas.get_mut(partition).filter(|replica| replica.is_leader()) else {
            return Ok(());
        };
        let high_watermark = replica.high_watermark();
        let (log_start, wanted) = (replica.log.log_start(), high_watermark.plus(-3));
        // Often inside a batch.
        replica.raise_log_start(wanted.max(log_start), wall)?;
        out.notes.push(format!("{partition} begins at {} now", replica.log.log_start()));
        self.state_positions(partition, out);
        Ok(())
    }

    fn write_checkpoint(&mut self) -> Checked {
        for (partition, replica) in &self.replicas {
            self.checkpointed.insert(partition.clone(), replica.high_watermark());
        }
        let bytes = offset_checkpoint::encode(&self.checkpointed);
        self.env.fs.atomic_write(Path::new(CHECKPOINT_FILE), &bytes).map_err(failed("write a checkpoint"))
    }
}
