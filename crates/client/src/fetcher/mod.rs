//! Consuming without a group: partitions and where to begin are the caller's.
//!
//! Guarantees: the fetcher returns the records of a partition in the order of their offsets, each once, and none below
//! the position. With [`Isolation::ReadCommitted`] it leaves out records of aborted transactions. It never returns
//! markers of the broker. A batch with a wrong checksum is an error, not data. Records borrow the memory of their
//! answer: store copies, not records.
//!
//! One fetch for each broker is in flight at a time, even while the caller works on the records of the last one.

mod decode;
mod places;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use mainstem_kafka_wire::ErrorCode;
use mainstem_kafka_wire::messages::fetch_request::{FetchPartition, FetchTopic};
use mainstem_kafka_wire::messages::fetch_response::PartitionData;
use mainstem_kafka_wire::messages::{FetchRequest, FetchResponse};
use mainstem_types::{LeaderEpoch, NodeId, Offset, TimestampMs, TopicPartition};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout_at};

use crate::client::Client;
use crate::connection::Response;
use crate::error::ClientError;
use crate::offsets::{Isolation, OffsetSpec};
use decode::DecodeSettings;

const API: &str = "Fetch";

/// Settings of a [`Fetcher`].
#[derive(Debug, Clone)]
pub struct FetcherConfig {
    /// How long the broker waits for `min_bytes`.
    pub max_wait: Duration,
    pub min_bytes: i32,
    /// For one answer. The first batch comes even if it is larger.
    pub max_bytes: i32,
    /// For one partition in an answer.
    pub partition_max_bytes: i32,
    pub isolation: Isolation,
    /// When the partition does not have the position: go there, or (`None`) fail.
    pub reset_to: Option<OffsetSpec>,
    /// What a batch may have, once decompressed.
    pub decompressed_size_max: usize,
}

impl Default for FetcherConfig {
    /// Kafka's defaults: 500 ms, 1 byte, 50 MiB, 1 MiB for a partition, uncommitted; no reset; 256 MiB decompressed.
    fn default() -> Self {
        FetcherConfig {
            max_wait: Duration::from_millis(500),
            min_bytes: 1,
            max_bytes: 50 << 20,
            partition_max_bytes: 1 << 20,
            isolation: Isolation::ReadUncommitted,
            reset_to: None,
            decompressed_size_max: 256 << 20,
        }
    }
}

/// A record as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FetchedRecord {
    pub topic: Arc<str>,
    pub partition: mainstem_types::PartitionIndex,
    pub offset: Offset,
    pub leader_epoch: LeaderEpoch,
    /// −1 is none.
    pub timestamp: TimestampMs,
    pub key: Option<Bytes>,
    /// `None` is a tombstone.
    pub value: Option<Bytes>,
    pub headers: Vec<(String, Option<Bytes>)>,
}

/// Where a partition stands, as the last answer said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartitionState {
    /// The offset that is read next.
    pub position: Offset,
    /// The end of what consumers may see; with [`Isolation::ReadCommitted`] the last stable offset. −1 before the first
    /// answer.
    pub end: Offset,
    /// −1 before the first answer.
    pub log_start: Offset,
}

/// Why records could not be had.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FetchError {
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error("{partition} has no offset {position}: it holds {log_start} and later; seek, or choose where to reset to")]
    OutOfRange { partition: TopicPartition, position: Offset, log_start: Offset },
    #[error("{partition} at offset {position}: {detail}")]
    Damaged { partition: TopicPartition, position: Offset, detail: String },
    #[error("{partition} at offset {position}: the next batch does not fit into an answer; raise partition_max_bytes")]
    TooLarge { partition: TopicPartition, position: Offset },
    #[error("no partition is assigned")]
    NothingAssigned,
}

/// Reads partitions. The module's documentation has the guarantees.
pub struct Fetcher {
    client: Client,
    config: FetcherConfig,
    assigned: BTreeMap<TopicPartition, PartitionState>,
    fetches: JoinSet<Answered>,
    /// Brokers that a fetch is under way to.
    asked: HashSet<NodeId>,
    /// The error of a partition while others had records: the next call gives it.
    failure: Option<FetchError>,
    /// Pause before the next attempt, after an error that passes.
    backoff: Duration,
}

/// A fetch that came back.
struct Answered {
    leader: NodeId,
    asked: Vec<(TopicPartition, Offset)>,
    result: Result<Response, ClientError>,
}

impl Client {
    pub fn fetcher(&self, config: FetcherConfig) -> Fetcher {
        Fetcher {
            client: self.clone(),
            config,
            assigned: BTreeMap::new(),
            fetches: JoinSet::new(),
            asked: HashSet::new(),
            failure: None,
            backoff: Duration::ZERO,
        }
    }
}

impl Fetcher {
    /// Reads this partition too, from that offset on.
    pub fn assign(&mut self, partition: TopicPartition, position: Offset) {
        self.assigned.insert(partition, PartitionState { position, end: Offset::NONE, log_start: Offset::NONE });
    }

    /// Reads these partitions too, from what `spec` finds in each. A time later than all records means the end.
    pub async fn assign_at(&mut self, partitions: &[TopicPartition], spec: OffsetSpec) -> Result<(), FetchError> {
        let isolation = self.config.isolation;
        let ask = |spec| partitions.iter().map(|one| (one.clone(), spec)).collect::<Vec<_>>();
        let found = self.client.list_offsets(&ask(spec), isolation).await?;
        let ends = if found.iter().any(|(_, listed)| listed.offset.is_none()) {
            self.client.list_offsets(&ask(OffsetSpec::Latest), isolation).await?
        } else {
            found.clone()
        };
        for ((partition, listed), (_, end)) in found.into_iter().zip(ends) {
            self.assign(partition, listed.offset.or(end.offset).unwrap_or(Offset::ZERO));
        }
        Ok(())
    }

    /// Stops reading a partition.
    pub fn unassign(&mut self, partition: &TopicPartition) {
        self.assigned.remove(partition);
    }

    /// Where each partition stands, by topic and index.
    pub fn positions(&self) -> impl Iterator<Item = (&TopicPartition, &PartitionState)> {
        self.assigned.iter()
    }

    /// Whether everything that was there at the last answers has been read.
    pub fn is_at_end(&self) -> bool {
        self.assigned.values().all(|state| state.end != Offset::NONE && state.position >= state.end)
    }

    /// The next records, of any of the partitions; empty when none came within `wait`.
    ///
    /// Errors that pass (a leader that moves, a broker that restarts) are waited out within `wait` and beyond, by later
    /// calls. After another error the partition concerned stays where it is; others go on with the next call.
    pub async fn poll(&mut self, wait: Duration) -> Result<Vec<FetchedRecord>, FetchError> {
        if self.assigned.is_empty() {
            return Err(FetchError::NothingAssigned);
        }
        let deadline = Instant::now() + wait;
        match self.failure.take() {
            Some(FetchError::Client(error)) => self.wait_out(error, deadline).await?,
            Some(other) => return Err(other),
            None => {}
        }
        loop {
            if let Err(error) = self.ask_leaders().await {
                self.wait_out(error, deadline).await?;
            }
            let Ok(Some(answered)) = timeout_at(deadline, self.fetches.join_next()).await else {
                if Instant::now() >= deadline {
                    return Ok(Vec::new());
                }
                continue;
            };
            // A fetch only ends early when the runtime stops.
            let Ok(answered) = answered else { return Ok(Vec::new()) };
            self.asked.remove(&answered.leader);
            let records = match self.take(answered).await {
                Err(FetchError::Client(error)) => {
                    self.wait_out(error, deadline).await?;
                    continue;
                }
                other => other?,
            };
            self.backoff = Duration::ZERO;
            if !records.is_empty() {
                // The next answer travels while the caller works. The next call finds an error of this one.
                let _ = self.ask_leaders().await;
                return Ok(records);
            }
            if Instant::now() >= deadline {
                return Ok(Vec::new());
            }
        }
    }

    /// Pauses after an error that passes; gives back any other.
    async fn wait_out(&mut self, error: ClientError, deadline: Instant) -> Result<(), FetchError> {
        if !error.is_retriable() {
            return Err(error.into());
        }
        self.assigned.keys().for_each(|partition| self.client.doubt_topic(&partition.topic, &error));
        let most = Duration::from_secs(1);
        self.backoff = (self.backoff * 2).clamp(self.client.config().retry_backoff, most);
        let left = deadline.saturating_duration_since(Instant::now());
        sleep(self.backoff.min(left)).await;
        if Instant::now() >= deadline { Err(error.into()) } else { Ok(()) }
    }

    /// Sends a fetch to every leader that has none under way.
    async fn ask_leaders(&mut self) -> Result<(), ClientError> {
        let mut by_leader: HashMap<NodeId, Vec<(TopicPartition, Offset)>> = HashMap::new();
        for (partition, state) in &self.assigned {
            let leader = self.client.leader(&partition.topic, partition.partition).await?;
            if !self.asked.contains(&leader) {
                by_leader.entry(leader).or_default().push((partition.clone(), state.position));
            }
        }
        for (leader, asked) in by_leader {
            let (client, config) = (self.client.clone(), self.config.clone());
            self.asked.insert(leader);
            self.fetches.spawn(async move {
                let result = fetch(&client, &config, leader, &asked).await;
                Answered { leader, asked, result }
            });
        }
        Ok(())
    }

    /// Takes the records out of an answer and moves the positions on.
    async fn take(&mut self, answered: Answered) -> Result<Vec<FetchedRecord>, FetchError> {
        let response = answered.result?;
        let answer: FetchResponse<'_> = response.decode()?;
        let code = ErrorCode(answer.error_code);
        if code.is_error() {
            return Err(ClientError::of_broker(API, format!("broker {}", answered.leader), code, None).into());
        }
        let mut records = Vec::new();
        let mut failure = None;
        let parts = answer.responses.iter().flat_map(|topic| {
            topic.partitions.iter().map(move |data| ((topic.topic.as_ref(), data.partition_index), data))
        });
        let parts: HashMap<(&str, i32), &PartitionData<'_>> = parts.collect();
        for (partition, position) in answered.asked {
            // Gone, or sought elsewhere, since it was asked for.
            if self.assigned.get(&partition).is_none_or(|state| state.position != position) {
                continue;
            }
            let Some(data) = parts.get(&(&*partition.topic, partition.partition.0)) else { continue };
            if let Err(error) = self.take_partition(&partition, data, response.body(), &mut records).await {
                failure = Some(error);
            }
        }
        // Records that were taken are given out first: their positions have moved on.
        match failure {
            Some(error) if records.is_empty() => Err(error),
            failure => {
                self.failure = failure;
                Ok(records)
            }
        }
    }

    async fn take_partition(
        &mut self,
        partition: &TopicPartition,
        data: &PartitionData<'_>,
        body: &Bytes,
        records: &mut Vec<FetchedRecord>,
    ) -> Result<(), FetchError> {
        let isolation = self.config.isolation;
        let decompressed_size_max = self.config.decompressed_size_max;
        let Some(state) = self.assigned.get_mut(partition) else { return Ok(()) };
        match ErrorCode(data.error_code) {
            ErrorCode::NONE => {}
            ErrorCode::OFFSET_OUT_OF_RANGE => return self.reset(partition, data).await,
            code => return Err(ClientError::of_broker(API, format!("partition {partition}"), code, None).into()),
        }
        state.log_start = Offset(data.log_start_offset);
        state.end = match isolation {
            Isolation::ReadUncommitted => Offset(data.high_watermark),
            Isolation::ReadCommitted => Offset(data.last_stable_offset),
        };
        let settings = DecodeSettings { isolation, decompressed_size_max };
        decode::take_records(partition, data, body, settings, &mut state.position, records)
    }

    async fn reset(&mut self, partition: &TopicPartition, data: &PartitionData<'_>) -> Result<(), FetchError> {
        let position = self.assigned.get(partition).map_or(Offset::NONE, |state| state.position);
        let Some(spec) = self.config.reset_to else {
            let log_start = Offset(data.log_start_offset);
            return Err(FetchError::OutOfRange { partition: partition.clone(), position, log_start });
        };
        self.assign_at(std::slice::from_ref(partition), spec).await
    }
}

async fn fetch(
    client: &Client,
    config: &FetcherConfig,
    leader: NodeId,
    asked: &[(TopicPartition, Offset)],
) -> Result<Response, ClientError> {
    let mut topics: BTreeMap<&str, Vec<FetchPartition>> = BTreeMap::new();
    for (partition, position) in asked {
        let wanted = FetchPartition {
            partition: partition.partition.0,
            fetch_offset: position.0,
            partition_max_bytes: config.partition_max_bytes,
            ..Default::default()
        };
        topics.entry(&partition.topic).or_default().push(wanted);
    }
    let topics = topics.into_iter().map(|(name, partitions)| FetchTopic {
        topic: name.into(),
        partitions,
        ..Default::default()
    });
    let request = FetchRequest {
        replica_id: -1,
        max_wait_ms: i32::try_from(config.max_wait.as_millis()).unwrap_or(i32::MAX),
        min_bytes: config.min_bytes,
        max_bytes: config.max_bytes,
        isolation_level: config.isolation.number(),
        // No session: each fetch names its partitions.
        session_id: 0,
        session_epoch: -1,
        topics: topics.collect(),
        ..Default::default()
    };
    client.node(leader).await?.call(&request).await
}
