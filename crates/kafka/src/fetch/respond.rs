//! Makes the response of the records that were read: header bytes with holes, and the file slices that fill them.

use std::borrow::Cow;

use mainstem_door::{Chunk, Reply};
use mainstem_kafka_wire::messages::fetch_response::{
    AbortedTransaction, EpochEndOffset, FetchResponse, FetchableTopicResponse, PartitionData,
};
use mainstem_kafka_wire::{ErrorCode, Records};
use mainstem_store::ReadChunk;

use super::read::PartitionAnswer;
use super::session::{Finish, PartitionKey, TopicReference, Wanted};
use crate::request::Request;

/// An answer without topics: the session could not be found, or is at another epoch.
pub fn session_error(request: &Request, error: ErrorCode) -> Reply {
    request.reply(&FetchResponse { error_code: error.0, ..Default::default() })
}

/// The answer to a fetch.
pub fn respond(
    request: &Request,
    wanted: &[(PartitionKey, Wanted)],
    answers: Vec<PartitionAnswer>,
    finish: &Finish,
) -> Reply {
    let mut fillings = Vec::new();
    let mut responses: Vec<FetchableTopicResponse<'_>> = Vec::new();
    let mut current: Option<&TopicReference> = None;
    for (((key, _), answer), included) in wanted.iter().zip(answers).zip(&finish.included) {
        if !included {
            continue;
        }
        if current != Some(&key.topic) {
            current = Some(&key.topic);
            responses.push(topic(&key.topic));
        }
        let data = partition(key, answer, &mut fillings);
        if let Some(topic) = responses.last_mut() {
            topic.partitions.push(data);
        }
    }
    let response = FetchResponse { session_id: finish.session_id, responses, ..Default::default() };
    request.reply_with_holes(&response, fillings)
}

fn topic(reference: &TopicReference) -> FetchableTopicResponse<'_> {
    match reference {
        TopicReference::Name(name) => FetchableTopicResponse { topic: Cow::Borrowed(name), ..Default::default() },
        TopicReference::Id(topic_id) => FetchableTopicResponse { topic_id: *topic_id, ..Default::default() },
    }
}

fn partition(key: &PartitionKey, answer: PartitionAnswer, fillings: &mut Vec<Vec<Chunk>>) -> PartitionData<'static> {
    let aborted = answer.aborted.map(|list| {
        let entry = |a: mainstem_store::AbortedTransaction| AbortedTransaction {
            producer_id: a.producer_id.0,
            first_offset: a.first_offset.0,
        };
        list.into_iter().map(entry).collect()
    });
    let diverging_epoch = answer.diverging.map_or_else(EpochEndOffset::default, |diverging| EpochEndOffset {
        epoch: diverging.epoch.0,
        end_offset: diverging.end_offset.0,
    });
    let length = answer.reading.bytes as u32;
    if length > 0 {
        fillings.push(answer.reading.chunks.into_iter().map(chunk).collect());
    }
    PartitionData {
        partition_index: key.partition.0,
        error_code: answer.error.0,
        high_watermark: answer.positions.high_watermark.0,
        last_stable_offset: answer.positions.last_stable.0,
        log_start_offset: answer.positions.log_start.0,
        diverging_epoch,
        aborted_transactions: aborted,
        preferred_read_replica: -1,
        // Empty, never null: librdkafka 2.0 and Java before 2.4 do not take null for "nothing".
        records: Records::Hole(length),
        ..Default::default()
    }
}

fn chunk(chunk: ReadChunk) -> Chunk {
    match chunk {
        ReadChunk::Bytes(bytes) => Chunk::Bytes(bytes),
        ReadChunk::Slice(slice) => Chunk::File(slice),
    }
}
