use mainstem_types::LeaderEpoch;

use super::super::test_support::{apply, kinds, node, running, start, topic, with_topics};
use super::*;
use crate::image::ImageDelta;

fn partition(controller: &Controller, topic: &str) -> PartitionImage {
    controller.image().topic(topic).unwrap().partitions[&0].clone()
}

#[test]
fn a_node_registers_with_the_offset_of_its_registration_as_epoch_and_is_unfenced() {
    let controller = running();
    let broker = controller.image().broker(1).unwrap();
    assert!(broker.is_active());
    // Nine bootstrap records take offsets 0 to 8, the controller's registration 9.
    assert_eq!(broker.epoch(), 10);
    assert_eq!(kinds(&controller.start_node(&node(2), Offset(20)).records), [27, 0, 17, 17]);
    assert_eq!(controller.start_node(&node(2), Offset(20)).reply, 21);
}

#[test]
fn an_orderly_stop_leaves_what_kafka_leaves_and_the_next_start_leads_again() {
    let mut controller = with_topics(&["a"]);
    let stop = controller.stop_node(NodeId(1)).records;
    assert_eq!(kinds(&stop), [17, 5, 17]);
    let MetadataRecord::PartitionChange(change) = &stop[1] else { panic!("{stop:?}") };
    assert_eq!((change.leader, change.isr.clone()), (NO_LEADER, Some(vec![])));
    assert_eq!(
        (change.eligible_leader_replicas.clone(), change.last_known_elr.clone()),
        (Some(vec![1]), Some(vec![1]))
    );
    apply(&mut controller, &stop);
    assert!(!controller.image().broker(1).unwrap().is_active());

    start(&mut controller, 2);
    let after = partition(&controller, "a");
    assert_eq!((after.leader, after.isr), (1, vec![1]));
    // Created with 0; the resignation and the election each name a leader.
    assert_eq!((after.leader_epoch, after.partition_epoch), (2, 2));
    assert!(after.eligible_leader_replicas.is_empty() && after.last_known_eligible.is_empty());
    assert!(controller.image().broker(1).unwrap().is_active());
}

#[test]
fn after_a_crash_the_node_is_elected_again_with_the_next_leader_epoch() {
    let mut controller = with_topics(&["a", "b"]);
    let mut delta = ImageDelta::default();
    let decision = controller.start_node(&node(2), controller.image().offset.plus(1));
    assert_eq!(kinds(&decision.records), [27, 0, 17, 17, 5, 5]);
    for record in &decision.records {
        let offset = controller.image().offset.plus(1);
        controller.replay(record, offset, LeaderEpoch(2), &mut delta).unwrap();
    }
    assert_eq!(partition(&controller, "b").leader_epoch, 1);
    assert_eq!((delta.partitions_changed.len(), delta.topics_created.len()), (2, 0));
}

#[test]
fn without_eligible_replicas_the_last_in_sync_member_stays_known() {
    let mut controller = with_topics(&["a"]);
    let level = mainstem_kafka_wire::metadata_records::FeatureLevelRecord {
        name: "metadata.version".into(),
        feature_level: 20,
    };
    apply(&mut controller, &[level.into()]);
    let stop = controller.stop_node(NodeId(1)).records;
    let MetadataRecord::PartitionChange(change) = &stop[1] else { panic!("{stop:?}") };
    assert_eq!((change.leader, &change.isr, &change.eligible_leader_replicas), (NO_LEADER, &None, &None));
    apply(&mut controller, &stop);
    start(&mut controller, 2);
    assert_eq!(partition(&controller, "a").leader, 1);
}

#[test]
fn a_partition_that_others_may_have_more_of_stays_without_a_leader() {
    let mut controller = with_topics(&["a"]);
    let id = controller.image().topic_id("a").unwrap();
    let replicas =
        PartitionChangeRecord { replicas: Some(vec![1, 2]), isr: Some(vec![2]), leader: 2, ..unchanged(id, 0) };
    apply(&mut controller, &[replicas.into()]);
    start(&mut controller, 2);
    assert_eq!(partition(&controller, "a").leader, 2);
    let gone = PartitionChangeRecord { isr: Some(vec![2, 1]), ..unchanged(id, 0) };
    apply(&mut controller, &[gone.into()]);
    start(&mut controller, 3);
    let after = partition(&controller, "a");
    assert_eq!((after.leader, after.isr), (1, vec![1]));
}

#[test]
fn a_transaction_that_a_crash_left_open_is_aborted_first() {
    let mut controller = running();
    let begin = mainstem_kafka_wire::metadata_records::BeginTransactionRecord { name: None };
    let orphan = mainstem_kafka_wire::metadata_records::TopicRecord { name: "half".into(), topic_id: TopicId([5; 16]) };
    apply(&mut controller, &[begin.into(), orphan.into()]);
    assert!(controller.image().in_transaction());
    let next = controller.image().offset.plus(1);
    let decision = controller.start_node(&node(2), next);
    assert_eq!(kinds(&decision.records), [25, 27, 0, 17, 17]);
    assert_eq!(decision.reply, next.0 + 2);
    apply(&mut controller, &decision.records);
    assert!(controller.image().topic("half").is_none() && !controller.image().in_transaction());
}

#[test]
fn a_folder_under_a_new_directory_id_takes_its_partitions_along() {
    let mut controller = with_topics(&["a"]);
    let moved = NodeStart { directory: TopicId([7; 16]), ..node(2) };
    let records = controller.start_node(&moved, controller.image().offset.plus(1)).records;
    apply(&mut controller, &records);
    assert_eq!(partition(&controller, "a").directories, [TopicId([7; 16])]);
}

#[test]
fn stopping_an_unregistered_node_writes_nothing() {
    assert!(Controller::default().stop_node(NodeId(1)).records.is_empty());
    assert_eq!(topic("a").partitions, -1);
}
