//! DescribeLogDirs (35), versions 1-5: the data folder, and how large its partitions are. v2: flexible. v3: an error of
//! the whole. v4: size and free space of the file system. v5: cordoned folders; there are none.
//!
//! - A partition has the size of its `.log` files. Topics and partitions that do not exist are left out.
//! - There is one folder, and no replica moves between folders: no lag, no future replica.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use mainstem_broker::{Broker, Topic};
use mainstem_door::{Handled, Reply};
use mainstem_kafka_wire::messages::DescribeLogDirsRequest;
use mainstem_kafka_wire::messages::describe_log_dirs_response::{
    DescribeLogDirsPartition, DescribeLogDirsResponse, DescribeLogDirsResult, DescribeLogDirsTopic,
};

use crate::close::CloseReason;
use crate::context::{Api, Connection, Door, on_pool};
use crate::request::Request;

pub const API: Api = Api::new(35, "DescribeLogDirs", 1..=5, handle);

/// A number of bytes that is not known.
const UNKNOWN: i64 = -1;

fn handle(door: &Door, _connection: &Arc<Connection>, request: Request) -> Result<Handled, CloseReason> {
    // Asks the file system: not on a reactor.
    Ok(on_pool(&door.broker, move |broker| answer(broker, &request)))
}

fn answer(broker: &Broker, request: &Request) -> Result<Reply, CloseReason> {
    let message: DescribeLogDirsRequest<'_> = request.decode()?;
    let topics = broker.topics();
    let disk = broker.disk();
    let mut described: Vec<DescribeLogDirsTopic<'_>> = match &message.topics {
        None => topics.iter().map(|topic| describe(topic, |_| true)).collect(),
        Some(asked) => {
            // A topic that is named twice is described once, with all partitions that were asked for.
            let mut wanted: HashMap<&str, Vec<i32>> = HashMap::new();
            for topic in asked {
                wanted.entry(topic.topic.as_ref()).or_default().extend(&topic.partitions);
            }
            let known = wanted.iter().filter_map(|(name, indexes)| Some((topics.by_name(name)?, indexes)));
            known.map(|(topic, indexes)| describe(topic, |index| indexes.contains(&index))).collect()
        }
    };
    described.retain(|topic| !topic.partitions.is_empty());
    described.sort_by(|one, other| one.name.cmp(&other.name));
    let bytes = |bytes: Option<u64>| bytes.map_or(UNKNOWN, |bytes| i64::try_from(bytes).unwrap_or(i64::MAX));
    let result = DescribeLogDirsResult {
        log_dir: disk.folder.to_string_lossy(),
        topics: described,
        total_bytes: bytes(disk.total_bytes),
        usable_bytes: bytes(disk.usable_bytes),
        ..Default::default()
    };
    Ok(request.reply(&DescribeLogDirsResponse { results: vec![result], ..Default::default() }))
}

fn describe(topic: &Topic, wanted: impl Fn(i32) -> bool) -> DescribeLogDirsTopic<'static> {
    let partitions = topic.partitions.iter().filter(|partition| wanted(partition.index.0));
    let partition = |partition: &Arc<mainstem_broker::Partition>| DescribeLogDirsPartition {
        partition_index: partition.index.0,
        partition_size: i64::try_from(partition.log().size_bytes()).unwrap_or(i64::MAX),
        ..Default::default()
    };
    DescribeLogDirsTopic {
        name: Cow::Owned(topic.name.as_ref().to_owned()),
        partitions: partitions.map(partition).collect(),
    }
}

#[cfg(test)]
#[path = "k035_describe_log_dirs_tests.rs"]
mod tests;
