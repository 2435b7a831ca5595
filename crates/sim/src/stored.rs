//! Logs of a simulated node: opening, reading, and what is in them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use mainstem_env::{ManualClock, MemFs, SeededRng};
use mainstem_record::{BatchView, Batches};
use mainstem_store::{Durability, LogConfig, OpenFacts, PartitionLog, ReadChunk, ReadRequest, StoreEnv};
use mainstem_types::{Offset, TopicId, TopicPartition};

use crate::fact::BatchFact;

/// What goes wrong in real code where nothing may: the text of its error.
pub type Checked<T = ()> = Result<T, String>;

/// The text of an error, with what was tried.
pub fn failed<E: std::fmt::Display>(what: &'static str) -> impl Fn(E) -> String {
    move |error| format!("{what}: {error}")
}

/// Small segments, so that logs roll; retention is asked for, never by time.
pub fn log_config(durability: Durability) -> Arc<LogConfig> {
    Arc::new(LogConfig {
        segment_bytes: 2_000,
        index_interval_bytes: 200,
        durability,
        retention_ms: -1,
        timestamp_after_max_ms: i64::MAX,
        ..LogConfig::default()
    })
}

pub fn store(disk: &MemFs, clock: &Arc<ManualClock>, seed: u64) -> Checked<Arc<StoreEnv>> {
    let rng = Arc::new(SeededRng::new(seed));
    StoreEnv::new(Arc::new(disk.clone()), clock.clone(), rng, 1 << 20, 0).map_err(failed("the store"))
}

pub fn folder(partition: &TopicPartition) -> PathBuf {
    Path::new("data").join(partition.to_string())
}

/// Opens the log of a partition, or creates it, durably.
pub fn open(
    env: &Arc<StoreEnv>,
    partition: &TopicPartition,
    topic_id: TopicId,
    durability: Durability,
) -> Checked<Arc<PartitionLog>> {
    let (folder, config) = (folder(partition), log_config(durability));
    let marker = folder.join("created");
    if env.fs.exists(&marker).map_err(failed("look for a log"))? {
        let opened = PartitionLog::open(env, &folder, partition.clone(), &OpenFacts::default(), config);
        return opened.map(|(log, _)| Arc::new(log)).map_err(failed("open a log"));
    }
    // A crash in the middle of a creation left something that holds nothing.
    if env.fs.exists(&folder).map_err(failed("look for a folder"))? {
        env.fs.remove_dir_all(&folder).map_err(failed("remove a folder"))?;
    }
    env.fs.create_dir_all_synced(&folder).map_err(failed("create a folder"))?;
    let log =
        PartitionLog::create(env, &folder, partition.clone(), topic_id, config).map_err(failed("create a log"))?;
    log.sync_new_files().map_err(failed("sync a new log"))?;
    env.fs.atomic_write(&marker, b"").map_err(failed("note a new log"))?;
    Ok(Arc::new(log))
}

/// Whole batches from `from` up to `upper`, at most about `max_bytes`.
pub fn read(log: &PartitionLog, from: Offset, upper: Offset, max_bytes: u32) -> Checked<Bytes> {
    if from >= upper {
        return Ok(Bytes::new());
    }
    let request = ReadRequest { from, max_bytes, upper, min_one_batch: true };
    let reading = log.read(&request).map_err(failed("read a log"))?;
    let mut bytes = Vec::with_capacity(reading.bytes);
    for chunk in &reading.chunks {
        match chunk {
            ReadChunk::Bytes(part) => bytes.extend_from_slice(part),
            ReadChunk::Slice(slice) => bytes.extend_from_slice(&slice.read().map_err(failed("read a file"))?),
        }
    }
    Ok(bytes.into())
}

/// All batches from `from` up to `upper`.
pub fn read_all(log: &PartitionLog, from: Offset, upper: Offset) -> Checked<Vec<Bytes>> {
    let (mut at, mut parts) = (from, Vec::new());
    while at < upper {
        let part = read(log, at, upper, 1 << 20)?;
        let Some(last) = facts(&part)?.last().copied() else { break };
        at = last.last.plus(1);
        parts.push(part);
    }
    Ok(parts)
}

pub fn fact(view: &BatchView<'_>) -> BatchFact {
    let header = view.header();
    BatchFact {
        base: header.base_offset,
        last: header.last_offset(),
        epoch: header.leader_epoch,
        crc: header.crc,
        idempotent: header.has_producer_id(),
    }
}

/// The batches in some bytes.
pub fn facts(bytes: &[u8]) -> Checked<Vec<BatchFact>> {
    let mut found = Vec::new();
    for view in Batches::new(bytes) {
        let view = view.map_err(failed("split batches"))?;
        if !view.crc_is_valid() {
            return Err(format!("the batch at offset {} has a wrong checksum", view.header().base_offset));
        }
        found.push(fact(&view));
    }
    Ok(found)
}

pub fn facts_between(log: &PartitionLog, from: Offset, upper: Offset) -> Checked<Vec<BatchFact>> {
    let parts = read_all(log, from, upper)?;
    let mut found = Vec::new();
    for part in parts {
        found.extend(facts(&part)?);
    }
    Ok(found)
}
