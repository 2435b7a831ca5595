//! The metadata journal on disk: `__cluster_metadata-0`, its snapshots, its vote. One voter.
//!
//! - An append is durable when it returns. All records of one call are one batch (or a few, past [`BATCH_BYTES`]): they are
//!   in the log together or, after a crash, a prefix of whole batches is.
//! - A term begins with the vote on disk, then the LeaderChange record (Kafka's order): a term is never used twice.

use std::sync::Arc;

use bytes::Bytes;
use mainstem_kafka_wire::Writer;
use mainstem_kafka_wire::metadata_records::MetadataRecord;
use mainstem_metadata::image::{ClusterImage, ImageDelta, MetadataVersion, record_version};
use mainstem_record::{BatchBuilder, BatchView, Batches, BuildError, ControlRecord};
use mainstem_store::{
    Loaded, MetadataFiles, OpenError, PartitionLog, QuorumContent, QuorumState, SnapshotId, StorageError,
};
use mainstem_types::{LeaderEpoch, NodeId, Offset, TimestampMs};

use crate::log_reader::{RECORDS_SIZE_MAX, ReplayError, for_each_batch};

/// A batch is closed when it has this many bytes.
const BATCH_BYTES: usize = 8 * 1024 * 1024;

/// Why the metadata could not be written.
#[derive(Debug, thiserror::Error)]
pub enum MetadataWriteError {
    #[error(transparent)]
    Storage(#[from] StorageError),
    #[error("a metadata record cannot be encoded: {0}")]
    Encode(#[from] mainstem_kafka_wire::EncodeError),
    #[error("a batch of metadata records cannot be built: {0}")]
    Build(#[from] BuildError),
    #[error("the metadata log refused its batch: {0}")]
    Append(#[from] mainstem_store::AppendError),
    #[error(transparent)]
    Files(#[from] OpenError),
}

pub(crate) struct MetadataLog {
    log: Arc<PartitionLog>,
    files: MetadataFiles,
    node: NodeId,
    term: LeaderEpoch,
    bytes_since_snapshot: u64,
}

impl MetadataLog {
    pub fn new(log: Arc<PartitionLog>, files: MetadataFiles, node: NodeId) -> MetadataLog {
        MetadataLog { log, files, node, term: LeaderEpoch::NONE, bytes_since_snapshot: 0 }
    }

    pub fn log(&self) -> &Arc<PartitionLog> {
        &self.log
    }

    pub fn term(&self) -> LeaderEpoch {
        self.term
    }

    /// Bytes appended or replayed since the newest snapshot.
    pub fn bytes_since_snapshot(&self) -> u64 {
        self.bytes_since_snapshot
    }

    /// The image of everything that is known: the newest snapshot, then the log from there on.
    pub fn load(&mut self) -> Result<ClusterImage, LoadError> {
        let mut image = ClusterImage::default();
        let mut from = self.log.log_start();
        if let Some((id, bytes)) = self.files.newest_valid_snapshot()? {
            for batch in Batches::new(&bytes) {
                let batch = batch.map_err(|error| LoadError::Snapshot { id, reason: error.to_string() })?;
                replay_batch(&self.log, &batch, &mut image)?;
            }
            // Offsets within a snapshot are its own; it stands for everything below its end.
            image.offset = id.end.plus(-1);
            image.epoch = id.epoch;
            from = id.end;
            if self.log.log_end() < id.end {
                self.log.restart_at(id.end).map_err(LoadError::Storage)?;
            }
        }
        let mut bytes = 0;
        for_each_batch(&self.log, from, self.log.log_end(), |batch| {
            bytes += batch.size_in_bytes() as u64;
            replay_batch(&self.log, batch, &mut image)
        })?;
        self.bytes_since_snapshot = bytes;
        Ok(image)
    }

    /// Begins the next term: the vote is on disk before the first record of the term.
    pub fn begin_term(&mut self, now: TimestampMs) -> Result<(), MetadataWriteError> {
        let previous = match self.files.quorum_state()? {
            Loaded::Content(state) => Some(state),
            // Without a readable vote the log itself knows the terms that were used.
            Loaded::Absent | Loaded::Empty | Loaded::Damaged(_) => None,
        };
        let voted = previous.as_ref().map_or(0, |state| state.leader_epoch.0);
        let logged = self.log.latest_epoch().map_or(0, |entry| entry.epoch.0);
        self.term = LeaderEpoch(voted.max(logged) + 1);
        let content = match previous.map(|state| state.content) {
            Some(content @ QuorumContent::Dynamic { .. }) => content,
            _ => QuorumContent::StaticVoters {
                cluster_id: String::new(),
                applied_offset: Offset::ZERO,
                voters: vec![self.node],
            },
        };
        let state = QuorumState { leader_id: self.node, leader_epoch: self.term, voted_id: NodeId(-1), content };
        self.files.write_quorum_state(&state)?;
        let voters = vec![self.node];
        let change = ControlRecord::LeaderChange { leader: self.node, voters: voters.clone(), granting_voters: voters };
        let mut builder = self.builder(self.log.log_end());
        builder.append_control(now, &change);
        self.write(builder, now)?;
        self.log.flush_blocking()?;
        Ok(())
    }

    /// Appends records; durable when it returns. Gives the offset of the first one.
    pub fn append(
        &mut self,
        records: &[MetadataRecord<'_>],
        level: MetadataVersion,
        now: TimestampMs,
    ) -> Result<Offset, MetadataWriteError> {
        let base = self.log.log_end();
        let mut builder = self.builder(base);
        for record in records {
            if builder.uncompressed_size() > BATCH_BYTES {
                self.write(builder, now)?;
                builder = self.builder(self.log.log_end());
            }
            builder.append(now, None, Some(&encode(record, level)?), &[]);
        }
        if !builder.is_empty() {
            self.write(builder, now)?;
        }
        self.log.flush_blocking()?;
        Ok(base)
    }

    fn builder(&self, base: Offset) -> BatchBuilder {
        BatchBuilder::new().base_offset(base).leader_epoch(self.term)
    }

    fn write(&mut self, builder: BatchBuilder, now: TimestampMs) -> Result<(), MetadataWriteError> {
        let batch = builder.build()?;
        self.bytes_since_snapshot += batch.len() as u64;
        self.log.append_stamped(&Bytes::from(batch), now)?;
        Ok(())
    }

    /// Writes a snapshot of everything below the log end, then drops older snapshots and the segments that it covers.
    pub fn snapshot(&mut self, image: &ClusterImage, now: TimestampMs) -> Result<SnapshotId, MetadataWriteError> {
        let end = self.log.log_end();
        let epoch = self.log.latest_epoch().map_or(self.term, |entry| entry.epoch);
        let id = SnapshotId { end, epoch };
        let mut batches = Vec::new();
        let mut header = self.builder(Offset::ZERO).leader_epoch(epoch);
        header.append_control(now, &ControlRecord::SnapshotHeader { last_contained_log_timestamp: now });
        batches.push(Bytes::from(header.build()?));
        let mut next = Offset(1);
        let mut builder = self.builder(next).leader_epoch(epoch);
        let level = image.metadata_version();
        for record in &image.to_records() {
            if builder.uncompressed_size() > BATCH_BYTES {
                batches.push(Bytes::from(builder.build()?));
                builder = self.builder(next).leader_epoch(epoch);
            }
            builder.append(now, None, Some(&encode(record, level)?), &[]);
            next = next.plus(1);
        }
        if !builder.is_empty() {
            batches.push(Bytes::from(builder.build()?));
        }
        let mut footer = self.builder(next).leader_epoch(epoch);
        footer.append_control(now, &ControlRecord::SnapshotFooter);
        batches.push(Bytes::from(footer.build()?));
        self.files.write_snapshot(id, &batches)?;
        self.files.remove_snapshots_before(id)?;
        self.bytes_since_snapshot = 0;
        Ok(id)
    }
}

/// Why the metadata could not be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error(transparent)]
    Replay(#[from] ReplayError),
    #[error(transparent)]
    Files(#[from] OpenError),
    #[error(transparent)]
    Storage(StorageError),
    #[error("the metadata snapshot that ends at offset {} cannot be read: {reason}", id.end)]
    Snapshot { id: SnapshotId, reason: String },
}

fn encode(record: &MetadataRecord<'_>, level: MetadataVersion) -> Result<Vec<u8>, mainstem_kafka_wire::EncodeError> {
    let mut writer = Writer::new();
    record.encode_framed(&mut writer, record_version(record, level))?;
    Ok(writer.as_bytes().to_vec())
}

fn replay_batch(log: &PartitionLog, batch: &BatchView<'_>, image: &mut ClusterImage) -> Result<(), ReplayError> {
    let header = batch.header();
    if header.attributes.is_control() {
        return Ok(());
    }
    let failed = |offset, reason: String| ReplayError::Record { partition: log.partition().clone(), offset, reason };
    let mut scratch = Vec::new();
    let records =
        batch.records(&mut scratch, RECORDS_SIZE_MAX).map_err(|error| failed(header.base_offset, error.to_string()))?;
    for record in records {
        let record = record.map_err(|error| failed(header.base_offset, error.to_string()))?;
        let value = record.value.unwrap_or_default();
        let decoded = MetadataRecord::decode_framed(value).map_err(|error| failed(record.offset, error.to_string()))?;
        let replayed = image.replay(&decoded, record.offset, header.leader_epoch, &mut ImageDelta::default());
        replayed.map_err(|error| failed(record.offset, error.to_string()))?;
    }
    Ok(())
}
