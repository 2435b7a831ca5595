use mainstem_kafka_wire::messages::alter_replica_log_dirs_request::{AlterReplicaLogDir, AlterReplicaLogDirTopic};
use mainstem_kafka_wire::messages::{DescribeLogDirsRequest, DescribeLogDirsResponse};

use super::*;
use crate::test_support::TestDoor;

fn alter(kafka: &TestDoor, version: i16, path: &str, topics: &[(&str, &[i32])]) -> Vec<(String, i32, ErrorCode)> {
    let topics = topics.iter().map(|(name, partitions)| AlterReplicaLogDirTopic {
        name: name.to_string().into(),
        partitions: partitions.to_vec(),
    });
    let folder = AlterReplicaLogDir { path: path.into(), topics: topics.collect() };
    let response: AlterReplicaLogDirsResponse<'static> =
        kafka.call(version, &AlterReplicaLogDirsRequest { dirs: vec![folder] });
    let mut results = Vec::new();
    for topic in &response.results {
        let one = |result: &AlterReplicaLogDirPartitionResult| {
            (topic.topic_name.as_ref().to_owned(), result.partition_index, ErrorCode(result.error_code))
        };
        results.extend(topic.partitions.iter().map(one));
    }
    results.sort();
    results
}

#[test]
fn partitions_are_in_the_one_folder_already() {
    let kafka = TestDoor::any();
    let (name, absent) = (kafka.fresh("moved"), kafka.fresh("moved-absent"));
    kafka.create(&name, 2);
    let folders: DescribeLogDirsResponse<'static> = kafka.call(1, &DescribeLogDirsRequest { topics: Some(vec![]) });
    let own = folders.results[0].log_dir.as_ref();
    for version in API.min_version..=API.max_version {
        let results = alter(&kafka, version, own, &[(&name, &[0, 1, 2]), (&absent, &[0])]);
        let mut expected = vec![
            (name.clone(), 0, ErrorCode::NONE),
            (name.clone(), 1, ErrorCode::NONE),
            (name.clone(), 2, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION),
            (absent.clone(), 0, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION),
        ];
        expected.sort();
        assert_eq!(results, expected, "version {version}");
    }
}

#[test]
fn there_is_no_other_folder() {
    let kafka = TestDoor::any();
    let (name, absent) = (kafka.fresh("elsewhere"), kafka.fresh("elsewhere-absent"));
    kafka.create(&name, 1);
    for folder in ["/no/such/folder", "relative", ""] {
        let results = alter(&kafka, 2, folder, &[(&name, &[0]), (&absent, &[0])]);
        let codes: Vec<_> = results.iter().map(|(_, _, code)| *code).collect();
        assert_eq!(codes, [ErrorCode::LOG_DIR_NOT_FOUND; 2], "{folder}");
    }
    assert_eq!(alter(&kafka, 2, "/no/such/folder", &[]), []);
}
