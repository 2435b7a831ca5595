//! Operations as clients do them, noted in the ledger before they are sent and again with their answer.

use std::time::Duration;

use mainstem_coordinator::{
    CommitPartition, CommitTopic, JoinGroupRequest, JoinProtocol, OffsetCommitRequest, SyncGroupRequest,
};
use mainstem_metadata::controller::{
    AlterConfigOp, AlterConfigOperation, ConfigAlteration, CreateTopicError, NewPartitions, NewTopic, TopicRef,
};
use mainstem_metadata::image::ConfigResource;
use mainstem_store::{AppendError, Durability, Origin};
use mainstem_types::{CONSUMER_OFFSETS_TOPIC, LeaderEpoch, Offset, PartitionIndex, ProducerId, TopicId};

use super::ledger::{Acked, Ledger, RecordFact, TopicFacts};
use super::{Node, batch, settled};
use mainstem_env::Clock;

/// A producer with an id, at its next sequence.
#[derive(Debug, Clone)]
pub struct Producer {
    pub id: ProducerId,
    pub sequence: i32,
}

/// A topic to create: name, partitions, settings.
pub type Wanted<'t> = (&'t str, i32, &'t [(&'t str, &'t str)]);

/// A node, what its clients know, and the next value that nobody has sent before.
pub struct Client<'n> {
    pub node: &'n Node,
    pub ledger: Ledger,
    pub next_value: u64,
}

impl<'n> Client<'n> {
    pub fn new(node: &'n Node, ledger: Ledger) -> Client<'n> {
        // Numbers that a ledger holds are below its records' count: an upper bound is enough.
        let used = ledger.partitions.values().map(|p| p.records.len() + p.lost.len()).sum::<usize>() as u64;
        Client { node, next_value: used * 1_000 + 1, ledger }
    }

    pub fn advance(&self, millis: u64) {
        self.node.clock.advance(Duration::from_millis(millis));
    }

    /// Creates topics in one request; true if all of them were acknowledged.
    pub fn create(&mut self, topics: &[Wanted<'_>]) -> bool {
        let wanted = topics.iter().map(|(name, partitions, configs)| NewTopic {
            partitions: *partitions,
            configs: configs.iter().map(|(key, value)| (key.to_string(), Some(value.to_string()))).collect(),
            ..NewTopic::named(*name)
        });
        for (name, partitions, _) in topics {
            self.ledger.tried.entry(name.to_string()).or_default().insert(*partitions);
        }
        let Ok(results) = self.node.wait(self.node.broker.create_topics(wanted.collect(), false)) else { return false };
        let mut all = true;
        for ((name, partitions, configs), result) in topics.iter().zip(&results) {
            let created = match result {
                Ok(created) => created,
                // Its deletion did not get through.
                Err(CreateTopicError::Exists(_)) => {
                    all = false;
                    continue;
                }
                Err(error) => panic!("{name}: {error}"),
            };
            self.ledger.tried.get_mut(*name).expect("noted above").remove(partitions);
            let configs = configs.iter().map(|(key, value)| (key.to_string(), vec![Some(value.to_string())])).collect();
            let partitions = (*partitions, *partitions);
            let facts = TopicFacts { name: name.to_string(), partitions, configs, ..TopicFacts::default() };
            assert!(self.ledger.topics.insert(created.id, facts).is_none(), "topic id {} was given before", created.id);
        }
        all
    }

    pub fn delete(&mut self, names: &[&str]) -> bool {
        let ids: Vec<TopicId> = names.iter().filter_map(|name| self.ledger.topic_named(name)).collect();
        for id in &ids {
            self.ledger.topics.get_mut(id).expect("known").deletion_tried = true;
        }
        for (_, latest) in self.ledger.commits.iter_mut().filter(|((_, topic, _), _)| names.contains(&topic.as_str())) {
            // Offsets go with their topic.
            latest.release();
        }
        let wanted = ids.iter().map(|id| TopicRef::Id(*id)).collect();
        let Ok(results) = self.node.wait(self.node.broker.delete_topics(wanted)) else { return false };
        for (id, result) in ids.iter().zip(results) {
            result.expect("a topic that exists");
            self.ledger.topics.get_mut(id).expect("known").deletion = Acked::Disk;
        }
        true
    }

    pub fn create_partitions(&mut self, name: &str, count: i32) -> bool {
        let Some(id) = self.ledger.topic_named(name) else { return false };
        self.ledger.topics.get_mut(&id).expect("known").partitions.1 = count;
        let wanted = vec![NewPartitions { topic: name.to_owned(), count, assignments: None }];
        let Ok(results) = self.node.wait(self.node.broker.create_partitions(wanted, false)) else { return false };
        assert!(results.iter().all(Result::is_ok), "{results:?}");
        self.ledger.topics.get_mut(&id).expect("known").partitions.0 = count;
        true
    }

    pub fn alter(&mut self, name: &str, key: &str, value: &str) -> bool {
        let Some(id) = self.ledger.topic_named(name) else { return false };
        let known = self.ledger.topics.get_mut(&id).expect("known").configs.entry(key.to_owned());
        known.or_insert_with(|| vec![None]).push(Some(value.to_owned()));
        if !self.alter_resource(ConfigResource::topic(name), key, value) {
            return false;
        }
        *self.ledger.topics.get_mut(&id).expect("known").configs.get_mut(key).expect("known") =
            vec![Some(value.to_owned())];
        true
    }

    pub fn alter_resource(&self, resource: ConfigResource, key: &str, value: &str) -> bool {
        let operation = AlterConfigOperation::Set;
        let operations = vec![AlterConfigOp { key: key.to_owned(), operation, value: Some(value.to_owned()) }];
        let change = vec![ConfigAlteration { resource, operations }];
        match self.node.wait(self.node.broker.alter_configs(change, false)) {
            Ok(results) => results.iter().all(Result::is_ok) || panic!("{results:?}"),
            Err(_) => false,
        }
    }

    /// Sends one batch of new values; true if it was acknowledged.
    pub fn produce(&mut self, name: &str, index: i32, records: usize) -> bool {
        let values: Vec<String> = (0..records).map(|_| self.value()).collect();
        self.send(name, index, None, &values)
    }

    /// The same from an idempotent producer. If it is refused, or nobody knows, the values can be sent again with
    /// [`Client::send`].
    pub fn produce_as(&mut self, producer: &mut Producer, name: &str, index: i32, records: usize) -> Vec<String> {
        let values: Vec<String> = (0..records).map(|_| self.value()).collect();
        self.send(name, index, Some((producer.id, 0, producer.sequence)), &values);
        producer.sequence += records as i32;
        values
    }

    pub fn value(&mut self) -> String {
        self.next_value += 1;
        format!("value-{}", self.next_value)
    }

    pub fn send(
        &mut self,
        name: &str,
        index: i32,
        producer: Option<(ProducerId, i16, i32)>,
        values: &[String],
    ) -> bool {
        let Some(id) = self.ledger.topic_named(name) else { return false };
        let now = self.node.clock.wall_ms();
        let Some(partition) = self.node.partition(id, index) else { return false };
        for value in values {
            let known = &mut self.ledger.partition(id, index).records;
            if !known.iter().any(|record| record.value == *value) {
                known.push(RecordFact { value: value.clone(), ..RecordFact::default() });
            }
        }
        let disk = partition.log().config().durability == Durability::Disk;
        let appended = match partition.append(&batch(now, producer, values), Origin::Client, now, true) {
            Ok(appended) => appended,
            Err(AppendError::Storage(_) | AppendError::Closed { .. } | AppendError::DiskFull { .. }) => return false,
            Err(AppendError::NoFolder { .. }) => return false,
            // What was to come before it did not get through.
            Err(AppendError::OutOfOrderSequence { .. }) if producer.is_some() => return false,
            Err(error) => panic!("{name}-{index}: {error}"),
        };
        self.node.flush();
        let acked = match settled(partition.committed(appended.next_offset(), partition.leader_epoch())) {
            false => Acked::No,
            true if disk => Acked::Disk,
            true => Acked::Os,
        };
        for (value, offset) in values.iter().zip(appended.base_offset.0..) {
            let records = &mut self.ledger.partition(id, index).records;
            let fact = records.iter_mut().find(|record| record.value == *value).expect("noted above");
            assert!(fact.offset.is_none_or(|known| known == offset), "{value} has two offsets: {fact:?}, {offset}");
            fact.offset = Some(offset);
            fact.acked = fact.acked.max(acked);
        }
        acked != Acked::No
    }

    /// As DeleteRecords does it: durable when it returns true.
    pub fn delete_records(&mut self, name: &str, index: i32, before: i64) -> bool {
        let Some(id) = self.ledger.topic_named(name) else { return false };
        let Some(partition) = self.node.partition(id, index) else { return false };
        let facts = &mut self.ledger.partition(id, index).log_start;
        facts.1 = facts.1.max(before);
        let raised = partition.log().raise_log_start(Offset(before), partition.high_watermark());
        let durable = raised.is_ok() && self.node.broker.write_checkpoints().is_ok();
        if durable {
            self.ledger.partition(id, index).log_start.0 = before;
        }
        durable
    }

    /// Lets retention go over everything. What it removed is durable if the disk goes on.
    pub fn retention(&mut self) {
        let live: Vec<_> = self.ledger.partitions.keys().copied().collect();
        for key in &live {
            if let Some(partition) = self.node.partition(key.0, key.1) {
                let end = partition.log().log_end().0;
                let known = &mut self.ledger.partition(key.0, key.1).log_start;
                known.1 = known.1.max(end);
            }
        }
        let faults = self.node.fs.faults_met();
        self.node.broker.apply_retention();
        let undisturbed = self.node.fs.faults_met() == faults && !self.node.fs.stopped();
        for (id, index) in live {
            if let Some(partition) = self.node.partition(id, index)
                && undisturbed
                && partition.log().failure().is_none()
            {
                let start = partition.log().log_start().0;
                self.ledger.partition(id, index).log_start = (start, start);
            }
        }
        self.node.broker.remove_due_files();
    }

    pub fn producer(&mut self) -> Option<Producer> {
        let id = self.node.wait(self.node.broker.allocate_producer_id()).ok()?;
        assert!(self.ledger.producer_ids.insert(id.0), "producer id {id:?} was given before");
        Some(Producer { id, sequence: 0 })
    }

    pub fn create_offsets_topic(&mut self) -> bool {
        self.ledger.tried.entry(CONSUMER_OFFSETS_TOPIC.to_owned()).or_default().insert(1);
        let created = self.node.wait(self.node.broker.create_offsets_topic()).is_ok();
        if created {
            self.ledger.tried.remove(CONSUMER_OFFSETS_TOPIC);
            let image = self.node.broker.image();
            let topic = image.topic(CONSUMER_OFFSETS_TOPIC).expect("it was created");
            let facts =
                TopicFacts { name: CONSUMER_OFFSETS_TOPIC.to_owned(), partitions: (1, 1), ..TopicFacts::default() };
            self.ledger.topics.entry(topic.id).or_insert(facts);
        }
        created
    }

    fn groups_level(&self) -> Acked {
        let topics = self.node.broker.topics();
        let partition =
            topics.by_name(CONSUMER_OFFSETS_TOPIC).and_then(|topic| topic.partition(PartitionIndex(0)).cloned());
        match partition.map(|partition| partition.log().config().durability) {
            Some(Durability::Disk) => Acked::Disk,
            _ => Acked::Os,
        }
    }

    /// Commits an offset from outside of the group's management. `offset` is larger than all before.
    pub fn commit(&mut self, group: &str, topic: &str, index: i32, offset: i64) -> bool {
        let level = self.groups_level();
        let key = (group.to_owned(), topic.to_owned(), index);
        self.ledger.commits.entry(key.clone()).or_default().tried.insert(offset);
        let topic_id = self.ledger.topic_named(topic).unwrap_or(TopicId::ZERO);
        let partition = CommitPartition {
            partition: PartitionIndex(index),
            offset: Offset(offset),
            leader_epoch: LeaderEpoch::NONE,
            metadata: None,
        };
        let request = OffsetCommitRequest {
            group_id: group,
            generation: -1,
            member_id: "",
            instance_id: None,
            retention_ms: None,
            reports_missing_group: false,
            topics: vec![CommitTopic { name: topic, topic_id, partitions: vec![partition] }],
        };
        let answer = self.node.broker.consumer_groups().commit_offsets(&request);
        let acked = match self.node.wait(answer.wait()) {
            Ok(topics) => topics.iter().all(|topic| topic.partitions.iter().all(|partition| partition.result.is_ok())),
            Err(_) => false,
        };
        if acked {
            self.ledger.commits.get_mut(&key).expect("noted above").acknowledge(offset, level);
        }
        acked
    }

    /// A member joins as the only one and is given its assignment.
    pub fn join(&mut self, group: &str) -> bool {
        self.join_with(group, 30_000)
    }

    pub fn join_with(&mut self, group: &str, session_timeout_ms: i32) -> bool {
        let level = self.groups_level();
        let request = JoinGroupRequest {
            group_id: group,
            member_id: "",
            instance_id: Some("static-1"),
            client_id: "test",
            client_host: "/127.0.0.1",
            session_timeout_ms,
            rebalance_timeout_ms: 60_000,
            protocol_type: "consumer",
            protocols: vec![JoinProtocol { name: "range", metadata: b"m" }],
            requires_known_member_id: false,
            supports_skipping_assignment: false,
            member_uuid: self.node.broker.random_bytes(),
        };
        // The member that a start forgot, or this one takes its place.
        self.ledger.members.remove(group);
        let Ok(joined) = self.node.wait(self.node.broker.consumer_groups().join(&request).wait()) else { return false };
        let sync = SyncGroupRequest {
            group_id: group,
            generation: joined.generation,
            member_id: &joined.member_id,
            instance_id: Some("static-1"),
            protocol_type: None,
            protocol_name: None,
            assignments: vec![(&joined.member_id, b"all of it".as_slice())],
        };
        let synced = self.node.wait(self.node.broker.consumer_groups().sync(&sync).wait()).is_ok();
        if synced {
            let member = (joined.member_id.to_string(), joined.generation, level);
            self.ledger.members.insert(group.to_owned(), member);
        }
        synced
    }
}
