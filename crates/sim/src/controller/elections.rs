//! Kafka's rules of registration, fencing, election and in-sync sets (without eligible leader replicas).

use mainstem_kafka_wire::metadata_records::{
    BrokerRegistrationChangeRecord, MetadataRecord, PartitionChangeRecord, RegisterBrokerRecord,
};
use mainstem_metadata::image::{NO_LEADER, PartitionImage};
use mainstem_types::{Offset, TopicId};

use super::ControllerProcess;
use crate::Mutation;
use crate::broker::Out;
use crate::message::{Address, AlterPartition, AlterRefusal, Message};
use crate::stored::Checked;

/// "As it is" in a PartitionChange record.
const LEADER_UNCHANGED: i32 = -2;

impl ControllerProcess {
    /// A broker that starts. Its former incarnation leaves all in-sync sets in the same batch.
    pub(super) fn register(&mut self, node: i32, incarnation: u64, now_ms: u64, out: &mut Out) -> Checked {
        let id = TopicId(((u128::from(node as u32) << 64) | u128::from(incarnation)).to_be_bytes());
        if let Some(known) = self.controller.image().broker(node) {
            if known.record.incarnation_id == id {
                // The answer was lost (KAFKA-16952).
                let broker_epoch = known.epoch();
                self.heard_ms.insert(node, now_ms);
                out.send(Address::Broker(node), Message::Registered { incarnation, broker_epoch });
                return Ok(());
            }
            if known.record.incarnation_id > id {
                return Ok(());
            }
        }
        let mut records = self.without_in_sync(node);
        let broker_epoch = self.log.log_end().0 + records.len() as i64;
        let record = RegisterBrokerRecord {
            broker_id: node,
            incarnation_id: id,
            broker_epoch,
            rack: None,
            fenced: true,
            log_dirs: vec![TopicId([node as u8; 16])],
            ..RegisterBrokerRecord::default()
        };
        records.push(record.into());
        self.heard_ms.insert(node, now_ms);
        out.notes.push(format!("registers broker {node}, incarnation {incarnation}, epoch {broker_epoch}"));
        self.commit(&records, out)?;
        out.send(Address::Broker(node), Message::Registered { incarnation, broker_epoch });
        Ok(())
    }

    pub(super) fn heartbeat(
        &mut self,
        node: i32,
        broker_epoch: i64,
        metadata_end: Offset,
        now_ms: u64,
        out: &mut Out,
    ) -> Checked {
        let Some(broker) = self.controller.image().broker(node) else { return Ok(()) };
        if broker.epoch() != broker_epoch {
            return Ok(());
        }
        self.heard_ms.insert(node, now_ms);
        // KAFKA-13959: the registration is enough, the log end may run ahead for ever.
        if broker.record.fenced && metadata_end.0 > broker_epoch {
            out.notes.push(format!("unfences broker {node}"));
            let mut records = vec![fence(node, broker_epoch, -1)];
            records.extend(self.electing_with(node));
            self.commit(&records, out)?;
            self.take_producer_ids(node, broker_epoch, out)?;
        }
        Ok(())
    }

    pub(super) fn fencing(&self, node: i32) -> Vec<MetadataRecord<'static>> {
        let epoch = self.controller.image().broker(node).map_or(-1, |broker| broker.epoch());
        let mut records = self.without_in_sync(node);
        records.push(fence(node, epoch, 1));
        records
    }

    fn is_active(&self, node: i32) -> bool {
        self.controller.image().broker(node).is_some_and(|broker| broker.is_active())
    }

    fn partitions(&self) -> Vec<(TopicId, i32, PartitionImage)> {
        let topics = self.controller.image().topics();
        topics
            .flat_map(|topic| topic.partitions.iter().map(|(number, image)| (topic.id, *number, image.clone())))
            .collect()
    }

    /// The broker leaves the in-sync sets, except where it is the last member, and leads nothing any more.
    fn without_in_sync(&self, node: i32) -> Vec<MetadataRecord<'static>> {
        let mut records = Vec::new();
        for (topic_id, partition_id, image) in self.partitions() {
            if !image.isr.contains(&node) {
                continue;
            }
            let rest: Vec<i32> = image.isr.iter().copied().filter(|member| *member != node).collect();
            let in_sync = if rest.is_empty() { image.isr.clone() } else { rest };
            let leader = self.elect(&image, &in_sync, Some(node));
            records.extend(self.change(topic_id, partition_id, &image, in_sync, leader));
        }
        records
    }

    /// Partitions without a leader that this broker can lead, now that it is active.
    fn electing_with(&self, node: i32) -> Vec<MetadataRecord<'static>> {
        let mut records = Vec::new();
        for (topic_id, partition_id, image) in self.partitions() {
            let unclean = self.is_mutated(Mutation::UncleanElection) && image.replicas.contains(&node);
            if image.leader == NO_LEADER && (image.isr.contains(&node) || unclean) {
                let in_sync = if image.isr.contains(&node) { image.isr.clone() } else { vec![node] };
                records.extend(self.change(topic_id, partition_id, &image, in_sync, node));
            }
        }
        records
    }

    /// The leader if it may stay, else the first replica that is in sync and active.
    fn elect(&self, image: &PartitionImage, in_sync: &[i32], leaving: Option<i32>) -> i32 {
        let valid = |node: &i32| in_sync.contains(node) && Some(*node) != leaving && self.is_active(*node);
        if image.leader != NO_LEADER && valid(&image.leader) {
            return image.leader;
        }
        if let Some(found) = image.replicas.iter().copied().find(valid) {
            return found;
        }
        if self.is_mutated(Mutation::UncleanElection) {
            let any = |node: &i32| Some(*node) != leaving && self.is_active(*node);
            return image.replicas.iter().copied().find(any).unwrap_or(NO_LEADER);
        }
        NO_LEADER
    }

    fn change(
        &self,
        topic_id: TopicId,
        partition_id: i32,
        image: &PartitionImage,
        in_sync: Vec<i32>,
        leader: i32,
    ) -> Option<MetadataRecord<'static>> {
        let mut record = PartitionChangeRecord { topic_id, partition_id, ..PartitionChangeRecord::default() };
        record.leader = if leader == image.leader { LEADER_UNCHANGED } else { leader };
        let in_sync = if leader >= 0 && !in_sync.contains(&leader) { vec![leader] } else { in_sync };
        record.isr = (in_sync != image.isr).then_some(in_sync);
        (record.leader != LEADER_UNCHANGED || record.isr.is_some()).then(|| record.into())
    }

    /// AlterPartition, checked in Kafka's order.
    pub(super) fn alter(&mut self, node: i32, alter: &AlterPartition, out: &mut Out) -> Checked {
        let refused = |refusal| Message::AlterRefused {
            partition: alter.partition.clone(),
            partition_epoch: alter.partition_epoch,
            refusal,
        };
        let image = self.controller.image();
        let registered = |node: i32| image.broker(node).map(|broker| broker.epoch());
        let topic_id = image.topic_id(&alter.partition.topic);
        let partition =
            topic_id.and_then(|id| image.partition(id, alter.partition.partition.0).map(|found| (id, found)));
        let Some((topic_id, partition)) = partition else { return Ok(()) };
        let current = registered(node) == Some(alter.broker_epoch)
            && partition.leader == node
            && partition.leader_epoch == alter.leader_epoch.0
            && partition.partition_epoch == alter.partition_epoch;
        let members: Vec<i32> = alter.in_sync.iter().map(|(member, _)| *member).collect();
        let is_subset = members.iter().all(|member| partition.replicas.contains(member)) && members.contains(&node);
        if !current || !is_subset {
            out.send(Address::Broker(node), refused(AlterRefusal::Stale));
            return Ok(());
        }
        let any_incarnation = self.is_mutated(Mutation::OldIncarnationCounts);
        let eligible = |(member, epoch): &(i32, i64)| {
            self.is_active(*member) && (any_incarnation || *epoch == -1 || registered(*member) == Some(*epoch))
        };
        if !alter.in_sync.iter().all(eligible) {
            out.send(Address::Broker(node), refused(AlterRefusal::Ineligible));
            return Ok(());
        }
        let partition = partition.clone();
        let number = alter.partition.partition.0;
        out.notes.push(format!("{}: in-sync set {members:?}", alter.partition));
        let record = self.change(topic_id, number, &partition, members, partition.leader);
        self.commit(&record.into_iter().collect::<Vec<_>>(), out)
    }
}

/// `fenced` is 1 or -1.
fn fence(broker_id: i32, broker_epoch: i64, fenced: i8) -> MetadataRecord<'static> {
    let record = BrokerRegistrationChangeRecord {
        broker_id,
        broker_epoch,
        fenced,
        in_controlled_shutdown: 0,
        log_dirs: Vec::new(),
        cordoned_log_dirs: None,
    };
    record.into()
}
