//! Replays metadata logs and snapshots that a real Kafka 4.4 wrote.

use std::path::Path;

use mainstem_kafka_wire::Writer;
use mainstem_kafka_wire::metadata_records::MetadataRecord;
use mainstem_metadata::controller::{Controller, NodeAddress, NodeStart, bootstrap_records, format_records};
use mainstem_metadata::image::{ClusterImage, ConfigResource, ImageDelta, MetadataVersion, record_version};
use mainstem_record::{Batches, HEADER_SIZE};
use mainstem_types::{LeaderEpoch, NodeId, Offset, TopicId};

/// A record with its place in the log, the version in which Kafka wrote it, and its bytes.
struct Logged {
    offset: Offset,
    epoch: LeaderEpoch,
    version: i16,
    bytes: Vec<u8>,
    record: MetadataRecord<'static>,
}

fn read(name: &str) -> Vec<Logged> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    let bytes = std::fs::read(path).unwrap();
    let mut logged = Vec::new();
    for batch in Batches::new(&bytes) {
        let batch = batch.unwrap();
        assert!(batch.crc_is_valid());
        if batch.header().attributes.is_control() {
            continue;
        }
        for record in batch.records_in(&batch.as_bytes()[HEADER_SIZE..]) {
            let record = record.unwrap();
            let value = record.value.unwrap();
            let (decoded, version) = MetadataRecord::decode_framed_versioned(value).unwrap();
            logged.push(Logged {
                offset: record.offset,
                epoch: batch.header().leader_epoch,
                version,
                bytes: value.to_vec(),
                record: decoded.into_owned(),
            });
        }
    }
    logged
}

fn replay(logged: &[Logged]) -> (Controller, ImageDelta) {
    let (mut controller, mut delta) = (Controller::default(), ImageDelta::default());
    for Logged { offset, epoch, record, .. } in logged {
        controller.replay(record, *offset, *epoch, &mut delta).unwrap();
    }
    (controller, delta)
}

/// The same content, as if it came from the same place.
fn without_place(image: &ClusterImage) -> ClusterImage {
    let mut image = image.clone();
    (image.offset, image.epoch) = (Offset::NONE, LeaderEpoch::NONE);
    image
}

fn names(image: &ClusterImage) -> Vec<&str> {
    image.topics().map(|topic| topic.name.as_ref()).collect()
}

#[test]
fn kafka_s_snapshot_is_the_image_of_its_log() {
    let log = read("kafka-4.4-everything.log");
    let before: Vec<Logged> = log.into_iter().filter(|logged| logged.offset < Offset(32)).collect();
    let snapshot = read("kafka-4.4-everything-32.checkpoint");
    let (from_log, from_snapshot) = (replay(&before).0, replay(&snapshot).0);
    assert_eq!(without_place(from_log.image()), without_place(from_snapshot.image()));
}

#[test]
fn our_snapshot_has_kafka_s_records_in_kafka_s_order_of_kinds() {
    let snapshot = read("kafka-4.4-everything-32.checkpoint");
    let ours = replay(&snapshot).0.image().to_records();
    let kinds = |records: &mut dyn Iterator<Item = &MetadataRecord<'static>>| -> Vec<i16> {
        records.map(|record| record.api_key()).collect()
    };
    assert_eq!(kinds(&mut ours.iter()), kinds(&mut snapshot.iter().map(|logged| &logged.record)));
    assert_eq!(ours[0], snapshot[0].record, "the metadata version comes first");
    // Within a kind the order is free in Kafka; the content is not.
    let registration = |record: &MetadataRecord<'_>| matches!(record.api_key(), 0 | 27);
    for logged in snapshot.iter().filter(|logged| !registration(&logged.record)) {
        assert!(ours.contains(&logged.record), "{:?}", logged.record);
    }
}

#[test]
fn everything_of_a_kafka_folder_is_in_the_image_and_survives_our_snapshot() {
    let (controller, delta) = replay(&read("kafka-4.4-everything.log"));
    let image = controller.image();
    assert_eq!(names(image), ["orders"]);
    assert_eq!(image.topic("orders").unwrap().partitions.len(), 3);
    assert_eq!(image.topic_configs("orders")["retention.ms"], "86400000");
    assert_eq!(image.configs(&ConfigResource::broker(1))["message.max.bytes"], "2000000");
    assert_eq!(image.configs(&ConfigResource::cluster_default())["log.retention.ms"], "5000000");
    assert_eq!(image.configs(&ConfigResource { kind: 16, name: "m1".into() })["interval.ms"], "60000");
    assert_eq!(image.client_quotas().count(), 2);
    assert_eq!(image.scram_credentials().map(|user| user.name.as_ref()).collect::<Vec<&str>>(), ["alice"]);
    assert_eq!(image.acls().map(|acl| acl.resource_name.as_ref()).collect::<Vec<&str>>(), ["orders"]);
    assert_eq!(image.producer_ids().unwrap().next, 1000);
    assert_eq!(image.metadata_version(), MetadataVersion::LATEST);
    assert!(image.has_eligible_leader_replicas());
    assert_eq!((delta.topics_created.len(), delta.topics_deleted.len()), (1, 0));

    let again = ClusterImage::from_snapshot(image.to_records(), image.offset, image.epoch).unwrap();
    assert_eq!(&again, image);
}

#[test]
fn records_are_written_in_the_version_and_with_the_bytes_that_kafka_writes() {
    for name in ["kafka-4.4-everything.log", "kafka-4.4-stops.log", "kafka-4.4-everything-32.checkpoint"] {
        for logged in read(name) {
            let version = record_version(&logged.record, MetadataVersion::LATEST);
            assert_eq!(version, logged.version, "{name} at {}: {:?}", logged.offset, logged.record);
            let mut writer = Writer::new();
            logged.record.encode_framed(&mut writer, version).unwrap();
            assert_eq!(writer.as_bytes(), &logged.bytes[..], "{name} at {}", logged.offset);
        }
    }
}

#[test]
fn format_and_bootstrap_write_what_kafka_writes() {
    let formatted: Vec<MetadataRecord<'static>> =
        read("kafka-4.4-format.checkpoint").into_iter().map(|logged| logged.record).collect();
    assert_eq!(format_records(), formatted);
    let log = read("kafka-4.4-stops.log");
    let expected = bootstrap_records();
    let first: Vec<MetadataRecord<'static>> =
        log.into_iter().take(expected.len()).map(|logged| logged.record).collect();
    assert_eq!(expected, first);
}

fn start(incarnation: u8, directory: TopicId) -> NodeStart {
    let address =
        |name: &str| NodeAddress { name: name.into(), host: "127.0.0.1".into(), port: 9092, security_protocol: 0 };
    NodeStart {
        node: NodeId(1),
        incarnation: TopicId([incarnation; 16]),
        directory,
        rack: None,
        addresses: vec![address("PLAINTEXT")],
        controller_addresses: vec![address("CONTROLLER")],
    }
}

#[test]
fn a_folder_is_taken_over_after_an_orderly_stop_and_after_a_kill() {
    for (name, unclean) in [("kafka-4.4-stops.log", false), ("kafka-4.4-everything.log", true)] {
        let (mut controller, _) = replay(&read(name));
        let directory = controller.image().broker(1).unwrap().record.log_dirs[0];
        let before = controller.image().clone();
        let all_led = |image: &ClusterImage| {
            image.topics().flat_map(|topic| topic.partitions.values()).all(|partition| partition.leader == 1)
        };
        assert_eq!(all_led(&before), unclean, "{name}");
        let next = before.offset.plus(1);
        let decision = controller.start_node(&start(9, directory), next);
        let mut delta = ImageDelta::default();
        for (index, record) in (0..).zip(&decision.records) {
            controller.replay(record, next.plus(index), LeaderEpoch(99), &mut delta).unwrap();
        }
        let image = controller.image();
        assert!(all_led(image) && image.broker(1).unwrap().is_active(), "{name}");
        assert!(decision.reply > before.broker(1).unwrap().epoch());
        for topic in image.topics() {
            for (number, partition) in &topic.partitions {
                let old = before.partition(topic.id, *number).unwrap();
                assert_eq!(partition.leader_epoch, old.leader_epoch + 1);
                assert_eq!((&partition.isr, partition.leader_recovery_state), (&vec![1], 0));
                assert!(partition.eligible_leader_replicas.is_empty());
            }
        }
    }
}

#[test]
fn our_orderly_stop_writes_what_kafka_s_writes() {
    let log = read("kafka-4.4-stops.log");
    let last_change = log.iter().rposition(|logged| matches!(logged.record, MetadataRecord::NoOp(_)));
    let stop: Vec<&Logged> = log[last_change.unwrap() + 1..].iter().collect();
    let begin = log.iter().position(|logged| logged.offset == stop[0].offset).unwrap();
    // Kafka's log ends: controlled shutdown, one change a partition, then the fencing (a NoOp may lie in between).
    let kafka: Vec<&MetadataRecord<'static>> = log
        .iter()
        .rev()
        .filter(|logged| !matches!(logged.record, MetadataRecord::NoOp(_)))
        .take(6)
        .map(|logged| &logged.record)
        .collect();
    let first = log.iter().position(|logged| std::ptr::eq(&logged.record, kafka[5])).unwrap();
    assert!(first <= begin);
    let ours = replay(&log[..first]).0.stop_node(NodeId(1)).records;
    assert_eq!(ours.len(), kafka.len());
    assert_eq!((&ours[0], &ours[5]), (kafka[5], kafka[0]));
    for record in &ours[1..5] {
        assert!(kafka.contains(&record), "{record:?}");
    }
}
