//! Start and orderly stop of a node.

use std::borrow::Cow;

use mainstem_kafka_wire::metadata_records::register_broker_record::{BrokerEndpoint, BrokerFeature};
use mainstem_kafka_wire::metadata_records::register_controller_record::{ControllerEndpoint, ControllerFeature};
use mainstem_kafka_wire::metadata_records::{
    AbortTransactionRecord, BrokerRegistrationChangeRecord, MetadataRecord, PartitionChangeRecord,
    RegisterBrokerRecord, RegisterControllerRecord,
};
use mainstem_types::{NodeId, Offset, TopicId};

use super::{Controller, Decision};
use crate::image::{KAFKA_FEATURES, NO_LEADER, PartitionImage, TopicImage};

/// One address under which a node is registered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeAddress {
    pub name: String,
    pub host: String,
    pub port: u16,
    /// `SecurityProtocol::kafka_id`
    pub security_protocol: i16,
}

/// The broker that starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeStart {
    pub node: NodeId,
    /// A new random id with each start.
    pub incarnation: TopicId,
    /// `directory.id` of `meta.properties`.
    pub directory: TopicId,
    pub rack: Option<String>,
    /// The advertised addresses.
    pub addresses: Vec<NodeAddress>,
    /// Addresses of the controller's own listeners. Kafka asks for at least one; a node that opens none names a client
    /// address here.
    pub controller_addresses: Vec<NodeAddress>,
}

impl Controller {
    /// Registers the node with a new epoch, unfences it, and elects it again for every partition that it may lead, in
    /// one batch. The reply is the broker epoch: the offset of the registration.
    ///
    /// `next_offset` is the offset that the first record of the batch will get. The folder may come from a clean stop
    /// (leader -1, the node an eligible replica), from a crash (the node still the leader), or from a Kafka in either
    /// state. Each election adds one to the leader epoch; partitions in groups get that of their
    /// group. A partition whose data may be incomplete here (others were in
    /// sync, this node was not) stays without a leader.
    pub fn start_node(&self, start: &NodeStart, next_offset: Offset) -> Decision<i64> {
        let level = self.image.metadata_version();
        let mut records = Vec::new();
        if self.image.in_transaction() {
            let reason = Some(Cow::Borrowed("the node that began it stopped before it ended"));
            records.push(AbortTransactionRecord { reason }.into());
        }
        if level.has_controller_registration() {
            records.push(register_controller(start).into());
        }
        let broker_epoch = next_offset.0 + records.len() as i64;
        records.push(register_broker(start, broker_epoch, level.has_directories()).into());
        let change = |fenced, cordoned_log_dirs| {
            let (broker_id, log_dirs) = (start.node.0, Vec::new());
            let in_controlled_shutdown = 0;
            BrokerRegistrationChangeRecord {
                broker_id,
                broker_epoch,
                fenced,
                in_controlled_shutdown,
                log_dirs,
                cordoned_log_dirs,
            }
        };
        if level.has_cordoned_directories() {
            records.push(change(0, Some(Vec::new())).into());
        }
        records.push(change(-1, None).into());
        let directory = level.has_directories().then_some(start.directory);
        let group_epoch = self.next_group_epoch(broker_epoch);
        records.extend(self.partitions_of(start.node).filter_map(|(topic, number, partition)| {
            let change = elect(start.node.0, directory, topic.id, number, partition)?;
            if !self.is_in_groups(topic) {
                return Some(MetadataRecord::PartitionChange(change));
            }
            // A change adds one to the epoch; only the whole record sets it.
            let mut elected = partition.clone();
            elected.change(&change);
            elected.leader_epoch = group_epoch;
            let (directories, eligible) = (level.has_directories(), level.has_eligible_leader_replicas());
            Some(MetadataRecord::Partition(elected.to_record(topic.id, number, directories, eligible)))
        }));
        Decision { records, reply: broker_epoch }
    }

    /// What an orderly stop writes: the node leaves, hands its partitions to nobody but stays eligible for them, and is
    /// fenced. Nothing when it is not registered.
    pub fn stop_node(&self, node: NodeId) -> Decision<()> {
        let Some(broker) = self.image.broker(node.0) else { return Decision { records: Vec::new(), reply: () } };
        let change = |fenced, in_controlled_shutdown| BrokerRegistrationChangeRecord {
            broker_id: node.0,
            broker_epoch: broker.epoch(),
            fenced,
            in_controlled_shutdown,
            log_dirs: Vec::new(),
            cordoned_log_dirs: None,
        };
        let eligible = self.image.has_eligible_leader_replicas();
        let mut records = vec![change(0, 1).into()];
        let in_sync = self.partitions_of(node).filter(|(_, _, partition)| partition.isr.contains(&node.0));
        records.extend(in_sync.map(|(topic, number, partition)| {
            MetadataRecord::PartitionChange(resign(node.0, eligible, topic.id, number, partition))
        }));
        records.push(change(1, 0).into());
        Decision { records, reply: () }
    }

    fn partitions_of(&self, node: NodeId) -> impl Iterator<Item = (&TopicImage, i32, &PartitionImage)> {
        let all = self.image.topics().flat_map(|topic| {
            topic.partitions.iter().map(move |(number, partition)| (topic.as_ref(), *number, partition))
        });
        all.filter(move |(_, _, partition)| partition.replicas.contains(&node.0))
    }
}

fn unchanged(topic_id: TopicId, partition_id: i32) -> PartitionChangeRecord {
    PartitionChangeRecord { topic_id, partition_id, ..PartitionChangeRecord::default() }
}

fn elect(
    node: i32,
    directory: Option<TopicId>,
    topic_id: TopicId,
    number: i32,
    partition: &PartitionImage,
) -> Option<PartitionChangeRecord> {
    let PartitionImage { isr, eligible_leader_replicas, last_known_eligible, .. } = partition;
    let nobody_knows = isr.is_empty() && eligible_leader_replicas.is_empty() && last_known_eligible.is_empty();
    let may_lead = isr.contains(&node)
        || eligible_leader_replicas.contains(&node)
        || (isr.is_empty() && last_known_eligible.contains(&node))
        || (nobody_knows && partition.replicas == [node]);
    if !may_lead {
        return None;
    }
    let emptied = |list: &Vec<i32>| (!list.is_empty()).then(Vec::new);
    let mut change = PartitionChangeRecord {
        leader: node,
        // Others are gone until they register again; waiting for them would stop every acks=all.
        isr: (*isr != [node]).then(|| vec![node]),
        eligible_leader_replicas: emptied(eligible_leader_replicas),
        last_known_elr: emptied(last_known_eligible),
        ..unchanged(topic_id, number)
    };
    if partition.leader_recovery_state != 0 {
        // The log was recovered before the node registered.
        change.leader_recovery_state = 0;
    }
    let place = partition.replicas.iter().position(|replica| *replica == node);
    if let (Some(directory), Some(place)) = (directory, place)
        && partition.directories.get(place) != Some(&directory)
    {
        let mut directories = partition.directories.clone();
        if let Some(slot) = directories.get_mut(place) {
            *slot = directory;
            change.directories = Some(directories);
        }
    }
    Some(change)
}

fn resign(
    node: i32,
    eligible: bool,
    topic_id: TopicId,
    number: i32,
    partition: &PartitionImage,
) -> PartitionChangeRecord {
    let mut change = unchanged(topic_id, number);
    if partition.leader == node {
        change.leader = NO_LEADER;
    }
    let rest: Vec<i32> = partition.isr.iter().copied().filter(|replica| *replica != node).collect();
    if !rest.is_empty() {
        change.isr = Some(rest);
    } else if eligible {
        let mut known = partition.eligible_leader_replicas.clone();
        if !known.contains(&node) {
            known.push(node);
        }
        change.isr = Some(Vec::new());
        change.eligible_leader_replicas = Some(known);
        change.last_known_elr = Some(vec![node]);
    }
    // Without eligible replicas the last member stays in the in-sync set: it may lead next.
    change
}

fn register_controller(start: &NodeStart) -> RegisterControllerRecord<'static> {
    let endpoint = |address: &NodeAddress| ControllerEndpoint {
        name: Cow::Owned(address.name.clone()),
        host: Cow::Owned(address.host.clone()),
        port: address.port,
        security_protocol: address.security_protocol,
    };
    RegisterControllerRecord {
        controller_id: start.node.0,
        incarnation_id: start.incarnation,
        zk_migration_ready: false,
        end_points: start.controller_addresses.iter().map(endpoint).collect(),
        features: KAFKA_FEATURES
            .iter()
            .map(|feature| ControllerFeature {
                name: Cow::Borrowed(feature.name),
                min_supported_version: feature.min,
                max_supported_version: feature.max,
            })
            .collect(),
    }
}

fn register_broker(start: &NodeStart, broker_epoch: i64, with_directories: bool) -> RegisterBrokerRecord<'static> {
    let endpoint = |address: &NodeAddress| BrokerEndpoint {
        name: Cow::Owned(address.name.clone()),
        host: Cow::Owned(address.host.clone()),
        port: address.port,
        security_protocol: address.security_protocol,
    };
    RegisterBrokerRecord {
        broker_id: start.node.0,
        incarnation_id: start.incarnation,
        broker_epoch,
        end_points: start.addresses.iter().map(endpoint).collect(),
        features: KAFKA_FEATURES
            .iter()
            .map(|feature| BrokerFeature {
                name: Cow::Borrowed(feature.name),
                min_supported_version: feature.min,
                max_supported_version: feature.max,
            })
            .collect(),
        rack: start.rack.clone().map(Cow::Owned),
        fenced: true,
        log_dirs: if with_directories { vec![start.directory] } else { Vec::new() },
        ..RegisterBrokerRecord::default()
    }
}

#[cfg(test)]
#[path = "lifecycle_tests.rs"]
mod tests;
