use mainstem_types::{ProducerEpoch, ProducerId, TimestampMs};

use super::*;
use crate::test_support::TestDoor;

const TIME: i64 = 1_790_000_000_000;

fn describe_all(kafka: &TestDoor, topic: &str, partitions: &[i32]) -> Vec<PartitionResponse<'static>> {
    let topic = TopicRequest { name: Cow::Borrowed(topic), partition_indexes: partitions.to_vec() };
    let request = DescribeProducersRequest { topics: vec![topic] };
    let response: DescribeProducersResponse<'static> = kafka.call(0, &request);
    let mut partitions = response.topics[0].partitions.clone();
    partitions.sort_by_key(|partition| partition.partition_index);
    partitions
}

#[test]
fn producers_with_sequence_numbers_are_listed() {
    let kafka = TestDoor::any();
    let name = kafka.fresh("producers");
    kafka.create(&name, 2);
    let mut builder = mainstem_record::BatchBuilder::new().producer(ProducerId(4711), ProducerEpoch(3), 0);
    for _ in 0..5 {
        builder.append(TimestampMs(TIME), None, Some(b"value"), &[]);
    }
    kafka.produce_batch(&name, 1, &builder.build().unwrap());
    kafka.produce(&name, 1, 2);
    let partitions = describe_all(&kafka, &name, &[0, 1]);
    assert_eq!((partitions[0].error_code, partitions[0].active_producers.len()), (0, 0));
    let expected = ProducerState {
        producer_id: 4711,
        producer_epoch: 3,
        last_sequence: 4,
        last_timestamp: TIME,
        coordinator_epoch: -1,
        current_txn_start_offset: -1,
    };
    assert_eq!((partitions[1].error_code, &partitions[1].active_producers[..]), (0, &[expected][..]));
}

#[test]
fn partitions_that_do_not_exist_have_an_error() {
    let kafka = TestDoor::any();
    let (name, absent) = (kafka.fresh("producers-errors"), kafka.fresh("producers-absent"));
    kafka.create(&name, 1);
    let cases = [
        (name.as_str(), 1, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, false),
        (absent.as_str(), 0, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, true),
        ("what is this?", 0, ErrorCode::INVALID_TOPIC_EXCEPTION, true),
    ];
    for (topic, partition, expected, has_message) in cases {
        let partitions = describe_all(&kafka, topic, &[partition]);
        assert_eq!(ErrorCode(partitions[0].error_code), expected, "{topic}-{partition}");
        assert_eq!(partitions[0].error_message.is_some(), has_message, "{partitions:?}");
        assert_eq!(partitions[0].active_producers, []);
    }
}
