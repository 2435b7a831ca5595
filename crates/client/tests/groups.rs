//! Groups and records, against a broker that is old, busy, or has moved.

mod fake;

use fake::{FakeBroker, Trouble};
use mainstem_client::*;
use mainstem_kafka_wire::ApiKey;

async fn client_of(broker: &FakeBroker) -> Client {
    Client::connect(ClientConfig::new(&broker.address)).await.unwrap()
}

fn partition(index: i32) -> TopicPartition {
    TopicPartition::new("orders", PartitionIndex(index))
}

/// Sets two offsets of a group and reads them again.
async fn offsets_come_back(client: &Client) {
    let wanted = [(partition(1), CommittedOffset::at(Offset(7))), (partition(0), CommittedOffset::at(Offset(3)))];
    let results = client.commit_group_offsets("billing", &wanted).await.unwrap();
    assert_eq!(results, [(partition(1), Ok(())), (partition(0), Ok(()))], "in the order of the request");
    let offsets = client.group_offsets("billing").await.unwrap();
    assert_eq!(offsets.iter().map(|(one, at)| (one.partition.0, at.offset.0)).collect::<Vec<_>>(), [(0, 3), (1, 7)]);
}

#[tokio::test]
async fn offsets_of_a_group_are_set_read_and_deleted() {
    let broker = FakeBroker::start().await;
    let client = client_of(&broker).await;
    assert_eq!(client.group_offsets("billing").await.unwrap(), []);
    offsets_come_back(&client).await;
    let deleted = client.delete_group_offsets("billing", &[partition(1)]).await.unwrap();
    assert_eq!(deleted, [(partition(1), Ok(()))]);
    assert_eq!(client.group_offsets("billing").await.unwrap().len(), 1);

    let groups = client.list_groups().await.unwrap();
    let told = (groups[0].group.as_str(), groups[0].state.as_deref(), groups[0].kind.as_deref());
    assert_eq!((groups.len(), told), (1, ("billing", Some("Empty"), Some("classic"))));
    let results = client.delete_groups(&["billing", "absent"]).await.unwrap();
    assert_eq!(results[0], ("billing".to_owned(), Ok(())));
    assert_eq!(results[1].1.as_ref().unwrap_err().code(), Some(ErrorCode::GROUP_ID_NOT_FOUND));
}

#[tokio::test]
async fn an_old_broker_is_asked_in_its_way() {
    let broker = FakeBroker::start().await;
    for (api, most) in [
        (ApiKey::FIND_COORDINATOR, 3),
        (ApiKey::OFFSET_FETCH, 7),
        (ApiKey::OFFSET_COMMIT, 5),
        (ApiKey::LIST_GROUPS, 2),
        (ApiKey::DESCRIBE_GROUPS, 5),
    ] {
        broker.state.lock().versions_most.insert(api.0, most);
    }
    let client = client_of(&broker).await;
    offsets_come_back(&client).await;
    let groups = client.list_groups().await.unwrap();
    assert_eq!((groups[0].state.as_deref(), groups[0].kind.as_deref()), (None, None));
    let described = client.describe_group("billing").await.unwrap();
    assert_eq!((described.state.as_str(), described.members.len()), ("Empty", 0));
    let absent = client.describe_group("absent").await.unwrap_err();
    assert_eq!(absent.code(), Some(ErrorCode::GROUP_ID_NOT_FOUND));
}

#[tokio::test]
async fn a_group_that_is_not_there_is_the_same_error_on_every_broker() {
    let broker = FakeBroker::start().await;
    let error = client_of(&broker).await.describe_group("absent").await.unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::GROUP_ID_NOT_FOUND));
    assert!(error.to_string().contains("group absent"), "{error}");
}

#[tokio::test]
async fn a_coordinator_that_moves_or_loads_is_waited_out() {
    let broker = FakeBroker::start().await;
    let client = client_of(&broker).await;
    broker.trouble(ApiKey::FIND_COORDINATOR, Trouble::Code(ErrorCode::COORDINATOR_NOT_AVAILABLE));
    broker.trouble(ApiKey::OFFSET_COMMIT, Trouble::Code(ErrorCode::NOT_COORDINATOR));
    broker.trouble(ApiKey::OFFSET_COMMIT, Trouble::Code(ErrorCode::COORDINATOR_LOAD_IN_PROGRESS));
    broker.trouble(ApiKey::OFFSET_FETCH, Trouble::CloseAfter);
    broker.trouble(ApiKey::LIST_GROUPS, Trouble::Code(ErrorCode::COORDINATOR_LOAD_IN_PROGRESS));
    offsets_come_back(&client).await;
    assert_eq!(client.list_groups().await.unwrap().len(), 1);
    assert_eq!(broker.calls_of(ApiKey::OFFSET_COMMIT), 3);
    assert_eq!(broker.calls_of(ApiKey::OFFSET_FETCH), 2);
}

#[tokio::test]
async fn a_refusal_is_told_for_each_partition_and_at_once() {
    let broker = FakeBroker::start().await;
    let client = client_of(&broker).await;
    broker.trouble(ApiKey::OFFSET_COMMIT, Trouble::Code(ErrorCode::UNKNOWN_MEMBER_ID));
    let wanted = [(partition(0), CommittedOffset::at(Offset(3)))];
    let results = client.commit_group_offsets("billing", &wanted).await.unwrap();
    assert_eq!(results[0].1.as_ref().unwrap_err().code(), Some(ErrorCode::UNKNOWN_MEMBER_ID));
    broker.trouble(ApiKey::OFFSET_DELETE, Trouble::Code(ErrorCode::NON_EMPTY_GROUP));
    let error = client.delete_group_offsets("billing", &[partition(0)]).await.unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::NON_EMPTY_GROUP));
    assert_eq!((broker.calls_of(ApiKey::OFFSET_COMMIT), broker.calls_of(ApiKey::OFFSET_DELETE)), (1, 1));
}

#[tokio::test]
async fn records_are_deleted_and_a_leader_that_moves_is_followed() {
    let broker = FakeBroker::start().await;
    broker.topic("orders", 2);
    let client = client_of(&broker).await;
    broker.trouble(ApiKey::DELETE_RECORDS, Trouble::Code(ErrorCode::NOT_LEADER_OR_FOLLOWER));
    let wanted = [(partition(1), Offset(5)), (partition(0), Offset(2))];
    let results = client.delete_records(&wanted).await.unwrap();
    assert_eq!(results, [(partition(1), Ok(Offset(5))), (partition(0), Ok(Offset(2)))]);
    assert_eq!(broker.calls_of(ApiKey::DELETE_RECORDS), 2);

    broker.trouble(ApiKey::DELETE_RECORDS, Trouble::Code(ErrorCode::OFFSET_OUT_OF_RANGE));
    let results = client.delete_records(&wanted).await.unwrap();
    assert!(
        results.iter().all(|(_, result)| result.as_ref().unwrap_err().code() == Some(ErrorCode::OFFSET_OUT_OF_RANGE))
    );
}

#[tokio::test]
async fn nothing_is_sent_after_a_failure_when_that_is_wanted() {
    let broker = FakeBroker::start().await;
    broker.topic("orders", 2);
    let client = client_of(&broker).await;
    let producer = client.producer(ProducerConfig { halt_on_failure: true, ..Default::default() });
    broker.trouble(ApiKey::PRODUCE, Trouble::Code(ErrorCode::INVALID_RECORD));
    let record = |index, value: &str| NewRecord {
        partition: Some(PartitionIndex(index)),
        ..NewRecord::new("orders", None, Some(value.as_bytes()))
    };
    let first = producer.send(record(0, "refused")).await.unwrap().await.unwrap_err();
    assert!(matches!(first, ProduceError::Client(_)), "{first}");
    let second = producer.send(record(0, "halted")).await.unwrap().await.unwrap_err();
    assert!(matches!(second, ProduceError::Halted { .. }), "{second}");
    producer.send(record(1, "another partition")).await.unwrap().await.unwrap();
    assert_eq!((broker.values("orders", 0).len(), broker.values("orders", 1).len()), (0, 1));
}

/// Compiles, and that is the test: a program may run any of these in a task of its own.
#[allow(dead_code)]
fn everything_can_be_spawned(client: &Client, fetcher: &mut Fetcher) {
    fn send<T: Send>(_: T) {}
    let one = [(partition(0), OffsetSpec::Latest)];
    send(client.topic("orders"));
    send(client.list_topics(false));
    send(client.describe_topics(&["orders"]));
    send(client.create_partitions("orders", 3, false));
    send(client.delete_topics(&["orders"]));
    send(client.describe_cluster());
    send(client.list_offsets(&one, Isolation::ReadCommitted));
    send(client.delete_records(&[]));
    send(client.list_groups());
    send(client.describe_group("billing"));
    send(client.group_offsets("billing"));
    send(client.commit_group_offsets("billing", &[]));
    send(client.delete_group_offsets("billing", &[]));
    send(client.delete_groups(&["billing"]));
    send(client.describe_configs(&ConfigResource::BrokerDefaults));
    send(client.alter_configs(&ConfigResource::BrokerDefaults, &[], true));
    send(fetcher.poll(std::time::Duration::ZERO));
}
