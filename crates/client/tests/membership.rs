//! Membership in a group, against a coordinator that has moved, forgets, or is old.

mod fake;

use std::time::Duration;

use fake::{FakeBroker, Trouble};
use mainstem_client::*;
use mainstem_kafka_wire::ApiKey;

fn partition(index: i32) -> TopicPartition {
    TopicPartition::new("orders", PartitionIndex(index))
}

async fn client_of(broker: &FakeBroker) -> Client {
    broker.state.lock().topics.insert("orders".to_owned(), vec![Vec::new(); 3]);
    Client::connect(ClientConfig::new(&broker.address)).await.unwrap()
}

fn membership(client: &Client) -> Membership {
    let config = MembershipConfig::new("workers", vec!["orders".to_owned()]);
    client.membership(MembershipConfig { heartbeat_interval: Duration::from_millis(5), ..config })
}

async fn change(member: &Membership) -> MembershipChange {
    let wait = async {
        loop {
            if let Some(change) = member.change() {
                return change;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), wait).await.expect("a heartbeat tells")
}

#[tokio::test]
async fn a_member_has_its_partitions_with_their_offsets_commits_and_leaves() {
    let broker = FakeBroker::start().await;
    let client = client_of(&broker).await;
    client.commit_group_offsets("workers", &[(partition(1), CommittedOffset::at(Offset(7)))]).await.unwrap();
    let mut member = membership(&client);
    let joined = member.join().await.unwrap();
    let offsets: Vec<_> = joined.iter().map(|(one, at)| (one.clone(), at.as_ref().map(|at| at.offset.0))).collect();
    assert_eq!(offsets, [(partition(0), None), (partition(1), Some(7)), (partition(2), None)]);
    assert_eq!((member.generation(), member.assigned().len(), member.change()), (1, 3, None));
    // The fake looks at the generation.
    member.commit(&[(partition(1), CommittedOffset::at(Offset(9)))]).await.unwrap();
    assert_eq!(client.group_offsets("workers").await.unwrap()[0].1.offset, Offset(9));
    member.leave().await;
    assert_eq!(broker.state.lock().left, ["member-1"]);
    member.leave().await;
    assert_eq!(broker.state.lock().left.len(), 1, "who has left does not leave again");
}

#[tokio::test]
async fn a_rebalance_is_told_and_joined_under_the_same_id() {
    let broker = FakeBroker::start().await;
    let client = client_of(&broker).await;
    let mut member = membership(&client);
    member.join().await.unwrap();
    broker.trouble(ApiKey::HEARTBEAT, Trouble::Code(ErrorCode::REBALANCE_IN_PROGRESS));
    assert_eq!(change(&member).await, MembershipChange::Rebalance);
    member.join().await.unwrap();
    assert_eq!((member.generation(), member.change(), broker.state.lock().ids_given), (2, None, 1));
}

#[tokio::test]
async fn a_member_that_the_coordinator_forgot_joins_as_a_new_one() {
    let broker = FakeBroker::start().await;
    let client = client_of(&broker).await;
    let mut member = membership(&client);
    member.join().await.unwrap();
    for code in [ErrorCode::UNKNOWN_MEMBER_ID, ErrorCode::ILLEGAL_GENERATION] {
        let before = broker.state.lock().ids_given;
        broker.trouble(ApiKey::HEARTBEAT, Trouble::Code(code));
        assert_eq!(change(&member).await, MembershipChange::Lost);
        member.join().await.unwrap();
        assert_eq!(broker.state.lock().ids_given, before + 1);
    }
}

#[tokio::test]
async fn a_static_member_that_another_has_replaced_is_told_so() {
    let broker = FakeBroker::start().await;
    let client = client_of(&broker).await;
    let mut member = membership(&client);
    member.join().await.unwrap();
    broker.trouble(ApiKey::HEARTBEAT, Trouble::Code(ErrorCode::FENCED_INSTANCE_ID));
    assert_eq!(change(&member).await, MembershipChange::Fenced);
}

#[tokio::test]
async fn what_passes_while_a_member_joins_is_waited_out() {
    let broker = FakeBroker::start().await;
    let client = client_of(&broker).await;
    for (api, trouble) in [
        (ApiKey::FIND_COORDINATOR, Trouble::Code(ErrorCode::COORDINATOR_NOT_AVAILABLE)),
        (ApiKey::JOIN_GROUP, Trouble::Code(ErrorCode::NOT_COORDINATOR)),
        (ApiKey::JOIN_GROUP, Trouble::CloseAfter),
        (ApiKey::JOIN_GROUP, Trouble::Code(ErrorCode::UNKNOWN_MEMBER_ID)),
        (ApiKey::SYNC_GROUP, Trouble::Code(ErrorCode::REBALANCE_IN_PROGRESS)),
        (ApiKey::SYNC_GROUP, Trouble::Code(ErrorCode::COORDINATOR_LOAD_IN_PROGRESS)),
    ] {
        broker.trouble(api, trouble);
    }
    let mut member = membership(&client);
    assert_eq!(member.join().await.unwrap().len(), 3);
}

/// Other members may take as long as they are allowed to, and a generation may end before it has begun.
#[tokio::test]
async fn a_rebalance_may_last_longer_than_failures_are_waited_out() {
    let broker = FakeBroker::start().await;
    client_of(&broker).await;
    let mut config = ClientConfig::new(&broker.address);
    config.retry_timeout = Duration::from_millis(200);
    let client = Client::connect(config).await.unwrap();
    broker.trouble(ApiKey::JOIN_GROUP, Trouble::Silence);
    for _ in 0..8 {
        broker.trouble(ApiKey::SYNC_GROUP, Trouble::Code(ErrorCode::REBALANCE_IN_PROGRESS));
    }
    let config = MembershipConfig::new("workers", vec!["orders".to_owned()]);
    let mut member = client.membership(MembershipConfig { rebalance_timeout: Duration::ZERO, ..config });
    assert_eq!(member.join().await.unwrap().len(), 3);
    for _ in 0..8 {
        broker.trouble(ApiKey::JOIN_GROUP, Trouble::Code(ErrorCode::COORDINATOR_NOT_AVAILABLE));
    }
    let failed = member.join().await.unwrap_err();
    assert_eq!(failed.code(), Some(ErrorCode::COORDINATOR_NOT_AVAILABLE), "failures use up the time");
}

#[tokio::test]
async fn what_does_not_pass_is_told() {
    let broker = FakeBroker::start().await;
    let client = client_of(&broker).await;
    let mut member = membership(&client);
    for code in
        [ErrorCode::INCONSISTENT_GROUP_PROTOCOL, ErrorCode::GROUP_MAX_SIZE_REACHED, ErrorCode::FENCED_INSTANCE_ID]
    {
        broker.trouble(ApiKey::JOIN_GROUP, Trouble::Code(code));
        assert_eq!(member.join().await.unwrap_err().code(), Some(code));
    }
    member.join().await.unwrap();
    broker.trouble(ApiKey::OFFSET_COMMIT, Trouble::Code(ErrorCode::ILLEGAL_GENERATION));
    let refused = member.commit(&[(partition(1), CommittedOffset::at(Offset(9)))]).await.unwrap_err();
    assert_eq!(refused.code(), Some(ErrorCode::ILLEGAL_GENERATION));
    broker.trouble(ApiKey::OFFSET_COMMIT, Trouble::Code(ErrorCode::NOT_COORDINATOR));
    member.commit(&[(partition(1), CommittedOffset::at(Offset(9)))]).await.expect("the next attempt");
}

#[tokio::test]
async fn an_old_coordinator_is_joined_and_left_in_its_way() {
    let broker = FakeBroker::start().await;
    for (api, most) in
        [(ApiKey::JOIN_GROUP, 3), (ApiKey::SYNC_GROUP, 0), (ApiKey::HEARTBEAT, 0), (ApiKey::LEAVE_GROUP, 2)]
    {
        broker.state.lock().versions_most.insert(api.0, most);
    }
    let client = client_of(&broker).await;
    let mut member = membership(&client);
    assert_eq!(member.join().await.unwrap().len(), 3);
    member.leave().await;
    assert_eq!(broker.state.lock().left, ["member-1"]);
}

#[tokio::test]
async fn a_static_member_does_not_leave() {
    let broker = FakeBroker::start().await;
    let client = client_of(&broker).await;
    let config = MembershipConfig::new("workers", vec!["orders".to_owned()]);
    let mut member = client.membership(MembershipConfig { instance_id: Some("one".to_owned()), ..config });
    member.join().await.unwrap();
    member.leave().await;
    assert!(broker.state.lock().left.is_empty());
}
