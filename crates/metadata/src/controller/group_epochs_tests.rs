use std::collections::BTreeSet;

use mainstem_kafka_wire::metadata_records::{MetadataRecord, PartitionChangeRecord};
use mainstem_types::{NodeId, TopicId};

use super::super::test_support::{apply, broker, running, start, topic};
use super::super::{DeletedTopic, NewPartitions, NewTopic, TopicRef};
use super::*;

fn create(controller: &mut Controller, name: &str, layout: &str, id: u8) {
    let configs = vec![(LAYOUT.to_owned(), Some(layout.to_owned()))];
    let wanted = NewTopic { configs, partitions: 2, ..topic(name) };
    let records = controller.create_topics(&[wanted], false, &broker(&[]), &mut || TopicId([id; 16])).records;
    apply(controller, &records);
}

fn delete(controller: &mut Controller, name: &str) {
    let decision = controller.delete_topics(&[TopicRef::Name(name.to_owned())], &broker(&[]));
    assert!(matches!(decision.reply[0], Ok(DeletedTopic { .. })));
    apply(controller, &decision.records);
}

fn epochs(controller: &Controller, name: &str) -> Vec<i32> {
    controller.image().topic(name).unwrap().partitions.values().map(|partition| partition.leader_epoch).collect()
}

/// Of all partitions in groups.
fn agreed(controller: &Controller) -> i32 {
    let all: BTreeSet<i32> = controller.partitions_in_groups().map(|partition| partition.leader_epoch).collect();
    assert_eq!(all.len(), 1, "{all:?}");
    *all.first().unwrap()
}

#[test]
fn all_partitions_in_groups_have_the_broker_epoch_of_their_leader() {
    let mut controller = running();
    create(&mut controller, "a", "shared", 1);
    create(&mut controller, "own", "partition", 2);
    assert_eq!((agreed(&controller), epochs(&controller, "own")), (10, vec![0, 0]));
    let broker_epoch = start(&mut controller, 2);
    assert_eq!((i64::from(agreed(&controller)), epochs(&controller, "own")), (broker_epoch, vec![1, 1]));
    create(&mut controller, "b", "topic", 3);
    let more = NewPartitions { topic: "a".to_owned(), count: 3, assignments: None };
    let records = controller.create_partitions(&[more], false).records;
    apply(&mut controller, &records);
    assert_eq!((i64::from(agreed(&controller)), epochs(&controller, "a").len()), (broker_epoch, 3));
    let stop = controller.stop_node(NodeId(1)).records;
    apply(&mut controller, &stop);
    assert_eq!(i64::from(agreed(&controller)), broker_epoch + 1, "an orderly stop is a change, too");
    let again = start(&mut controller, 3);
    assert_eq!(i64::from(agreed(&controller)), again);
    let partition = controller.image().topic("a").unwrap().partitions[&0].clone();
    assert_eq!((partition.leader, &partition.isr, &partition.replicas), (1, &vec![1], &vec![1]));
    assert!(partition.eligible_leader_replicas.is_empty() && partition.partition_epoch > 2);
}

#[test]
fn the_epoch_of_groups_does_not_go_back_when_all_their_topics_are_deleted() {
    let mut controller = running();
    create(&mut controller, "a", "shared", 1);
    for incarnation in 2..5 {
        start(&mut controller, incarnation);
    }
    let before = agreed(&controller);
    delete(&mut controller, "a");
    create(&mut controller, "b", "shared", 2);
    assert_eq!(agreed(&controller), before);
    delete(&mut controller, "b");
    start(&mut controller, 5);
    create(&mut controller, "c", "shared", 3);
    assert!(agreed(&controller) > before);
}

#[test]
fn partitions_of_an_older_folder_agree_after_the_next_start() {
    let mut controller = running();
    create(&mut controller, "a", "shared", 1);
    create(&mut controller, "b", "shared", 2);
    let id = controller.image().topic_id("b").unwrap();
    // As when each counted its own elections, and far above the offsets of this short log.
    let change = PartitionChangeRecord { topic_id: id, partition_id: 1, leader: 1, ..Default::default() };
    let changes: Vec<MetadataRecord<'static>> = (0..200).map(|_| change.clone().into()).collect();
    apply(&mut controller, &changes);
    let highest = epochs(&controller, "b")[1];
    start(&mut controller, 2);
    assert!(agreed(&controller) > highest);
}

#[test]
fn a_partition_that_others_may_have_more_of_keeps_its_epoch() {
    let mut controller = running();
    create(&mut controller, "a", "shared", 1);
    let topic_id = controller.image().topic_id("a").unwrap();
    let (replicas, isr) = (Some(vec![1, 2]), Some(vec![2]));
    let change = PartitionChangeRecord { topic_id, partition_id: 0, replicas, isr, leader: 2, ..Default::default() };
    apply(&mut controller, &[change.into()]);
    let before = epochs(&controller, "a")[0];
    start(&mut controller, 2);
    let partition = &controller.image().topic("a").unwrap().partitions[&0];
    assert_eq!((partition.leader, partition.leader_epoch), (2, before));
}
