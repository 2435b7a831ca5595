use mainstem_kafka_wire::messages::describe_log_dirs_request::DescribableLogDirTopic;

use super::*;
use crate::test_support::TestDoor;

fn asking<'a>(topics: &[(&'a str, &[i32])]) -> DescribeLogDirsRequest<'a> {
    let topic = |(name, partitions): &(&'a str, &[i32])| DescribableLogDirTopic {
        topic: Cow::Borrowed(*name),
        partitions: partitions.to_vec(),
    };
    DescribeLogDirsRequest { topics: Some(topics.iter().map(topic).collect()) }
}

fn describe_one<'a>(
    kafka: &TestDoor,
    version: i16,
    request: &DescribeLogDirsRequest<'a>,
) -> DescribeLogDirsResult<'static> {
    let response: DescribeLogDirsResponse<'static> = kafka.call(version, request);
    assert_eq!((response.error_code, response.results.len()), (0, 1));
    response.results.into_iter().next().unwrap()
}

/// (topic, partition, size), sorted.
fn sizes(result: &DescribeLogDirsResult<'_>) -> Vec<(String, i32, i64)> {
    let mut all = Vec::new();
    for topic in &result.topics {
        for partition in &topic.partitions {
            assert_eq!((partition.offset_lag, partition.is_future_key), (0, false));
            all.push((topic.name.as_ref().to_owned(), partition.partition_index, partition.partition_size));
        }
    }
    all.sort();
    all
}

#[test]
fn partitions_have_the_size_of_their_batches_in_every_version() {
    let kafka = TestDoor::any();
    let name = kafka.fresh("dirs");
    kafka.create(&name, 2);
    let mut builder = mainstem_record::BatchBuilder::new();
    builder.append(mainstem_types::TimestampMs(1_790_000_000_000), None, Some(&[7; 1000]), &[]);
    let batch = builder.build().unwrap();
    kafka.produce_batch(&name, 1, &batch);
    for version in API.min_version..=API.max_version {
        let result = describe_one(&kafka, version, &asking(&[(&name, &[0, 1, 2])]));
        assert_eq!(sizes(&result), [(name.clone(), 0, 0), (name.clone(), 1, batch.len() as i64)], "{version}");
        assert!(result.log_dir.starts_with('/') && result.error_code == 0 && !result.is_cordoned);
        let known = version >= 4;
        assert_eq!((result.total_bytes > 0, result.usable_bytes > 0), (known, known), "{version}");
        assert!(result.usable_bytes <= result.total_bytes);
    }
}

#[test]
fn all_topics_some_and_none() {
    let kafka = TestDoor::any();
    let (one, two, absent) = (kafka.fresh("dirs-one"), kafka.fresh("dirs-two"), kafka.fresh("dirs-absent"));
    kafka.create(&one, 1);
    kafka.create(&two, 3);
    let all = sizes(&describe_one(&kafka, 4, &DescribeLogDirsRequest { topics: None }));
    for expected in [(&one, 0), (&two, 0), (&two, 2)] {
        assert!(all.contains(&(expected.0.clone(), expected.1, 0)), "{expected:?} of {all:?}");
    }
    let some = describe_one(&kafka, 4, &asking(&[(&two, &[1]), (&absent, &[0]), (&two, &[2])]));
    assert_eq!(sizes(&some), [(two.clone(), 1, 0), (two, 2, 0)]);
    assert_eq!(sizes(&describe_one(&kafka, 4, &asking(&[]))), []);
}
