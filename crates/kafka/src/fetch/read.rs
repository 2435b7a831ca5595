//! One look at the partitions of a fetch: what can be read of each, within the limits of the request.

use std::sync::Arc;

use mainstem_broker::{Broker, Isolation, Partition, PartitionPositions, Topic};
use mainstem_kafka_wire::ErrorCode;
use mainstem_store::{AbortedTransaction, ReadError, Reading};
use mainstem_types::{LeaderEpoch, Offset};

use super::session::{Answered, PartitionKey, Seen, TopicReference, Wanted};
use crate::errors::{epoch_error_code, read_error_code};

/// The limits of a whole fetch.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    pub max_bytes: u32,
    pub min_bytes: u32,
    pub isolation: Isolation,
}

/// Where a log parts from what the fetcher has: it must cut its own log to this (KIP-595).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Diverging {
    pub epoch: LeaderEpoch,
    pub end_offset: Offset,
}

/// What one partition gives.
#[derive(Debug, Clone)]
pub struct PartitionAnswer {
    pub error: ErrorCode,
    pub positions: PartitionPositions,
    pub reading: Reading,
    pub diverging: Option<Diverging>,
    /// For `read_committed` alone.
    pub aborted: Option<Vec<AbortedTransaction>>,
    pub seen: Option<Seen>,
}

/// What all partitions give.
#[derive(Debug, Default)]
pub struct FetchRead {
    pub answers: Vec<PartitionAnswer>,
    pub bytes: usize,
    /// The answer must not wait: an error or a divergence is in it.
    pub urgent: bool,
}

impl FetchRead {
    /// Whether it can be sent before the wait is over.
    pub fn satisfies(&self, limits: &Limits) -> bool {
        self.urgent || self.bytes >= limits.min_bytes as usize
    }
}

impl PartitionAnswer {
    fn error(error: ErrorCode) -> PartitionAnswer {
        let (positions, reading) = (UNKNOWN, Reading::default());
        PartitionAnswer { error, positions, reading, diverging: None, aborted: None, seen: None }
    }

    /// For a partition that is not here. Kafka's list of aborted transactions is empty then, and null otherwise.
    fn unknown(error: ErrorCode) -> PartitionAnswer {
        PartitionAnswer { aborted: Some(Vec::new()), ..PartitionAnswer::error(error) }
    }

    /// What the session remembers of it.
    pub fn answered(&self) -> Answered {
        Answered {
            is_error: self.error != ErrorCode::NONE,
            has_records: self.reading.bytes > 0,
            has_notice: self.diverging.is_some(),
            high_watermark: self.positions.high_watermark,
            log_start: self.positions.log_start,
            seen: self.seen.clone(),
        }
    }
}

/// The positions in the answer for a partition that could not be read.
const UNKNOWN: PartitionPositions = PartitionPositions {
    log_start: Offset::NONE,
    last_stable: Offset::NONE,
    high_watermark: Offset::NONE,
    log_end: Offset::NONE,
};

/// The partitions that keys name, or why there are none. A topic is looked up once for all partitions in a row.
pub fn resolve(broker: &Broker, wanted: &[(PartitionKey, Wanted)]) -> Vec<Result<Arc<Partition>, ErrorCode>> {
    let topics = broker.topics();
    let mut last: Option<(&TopicReference, Result<&Arc<Topic>, ErrorCode>)> = None;
    let mut partitions = Vec::with_capacity(wanted.len());
    for (key, _) in wanted {
        let topic = match last {
            Some((known, topic)) if *known == key.topic => topic,
            _ => match &key.topic {
                TopicReference::Name(name) => topics.by_name(name).ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION),
                TopicReference::Id(id) => topics.by_id(*id).ok_or(ErrorCode::UNKNOWN_TOPIC_ID),
            },
        };
        last = Some((&key.topic, topic));
        partitions.push(topic.and_then(|topic| {
            topic.partition(key.partition).map(Arc::clone).ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)
        }));
    }
    partitions
}

/// Whether a look may wait for the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Disk {
    MayWait,
    Never,
}

/// The look cannot be taken from memory alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WouldBlock;

/// Looks at each partition in order. The first one that has data gives at least one whole batch, even above the
/// limits. The others keep to the limits (KIP-74).
pub fn look(
    partitions: &[Result<Arc<Partition>, ErrorCode>],
    wanted: &[(PartitionKey, Wanted)],
    limits: &Limits,
    disk: Disk,
) -> Result<FetchRead, WouldBlock> {
    let mut look = FetchRead { answers: Vec::with_capacity(partitions.len()), ..FetchRead::default() };
    for (partition, (_, wanted)) in partitions.iter().zip(wanted) {
        let answer = match partition {
            Err(error) => PartitionAnswer::unknown(*error),
            Ok(partition) => {
                let changes = partition.fetch_waiters().changes();
                let mut answer = look_at(partition, wanted, limits, look.bytes, disk)?;
                let is_all = wanted.fetch_offset == answer.positions.upper(limits.isolation);
                answer.seen = Some(Seen { partition: Arc::clone(partition.fetch_waiters()), changes, is_all });
                answer
            }
        };
        look.bytes += answer.reading.bytes;
        look.urgent |= answer.error != ErrorCode::NONE || answer.diverging.is_some();
        look.answers.push(answer);
    }
    Ok(look)
}

fn look_at(
    partition: &Partition,
    wanted: &Wanted,
    limits: &Limits,
    taken: usize,
    disk: Disk,
) -> Result<PartitionAnswer, WouldBlock> {
    if let Err(error) = partition.check_leader_epoch(wanted.current_leader_epoch) {
        return Ok(PartitionAnswer::error(epoch_error_code(&error)));
    }
    match diverging(partition, wanted) {
        Ok(None) => {}
        Ok(diverging) => {
            let positions = partition.positions();
            return Ok(PartitionAnswer { diverging, positions, ..PartitionAnswer::error(ErrorCode::NONE) });
        }
        Err(error) => return Ok(PartitionAnswer::error(error)),
    }
    let left = (limits.max_bytes as usize).saturating_sub(taken);
    let max_bytes = left.min(wanted.max_bytes.max(0) as usize) as u32;
    let first = taken == 0;
    if max_bytes == 0 && !first {
        // Nobody else tells: the deletion was the partition's last change.
        if partition.is_deleted() {
            return Ok(PartitionAnswer::error(read_error_code(&ReadError::Closed {
                partition: partition.log().partition().clone(),
            })));
        }
        let positions = partition.positions();
        let aborted = no_aborted(limits);
        return Ok(PartitionAnswer { positions, aborted, ..PartitionAnswer::error(ErrorCode::NONE) });
    }
    match read(partition, wanted.fetch_offset, max_bytes, first, limits.isolation, disk) {
        Ok(answer) => Ok(answer),
        Err(ReadError::WouldBlock) => Err(WouldBlock),
        // An answer never tells the range, not even for an offset outside it: clients ask ListOffsets.
        Err(error) => Ok(PartitionAnswer::error(read_error_code(&error))),
    }
}

fn read(
    partition: &Partition,
    from: Offset,
    max_bytes: u32,
    min_one_batch: bool,
    isolation: Isolation,
    disk: Disk,
) -> Result<PartitionAnswer, ReadError> {
    let found = match disk {
        Disk::MayWait => partition.read(from, max_bytes, min_one_batch, isolation)?,
        Disk::Never => partition.read_nowait(from, max_bytes, min_one_batch, isolation)?,
    };
    let aborted = match (isolation, disk) {
        (Isolation::ReadUncommitted, _) => None,
        (Isolation::ReadCommitted, Disk::Never) => Some(partition.log().aborted_transactions_nowait(from)?),
        (Isolation::ReadCommitted, Disk::MayWait) => {
            Some(partition.log().aborted_transactions(from, found.positions.upper(isolation))?)
        }
    };
    Ok(PartitionAnswer {
        error: ErrorCode::NONE,
        positions: found.positions,
        reading: found.reading,
        diverging: None,
        aborted,
        seen: None,
    })
}

fn no_aborted(limits: &Limits) -> Option<Vec<AbortedTransaction>> {
    (limits.isolation == Isolation::ReadCommitted).then(Vec::new)
}

/// Compares the epoch of the last record that the client has with our log.
fn diverging(partition: &Partition, wanted: &Wanted) -> Result<Option<Diverging>, ErrorCode> {
    if wanted.last_fetched_epoch < LeaderEpoch(0) {
        return Ok(None);
    }
    let (epoch, end_offset) = partition.log().end_offset_for_epoch(wanted.last_fetched_epoch);
    if epoch < LeaderEpoch(0) || end_offset < Offset::ZERO || wanted.fetch_offset < partition.log().log_start() {
        return Err(ErrorCode::OFFSET_OUT_OF_RANGE);
    }
    let parts = epoch < wanted.last_fetched_epoch || end_offset < wanted.fetch_offset;
    Ok(parts.then_some(Diverging { epoch, end_offset }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::TestDoor;
    use mainstem_kafka_wire::messages::DeleteTopicsRequest;
    use mainstem_types::PartitionIndex;

    #[test]
    fn a_deleted_partition_is_told_also_where_others_have_taken_all_room() {
        let kafka = TestDoor::start(&[]);
        let partition = |name: &str| {
            kafka.create(name, 1);
            Ok(Arc::clone(kafka.broker().topics().by_name(name).unwrap().partition(PartitionIndex(0)).unwrap()))
        };
        let partitions = [partition("busy"), partition("gone")];
        kafka.produce("busy", 0, 1);
        let wanted = ["busy", "gone"].map(|name| {
            let key = PartitionKey { topic: TopicReference::Name(name.into()), partition: PartitionIndex(0) };
            let (current_leader_epoch, last_fetched_epoch) = (LeaderEpoch::NONE, LeaderEpoch::NONE);
            (key, Wanted { fetch_offset: Offset::ZERO, current_leader_epoch, last_fetched_epoch, max_bytes: 1 << 20 })
        });
        let limits = Limits { max_bytes: 1, min_bytes: 1, isolation: Isolation::ReadUncommitted };
        let errors = || {
            let look = look(&partitions, &wanted, &limits, Disk::MayWait).unwrap();
            assert!(look.bytes > 1);
            [look.answers[0].error, look.answers[1].error]
        };
        assert_eq!(errors(), [ErrorCode::NONE; 2]);
        let names = vec!["gone".into()];
        let _: mainstem_kafka_wire::messages::DeleteTopicsResponse<'static> =
            kafka.call(5, &DeleteTopicsRequest { topic_names: names, timeout_ms: 10_000, ..Default::default() });
        assert_eq!(errors(), [ErrorCode::NONE, ErrorCode::NOT_LEADER_OR_FOLLOWER]);
    }
}
