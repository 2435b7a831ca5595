//! Retention of the records of partitions: records that are too old, or too many, go.

use mainstem_store::TopicLog;
use mainstem_types::{TimestampMs, TopicPartition};

use crate::node_state::NodeState;
use crate::partition::Partition;

/// Applies retention to the partitions in commit logs, and deletes the files that none needs, those of deleted topics
/// among them. Whether anything was removed.
/// Stops between two logs or groups when `go_on` says so.
pub(crate) fn retention_of_groups(state: &NodeState, go_on: &dyn Fn() -> bool) -> bool {
    let removed = retention_where(state, go_on, |log| log.as_group_partition().is_some());
    let kept_ms = state.config.load().log.topic_defaults.retention_ms.unwrap_or(-1);
    if let Err(error) = state.folder.expire_unknown(state.env.clock.wall_ms(), kept_ms, go_on) {
        tracing::error!("cannot find out the age of records of unknown topics, so they stay: {error}");
    }
    match state.folder.remove_unneeded(go_on) {
        Ok(0) => {}
        Ok(files) => tracing::info!("removed {files} commit log files that no partition needs"),
        Err(error) => tracing::error!("cannot remove commit log files: {error}"),
    }
    removed
}

/// Applies retention to some logs. One whose disk fails is reported; the others go on.
pub(crate) fn retention_where(state: &NodeState, go_on: &dyn Fn() -> bool, chosen: impl Fn(&TopicLog) -> bool) -> bool {
    let mut removed = false;
    for topic in state.topics.load().iter() {
        for partition in topic.partitions.iter().filter(|partition| chosen(partition.log())) {
            if !go_on() {
                return removed;
            }
            removed |= retention_of(state, partition);
        }
    }
    removed
}

fn retention_of(state: &NodeState, partition: &Partition) -> bool {
    let (name, now) = (partition.log().partition(), state.env.clock.wall_ms());
    match partition.log().retention_pass(now, partition.high_watermark()) {
        Ok(outcome) if outcome.segments_removed > 0 => {
            partition.log_start_moved();
            tracing::info!(
                "{name}: removed {} old segments, {} bytes; the log now begins at {}",
                outcome.segments_removed,
                outcome.bytes_removed,
                outcome.log_start
            );
            if let Some((time, unit)) = outcome.newest.and_then(|time| Some((time, time.other_unit(now)?))) {
                tracing::warn!("{}", wrong_unit(name, time, unit));
            }
            true
        }
        Ok(_) => false,
        Err(error) => {
            tracing::error!("{name}: retention failed: {error}");
            false
        }
    }
}

/// Of records that retention removed, as in Kafka, because their producer does not give milliseconds.
pub(crate) fn wrong_unit(partition: &TopicPartition, time: TimestampMs, unit: &str) -> String {
    format!(
        "{partition}: the timestamps of the removed records look wrong: the newest is {time}, which is a likely time in {unit}, not in milliseconds; \
         let the producer give milliseconds, or set message.timestamp.type=LogAppendTime for the topic"
    )
}
