//! AlterReplicaLogDirs (34), versions 1-2: moves partitions between folders. v2: flexible.
//!
//! There is one folder. A partition is in it already, which is no error; any other folder is LOG_DIR_NOT_FOUND.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use mainstem_broker::TopicMap;
use mainstem_door::Handled;
use mainstem_kafka_wire::ErrorCode;
use mainstem_kafka_wire::messages::AlterReplicaLogDirsRequest;
use mainstem_kafka_wire::messages::alter_replica_log_dirs_response::{
    AlterReplicaLogDirPartitionResult, AlterReplicaLogDirTopicResult, AlterReplicaLogDirsResponse,
};
use mainstem_types::PartitionIndex;

use crate::close::CloseReason;
use crate::context::{Api, Connection, Door};
use crate::request::Request;

pub const API: Api = Api::new(34, "AlterReplicaLogDirs", 1..=2, handle);

fn handle(door: &Door, _connection: &Arc<Connection>, request: Request) -> Result<Handled, CloseReason> {
    let message: AlterReplicaLogDirsRequest<'_> = request.decode()?;
    let topics = door.broker.topics();
    let own = door.broker.data_folder();
    // Several folders may name the same topic: one answer a topic.
    let mut results: BTreeMap<&str, Vec<AlterReplicaLogDirPartitionResult>> = BTreeMap::new();
    for folder in &message.dirs {
        let is_own = Path::new(folder.path.as_ref()) == own;
        for topic in folder.topics.iter().filter(|topic| !topic.partitions.is_empty()) {
            let result = |index: &i32| AlterReplicaLogDirPartitionResult {
                partition_index: *index,
                error_code: outcome(&topics, is_own, &topic.name, *index).0,
            };
            results.entry(topic.name.as_ref()).or_default().extend(topic.partitions.iter().map(result));
        }
    }
    let results = results
        .into_iter()
        .map(|(name, partitions)| AlterReplicaLogDirTopicResult { topic_name: Cow::Borrowed(name), partitions });
    let response = AlterReplicaLogDirsResponse { results: results.collect(), ..Default::default() };
    Ok(Handled::Ready(request.reply(&response)))
}

fn outcome(topics: &TopicMap, is_own: bool, topic: &str, index: i32) -> ErrorCode {
    let found = topics.by_name(topic).and_then(|topic| topic.partition(PartitionIndex(index)));
    match found {
        _ if !is_own => ErrorCode::LOG_DIR_NOT_FOUND,
        None => ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
        Some(_) => ErrorCode::NONE,
    }
}

#[cfg(test)]
#[path = "k034_alter_replica_log_dirs_tests.rs"]
mod tests;
