//! The records of a real Kafka 4.4: read, written back byte for byte, and its groups of other kinds (KIP-848).

use mainstem_coordinator::{AppendFailure, GroupConfig, GroupError, GroupShard, GroupType, OffsetsRecord, RecordError};
use mainstem_types::{Offset, TopicId};

use crate::bed::{Bed, Join, LogEntry};

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|i| u8::from_str_radix(&text[i..i + 2], 16).unwrap()).collect()
}

/// Offset, key, value.
fn kafka_log() -> Vec<(i64, Vec<u8>, Option<Vec<u8>>)> {
    let lines = include_str!("../data/kafka-4.4-consumer-offsets.txt").lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let fields: Vec<&str> = line.split(' ').collect();
            let value = (fields[2] != "-").then(|| unhex(fields[2]));
            (fields[0].parse().unwrap(), unhex(fields[1]), value)
        })
        .collect()
}

fn kafka_bed() -> Bed {
    let mut bed = Bed::new();
    bed.log = kafka_log().into_iter().map(|(_, key, value)| LogEntry::Record { producer: None, key, value }).collect();
    bed.restart();
    bed
}

fn listed(bed: &Bed) -> Vec<(String, &'static str, &'static str)> {
    let groups = bed.shard.list_groups(&[], &[]).unwrap();
    groups.iter().map(|g| (g.group_id.to_string(), g.group_type.name(), g.state.name())).collect()
}

#[test]
fn the_groups_and_offsets_of_a_kafka_are_there() {
    let bed = kafka_bed();
    let expected = [
        ("g-848", "consumer", "Empty"),
        ("g-848-live", "consumer", "Stable"),
        ("g-classic", "classic", "Empty"),
        ("g-share", "share", "Stable"),
        ("g-static", "classic", "Stable"),
    ];
    assert_eq!(listed(&bed), expected.map(|(name, kind, state)| (name.to_owned(), kind, state)));
    for (group, offsets) in [("g-classic", [0, 5]), ("g-static", [0, 5]), ("g-848", [0, 5]), ("g-848-live", [0, 10])] {
        let topics = bed.fetch_all(group);
        assert_eq!(&*topics[0].name, "orders");
        let found: Vec<i64> = topics[0].partitions.iter().map(|partition| partition.offset.0).collect();
        assert_eq!(found, offsets, "{group}");
    }
    let group = bed.shard.describe_group("g-static").unwrap();
    assert_eq!(group.members[0].instance_id.as_deref(), Some("inst-1"));
    assert_eq!(&*group.members[0].client_host, "/127.0.0.1");
}

/// Commits and generations go through the state machine, as records of ours, and come out as Kafka wrote them.
#[test]
fn records_are_written_as_kafka_writes_them() {
    let mut compared = 0;
    for (_, key, value) in kafka_log() {
        let mut shard = GroupShard::new(GroupConfig::default());
        shard.replay(Offset(0), None, &key, value.as_deref()).unwrap();
        if let Some(record) = OffsetsRecord::decode(&key, value.as_deref()).unwrap() {
            assert_eq!(record.encode_key().unwrap(), key);
            assert_eq!(record.encode_value().unwrap(), value);
            compared += 1;
        }
    }
    assert_eq!(compared, 13, "8 commits, 5 generations");
    let topic_ids: Vec<TopicId> = kafka_log()
        .iter()
        .filter_map(|(_, key, value)| match OffsetsRecord::decode(key, value.as_deref()).unwrap() {
            Some(OffsetsRecord::OffsetCommit { value: Some(value), .. }) => Some(value.topic_id),
            _ => None,
        })
        .collect();
    assert!(topic_ids.iter().all(|id| id.to_string() == "_kmOUztyRyWWspz86O7xxQ"), "{topic_ids:?}");
}

#[test]
fn an_empty_group_of_kip_848_is_taken_over_by_a_classic_member() {
    let mut bed = kafka_bed();
    let token = bed.join(&Join { group: "g-848".into(), ..Join::default() });
    assert!(bed.is_parked(token));
    bed.pass_ms(3_000);
    assert_eq!(bed.joined(token).unwrap().generation, 1);
    assert_eq!(bed.fetch_all("g-848")[0].partitions[1].offset, Offset(5), "its offsets stay");
    bed.restart();
    assert!(listed(&bed).contains(&("g-848".into(), "classic", "Empty")), "{:?}", listed(&bed));
    assert_eq!(bed.fetch_all("g-848")[0].partitions[1].offset, Offset(5));
}

#[test]
fn a_group_of_kip_848_whose_takeover_is_not_stored_is_as_before() {
    let mut bed = kafka_bed();
    let before = listed(&bed);
    bed.fail_next_append = Some(AppendFailure::NotReplicated);
    let join = Join { group: "g-848".into(), ..Join::default() };
    assert_eq!(bed.join_now(&join), Err(GroupError::CoordinatorNotAvailable));
    assert_eq!(listed(&bed), before);
}

#[test]
fn groups_of_other_kinds_with_members_refuse_classic_members_until_the_sessions_end() {
    let mut bed = kafka_bed();
    let join = |group: &str| Join { group: group.into(), ..Join::default() };
    for group in ["g-848-live", "g-share"] {
        assert_eq!(bed.join_now(&join(group)), Err(GroupError::InconsistentGroupProtocol));
        assert_eq!(bed.shard.describe_group(group), Err(GroupError::GroupIdNotFound));
    }
    bed.fail_next_append = Some(AppendFailure::NotReplicated);
    bed.pass_ms(45_000);
    bed.pass_ms(45_000);
    assert!(listed(&bed).contains(&("g-848-live".into(), "consumer", "Empty")), "at the second attempt");
    let token = bed.join(&join("g-848-live"));
    assert!(bed.is_parked(token));
    assert_eq!(bed.join_now(&join("g-share")), Err(GroupError::InconsistentGroupProtocol), "a share group stays one");
    bed.restart();
    assert!(listed(&bed).contains(&("g-848-live".into(), "classic", "Empty")));
}

#[test]
fn the_tombstones_of_a_group_of_kip_848_come_in_the_order_that_kafka_accepts() {
    let mut bed = kafka_bed();
    let before = bed.log.len();
    bed.pass_ms(45_000);
    bed.join(&Join { group: "g-848-live".into(), ..Join::default() });
    let kinds: Vec<i16> = bed.log[before..]
        .iter()
        .filter_map(|entry| match entry {
            LogEntry::Record { key, .. } if key.windows(10).any(|w| w == b"g-848-live") => {
                Some(i16::from_be_bytes([key[0], key[1]]))
            }
            _ => None,
        })
        .collect();
    // The member: current assignment, target assignment, membership. Then the group, then the new classic group.
    assert_eq!(kinds, [8, 7, 5, 6, 3, 2]);
}

#[test]
fn commits_to_groups_of_other_kinds_follow_their_rules() {
    let mut bed = kafka_bed();
    let mut commit = |group: &'static str, generation: i32| {
        bed.commit_with(1, |request| {
            request.group_id = group;
            request.generation = generation;
        })
        .map(|_| ())
    };
    assert_eq!(commit("g-848", -1), Ok(()));
    assert_eq!(commit("g-848", 3), Err(GroupError::UnknownMemberId));
    assert_eq!(commit("g-848-live", -1), Err(GroupError::UnknownMemberId));
    assert_eq!(commit("g-share", -1), Err(GroupError::GroupIdNotFound));
}

#[test]
fn offsets_of_an_empty_group_of_kip_848_expire_and_the_group_goes() {
    let mut bed = kafka_bed();
    bed.pass_ms(8_000 * 24 * 3_600_000);
    assert_eq!(listed(&bed), [("g-share".to_owned(), "share", "Empty")]);
    bed.restart();
    assert_eq!(listed(&bed), [("g-share".to_owned(), "share", "Empty")]);
}

#[test]
fn records_of_unknown_kinds_are_skipped_and_malformed_ones_are_reported() {
    let mut shard = GroupShard::new(GroupConfig::default());
    assert_eq!(shard.replay(Offset(4), None, &[0, 99, 1, 2, 3], Some(&[0, 0])), Ok(()));
    assert_eq!(shard.applied(), Some(Offset(4)));
    assert!(matches!(shard.replay(Offset(5), None, &[0], None), Err(RecordError::Key { .. })));
    assert!(matches!(shard.replay(Offset(5), None, &[0, 2, 0, 9], None), Err(RecordError::Key { .. })));
    let key = b"\x00\x02\x00\x01g";
    assert!(matches!(shard.replay(Offset(5), None, key, Some(&[0, 3, 0])), Err(RecordError::Value { .. })));
    let newer = shard.replay(Offset(5), None, key, Some(&[0, 9, 0]));
    assert_eq!(newer, Err(RecordError::ValueVersion { group: "g".into(), version: 9, max: 4 }));
    assert_eq!(shard.applied(), Some(Offset(4)));
}

#[test]
fn legacy_commits_of_key_version_0_are_read() {
    let mut shard = GroupShard::new(GroupConfig::default());
    let key = b"\x00\x00\x00\x01g\x00\x01t\x00\x00\x00\x02";
    let value = [&[0, 0][..], &9i64.to_be_bytes(), &[0, 1, b'm'], &1i64.to_be_bytes()].concat();
    shard.replay(Offset(0), None, key, Some(&value)).unwrap();
    shard.committed(Offset(1));
    let mut bed = Bed::new();
    bed.shard = shard;
    let outcome = bed.shard.loaded(bed.now());
    bed.run(outcome);
    assert_eq!(bed.fetch_all("g")[0].partitions[0].offset, Offset(9));
    assert_eq!(bed.shard.list_groups(&[], &[]).unwrap()[0].group_type, GroupType::Classic);
}
