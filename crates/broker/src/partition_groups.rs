//! Topics with partitions in common commit logs: layouts `topic` and `shared`.

use std::sync::Arc;

use mainstem_metadata::config::{BrokerConfig, Layout, TopicConfig};
use mainstem_metadata::image::ClusterImage;
use mainstem_store::{GroupOptions, GroupPlacement, GroupReport, GroupedPartition, LogConfig, LogRecovery};
use mainstem_types::{PartitionIndex, TopicId, TopicPartition};

use crate::node_state::NodeState;
use crate::open_report::OpenReport;
use crate::settings::log_config;
use crate::topics::own_partitions;

/// Into which groups the partitions of a topic go; `None`: each has its own files.
pub(crate) fn placement(topic: &TopicConfig, broker: &BrokerConfig) -> Option<GroupPlacement> {
    match topic.layout {
        Layout::Partition => None,
        Layout::Topic => Some(GroupPlacement::Topic { groups: topic.groups.max(1) as u32 }),
        Layout::Shared => Some(GroupPlacement::Shared { groups: shared_groups(broker) }),
    }
}

fn shared_groups(broker: &BrokerConfig) -> u32 {
    match broker.log.shared_groups {
        // One for each core.
        0 => std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32),
        groups => groups.max(1) as u32,
    }
}

fn options(broker: &BrokerConfig) -> GroupOptions {
    GroupOptions { file_bytes: broker.log.commit_log_file_bytes.max(1) as u64, ..GroupOptions::default() }
}

pub(crate) fn grouped_partition(
    topic: &Arc<str>,
    topic_id: TopicId,
    index: i32,
    config: &Arc<LogConfig>,
    placement: GroupPlacement,
) -> GroupedPartition {
    let name = TopicPartition::new(Arc::clone(topic), PartitionIndex(index));
    GroupedPartition { name, topic_id, config: Arc::clone(config), placement }
}

/// Opens the groups that the folder has. Creates none.
pub(crate) fn open_groups(state: &NodeState, image: &ClusterImage, broker: &BrokerConfig, report: &mut OpenReport) {
    let mut live = Vec::new();
    for topic in image.topics() {
        let config = state.topic_config(image, &topic.name, broker);
        let Some(placement) = placement(&config, broker) else { continue };
        let config = Arc::new(log_config(&config, broker));
        let own = own_partitions(topic, state.node);
        live.extend(own.map(|(index, _)| grouped_partition(&topic.name, topic.id, index, &config, placement)));
    }
    let opened = match state.folder.open_groups(options(broker), &live) {
        Ok(opened) => opened,
        Err(error) => return report.failed.push(format!("the partition groups are not served: {error}")),
    };
    for (path, group) in &opened.opened {
        report.recovery += recovery(group);
        let damaged = group.damaged.iter().map(|place| format!("{} is damaged: {place}", path.display()));
        report.failed.extend(damaged);
        let unreadable = group.unreadable.iter().map(|(path, why)| format!("unreadable: {}: {why}", path.display()));
        report.failed.extend(unreadable);
        if group.recovery.shorter_than_checkpoint {
            report
                .failed
                .push(format!("{} is shorter than its checkpoint: durable records are missing", path.display()));
        }
        if group.strays > 0 {
            report.parked.push(format!(
                "{} partitions that the metadata does not know, in {}: their records stay as long as the brokers' log.retention.ms says",
                group.strays,
                path.display()
            ));
        }
        if group.unknown > 0 {
            let count = group.unknown;
            tracing::info!(
                "{}: records of {count} partitions that the metadata does not know (of deleted topics, for the most part) are left",
                path.display()
            );
        }
    }
    report.parked.extend(opened.parked.iter().map(|path| format!("a group of an unknown topic as {}", path.display())));
    let failed = opened.failed.iter();
    report.failed.extend(failed.map(|(path, error)| format!("{} is not served: {error}", path.display())));
}

fn recovery(group: &GroupReport) -> LogRecovery {
    LogRecovery {
        logs: 1,
        segments_scanned: group.recovery.segments_scanned as usize,
        bytes_scanned: group.recovery.bytes_scanned,
        bytes_cut: group.recovery.cut.map_or(0, |cut| cut.bytes),
        segments_parked: group.recovery.parked.len(),
        indexes_rebuilt: group.views_rebuilt,
        logs_short: 0,
    }
}
