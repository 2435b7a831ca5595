//! ElectLeaders (43), versions 0-2: asks for other leaders. v1: unclean elections, an error of the whole. v2: flexible.
//!
//! On one node a served partition has its only possible leader: ELECTION_NOT_NEEDED. The answer to a request for all
//! partitions lists only the others, so it is empty.

use std::borrow::Cow;
use std::sync::Arc;

use mainstem_door::Handled;
use mainstem_kafka_wire::ErrorCode;
use mainstem_kafka_wire::messages::elect_leaders_request::{ElectLeadersRequest, TopicPartitions};
use mainstem_kafka_wire::messages::elect_leaders_response::{
    ElectLeadersResponse, PartitionResult, ReplicaElectionResult,
};
use mainstem_metadata::image::{ClusterImage, NO_LEADER};

use crate::close::CloseReason;
use crate::context::{Api, Connection, Door};
use crate::request::Request;

pub const API: Api = Api::new(43, "ElectLeaders", 0..=2, handle);

const PREFERRED: i8 = 0;
const UNCLEAN: i8 = 1;

fn handle(door: &Door, _connection: &Arc<Connection>, request: Request) -> Result<Handled, CloseReason> {
    let message: ElectLeadersRequest<'_> = request.decode()?;
    let mut response = ElectLeadersResponse::default();
    let asks_nothing = message.topic_partitions.as_ref().is_some_and(Vec::is_empty);
    if !asks_nothing && !matches!(message.election_type, PREFERRED | UNCLEAN) {
        response.error_code = ErrorCode::INVALID_REQUEST.0;
        let asked = message.topic_partitions.iter().flatten();
        response.replica_election_results =
            asked.map(|topic| results(topic, |_| unknown_type(message.election_type))).collect();
        return Ok(Handled::Ready(request.reply(&response)));
    }
    let image = door.broker.image();
    let asked = message.topic_partitions.iter().flatten();
    response.replica_election_results = asked.map(|topic| elect(&image, topic, message.election_type)).collect();
    Ok(Handled::Ready(request.reply(&response)))
}

fn elect<'m>(image: &ClusterImage, asked: &'m TopicPartitions<'_>, election_type: i8) -> ReplicaElectionResult<'m> {
    results(asked, |index| outcome(image, &asked.topic, index, election_type))
}

fn results<'m>(
    asked: &'m TopicPartitions<'_>,
    outcome: impl Fn(i32) -> (ErrorCode, Cow<'static, str>),
) -> ReplicaElectionResult<'m> {
    let result = |index: &i32| {
        let (error, message) = outcome(*index);
        PartitionResult { partition_id: *index, error_code: error.0, error_message: Some(message) }
    };
    ReplicaElectionResult {
        topic: Cow::Borrowed(asked.topic.as_ref()),
        partition_result: asked.partitions.iter().map(result).collect(),
    }
}

fn unknown_type(election_type: i8) -> (ErrorCode, Cow<'static, str>) {
    (ErrorCode::INVALID_REQUEST, format!("Unknown election type {election_type}").into())
}

fn outcome(image: &ClusterImage, topic: &str, index: i32, election_type: i8) -> (ErrorCode, Cow<'static, str>) {
    let Some(found) = image.topic(topic) else {
        return (ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, format!("No such topic as {topic}").into());
    };
    match found.partitions.get(&index) {
        None => (ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, format!("No such partition as {topic}-{index}").into()),
        Some(partition) if partition.leader != NO_LEADER => {
            (ErrorCode::ELECTION_NOT_NEEDED, "Leader election not needed for topic partition.".into())
        }
        Some(_) if election_type == PREFERRED => {
            (ErrorCode::PREFERRED_LEADER_NOT_AVAILABLE, "The preferred leader was not available.".into())
        }
        Some(_) => {
            (ErrorCode::ELIGIBLE_LEADERS_NOT_AVAILABLE, "Eligible topic partition leaders are not available.".into())
        }
    }
}

#[cfg(test)]
#[path = "k043_elect_leaders_tests.rs"]
mod tests;
