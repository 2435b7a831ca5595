//! A data folder with one topic of two partitions, in the layout that is tested.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use mainstem_env::{ManualClock, MemFs, SeededRng};
use mainstem_record::{BatchBuilder, Batches};
use mainstem_store::{
    AppendContext, Appended, DataFolder, GroupOptions, GroupPlacement, GroupedPartition, LogConfig, OpenError, Origin,
    ReadChunk, ReadRequest, Reading, StoreEnv, TopicLog,
};
use mainstem_types::{
    LeaderEpoch, Offset, PartitionIndex, ProducerEpoch, ProducerId, TimestampMs, TopicId, TopicPartition,
};

pub const NOW: TimestampMs = TimestampMs(1_700_000_000_000);
const PATH: &str = "/data";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    Partition,
    /// Layout `partition`, whose logs get their folders with their first append.
    Lazy,
    Topic,
    Shared,
}

impl Layout {
    /// Layout `partition`: each log has files of its own.
    pub fn has_own_files(self) -> bool {
        matches!(self, Layout::Partition | Layout::Lazy)
    }
}

/// Segments and files so small that little data reaches every path.
pub fn config() -> LogConfig {
    LogConfig { segment_bytes: 1024, index_interval_bytes: 100, retention_ms: -1, ..LogConfig::default() }
}

pub struct Node {
    pub fs: MemFs,
    pub env: Arc<StoreEnv>,
    pub folder: DataFolder,
    pub layout: Layout,
    pub topic_id: TopicId,
    pub logs: Vec<TopicLog>,
}

impl Node {
    pub fn start(fs: &MemFs, layout: Layout) -> Node {
        Node::try_start(fs, layout, TopicId([7; 16]), config()).unwrap()
    }

    pub fn try_start(fs: &MemFs, layout: Layout, topic_id: TopicId, config: LogConfig) -> Result<Node, OpenError> {
        let clock = Arc::new(ManualClock::at(NOW));
        let rng = Arc::new(SeededRng::new(fs.mutations()));
        let env = StoreEnv::new(Arc::new(fs.clone()), clock, rng, 1 << 20, 0).unwrap();
        let (folder, report) = DataFolder::open(&env, Path::new(PATH))?;
        let config = Arc::new(config);
        let wanted: Vec<GroupedPartition> =
            (0..2).map(|index| grouped_partition(layout, topic_id, index, &config)).collect();
        let mut logs = Vec::new();
        if layout.has_own_files() {
            for one in &wanted {
                let entry = report.partitions.iter().find(|entry| entry.partition == one.name);
                logs.push(match entry {
                    Some(entry) => {
                        folder.adopt(entry, topic_id)?;
                        TopicLog::from(folder.open_log(entry, Arc::clone(&config))?.0)
                    }
                    None => new_log(&folder, layout, one)?,
                });
            }
        } else {
            let options = GroupOptions {
                file_bytes: 1024,
                queue_entries: 16,
                index_slots: 7,
                index_entries: 20,
                tail_cache_bytes: 512,
                queue_bytes: 400,
            };
            let report = folder.open_groups(options, &wanted)?;
            if let Some((_, error)) = report.failed.into_iter().next() {
                return Err(error);
            }
            for one in &wanted {
                logs.push(TopicLog::from(folder.group_partition(one)?));
            }
        }
        Ok(Node { fs: fs.clone(), env, folder, layout, topic_id, logs })
    }

    /// Creates the folders of logs that have none.
    pub fn with_folders(self) -> Node {
        self.logs.iter().filter_map(TopicLog::without_folder).for_each(|lazy| _ = lazy.get_or_create().unwrap());
        self
    }

    /// An orderly stop.
    pub fn stop(self) -> Result<MemFs, OpenError> {
        self.folder.close(&self.partition_logs(), 1)?;
        Ok(self.fs)
    }

    fn partition_logs(&self) -> Vec<(Arc<mainstem_store::PartitionLog>, Offset)> {
        let logs = self.logs.iter().filter_map(|log| log.as_partition_log());
        logs.map(|log| (Arc::clone(log), log.log_end())).collect()
    }

    pub fn checkpoint(&self) -> Result<(), OpenError> {
        self.folder.write_checkpoints(&self.partition_logs(), &|| true)
    }

    /// Retention of all partitions, with what the broker does after it.
    pub fn retention(&self, now: TimestampMs) -> Result<(), OpenError> {
        for log in &self.logs {
            log.retention_pass(now, log.log_end())?;
        }
        self.folder.remove_unneeded(&|| true)?;
        self.checkpoint()?;
        self.logs.iter().for_each(|log| _ = log.remove_due_files());
        self.folder.remove_due();
        Ok(())
    }

    /// Deletes the topic.
    pub fn delete(&self) {
        for log in &self.logs {
            let deleted = match log {
                TopicLog::Partition(_) | TopicLog::Lazy(_) => {
                    self.folder.delete_own_logs(&[(log, std::time::Duration::ZERO)]).remove(0)
                }
                TopicLog::Group(log) => self.folder.delete_group_partitions(&[Arc::clone(log)]).remove(0),
            };
            deleted.unwrap();
        }
    }

    /// Creates the topic again under another id, in the same process.
    pub fn create_again(&mut self, topic_id: TopicId) {
        let config = Arc::new(config());
        self.topic_id = topic_id;
        let create = |index| {
            let one = grouped_partition(self.layout, topic_id, index, &config);
            match self.layout {
                Layout::Partition | Layout::Lazy => new_log(&self.folder, self.layout, &one).unwrap(),
                _ => TopicLog::from(self.folder.group_partition(&one).unwrap()),
            }
        };
        self.logs = (0..2).map(create).collect();
    }
}

/// A log with files of its own.
fn new_log(folder: &DataFolder, layout: Layout, one: &GroupedPartition) -> Result<TopicLog, OpenError> {
    let (name, topic_id, config) = (one.name.clone(), one.topic_id, Arc::clone(&one.config));
    Ok(match layout {
        Layout::Lazy => folder.lazy_logs(&[(name, topic_id, config)])?.remove(0).into(),
        _ => folder.create_log(&name, topic_id, config)?.into(),
    })
}

fn grouped_partition(layout: Layout, topic_id: TopicId, index: i32, config: &Arc<LogConfig>) -> GroupedPartition {
    let placement = match layout {
        Layout::Topic => GroupPlacement::Topic { groups: 2 },
        _ => GroupPlacement::Shared { groups: 1 },
    };
    let name = TopicPartition::new("orders", PartitionIndex(index));
    GroupedPartition { name, topic_id, config: Arc::clone(config), placement }
}

pub fn client() -> AppendContext {
    AppendContext {
        origin: Origin::Client,
        leader_epoch: LeaderEpoch(0),
        now: NOW,
        zstd_allowed: true,
        unpacked_bytes_max: usize::MAX,
    }
}

pub fn batch_at(time_ms: i64, values: &[&str]) -> Bytes {
    let mut builder = BatchBuilder::new();
    for value in values {
        builder.append(TimestampMs(time_ms), Some(b"k"), Some(value.as_bytes()), &[]);
    }
    Bytes::from(builder.build().unwrap())
}

pub fn produced(id: i64, epoch: i16, sequence: i32, values: &[&str]) -> Bytes {
    let mut builder = BatchBuilder::new().producer(ProducerId(id), ProducerEpoch(epoch), sequence);
    for value in values {
        builder.append(NOW, None, Some(value.as_bytes()), &[]);
    }
    Bytes::from(builder.build().unwrap())
}

pub fn put(log: &TopicLog, values: &[&str]) -> Appended {
    log.append(&batch_at(NOW.0, values), &client()).unwrap()
}

pub fn value(offset: i64) -> String {
    format!("value {offset:04} {}", "x".repeat(40))
}

/// `count` records, one a batch, named by their offset.
pub fn fill(log: &TopicLog, count: usize) {
    for _ in 0..count {
        put(log, &[&value(log.log_end().0)]);
    }
}

pub fn bytes_of(reading: &Reading) -> Vec<u8> {
    let mut all = Vec::new();
    for chunk in &reading.chunks {
        match chunk {
            ReadChunk::Bytes(bytes) => all.extend_from_slice(bytes),
            ReadChunk::Slice(slice) => all.extend(slice.read().unwrap()),
        }
    }
    assert_eq!(all.len(), reading.bytes);
    all
}

pub fn records(bytes: &[u8]) -> Vec<(i64, String)> {
    let mut found = Vec::new();
    for view in Batches::new(bytes) {
        let view = view.unwrap();
        assert!(view.crc_is_valid());
        let mut scratch = Vec::new();
        for record in view.records(&mut scratch, 1 << 20).unwrap() {
            let record = record.unwrap();
            found.push((record.offset.0, String::from_utf8_lossy(record.value.unwrap_or_default()).into_owned()));
        }
    }
    found
}

pub fn read(log: &TopicLog, from: i64, upper: i64, max_bytes: u32) -> Vec<(i64, String)> {
    let request = ReadRequest { from: Offset(from), max_bytes, upper: Offset(upper), min_one_batch: true };
    records(&bytes_of(&log.read(&request).unwrap()))
}

/// Every record from the log start on, read in pieces as a consumer does.
pub fn all_records(log: &TopicLog) -> Vec<(i64, String)> {
    let mut found: Vec<(i64, String)> = Vec::new();
    let mut from = log.log_start().0;
    loop {
        let batch = read(log, from, log.log_end().0, 300);
        let Some((last, _)) = batch.last() else { return found };
        from = last + 1;
        found.extend(batch.into_iter().filter(|(offset, _)| *offset >= log.log_start().0));
    }
}

pub fn expect_filled(log: &TopicLog, offsets: std::ops::Range<i64>) {
    let expected: Vec<_> = offsets.map(|offset| (offset, value(offset))).collect();
    assert_eq!(all_records(log), expected);
}
