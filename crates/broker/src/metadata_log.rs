//! The metadata journal on disk: `__cluster_metadata-0`, its snapshots, its vote. One voter.
//!
//! - An append is durable after the next flush. All records of one call are one batch, or a few above [`BATCH_BYTES`].
//!   They are in the log together; after a crash a prefix of whole batches is.
//! - A term begins with the vote on disk, then the LeaderChange record (Kafka's order), so no term is used twice.
//! - The log keeps two snapshots, and the records from the older one on. Damage to the newest snapshot loses nothing.

use std::sync::Arc;

use bytes::Bytes;
use mainstem_kafka_wire::Writer;
use mainstem_kafka_wire::metadata_records::MetadataRecord;
use mainstem_metadata::image::{ClusterImage, ImageDelta, MetadataVersion, record_version};
use mainstem_record::{BatchBuilder, BatchView, Batches, BuildError, ControlRecord};
use mainstem_store::{Loaded, MetadataFiles, OpenError, PartitionLog, QuorumState, SnapshotId, StorageError, TopicLog};
use mainstem_types::{LeaderEpoch, NodeId, Offset, TimestampMs};

use crate::log_reader::{RECORDS_SIZE_MAX, ReplayError, for_each_batch};
use crate::quorum::Quorum;

/// A batch is closed when it has this many bytes.
const BATCH_BYTES: usize = 8 * 1024 * 1024;

/// Why the metadata could not be written.
#[derive(Debug, thiserror::Error)]
pub enum MetadataWriteError {
    #[error(transparent)]
    Storage(#[from] StorageError),
    #[error("cannot encode a metadata record: {0}")]
    Encode(#[from] mainstem_kafka_wire::EncodeError),
    #[error("cannot build a batch of metadata records: {0}")]
    Build(#[from] BuildError),
    #[error("the metadata log refused its batch: {0}")]
    Append(#[from] mainstem_store::AppendError),
    #[error(transparent)]
    Files(#[from] OpenError),
    #[error(transparent)]
    Trim(#[from] mainstem_store::LogStartError),
}

pub(crate) struct MetadataLog {
    log: Arc<PartitionLog>,
    files: MetadataFiles,
    node: NodeId,
    term: LeaderEpoch,
    quorum: Quorum,
    bytes_since_snapshot: u64,
    /// Of the newest batch.
    last_timestamp: TimestampMs,
}

/// What a folder knows when it is opened.
#[derive(Debug, Default)]
pub(crate) struct LoadedMetadata {
    pub image: ClusterImage,
    /// The records that the folder was formatted with. The image has them once the first start has appended them.
    pub format: Vec<MetadataRecord<'static>>,
}

impl MetadataLog {
    pub fn new(log: Arc<PartitionLog>, files: MetadataFiles, node: NodeId) -> MetadataLog {
        let (term, quorum, last_timestamp) = (LeaderEpoch::NONE, Quorum::default(), TimestampMs::NONE);
        MetadataLog { log, files, node, term, quorum, bytes_since_snapshot: 0, last_timestamp }
    }

    /// Another reader of the same files.
    pub fn reader(&self) -> MetadataLog {
        MetadataLog::new(Arc::clone(&self.log), self.files.clone(), self.node)
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

    /// Everything that is known: the newest snapshot, then the log from there on. Refused if others vote as well.
    pub fn load(&mut self) -> Result<LoadedMetadata, LoadError> {
        let mut loaded = LoadedMetadata::default();
        let mut from = Offset::ZERO;
        if let Some((id, bytes)) = self.files.newest_valid_snapshot()? {
            for batch in Batches::new(&bytes) {
                let batch = batch.map_err(|error| LoadError::Snapshot { id, reason: error.to_string() })?;
                if id.end == Offset::ZERO {
                    self.read_format(&batch, &mut loaded.format)?;
                } else {
                    self.replay_batch(&batch, &mut loaded.image)?;
                }
            }
            // Offsets within a snapshot are its own; it stands for everything below its end.
            loaded.image.offset = id.end.plus(-1);
            loaded.image.epoch = id.epoch;
            from = id.end;
            if self.log.log_end() < id.end {
                self.log.restart_at(id.end).map_err(LoadError::Storage)?;
            }
        }
        if self.log.log_start() > from {
            return Err(LoadError::Gap { known: from, log_start: self.log.log_start() });
        }
        let (log, mut bytes) = (Arc::clone(&self.log), 0);
        for_each_batch(&TopicLog::from(Arc::clone(&log)), from, log.log_end(), |batch| {
            bytes += batch.size_in_bytes() as u64;
            self.replay_batch(batch, &mut loaded.image)
        })?;
        self.bytes_since_snapshot = bytes;
        match self.quorum.others(self.node, self.quorum_state()?.as_ref()) {
            Some(others) => Err(LoadError::OtherVoters { node: self.node, others }),
            None => Ok(loaded),
        }
    }

    fn quorum_state(&self) -> Result<Option<QuorumState>, OpenError> {
        Ok(match self.files.quorum_state()? {
            Loaded::Content(state) => Some(state),
            // Without a readable vote the log itself knows the terms that were used.
            Loaded::Absent | Loaded::Empty | Loaded::Damaged(_) => None,
        })
    }

    /// Begins the next term: the vote is on disk before the first record of the term, which the next flush makes
    /// durable.
    pub fn begin_term(&mut self, now: TimestampMs) -> Result<(), MetadataWriteError> {
        let voted = self.quorum_state()?.map_or(0, |state| state.leader_epoch.0);
        let logged = self.log.latest_epoch().map_or(0, |entry| entry.epoch.0);
        self.term = LeaderEpoch(voted.max(logged) + 1);
        self.files.write_quorum_state(&self.quorum.state(self.node, self.term))?;
        let mut builder = self.builder(self.log.log_end());
        builder.append_control(now, &Quorum::leader_change(self.node));
        self.write(builder, now)
    }

    /// Everything that was appended is durable when it returns.
    pub fn flush(&self) -> Result<(), MetadataWriteError> {
        self.log.flush_blocking()?;
        Ok(())
    }

    /// Appends records; they are durable after the next [`flush`](Self::flush). Gives the offset of the first one.
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
        Ok(base)
    }

    fn builder(&self, base: Offset) -> BatchBuilder {
        BatchBuilder::new().base_offset(base).leader_epoch(self.term)
    }

    fn write(&mut self, builder: BatchBuilder, now: TimestampMs) -> Result<(), MetadataWriteError> {
        let batch = Bytes::from(builder.build()?);
        self.log.append_stamped(&batch, now)?;
        self.bytes_since_snapshot += batch.len() as u64;
        self.last_timestamp = now;
        Ok(())
    }

    /// Writes a snapshot of everything below the log end. Then drops what is no longer needed: snapshots before the
    /// previous one, and segments that the previous one covers.
    pub fn snapshot(&mut self, image: &ClusterImage, now: TimestampMs) -> Result<SnapshotId, MetadataWriteError> {
        let end = self.log.log_end();
        let epoch = self.log.latest_epoch().map_or(self.term, |entry| entry.epoch);
        let id = SnapshotId { end, epoch };
        let mut batches = Vec::new();
        let mut header = self.builder(Offset::ZERO).leader_epoch(epoch);
        let last_contained_log_timestamp = self.last_timestamp;
        header.append_control(now, &ControlRecord::SnapshotHeader { last_contained_log_timestamp });
        for record in self.quorum.snapshot_records() {
            header.append_control(now, &record);
        }
        batches.push(Bytes::from(header.build()?));
        let mut next = Offset(i64::from(header.record_count()));
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
        self.bytes_since_snapshot = 0;
        self.trim(now)?;
        Ok(id)
    }

    fn trim(&self, now: TimestampMs) -> Result<(), MetadataWriteError> {
        let snapshots = self.files.snapshots()?;
        let [.., previous, _] = snapshots[..] else { return Ok(()) };
        self.files.remove_snapshots_before(previous)?;
        let end = self.log.log_end();
        self.log.raise_log_start(previous.end.min(end), end)?;
        self.log.retention_pass(now, end)?;
        self.log.remove_due_files();
        Ok(())
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
    #[error(
        "the metadata log begins at offset {log_start}, and no whole snapshot reaches that far (the known records end at {known}): \
         restore a .checkpoint file of __cluster_metadata-0"
    )]
    Gap { known: Offset, log_start: Offset },
    #[error(
        "node {node} is not the only voter of the metadata log, nodes {} vote, too: the folder belongs to a cluster of several nodes, \
         and a Mainstem runs on one",
        list(others)
    )]
    OtherVoters { node: NodeId, others: Vec<NodeId> },
}

fn list(nodes: &[NodeId]) -> String {
    nodes.iter().map(NodeId::to_string).collect::<Vec<_>>().join(", ")
}

fn encode(record: &MetadataRecord<'_>, level: MetadataVersion) -> Result<Vec<u8>, mainstem_kafka_wire::EncodeError> {
    let mut writer = Writer::new();
    record.encode_framed(&mut writer, record_version(record, level))?;
    Ok(writer.as_bytes().to_vec())
}

impl MetadataLog {
    fn replay_batch(&mut self, batch: &BatchView<'_>, image: &mut ClusterImage) -> Result<(), ReplayError> {
        let epoch = batch.header().leader_epoch;
        self.for_each_record(batch, |record, offset| {
            let replayed = image.replay(record, offset, epoch, &mut ImageDelta::default());
            replayed.map_err(|error| error.to_string())
        })
    }

    fn read_format(
        &mut self,
        batch: &BatchView<'_>,
        format: &mut Vec<MetadataRecord<'static>>,
    ) -> Result<(), ReplayError> {
        self.for_each_record(batch, |record, _| {
            format.push(record.clone().into_owned());
            Ok(())
        })
    }

    /// Visits the metadata records of a batch; what concerns the voters is followed here.
    fn for_each_record(
        &mut self,
        batch: &BatchView<'_>,
        mut visit: impl FnMut(&MetadataRecord<'_>, Offset) -> Result<(), String>,
    ) -> Result<(), ReplayError> {
        let header = batch.header();
        self.last_timestamp = header.max_timestamp;
        let partition = self.log.partition().clone();
        let failed = |offset, reason: String| ReplayError::Record { partition: partition.clone(), offset, reason };
        let mut scratch = Vec::new();
        let records = batch.records(&mut scratch, RECORDS_SIZE_MAX);
        for record in records.map_err(|error| failed(header.base_offset, error.to_string()))? {
            let record = record.map_err(|error| failed(header.base_offset, error.to_string()))?;
            let at = |reason: String| failed(record.offset, reason);
            if header.attributes.is_control() {
                self.quorum.observe(&record).map_err(|error| at(error.to_string()))?;
                continue;
            }
            let decoded = MetadataRecord::decode_framed(record.value.unwrap_or_default());
            visit(&decoded.map_err(|error| at(error.to_string()))?, record.offset).map_err(at)?;
        }
        Ok(())
    }
}
