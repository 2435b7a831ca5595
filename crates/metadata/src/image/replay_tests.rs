use std::borrow::Cow;

use mainstem_kafka_wire::metadata_records::{
    AbortTransactionRecord, BeginTransactionRecord, EndTransactionRecord, FeatureLevelRecord, FenceBrokerRecord,
    NoOpRecord, RemoveTopicRecord, UnfenceBrokerRecord, UnregisterBrokerRecord,
};
use proptest::prelude::*;

use super::*;
use crate::image::{DIRECTORY_MIGRATING, DIRECTORY_UNASSIGNED};

const fn id(number: u8) -> TopicId {
    TopicId([number; 16])
}

fn topic(name: &str, number: u8) -> MetadataRecord<'static> {
    TopicRecord { name: Cow::Owned(name.to_string()), topic_id: id(number) }.into()
}

fn partition(topic: u8, number: i32) -> MetadataRecord<'static> {
    PartitionRecord {
        partition_id: number,
        topic_id: id(topic),
        replicas: vec![1],
        isr: vec![1],
        leader: 1,
        leader_epoch: 0,
        partition_epoch: 0,
        ..PartitionRecord::default()
    }
    .into()
}

fn change(topic: u8, number: i32, set: impl FnOnce(&mut PartitionChangeRecord)) -> MetadataRecord<'static> {
    let mut record =
        PartitionChangeRecord { topic_id: id(topic), partition_id: number, ..PartitionChangeRecord::default() };
    set(&mut record);
    record.into()
}

fn config(kind: i8, name: &str, key: &str, value: Option<&str>) -> MetadataRecord<'static> {
    ConfigRecord {
        resource_type: kind,
        resource_name: Cow::Owned(name.to_string()),
        name: Cow::Owned(key.to_string()),
        value: value.map(|value| Cow::Owned(value.to_string())),
    }
    .into()
}

fn apply(image: &mut ClusterImage, records: &[MetadataRecord<'static>]) -> Result<ImageDelta, ReplayError> {
    let mut delta = ImageDelta::default();
    for record in records {
        image.replay(record, image.offset.plus(1), LeaderEpoch(3), &mut delta)?;
    }
    Ok(delta)
}

fn image(records: &[MetadataRecord<'static>]) -> ClusterImage {
    let mut image = ClusterImage::default();
    apply(&mut image, records).unwrap();
    image
}

#[test]
fn a_change_that_names_a_leader_adds_one_to_the_leader_epoch_and_every_change_to_the_partition_epoch() {
    let mut image = image(&[topic("a", 1), partition(1, 0)]);
    let steps: [(MetadataRecord<'static>, (i32, i32, i32)); 4] = [
        (change(1, 0, |c| c.leader = 1), (1, 1, 1)),
        (change(1, 0, |c| c.isr = Some(vec![])), (1, 1, 2)),
        (change(1, 0, |c| c.leader = -1), (-1, 2, 3)),
        (change(1, 0, |c| c.eligible_leader_replicas = Some(vec![1])), (-1, 2, 4)),
    ];
    for (record, expected) in steps {
        let delta = apply(&mut image, &[record]).unwrap();
        let partition = image.partition(id(1), 0).unwrap();
        assert_eq!((partition.leader, partition.leader_epoch, partition.partition_epoch), expected);
        assert!(delta.partitions_changed.contains(&(id(1), PartitionIndex(0))));
    }
    let partition = image.partition(id(1), 0).unwrap();
    assert_eq!((&partition.isr, &partition.eligible_leader_replicas), (&vec![], &vec![1]));
}

#[test]
fn replicas_keep_their_folders_when_the_set_changes() {
    let mut image = image(&[topic("a", 1), partition(1, 0)]);
    assert_eq!(image.partition(id(1), 0).unwrap().directories, [DIRECTORY_MIGRATING]);
    apply(&mut image, &[change(1, 0, |c| c.directories = Some(vec![id(9)]))]).unwrap();
    apply(&mut image, &[change(1, 0, |c| c.replicas = Some(vec![2, 1]))]).unwrap();
    assert_eq!(image.partition(id(1), 0).unwrap().directories, [DIRECTORY_UNASSIGNED, id(9)]);
    apply(&mut image, &[change(1, 0, |c| c.directories = Some(Vec::new()))]).unwrap();
    assert_eq!(image.partition(id(1), 0).unwrap().directories, [DIRECTORY_MIGRATING; 2], "one for each replica");
}

#[test]
fn records_of_a_transaction_become_visible_at_its_end() {
    let begin = || MetadataRecord::from(BeginTransactionRecord { name: None });
    let mut image = ClusterImage::default();
    let delta = apply(&mut image, &[begin(), topic("a", 1), partition(1, 0)]).unwrap();
    assert!(delta.is_empty() && image.topic("a").is_none() && image.in_transaction());
    let delta = apply(&mut image, &[EndTransactionRecord {}.into()]).unwrap();
    assert!(delta.topics_created.contains(&id(1)) && image.topic("a").is_some() && !image.in_transaction());

    apply(&mut image, &[begin(), topic("b", 2), AbortTransactionRecord { reason: None }.into()]).unwrap();
    assert!(image.topic("b").is_none() && !image.in_transaction());

    apply(&mut image, &[begin()]).unwrap();
    assert!(matches!(apply(&mut image, &[begin()]), Err(ReplayError::NestedTransaction { .. })));
    apply(&mut image, &[EndTransactionRecord {}.into()]).unwrap();
    assert!(matches!(apply(&mut image, &[EndTransactionRecord {}.into()]), Err(ReplayError::NoTransaction { .. })));
}

#[test]
fn a_transaction_with_a_bad_record_changes_nothing() {
    let mut image = ClusterImage::default();
    let begin = BeginTransactionRecord { name: None }.into();
    apply(&mut image, &[begin, topic("a", 1), partition(2, 0)]).unwrap();
    let before = image.clone();
    let result = apply(&mut image, &[EndTransactionRecord {}.into()]);
    assert_eq!(result, Err(ReplayError::UnknownTopic { offset: Offset(2), topic_id: id(2) }));
    assert_eq!(image, before);
}

#[test]
fn what_contradicts_the_image_is_refused() {
    let base = [topic("a", 1), partition(1, 0)];
    let offset = Offset(2);
    let cases = [
        (topic("a", 2), ReplayError::TopicExists { offset, name: "a".into(), existing: id(1) }),
        (topic("b", 1), ReplayError::TopicExists { offset, name: "a".into(), existing: id(1) }),
        (partition(7, 0), ReplayError::UnknownTopic { offset, topic_id: id(7) }),
        (change(1, 9, |_| ()), ReplayError::UnknownPartition { offset, topic_id: id(1), partition: 9 }),
        (RemoveTopicRecord { topic_id: id(7) }.into(), ReplayError::UnknownTopic { offset, topic_id: id(7) }),
        (FenceBrokerRecord { id: 1, epoch: 0 }.into(), ReplayError::UnknownBroker { offset, broker_id: 1 }),
    ];
    for (record, error) in cases {
        let mut image = image(&base);
        let before = image.clone();
        assert_eq!(apply(&mut image, &[record]), Err(error));
        assert_eq!(image, before);
    }
    let mut image = image(&base);
    let again = image.replay(&NoOpRecord {}.into(), Offset(1), LeaderEpoch(3), &mut ImageDelta::default());
    assert_eq!(again, Err(ReplayError::Replayed { offset: Offset(1), applied: Offset(1) }));
}

#[test]
fn brokers_are_fenced_by_epoch_and_can_go() {
    let register = RegisterBrokerRecord { broker_id: 4, broker_epoch: 7, ..RegisterBrokerRecord::default() };
    let mut image = image(&[register.into()]);
    assert!(!image.broker(4).unwrap().is_active(), "a registration begins fenced");
    apply(&mut image, &[UnfenceBrokerRecord { id: 4, epoch: 7 }.into()]).unwrap();
    assert_eq!(image.active_brokers().count(), 1);
    let stale = apply(&mut image, &[FenceBrokerRecord { id: 4, epoch: 6 }.into()]);
    assert!(matches!(stale, Err(ReplayError::BrokerEpoch { registered: 7, given: 6, .. })));
    let delta = apply(&mut image, &[FenceBrokerRecord { id: 4, epoch: 7 }.into()]).unwrap();
    assert!(delta.brokers_changed.contains(&4) && image.active_brokers().count() == 0);
    apply(&mut image, &[UnregisterBrokerRecord { broker_id: 4, broker_epoch: 7 }.into()]).unwrap();
    assert_eq!(image.brokers().count(), 0);
}

#[test]
fn a_delta_tells_what_came_and_went() {
    let mut image = image(&[topic("old", 1), partition(1, 0), config(2, "old", "retention.ms", Some("1"))]);
    let remove = |number| MetadataRecord::from(RemoveTopicRecord { topic_id: id(number) });
    let delta = apply(&mut image, &[remove(1), topic("brief", 2), partition(2, 0), remove(2)]).unwrap();
    assert_eq!(delta.topics_deleted, BTreeMap::from([(id(1), "old".to_string())]));
    assert!(delta.topics_created.is_empty() && delta.partitions_changed.is_empty());
    assert!(image.topic_configs("old").is_empty());
}

#[test]
fn readers_keep_the_image_they_took() {
    let mut image = image(&[topic("a", 1), partition(1, 0), config(2, "a", "retention.ms", Some("1"))]);
    let taken = image.clone();
    let untouched = Arc::clone(image.topic("a").unwrap());
    apply(&mut image, &[topic("b", 2), partition(2, 0), config(2, "a", "retention.ms", None)]).unwrap();
    assert_eq!((taken.topic_count(), image.topic_count()), (1, 2));
    assert_eq!((taken.topic_configs("a").len(), image.topic_configs("a").len()), (1, 0));
    assert!(Arc::ptr_eq(&untouched, image.topic("a").unwrap()), "what did not change is shared");
}

#[test]
fn topics_are_listed_by_name_from_a_name_on() {
    let image = image(&[topic("b", 1), topic("a", 2), topic("c", 3)]);
    let names = |from: &str| -> Vec<String> { image.topics_from(from).map(|topic| topic.name.to_string()).collect() };
    assert_eq!(names(""), ["a", "b", "c"]);
    assert_eq!(names("b"), ["b", "c"]);
    assert_eq!(names("bb"), ["c"]);
}

fn feature(level: i16) -> MetadataRecord<'static> {
    FeatureLevelRecord { name: Cow::Borrowed("metadata.version"), feature_level: level }.into()
}

/// Any record, mostly ones that fit what others made.
fn any_record() -> impl Strategy<Value = MetadataRecord<'static>> {
    let small = || 1u8..6;
    let list = || prop::collection::vec(1i32..4, 0..3);
    let maybe = || prop::option::of(prop::collection::vec(1i32..4, 0..3));
    prop_oneof![
        4 => (small(), small()).prop_map(|(name, number)| topic(&format!("t{name}"), number)),
        4 => (small(), 0i32..3).prop_map(|(topic, number)| partition(topic, number)),
        1 => small().prop_map(|number| RemoveTopicRecord { topic_id: id(number) }.into()),
        4 => (small(), 0i32..3, -2i32..3, maybe(), maybe(), maybe(), -1i8..2).prop_map(
            |(topic, number, leader, isr, replicas, eligible, recovery)| change(topic, number, |c| {
                c.leader = leader;
                c.isr = isr;
                c.replicas = replicas;
                c.eligible_leader_replicas = eligible.clone();
                c.last_known_elr = eligible;
                c.leader_recovery_state = recovery;
            })
        ),
        1 => small().prop_map(|name| ClearElrRecord { topic_name: Cow::Owned(format!("t{name}")) }.into()),
        4 => (prop_oneof![Just(2i8), Just(4), Just(16)], small(), small(), prop::option::of("[a-z]{0,3}")).prop_map(
            |(kind, name, key, value)| config(kind, &format!("t{name}"), &format!("k{key}"), value.as_deref())
        ),
        2 => (1i32..4, 0i64..3, any::<bool>(), list()).prop_map(|(broker_id, broker_epoch, fenced, log_dirs)| {
            let log_dirs = log_dirs.into_iter().map(|dir| id(dir as u8)).collect();
            RegisterBrokerRecord { broker_id, broker_epoch, fenced, log_dirs, ..RegisterBrokerRecord::default() }.into()
        }),
        2 => (1i32..4, 0i64..3, -1i8..2, 0i8..2).prop_map(|(broker_id, broker_epoch, fenced, in_controlled_shutdown)| {
            BrokerRegistrationChangeRecord {
                broker_id,
                broker_epoch,
                fenced,
                in_controlled_shutdown,
                ..BrokerRegistrationChangeRecord::default()
            }
            .into()
        }),
        1 => (0i64..9).prop_map(|block| {
            ProducerIdsRecord { broker_id: 1, broker_epoch: 0, next_producer_id: block * 1000 }.into()
        }),
        1 => prop_oneof![Just(0i16), Just(7), Just(20), Just(33)].prop_map(feature),
        2 => (small(), small(), 0u32..3, any::<bool>()).prop_map(|(user, key, value, remove)| {
            let entity = mainstem_kafka_wire::metadata_records::client_quota_record::EntityData {
                entity_type: Cow::Borrowed("user"),
                entity_name: (user > 1).then(|| Cow::Owned(format!("u{user}"))),
            };
            let key = Cow::Owned(format!("k{key}"));
            ClientQuotaRecord { entity: vec![entity], key, value: f64::from(value), remove }.into()
        }),
        1 => prop_oneof![
            Just(MetadataRecord::from(BeginTransactionRecord { name: None })),
            Just(EndTransactionRecord {}.into()),
            Just(AbortTransactionRecord { reason: None }.into()),
            Just(NoOpRecord {}.into()),
        ],
    ]
}

proptest! {
    #[test]
    fn a_snapshot_loses_nothing(records in prop::collection::vec(any_record(), 0..120)) {
        let mut image = ClusterImage::default();
        // Directories and eligible replicas are only written at a level that has them.
        apply(&mut image, &[feature(33)]).unwrap();
        for record in records {
            if matches!(record, MetadataRecord::FeatureLevel(_)) {
                continue;
            }
            let before = image.clone();
            let mut delta = ImageDelta::default();
            if image.replay(&record, image.offset.plus(1), LeaderEpoch(0), &mut delta).is_err() {
                prop_assert_eq!(&image, &before);
                prop_assert!(delta.is_empty());
            }
        }
        if image.in_transaction() {
            apply(&mut image, &[AbortTransactionRecord { reason: None }.into()]).unwrap();
        }
        let again = ClusterImage::from_snapshot(image.to_records(), image.offset, image.epoch).unwrap();
        prop_assert_eq!(&again, &image);
        prop_assert_eq!(again.to_records(), image.to_records());
    }

    #[test]
    fn what_is_replayed_live_and_what_is_replayed_at_start_give_the_same_image(
        records in prop::collection::vec(any_record(), 0..120),
    ) {
        let (mut live, mut log) = (ClusterImage::default(), Vec::new());
        for record in records {
            // A reader that holds an image at every step must make no difference.
            let _reader = live.clone();
            let offset = live.offset.plus(1);
            if live.replay(&record, offset, LeaderEpoch(0), &mut ImageDelta::default()).is_ok() {
                log.push(record);
            }
        }
        let (mut restarted, mut delta) = (ClusterImage::default(), ImageDelta::default());
        for record in &log {
            restarted.replay(record, restarted.offset.plus(1), LeaderEpoch(0), &mut delta).unwrap();
        }
        prop_assert_eq!(restarted, live);
    }
}
