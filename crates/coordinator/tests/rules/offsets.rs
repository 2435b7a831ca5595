//! OffsetCommit and OffsetFetch, with offsets of transactions (KIP-447).

use mainstem_coordinator::{
    CommitPartition, CommitTopic, FetchTopic, GroupError, OffsetFetchRequest, OffsetsRecord, partition_for_group,
};
use mainstem_types::{LeaderEpoch, Offset, PartitionIndex, ProducerId, TopicId};

use crate::bed::{Bed, GROUP, Join, LogEntry};

#[test]
fn a_commit_without_group_management_creates_the_group() {
    let mut bed = Bed::new();
    assert_eq!(bed.commit_as("", -1, 42), Ok(()));
    let fetched = bed.fetch(false);
    assert_eq!((fetched.offset, fetched.leader_epoch, &*fetched.metadata), (Offset(42), LeaderEpoch(7), "note"));
    assert_eq!(bed.state(), "Empty");
    bed.restart();
    assert_eq!(bed.fetch(false), fetched);
    assert_eq!(bed.state(), "Empty");
}

#[test]
fn a_commit_without_generation_is_refused_while_the_group_has_members() {
    let mut bed = Bed::new();
    let (ids, _) = bed.stable_group(1);
    assert_eq!(bed.commit_as("", -1, 1), Err(GroupError::UnknownMemberId));
    bed.leave(&[(&ids[0], None)]);
    assert_eq!(bed.commit_as("", -1, 1), Ok(()));
}

#[test]
fn a_commit_of_another_generation_or_an_unknown_member_is_refused() {
    let mut bed = Bed::new();
    let (ids, generation) = bed.stable_group(1);
    assert_eq!(bed.commit_as(&ids[0], generation, 1), Ok(()));
    assert_eq!(bed.commit_as(&ids[0], generation - 1, 1), Err(GroupError::IllegalGeneration));
    assert_eq!(bed.commit_as(&ids[0], -1, 1), Err(GroupError::IllegalGeneration));
    assert_eq!(bed.commit_as("stranger", generation, 1), Err(GroupError::UnknownMemberId));
}

#[test]
fn a_commit_between_join_and_sync_is_told_that_the_group_rebalances() {
    let mut bed = Bed::new();
    let token = bed.join(&Join::default());
    bed.pass_ms(3_000);
    let joined = bed.joined(token).unwrap();
    assert_eq!(bed.commit_as(&joined.member_id, 1, 1), Err(GroupError::RebalanceInProgress));
}

#[test]
fn members_may_commit_while_the_others_join() {
    let mut bed = Bed::new();
    let (ids, generation) = bed.stable_group(2);
    bed.join(&Join::default());
    assert_eq!(bed.state(), "PreparingRebalance");
    assert_eq!(bed.commit_as(&ids[0], generation, 9), Ok(()));
}

#[test]
fn a_commit_with_a_generation_to_a_missing_group_depends_on_the_version() {
    let mut bed = Bed::new();
    for (reports_missing_group, error) in [(false, GroupError::IllegalGeneration), (true, GroupError::GroupIdNotFound)]
    {
        let committed = bed.commit_with(1, |request| {
            request.generation = 1;
            request.member_id = "m";
            request.reports_missing_group = reports_missing_group;
        });
        assert_eq!(committed, Err(error));
    }
    assert!(bed.log.is_empty());
}

#[test]
fn metadata_beyond_4096_units_is_too_large_and_the_other_partitions_are_committed() {
    let mut bed = Bed::new();
    // 4,096 UTF-16 units of three bytes each fit, as in Kafka, which counts units.
    let (fits, too_large) = ("€".repeat(4_096), "a".repeat(4_097));
    let partition = |partition, metadata| CommitPartition {
        partition: PartitionIndex(partition),
        offset: Offset(1),
        leader_epoch: LeaderEpoch::NONE,
        metadata: Some(metadata),
    };
    let partitions =
        vec![partition(0, Box::leak(fits.into_boxed_str())), partition(1, Box::leak(too_large.into_boxed_str()))];
    let topics = bed.commit_with(0, |request| request.topics[0].partitions = partitions).unwrap();
    assert_eq!(topics[0].partitions[0].result, Ok(()));
    assert_eq!(topics[0].partitions[1].result, Err(GroupError::OffsetMetadataTooLarge));
    assert_eq!(bed.log.len(), 1);
}

#[test]
fn a_commit_is_a_sign_of_life() {
    let mut bed = Bed::new();
    let (ids, generation) = bed.stable_group(1);
    for offset in 0..5 {
        bed.pass_ms(9_000);
        assert_eq!(bed.commit_as(&ids[0], generation, offset), Ok(()));
    }
    assert_eq!(bed.heartbeat(&ids[0], generation), Ok(()));
}

#[test]
fn the_empty_group_id_may_commit_and_fetch() {
    let mut bed = Bed::new();
    bed.commit_with(3, |request| request.group_id = "").unwrap();
    assert_eq!(bed.fetch_all("")[0].partitions[0].offset, Offset(3));
}

#[test]
fn without_an_offset_minus_one_and_an_empty_text_come_back_without_an_error() {
    let mut bed = Bed::new();
    for group_exists in [false, true] {
        if group_exists {
            bed.stable_group(1);
        }
        let fetched = bed.fetch(true);
        assert_eq!((fetched.offset, fetched.leader_epoch), (Offset(-1), LeaderEpoch(-1)));
        assert_eq!((&*fetched.metadata, fetched.error), ("", None));
        assert_eq!(bed.fetch_all(GROUP), vec![]);
    }
}

#[test]
fn the_leader_epoch_comes_back_as_committed() {
    let mut bed = Bed::new();
    for epoch in [0, 12, -1] {
        bed.commit_with(1, |request| request.topics[0].partitions[0].leader_epoch = LeaderEpoch(epoch)).unwrap();
        bed.restart();
        assert_eq!(bed.fetch(false).leader_epoch, LeaderEpoch(epoch));
    }
}

#[test]
fn all_offsets_come_back_by_topic_and_partition() {
    let mut bed = Bed::new();
    for (topic, partition) in [("b", 1), ("a", 0), ("b", 0)] {
        bed.commit_with(partition.into(), |request| {
            request.topics[0].name = topic;
            request.topics[0].partitions[0].partition = PartitionIndex(partition);
        })
        .unwrap();
    }
    let found: Vec<(String, Vec<i32>)> = bed
        .fetch_all(GROUP)
        .iter()
        .map(|topic| (topic.name.to_string(), topic.partitions.iter().map(|p| p.partition.0).collect()))
        .collect();
    assert_eq!(found, [("a".to_owned(), vec![0]), ("b".to_owned(), vec![0, 1])]);
}

#[test]
fn an_offset_of_an_earlier_incarnation_of_the_topic_is_not_shown() {
    let mut bed = Bed::new();
    let (old, new) = (TopicId([1; 16]), TopicId([2; 16]));
    bed.commit_with(8, |request| request.topics[0].topic_id = old).unwrap();
    bed.restart();
    let fetch = |topic_id| {
        let topic = FetchTopic { name: "orders", topic_id, partitions: vec![PartitionIndex(0)] };
        let request = OffsetFetchRequest {
            group_id: GROUP,
            member_id: None,
            member_epoch: -1,
            topics: Some(vec![topic]),
            require_stable: false,
        };
        bed.shard.offset_fetch(&request).unwrap()[0].partitions[0].offset
    };
    assert_eq!(fetch(old), Offset(8));
    assert_eq!(fetch(new), Offset(-1));
    assert_eq!(fetch(TopicId::ZERO), Offset(8));
}

/// Puts a commit of `orders-0` into the log as a transaction of `producer` would.
fn commit_in_transaction(bed: &mut Bed, producer: i64, offset: i64) {
    let mut scratch = Bed::new();
    scratch.commit_as("", -1, offset).unwrap();
    let Some(LogEntry::Record { key, value, .. }) = scratch.log.pop() else { panic!("no record") };
    bed.log.push(LogEntry::Record { producer: Some(ProducerId(producer)), key, value });
    bed.restart();
}

fn end_transaction(bed: &mut Bed, producer: i64, committed: bool) {
    bed.log.push(LogEntry::EndTransaction { producer: ProducerId(producer), committed });
    bed.restart();
}

#[test]
fn offsets_of_an_open_transaction_are_pending_until_its_marker() {
    let mut bed = Bed::new();
    bed.commit_as("", -1, 10).unwrap();
    commit_in_transaction(&mut bed, 1, 20);
    assert_eq!(bed.fetch(false).offset, Offset(10));
    let unstable = bed.fetch(true);
    assert_eq!((unstable.offset, unstable.error), (Offset(-1), Some(GroupError::UnstableOffsetCommit)));
    end_transaction(&mut bed, 2, true);
    assert_eq!(bed.fetch(false).offset, Offset(10), "another producer's marker");
    end_transaction(&mut bed, 1, true);
    assert_eq!((bed.fetch(true).offset, bed.fetch(true).error), (Offset(20), None));
}

#[test]
fn offsets_of_an_aborted_transaction_are_never_seen() {
    let mut bed = Bed::new();
    commit_in_transaction(&mut bed, 1, 20);
    end_transaction(&mut bed, 1, false);
    assert_eq!((bed.fetch(true).offset, bed.fetch(true).error), (Offset(-1), None));
    end_transaction(&mut bed, 1, true);
    assert_eq!(bed.fetch(false).offset, Offset(-1));
}

#[test]
fn of_a_transactional_and_a_plain_commit_the_later_record_counts() {
    let mut bed = Bed::new();
    commit_in_transaction(&mut bed, 1, 20);
    bed.commit_as("", -1, 30).unwrap();
    end_transaction(&mut bed, 1, true);
    assert_eq!(bed.fetch(false).offset, Offset(30));
    commit_in_transaction(&mut bed, 2, 40);
    end_transaction(&mut bed, 2, true);
    assert_eq!(bed.fetch(false).offset, Offset(40));
}

#[test]
fn a_tombstone_removes_pending_offsets_too() {
    let mut bed = Bed::new();
    commit_in_transaction(&mut bed, 1, 20);
    let outcomes = bed.shard.topics_deleted(&["orders"]);
    assert_eq!(outcomes.iter().map(|outcome| outcome.records.len()).sum::<usize>(), 1);
    for outcome in outcomes {
        bed.run(outcome);
    }
    assert_eq!(bed.fetch(true).error, None);
    end_transaction(&mut bed, 1, true);
    assert_eq!(bed.fetch(false).offset, Offset(-1));
}

#[test]
fn offsets_of_deleted_topics_go_in_all_groups_and_stay_gone() {
    let mut bed = Bed::new();
    for (group, topic) in [(GROUP, "orders"), (GROUP, "kept"), ("other", "orders")] {
        bed.commit_with(5, |request| {
            request.group_id = group;
            request.topics[0].name = topic;
        })
        .unwrap();
    }
    for outcome in bed.shard.topics_deleted(&["orders", "never-was"]) {
        bed.run(outcome);
    }
    for _ in 0..2 {
        assert_eq!(bed.fetch_all(GROUP).len(), 1);
        assert_eq!(&*bed.fetch_all(GROUP)[0].name, "kept");
        assert_eq!(bed.fetch_all("other"), vec![]);
        bed.restart();
    }
}

#[test]
fn many_tombstones_come_in_parts() {
    let mut bed = Bed::new();
    bed.commit_with(5, |request| {
        let one = request.topics[0].partitions[0];
        let all = (0..2_500).map(|partition| CommitPartition { partition: PartitionIndex(partition), ..one });
        request.topics = vec![CommitTopic { name: "orders", topic_id: TopicId::ZERO, partitions: all.collect() }];
    })
    .unwrap();
    let outcomes = bed.shard.topics_deleted(&["orders"]);
    assert_eq!(outcomes.iter().map(|outcome| outcome.records.len()).collect::<Vec<_>>(), [1_000, 1_000, 500]);
}

#[test]
fn a_group_belongs_to_the_partition_that_kafka_says() {
    // Java: Math.abs("...".hashCode()) % 50; the last one's hash is Integer.MIN_VALUE.
    assert_eq!(partition_for_group("hello", 50), PartitionIndex(22));
    assert_eq!(partition_for_group("", 50), PartitionIndex(0));
    assert_eq!(partition_for_group("polygenelubricants", 50), PartitionIndex(0));
}

#[test]
fn a_commit_with_a_retention_of_its_own_is_written_as_version_1_and_others_as_4() {
    let mut bed = Bed::new();
    bed.commit_with(5, |request| request.retention_ms = Some(1_000)).unwrap();
    bed.commit_as("", -1, 5).unwrap();
    let versions: Vec<Vec<u8>> = bed
        .log
        .iter()
        .map(|entry| match entry {
            LogEntry::Record { value: Some(value), .. } => value[..2].to_vec(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(versions, [[0, 1], [0, 4]]);
}

#[test]
fn a_tombstone_has_a_key_and_no_value() {
    let record =
        OffsetsRecord::OffsetCommit { group: "g".into(), topic: "t".into(), partition: PartitionIndex(3), value: None };
    assert_eq!(record.encode_key().unwrap(), b"\x00\x01\x00\x01g\x00\x01t\x00\x00\x00\x03");
    assert_eq!(record.encode_value().unwrap(), None);
}
