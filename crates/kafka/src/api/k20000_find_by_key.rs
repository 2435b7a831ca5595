//! FindByKey (20000), version 0: records of a topic by their key. Mainstem's own; `docs/formats/find-by-key.md`
//! describes it.
//!
//! - Newest first, at most `MaxRecords` of them, and never more than 1,000.
//! - Finds every record that was acknowledged before the request came. Finds no record that a consumer with the same
//!   isolation level would not get.

use std::borrow::Cow;
use std::sync::Arc;

use mainstem_broker::{Broker, Isolation, KeyLookup, KeyLookupError, Topic};
use mainstem_door::{Handled, Reply};
use mainstem_kafka_wire::ErrorCode;
use mainstem_kafka_wire::messages::FindByKeyRequest;
use mainstem_kafka_wire::messages::find_by_key_response::{FindByKeyResponse, FoundRecord};
use mainstem_metadata::config::KeyIndex;
use mainstem_store::FindByKeyError;
use mainstem_types::{PartitionIndex, TimestampMs, TopicId};

use crate::close::CloseReason;
use crate::context::{Api, Connection, Door, on_pool};
use crate::errors::read_error_code;
use crate::request::Request;

pub const API: Api = Api::new(20_000, "FindByKey", 0..=0, handle);

/// Records in one answer: 16 KiB of it.
const RECORDS_MAX: i32 = 1000;
/// "No partition in particular", "no time in particular".
const ANY: i64 = -1;
/// A look-up finds the words of the header `KEYS`, the header `UNIQ_KEY`, and the keys of records.
const INDEXED_HEADERS: i8 = 1;
const INDEXED_ALL: i8 = 2;

/// Why a request is not answered with records.
struct Refusal {
    code: ErrorCode,
    message: Option<Cow<'static, str>>,
}

fn handle(door: &Door, _connection: &Arc<Connection>, request: Request) -> Result<Handled, CloseReason> {
    // Unreadable requests are refused here, before they wait for a thread.
    drop(request.decode::<FindByKeyRequest<'_>>()?);
    Ok(on_pool(&door.broker, move |broker| answer(broker, &request)))
}

fn answer(broker: &Broker, request: &Request) -> Result<Reply, CloseReason> {
    let message: FindByKeyRequest<'_> = request.decode()?;
    let response = find(broker, &message).unwrap_or_else(|refusal| FindByKeyResponse {
        error_code: refusal.code.0,
        error_message: refusal.message,
        topic_name: message.topic_name.as_deref().map(Cow::Borrowed),
        topic_id: message.topic_id,
        ..Default::default()
    });
    Ok(request.reply(&response))
}

fn find<'m>(broker: &Broker, message: &'m FindByKeyRequest<'_>) -> Result<FindByKeyResponse<'m>, Refusal> {
    let lookup = lookup(message)?;
    let topic = topic(broker, message)?;
    let found = broker.find_by_key(&topic, &lookup).map_err(|error| {
        let code = match &error {
            KeyLookupError::NoIndex { .. } => ErrorCode::INVALID_CONFIG,
            KeyLookupError::NoPartition { .. } => ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
            KeyLookupError::Find(FindByKeyError::Read(error)) => read_error_code(error),
            // The one that has a client ask again.
            KeyLookupError::Find(FindByKeyError::Behind { .. }) => ErrorCode::REQUEST_TIMED_OUT,
        };
        Refusal { code, message: Some(error.to_string().into()) }
    })?;
    let record = |found: &mainstem_store::FoundByKey| FoundRecord {
        partition_index: found.partition.0,
        offset: found.offset.0,
        timestamp: found.timestamp.0,
    };
    Ok(FindByKeyResponse {
        topic_name: Some(Cow::Owned(topic.name.to_string())),
        topic_id: topic.id,
        indexed_keys: if topic.config.key_index == KeyIndex::All { INDEXED_ALL } else { INDEXED_HEADERS },
        is_complete: found.complete,
        records: found.records.iter().map(record).collect(),
        ..Default::default()
    })
}

fn lookup<'m>(message: &'m FindByKeyRequest<'_>) -> Result<KeyLookup<'m>, Refusal> {
    let key = std::str::from_utf8(&message.key).ok().filter(|key| !key.is_empty());
    let key = key.ok_or_else(|| invalid("a key is UTF-8 and not empty: others are in no index"))?;
    let isolation = match message.isolation_level {
        0 => Isolation::ReadUncommitted,
        1 => Isolation::ReadCommitted,
        _ => return Err(invalid("an isolation level is 0 or 1")),
    };
    let (begin, end) = (message.begin_timestamp, message.end_timestamp);
    if begin < ANY || end < ANY || (end != ANY && end < begin) {
        return Err(invalid("times are milliseconds since 1970, the end not before the beginning, or -1"));
    }
    if i64::from(message.partition_index) < ANY {
        return Err(invalid("a partition is a number from 0 on, or -1 for all"));
    }
    if message.max_records < 1 {
        return Err(invalid("at least one record is asked for"));
    }
    Ok(KeyLookup {
        key,
        partition: (i64::from(message.partition_index) != ANY).then_some(PartitionIndex(message.partition_index)),
        from: TimestampMs(if begin == ANY { i64::MIN } else { begin }),
        to: TimestampMs(if end == ANY { i64::MAX } else { end }),
        max: message.max_records.min(RECORDS_MAX).unsigned_abs() as usize,
        isolation,
    })
}

fn topic(broker: &Broker, message: &FindByKeyRequest<'_>) -> Result<Arc<Topic>, Refusal> {
    let topics = broker.topics();
    match (&message.topic_name, message.topic_id) {
        (Some(name), TopicId::ZERO) => {
            let unknown = Refusal { code: ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, message: None };
            topics.by_name(name).cloned().ok_or(unknown)
        }
        (None, id) if id != TopicId::ZERO => {
            topics.by_id(id).cloned().ok_or(Refusal { code: ErrorCode::UNKNOWN_TOPIC_ID, message: None })
        }
        _ => Err(invalid("a topic is named by its name or by its id")),
    }
}

fn invalid(message: &'static str) -> Refusal {
    Refusal { code: ErrorCode::INVALID_REQUEST, message: Some(message.into()) }
}

#[cfg(test)]
#[path = "k20000_find_by_key_tests.rs"]
mod tests;
