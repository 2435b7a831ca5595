//! The client against a broker that answers, fails and goes away on request.

mod fake;

use std::time::Duration;

use fake::{FakeBroker, Trouble};
use mainstem_client::*;
use mainstem_kafka_wire::messages::{ApiVersionsRequest, ProduceRequest};
use mainstem_kafka_wire::{ApiKey, ErrorCode, Message, Reader};
use mainstem_record::{BatchBuilder, BatchView, ControlRecord};
use mainstem_types::{ProducerEpoch, ProducerId};

/// Generous: only what hangs takes so long.
const LONG: Duration = Duration::from_secs(20);

async fn client_of(broker: &FakeBroker) -> Client {
    Client::connect(ClientConfig::new(&broker.address)).await.unwrap()
}

fn partition(topic: &str, index: i32) -> TopicPartition {
    TopicPartition::new(topic, PartitionIndex(index))
}

fn record(topic: &str, value: &str) -> NewRecord {
    NewRecord { partition: Some(PartitionIndex(0)), ..NewRecord::new(topic, None, Some(value.as_bytes())) }
}

async fn read(fetcher: &mut Fetcher, count: usize) -> Vec<String> {
    let mut values = Vec::new();
    while values.len() < count {
        let records = fetcher.poll(LONG).await.unwrap();
        assert!(!records.is_empty(), "{} of {count} came", values.len());
        values.extend(records.iter().map(|one| String::from_utf8_lossy(one.value.as_ref().unwrap()).into_owned()));
    }
    values
}

#[tokio::test]
async fn an_address_that_nobody_listens_at_is_named() {
    let error = Client::connect(ClientConfig::new("127.0.0.1:1")).await.err().unwrap();
    assert!(error.is_retriable());
    assert!(error.to_string().contains("127.0.0.1:1"), "{error}");
    assert_eq!(Client::connect(ClientConfig::new(" , ")).await.err(), Some(ClientError::NoBootstrap));
}

#[tokio::test]
async fn the_second_bootstrap_address_does_too() {
    let broker = FakeBroker::start().await;
    let client = Client::connect(ClientConfig::new(&format!("127.0.0.1:1,{}", broker.address))).await.unwrap();
    assert_eq!(client.describe_cluster().await.unwrap().cluster_id, "fake");
}

#[tokio::test]
async fn an_old_broker_is_asked_again_in_version_0() {
    let broker = FakeBroker::start().await;
    broker.state.lock().api_versions_below = 3;
    client_of(&broker).await;
    let state = broker.state.lock();
    assert_eq!(state.calls[..2], [(ApiKey::API_VERSIONS, 3), (ApiKey::API_VERSIONS, 0)]);
    let first = &state.requests[&ApiKey::API_VERSIONS.0][0];
    let first = ApiVersionsRequest::decode(&mut Reader::new(first), 3).unwrap();
    assert_eq!(first.client_software_name, "mainstem-client");
}

#[tokio::test]
async fn what_is_no_kafka_is_said_to_be_none() {
    use tokio::io::AsyncWriteExt;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await.unwrap();
        std::future::pending::<()>().await;
    });
    let error = Client::connect(ClientConfig::new(&address)).await.err().unwrap();
    assert!(error.to_string().contains("is this a Kafka port?"), "{error}");
}

#[tokio::test]
async fn records_come_back_in_order_from_every_codec() {
    let broker = FakeBroker::start().await;
    let client = client_of(&broker).await;
    for codec in Codec::ALL {
        let topic = format!("t-{codec}");
        broker.topic(&topic, 1);
        let producer = client.producer(ProducerConfig { codec, batch_size: 300, ..Default::default() });
        let mut fates = Vec::new();
        for i in 0..100 {
            let mut one = record(&topic, &format!("value {i}"));
            one.headers = vec![("h".to_owned(), Some("x".into())), ("null".to_owned(), None)];
            fates.push(producer.send(one).await.unwrap());
        }
        for (i, fate) in fates.into_iter().enumerate() {
            assert_eq!(fate.await.unwrap().offset, Some(Offset(i as i64)));
        }
        let mut fetcher = client.fetcher(FetcherConfig { partition_max_bytes: 700, ..Default::default() });
        fetcher.assign_at(&[partition(&topic, 0)], OffsetSpec::Earliest).await.unwrap();
        let expected: Vec<_> = (0..100).map(|i| format!("value {i}")).collect();
        assert_eq!(read(&mut fetcher, 100).await, expected);
        assert!(fetcher.is_at_end());
    }
}

#[tokio::test]
async fn fetched_records_have_everything() {
    let broker = FakeBroker::start().await;
    broker.topic("t", 1);
    let client = client_of(&broker).await;
    let producer = client.producer(ProducerConfig { codec: Codec::Lz4, ..Default::default() });
    let one = NewRecord {
        headers: vec![("h".to_owned(), Some("x".into())), ("null".to_owned(), None)],
        timestamp: Some(TimestampMs(77)),
        ..NewRecord::new("t", Some(b"key"), None)
    };
    let receipt = producer.send(one.clone()).await.unwrap().await.unwrap();
    assert_eq!((receipt.partition.clone(), receipt.timestamp), (partition("t", 0), TimestampMs(77)));
    let mut fetcher = client.fetcher(FetcherConfig::default());
    fetcher.assign(partition("t", 0), Offset(0));
    let records = fetcher.poll(LONG).await.unwrap();
    let read = &records[0];
    assert_eq!((read.offset, read.timestamp, read.leader_epoch.0), (Offset(0), TimestampMs(77), 3));
    assert_eq!((&read.key, &read.value, &read.headers), (&one.key, &None, &one.headers));
}

#[tokio::test]
async fn a_position_within_a_batch_skips_the_records_before_it() {
    let broker = FakeBroker::start().await;
    broker.topic("t", 1);
    let mut batch = BatchBuilder::new();
    for value in ["a", "b", "c", "d"] {
        batch.append(TimestampMs(1), None, Some(value.as_bytes()), &[]);
    }
    broker.append("t", 0, batch.build().unwrap());
    let mut fetcher = client_of(&broker).await.fetcher(FetcherConfig::default());
    fetcher.assign(partition("t", 0), Offset(2));
    assert_eq!(read(&mut fetcher, 2).await, ["c", "d"]);
}

#[tokio::test]
async fn keys_choose_partitions_as_in_java() {
    let broker = FakeBroker::start().await;
    broker.topic("t", 10);
    let client = client_of(&broker).await;
    let producer = client.producer(ProducerConfig::default());
    // Kafka's murmur2 of "21" is −973932308.
    let receipt = producer.send(NewRecord::new("t", Some(b"21"), None)).await.unwrap().await.unwrap();
    assert_eq!(receipt.partition, partition("t", (-973_932_308 & i32::MAX) % 10));
}

#[tokio::test]
async fn a_leader_that_moves_and_a_broken_connection_are_waited_out() {
    let broker = FakeBroker::start().await;
    broker.topic("t", 1);
    let client = client_of(&broker).await;
    let producer = client.producer(ProducerConfig::default());
    broker.trouble(ApiKey::PRODUCE, Trouble::Code(ErrorCode::NOT_LEADER_OR_FOLLOWER));
    producer.send(record("t", "one")).await.unwrap().await.unwrap();
    assert!(broker.calls_of(ApiKey::METADATA) >= 3, "the metadata was asked for again");
    broker.trouble(ApiKey::FETCH, Trouble::Code(ErrorCode::NOT_LEADER_OR_FOLLOWER));
    broker.trouble(ApiKey::FETCH, Trouble::CloseAfter);
    let mut fetcher = client.fetcher(FetcherConfig::default());
    fetcher.assign(partition("t", 0), Offset(0));
    assert_eq!(read(&mut fetcher, 1).await, ["one"]);
    assert_eq!(broker.values("t", 0), ["one"]);
}

#[tokio::test]
async fn a_batch_whose_answer_was_lost_is_sent_again_unchanged() {
    let broker = FakeBroker::start().await;
    broker.topic("t", 1);
    let client = client_of(&broker).await;
    let producer = client.producer(ProducerConfig { idempotent: true, ..Default::default() });
    broker.trouble(ApiKey::PRODUCE, Trouble::CloseAfter);
    producer.send(record("t", "one")).await.unwrap().await.unwrap();
    producer.send(record("t", "two")).await.unwrap().await.unwrap();
    let state = broker.state.lock();
    let sequences: Vec<_> = state.topics["t"][0]
        .iter()
        .map(|batch| *BatchView::parse(batch).unwrap().header())
        .map(|header| (header.producer_id, header.base_sequence))
        .collect();
    // A real broker recognises the second as the first; the fake keeps both.
    assert_eq!(sequences, [(ProducerId(1001), 0), (ProducerId(1001), 0), (ProducerId(1001), 1)]);
}

#[tokio::test]
async fn a_duplicate_is_a_success() {
    let broker = FakeBroker::start().await;
    broker.topic("t", 1);
    let producer = client_of(&broker).await.producer(ProducerConfig { idempotent: true, ..Default::default() });
    broker.trouble(ApiKey::PRODUCE, Trouble::Code(ErrorCode::DUPLICATE_SEQUENCE_NUMBER));
    assert_eq!(producer.send(record("t", "one")).await.unwrap().await.unwrap().offset, None);
}

#[tokio::test]
async fn a_producer_out_of_sequence_fails_the_batch_and_begins_anew() {
    let broker = FakeBroker::start().await;
    broker.topic("t", 1);
    let producer = client_of(&broker).await.producer(ProducerConfig { idempotent: true, ..Default::default() });
    broker.trouble(ApiKey::PRODUCE, Trouble::Code(ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER));
    let error = producer.send(record("t", "lost")).await.unwrap().await.unwrap_err();
    assert!(error.to_string().contains("OUT_OF_ORDER_SEQUENCE_NUMBER"), "{error}");
    producer.send(record("t", "kept")).await.unwrap().await.unwrap();
    let state = broker.state.lock();
    let header = *BatchView::parse(&state.topics["t"][0][0]).unwrap().header();
    assert_eq!((header.producer_id, header.base_sequence), (ProducerId(1002), 0));
}

#[tokio::test]
async fn a_batch_that_is_too_large_is_split() {
    let broker = FakeBroker::start().await;
    broker.topic("t", 1);
    broker.state.lock().batch_size_max = 150;
    let linger = Duration::from_millis(50);
    let producer = client_of(&broker).await.producer(ProducerConfig { linger, ..Default::default() });
    let mut fates = Vec::new();
    for i in 0..8 {
        fates.push(producer.send(record("t", &format!("{i}-{}", "x".repeat(30)))).await.unwrap());
    }
    let huge = producer.send(record("t", &"x".repeat(200))).await.unwrap();
    for fate in fates {
        fate.await.unwrap();
    }
    let values = broker.values("t", 0);
    assert!((0..8).all(|i| values[i].starts_with(&format!("{i}-"))), "{values:?}");
    assert!(huge.await.unwrap_err().to_string().contains("MESSAGE_TOO_LARGE"));
}

#[tokio::test]
async fn a_refusal_is_final_and_names_the_partition() {
    let broker = FakeBroker::start().await;
    broker.topic("t", 1);
    let producer = client_of(&broker).await.producer(ProducerConfig::default());
    broker.trouble(ApiKey::PRODUCE, Trouble::Code(ErrorCode::INVALID_RECORD));
    let error = producer.send(record("t", "bad")).await.unwrap().await.unwrap_err();
    assert!(error.to_string().contains("partition t-0: INVALID_RECORD(87)"), "{error}");
    assert_eq!(broker.calls_of(ApiKey::PRODUCE), 1);
}

#[tokio::test]
async fn without_acks_nothing_is_waited_for() {
    let broker = FakeBroker::start().await;
    broker.topic("t", 1);
    let producer = client_of(&broker).await.producer(ProducerConfig { acks: Acks::None, ..Default::default() });
    for i in 0..10 {
        let receipt = producer.send(record("t", &i.to_string())).await.unwrap().await.unwrap();
        assert_eq!(receipt.offset, None);
    }
    let end = tokio::time::Instant::now() + LONG;
    while broker.values("t", 0).len() < 10 {
        assert!(tokio::time::Instant::now() < end);
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let state = broker.state.lock();
    let request = &state.requests[&ApiKey::PRODUCE.0][0];
    assert_eq!(ProduceRequest::decode(&mut Reader::new(request), 12).unwrap().acks, 0);
}

#[tokio::test]
async fn a_full_buffer_makes_senders_wait_and_a_flush_ends() {
    let broker = FakeBroker::start().await;
    broker.topic("t", 1);
    let config = ProducerConfig { buffer_size: 200, linger: Duration::from_millis(1), ..Default::default() };
    let producer = client_of(&broker).await.producer(config);
    for i in 0..50 {
        drop(producer.send(record("t", &format!("{i} {}", "x".repeat(80)))).await.unwrap());
    }
    producer.flush().await;
    assert_eq!(broker.values("t", 0).len(), 50);
    let error = producer.send(record("t", &"x".repeat(300))).await.unwrap_err();
    assert!(matches!(error, ProduceError::TooLarge { limit: 200, .. }));
}

#[tokio::test]
async fn dropping_a_producer_sends_what_it_has() {
    let broker = FakeBroker::start().await;
    broker.topic("t", 1);
    let linger = Duration::from_millis(20);
    let producer = client_of(&broker).await.producer(ProducerConfig { linger, ..Default::default() });
    let fate = producer.send(record("t", "last")).await.unwrap();
    drop(producer);
    fate.await.unwrap();
    assert_eq!(broker.values("t", 0), ["last"]);
}

#[tokio::test]
async fn a_silent_broker_times_out_and_the_delivery_says_so() {
    let broker = FakeBroker::start().await;
    broker.topic("t", 1);
    let mut config = ClientConfig::new(&broker.address);
    config.request_timeout = Duration::from_millis(50);
    let client = Client::connect(config).await.unwrap();
    for _ in 0..100 {
        broker.trouble(ApiKey::PRODUCE, Trouble::Silence);
    }
    let delivery_timeout = Duration::from_millis(300);
    let producer = client.producer(ProducerConfig { delivery_timeout, ..Default::default() });
    let error = producer.send(record("t", "one")).await.unwrap().await.unwrap_err();
    assert!(
        matches!(&error, ProduceError::TimedOut { last, .. } if last.contains("did not answer Produce")),
        "{error}"
    );
    assert!(broker.calls_of(ApiKey::PRODUCE) > 1);
}

#[tokio::test]
async fn records_behind_a_silent_broker_do_not_wait_for_one_another() {
    let broker = FakeBroker::start().await;
    broker.topic("t", 1);
    let mut config = ClientConfig::new(&broker.address);
    config.request_timeout = Duration::from_millis(100);
    let client = Client::connect(config).await.unwrap();
    for _ in 0..1000 {
        broker.trouble(ApiKey::PRODUCE, Trouble::Silence);
    }
    let delivery_timeout = Duration::from_millis(300);
    // Each record is a batch of its own.
    let producer = client.producer(ProducerConfig { delivery_timeout, batch_size: 1, ..Default::default() });
    let mut deliveries = Vec::new();
    for i in 0..20 {
        deliveries.push(producer.send(record("t", &i.to_string())).await.unwrap());
    }
    let mut errors = Vec::new();
    for delivery in deliveries {
        errors.push(delivery.await.unwrap_err());
    }
    assert!(matches!(errors[0], ProduceError::TimedOut { .. }), "{errors:?}");
    assert!(matches!(errors[19], ProduceError::Expired { .. }), "{errors:?}");
    assert!(broker.calls_of(ApiKey::PRODUCE) < 20, "{}", broker.calls_of(ApiKey::PRODUCE));
}

#[tokio::test]
async fn an_unknown_topic_is_an_error_after_a_short_wait() {
    let broker = FakeBroker::start().await;
    let mut config = ClientConfig::new(&broker.address);
    config.unknown_topic_wait = Duration::from_millis(120);
    let client = Client::connect(config).await.unwrap();
    let error = client.topic("nowhere").await.unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION));
    assert!(error.to_string().contains("topic nowhere"), "{error}");
    broker.topic("t", 1);
    let mut fetcher = client.fetcher(FetcherConfig::default());
    fetcher.assign(partition("t", 5), Offset(0));
    let error = fetcher.poll(Duration::from_millis(200)).await.unwrap_err();
    assert!(error.to_string().contains("the topic has 1 partitions"), "{error}");
}

#[tokio::test]
async fn offsets_are_found_by_time_and_at_the_ends() {
    let broker = FakeBroker::start().await;
    broker.topic("t", 2);
    for time in [10, 20] {
        let batch = BatchBuilder::new().append(TimestampMs(time), None, Some(b"v"), &[]).build().unwrap();
        broker.append("t", 1, batch);
    }
    let client = client_of(&broker).await;
    let ask = |spec| vec![(partition("t", 1), spec), (partition("t", 0), spec)];
    let offsets = async |spec| {
        let found = client.list_offsets(&ask(spec), Isolation::ReadUncommitted).await.unwrap();
        found.iter().map(|(_, listed)| listed.offset.map(|offset| offset.0)).collect::<Vec<_>>()
    };
    assert_eq!(offsets(OffsetSpec::Earliest).await, [Some(0), Some(0)]);
    assert_eq!(offsets(OffsetSpec::Latest).await, [Some(2), Some(0)]);
    assert_eq!(offsets(OffsetSpec::Timestamp(TimestampMs(15))).await, [Some(1), None]);
    let mut fetcher = client.fetcher(FetcherConfig::default());
    let both = [partition("t", 0), partition("t", 1)];
    fetcher.assign_at(&both, OffsetSpec::Timestamp(TimestampMs(15))).await.unwrap();
    let positions: Vec<_> = fetcher.positions().map(|(_, state)| state.position.0).collect();
    assert_eq!(positions, [0, 1]);
}

#[tokio::test]
async fn an_offset_out_of_range_is_an_error_or_a_reset() {
    let broker = FakeBroker::start().await;
    broker.topic("t", 1);
    broker.append("t", 0, BatchBuilder::new().append(TimestampMs(1), None, Some(b"v"), &[]).build().unwrap());
    let client = client_of(&broker).await;
    let mut fetcher = client.fetcher(FetcherConfig::default());
    fetcher.assign(partition("t", 0), Offset(100));
    assert!(matches!(fetcher.poll(LONG).await, Err(FetchError::OutOfRange { position: Offset(100), .. })));
    let reset_to = Some(OffsetSpec::Earliest);
    let mut fetcher = client.fetcher(FetcherConfig { reset_to, ..Default::default() });
    fetcher.assign(partition("t", 0), Offset(100));
    assert_eq!(read(&mut fetcher, 1).await, ["v"]);
}

#[tokio::test]
async fn a_damaged_batch_is_an_error_after_the_records_before_it() {
    let broker = FakeBroker::start().await;
    broker.topic("t", 1);
    let batch = BatchBuilder::new().append(TimestampMs(1), None, Some(b"good"), &[]).build().unwrap();
    broker.append("t", 0, batch.clone());
    broker.append("t", 0, batch);
    *broker.state.lock().topics.get_mut("t").unwrap()[0][1].last_mut().unwrap() ^= 1;
    let mut fetcher = client_of(&broker).await.fetcher(FetcherConfig::default());
    fetcher.assign(partition("t", 0), Offset(0));
    assert_eq!(read(&mut fetcher, 1).await, ["good"]);
    let error = fetcher.poll(LONG).await.unwrap_err();
    assert!(error.to_string().contains("t-0 at offset 1: the checksum"), "{error}");
}

#[tokio::test]
async fn aborted_transactions_are_left_out_when_committed_ones_are_wanted() {
    let broker = FakeBroker::start().await;
    broker.topic("t", 1);
    let batch = |producer: i64, value: &str| {
        let mut builder = BatchBuilder::new().producer(ProducerId(producer), ProducerEpoch(0), 0).transactional();
        builder.append(TimestampMs(1), None, Some(value.as_bytes()), &[]).build().unwrap()
    };
    let mark = |producer: i64, committed| {
        let mut builder = BatchBuilder::new().producer(ProducerId(producer), ProducerEpoch(0), -1).transactional();
        let record = ControlRecord::EndTransaction { committed, coordinator_epoch: 0 };
        builder.append_control(TimestampMs(1), &record).build().unwrap()
    };
    let plain = BatchBuilder::new().append(TimestampMs(1), None, Some(b"plain"), &[]).build().unwrap();
    let log = [
        batch(1, "aborted"),
        batch(2, "committed"),
        plain,
        batch(1, "aborted too"),
        mark(1, false),
        mark(2, true),
        batch(1, "later"),
        mark(1, true),
    ];
    log.into_iter().for_each(|batch| broker.append("t", 0, batch));
    broker.state.lock().aborted = vec![(1, 0)];
    let client = client_of(&broker).await;
    let mut committed = client.fetcher(FetcherConfig { isolation: Isolation::ReadCommitted, ..Default::default() });
    committed.assign(partition("t", 0), Offset(0));
    assert_eq!(read(&mut committed, 3).await, ["committed", "plain", "later"]);
    assert!(committed.is_at_end());
    let mut all = client.fetcher(FetcherConfig::default());
    all.assign(partition("t", 0), Offset(0));
    assert_eq!(read(&mut all, 5).await, ["aborted", "committed", "plain", "aborted too", "later"]);
}

#[tokio::test]
async fn topics_are_created_listed_and_deleted() {
    let broker = FakeBroker::start().await;
    let client = client_of(&broker).await;
    let topics =
        [NewTopic::new("b").partitions(3), NewTopic::new("a").config("retention.ms", "1"), NewTopic::new("__x")];
    let created = client.create_topics(&topics, false).await.unwrap();
    assert_eq!(created[0].0, "b");
    assert_eq!(created[0].1.as_ref().unwrap().partitions, 3);
    let again = client.create_topics(&topics[..1], false).await.unwrap();
    assert_eq!(again[0].1.as_ref().unwrap_err().code(), Some(ErrorCode::TOPIC_ALREADY_EXISTS));
    let names = async |internal| {
        let all = client.list_topics(internal).await.unwrap();
        all.iter().map(|topic| topic.name.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(names(false).await, ["a", "b"]);
    assert_eq!(names(true).await, ["__x", "a", "b"]);
    assert_eq!(client.topic("b").await.unwrap().partitions.len(), 3);
    client.create_partitions("b", 5, false).await.unwrap();
    assert_eq!(client.topic("b").await.unwrap().partitions.len(), 5);
    let fewer = client.create_partitions("b", 5, false).await.unwrap_err();
    assert_eq!(fewer.code(), Some(ErrorCode::INVALID_PARTITIONS));
    let deleted = client.delete_topics(&["b", "nowhere"]).await.unwrap();
    assert_eq!(deleted[0], ("b".to_owned(), Ok(())));
    assert!(deleted[1].1.is_err());
    assert_eq!(names(false).await, ["a"]);
    let described = client.describe_topics(&["a", "b"]).await.unwrap();
    assert!(described[0].1.is_ok() && described[1].1.is_err());
}

#[tokio::test]
async fn a_controller_that_moved_is_asked_again() {
    let broker = FakeBroker::start().await;
    let client = client_of(&broker).await;
    broker.trouble(ApiKey::CREATE_TOPICS, Trouble::Code(ErrorCode::NOT_CONTROLLER));
    broker.trouble(ApiKey::INCREMENTAL_ALTER_CONFIGS, Trouble::Code(ErrorCode::NOT_CONTROLLER));
    assert!(client.create_topics(&[NewTopic::new("t")], false).await.unwrap()[0].1.is_ok());
    let resource = ConfigResource::Topic("t".to_owned());
    client.alter_configs(&resource, &[ConfigChange::set("retention.ms", "5")], false).await.unwrap();
    broker.trouble(ApiKey::INCREMENTAL_ALTER_CONFIGS, Trouble::Code(ErrorCode::INVALID_CONFIG));
    let error = client.alter_configs(&resource, &[ConfigChange::delete("nonsense")], false).await.unwrap_err();
    assert!(error.to_string().contains("topic t: INVALID_CONFIG"), "{error}");
}

#[tokio::test]
async fn many_requests_share_one_connection_at_once() {
    let broker = FakeBroker::start().await;
    broker.topic("t", 50);
    let client = client_of(&broker).await;
    let producer = client.producer(ProducerConfig::default());
    let mut tasks = tokio::task::JoinSet::new();
    for i in 0..50 {
        let producer = producer.clone();
        tasks.spawn(async move {
            let one = NewRecord { partition: Some(PartitionIndex(i)), ..NewRecord::new("t", None, Some(b"v")) };
            producer.send(one).await.unwrap().await.unwrap()
        });
    }
    while let Some(receipt) = tasks.join_next().await {
        assert_eq!(receipt.unwrap().offset, Some(Offset(0)));
    }
    let versions = broker.calls_of(ApiKey::API_VERSIONS);
    assert_eq!(versions, 2, "one connection to the bootstrap address and one to the node");
}

#[tokio::test]
async fn a_broker_that_cannot_look_up_by_key_is_named() {
    let broker = FakeBroker::start().await;
    broker.topic("t", 1);
    let client = client_of(&broker).await;
    let error = client.find_by_key("t", &KeySearch::new("k")).await.unwrap_err();
    assert!(matches!(error, ClientError::Unsupported { api: "FindByKey", .. }), "{error}");
}

#[tokio::test]
async fn records_are_read_where_they_are_known_to_be() {
    let broker = FakeBroker::start().await;
    broker.topic("t", 2);
    for partition in 0..2 {
        for values in [["a", "b"], ["c", "d"], ["e", "f"]] {
            let mut builder = BatchBuilder::new();
            for value in values {
                builder.append(TimestampMs(5), None, Some(value.as_bytes()), &[]);
            }
            broker.append("t", partition, builder.build().unwrap());
        }
    }
    let client = client_of(&broker).await;
    let place = |partition, offset| (TopicPartition::new("t", PartitionIndex(partition)), Offset(offset));
    let places = [place(1, 4), place(0, 1), place(1, 5), place(0, 99), place(1, 0), place(0, 1)];
    let records = client.records_at(&places, Isolation::ReadUncommitted).await.unwrap();
    let values = records.iter().map(|record| record.as_ref().map(|record| record.value.clone().unwrap()));
    let expected = [Some("e"), Some("b"), Some("f"), None, Some("a"), Some("b")];
    assert_eq!(values.collect::<Vec<_>>(), expected.map(|value| value.map(bytes::Bytes::from)));
}
