//! ListOffsets (2), versions 1-11: an offset by time, or a special one.
//!
//! - v2: isolation level. v4: leader epochs. v5: OFFSET_NOT_AVAILABLE. v6: flexible. v7: -3, the record with the
//!   largest timestamp. v8: -4, earliest on local disk. v9: -5, latest in tiered storage. v10: timeout. v11: -6,
//!   earliest not yet in tiered storage.
//! - A look-up by time returns the first *record* at or after the time, with the record's own time. If there is none,
//!   it returns -1, -1 and no error.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use mainstem_broker::{Broker, Isolation, Partition};
use mainstem_door::{Handled, Reply};
use mainstem_kafka_wire::ErrorCode;
use mainstem_kafka_wire::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsRequest};
use mainstem_kafka_wire::messages::list_offsets_response::{
    ListOffsetsPartitionResponse, ListOffsetsResponse, ListOffsetsTopicResponse,
};
use mainstem_types::{LeaderEpoch, Offset, PartitionIndex, TimestampMs};

use crate::close::CloseReason;
use crate::context::{Api, Connection, Door, on_pool};
use crate::errors::{epoch_error_code, read_error_code};
use crate::request::Request;

pub const API: Api = Api::new(2, "ListOffsets", 1..=11, handle);

const LATEST: i64 = -1;
const EARLIEST: i64 = -2;
const MAX_TIMESTAMP: i64 = -3;
const EARLIEST_LOCAL: i64 = -4;
const LATEST_TIERED: i64 = -5;
const EARLIEST_PENDING_UPLOAD: i64 = -6;

fn handle(door: &Door, _connection: &Arc<Connection>, request: Request) -> Result<Handled, CloseReason> {
    let message: ListOffsetsRequest<'_> = request.decode()?;
    let mut partitions = message.topics.iter().flat_map(|topic| topic.partitions.iter());
    let looks_into_records = partitions.any(|p| p.timestamp >= 0 || p.timestamp == MAX_TIMESTAMP);
    drop(message);
    if !looks_into_records {
        return answer(&door.broker, &request).map(Handled::Ready);
    }
    // A search by time may read from the disk: not on a reactor.
    Ok(on_pool(&door.broker, move |broker| answer(broker, &request)))
}

fn answer(broker: &Broker, request: &Request) -> Result<Reply, CloseReason> {
    let message: ListOffsetsRequest<'_> = request.decode()?;
    let duplicates = duplicates(&message);
    let isolation = if message.isolation_level == 1 { Isolation::ReadCommitted } else { Isolation::ReadUncommitted };
    let search = Search { broker, version: request.version, isolation, duplicates: &duplicates };
    let mut refused = HashSet::new();
    let mut is_answered = |topic: &str, partition: i32| {
        let key = (topic.to_owned(), partition);
        // A partition that is named twice has one answer, at the place of the first.
        !duplicates.contains(&key) || refused.insert(key)
    };
    let topics = message.topics.iter().map(|topic| {
        let partitions = topic.partitions.iter().filter(|p| is_answered(&topic.name, p.partition_index));
        ListOffsetsTopicResponse {
            name: Cow::Borrowed(topic.name.as_ref()),
            partitions: partitions.map(|partition| search.partition(&topic.name, partition)).collect(),
        }
    });
    let response = ListOffsetsResponse { topics: topics.collect(), ..Default::default() };
    Ok(request.reply(&response))
}

/// Partitions that the request names more than once; each of their answers is an error.
fn duplicates(message: &ListOffsetsRequest<'_>) -> HashSet<(String, i32)> {
    let mut seen = HashSet::new();
    let all = message
        .topics
        .iter()
        .flat_map(|t| t.partitions.iter().map(|p| (t.name.as_ref().to_owned(), p.partition_index)));
    all.filter(|key| !seen.insert(key.clone())).collect()
}

struct Search<'b> {
    broker: &'b Broker,
    version: i16,
    isolation: Isolation,
    duplicates: &'b HashSet<(String, i32)>,
}

/// An offset with the time and epoch of its record, as far as they are told.
struct FoundOffset {
    offset: Offset,
    timestamp: TimestampMs,
    epoch: LeaderEpoch,
}

const NOTHING: FoundOffset =
    FoundOffset { offset: Offset::NONE, timestamp: TimestampMs::NONE, epoch: LeaderEpoch::NONE };

impl Search<'_> {
    fn partition(&self, topic: &str, wanted: &ListOffsetsPartition) -> ListOffsetsPartitionResponse {
        let mut response =
            ListOffsetsPartitionResponse { partition_index: wanted.partition_index, ..Default::default() };
        match self.find(topic, wanted) {
            Ok(found) => {
                response.offset = found.offset.0;
                response.timestamp = found.timestamp.0;
                if self.version >= 4 {
                    response.leader_epoch = found.epoch.0;
                }
            }
            Err(error) => response.error_code = error.0,
        }
        response
    }

    fn find(&self, topic: &str, wanted: &ListOffsetsPartition) -> Result<FoundOffset, ErrorCode> {
        if self.duplicates.contains(&(topic.to_owned(), wanted.partition_index)) {
            return Err(ErrorCode::INVALID_REQUEST);
        }
        if wanted.timestamp < self.least_special() {
            return Err(ErrorCode::UNSUPPORTED_VERSION);
        }
        let topics = self.broker.topics();
        let topic = topics.by_name(topic).ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)?;
        let partition =
            topic.partition(PartitionIndex(wanted.partition_index)).ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)?;
        partition
            .check_leader_epoch(LeaderEpoch(wanted.current_leader_epoch))
            .map_err(|error| epoch_error_code(&error))?;
        self.offset(partition, wanted.timestamp)
    }

    /// The smallest special timestamp that the version of the request knows.
    fn least_special(&self) -> i64 {
        match self.version {
            11.. => EARLIEST_PENDING_UPLOAD,
            9.. => LATEST_TIERED,
            8.. => EARLIEST_LOCAL,
            7.. => MAX_TIMESTAMP,
            _ => EARLIEST,
        }
    }

    fn offset(&self, partition: &Partition, timestamp: i64) -> Result<FoundOffset, ErrorCode> {
        let positions = partition.positions();
        let upper = positions.upper(self.isolation);
        let log = partition.log();
        let special = |offset: Offset, epoch: Option<LeaderEpoch>| FoundOffset {
            offset,
            timestamp: TimestampMs::NONE,
            epoch: epoch.unwrap_or(LeaderEpoch::NONE),
        };
        let found = match timestamp {
            LATEST => return Ok(special(upper, Some(partition.leader_epoch()))),
            EARLIEST | EARLIEST_LOCAL => {
                return Ok(special(positions.log_start, log.epoch_for_offset(positions.log_start)));
            }
            // Nothing is in tiered storage, and nothing waits to be put there.
            LATEST_TIERED | EARLIEST_PENDING_UPLOAD => return Ok(NOTHING),
            MAX_TIMESTAMP => log.find_max_timestamp(upper),
            target => log.find_by_time(TimestampMs(target), upper),
        };
        let found = found.map_err(|error| read_error_code(&error))?.filter(|found| found.offset < upper);
        if found.is_none() && timestamp == MAX_TIMESTAMP && positions.log_start < upper {
            // Records without times: the first of them stands for all.
            return Ok(special(positions.log_start, log.epoch_for_offset(positions.log_start)));
        }
        Ok(found.map_or(NOTHING, |f| FoundOffset { offset: f.offset, timestamp: f.timestamp, epoch: f.leader_epoch }))
    }
}
