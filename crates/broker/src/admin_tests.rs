use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use mainstem_env::{CrashPolicy, ManualClock, MemFs, SeededRng};
use mainstem_metadata::config::BrokerConfig;
use mainstem_metadata::controller::{AlterConfigOp, AlterConfigOperation};
use mainstem_metadata::image::ConfigResource;
use mainstem_store::StoreEnv;
use mainstem_types::TimestampMs;

use super::*;

fn start(fs: &MemFs, settings: &[(&str, &str)]) -> Arc<Broker> {
    let own = [("node.id", "1"), ("listeners", "PLAINTEXT://127.0.0.1:19092")];
    let all = own.iter().chain(settings);
    let properties: BTreeMap<String, String> = all.map(|(k, v)| (k.to_string(), v.to_string())).collect();
    let clock = Arc::new(ManualClock::at(TimestampMs(1_790_000_000_000)));
    let env = StoreEnv::new(Arc::new(fs.clone()), clock, Arc::new(SeededRng::new(1)), 1 << 20, 1).unwrap();
    Broker::start(env, Path::new("/data"), BrokerConfig::parse(&properties).unwrap()).unwrap().0
}

fn wait<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| name.to_string()).collect()
}

#[test]
fn topics_are_created_by_use_with_the_default_settings() {
    let broker = start(&MemFs::new(), &[("num.partitions", "2")]);
    assert_eq!(wait(broker.auto_create_topics(names(&["a", "b", "a"]))), []);
    assert_eq!(broker.topics().by_name("a").unwrap().partitions.len(), 2);
    assert_eq!(broker.topics().len(), 2);
    let id = broker.topics().by_name("a").unwrap().id;
    assert_eq!(wait(broker.auto_create_topics(names(&["a"]))), [], "a topic that exists is not an error");
    assert_eq!(broker.topics().by_name("a").unwrap().id, id);
    broker.shutdown();
}

#[test]
fn what_cannot_be_created_by_use_is_returned_with_the_reason() {
    let broker = start(&MemFs::new(), &[("default.replication.factor", "3")]);
    let failed = wait(broker.auto_create_topics(names(&["a", "b c"])));
    let failed: Vec<_> = failed.iter().map(|(name, error)| (name.as_str(), error)).collect();
    assert!(matches!(failed[0], ("a", CreateTopicError::TooFewBrokers { wanted: 3, brokers: 1 })), "{failed:?}");
    assert!(matches!(failed[1], ("b c", CreateTopicError::Name(_))), "{failed:?}");
    assert!(broker.topics().is_empty());
    broker.shutdown();
}

#[test]
fn of_the_internal_topics_only_that_of_the_offsets_is_created_by_use() {
    let broker = start(&MemFs::new(), &[("offsets.topic.num.partitions", "4")]);
    let internal = ["__transaction_state", "__share_group_state", CONSUMER_OFFSETS_TOPIC];
    assert_eq!(wait(broker.auto_create_topics(names(&internal))), []);
    assert_eq!(
        broker.topics().iter().map(|topic| topic.name.to_string()).collect::<Vec<_>>(),
        [CONSUMER_OFFSETS_TOPIC]
    );
    broker.shutdown();
}

#[test]
fn the_offsets_topic_is_created_once_compacted_and_served_at_once() {
    let broker = start(&MemFs::new(), &[("offsets.topic.num.partitions", "4")]);
    assert!(!broker.consumer_groups().is_available());
    for _ in 0..2 {
        wait(broker.create_offsets_topic()).unwrap();
        let topics = broker.topics();
        let topic = topics.by_name(CONSUMER_OFFSETS_TOPIC).unwrap();
        assert_eq!((topic.partitions.len(), topic.config.cleanup_compact), (4, true));
        assert!(broker.consumer_groups().is_available());
    }
    broker.shutdown();
}

#[test]
fn producer_ids_are_never_given_twice_not_even_after_a_crash() {
    let fs = MemFs::new();
    let broker = start(&fs, &[]);
    let mut given = BTreeSet::new();
    for _ in 0..2_500 {
        assert!(given.insert(wait(broker.allocate_producer_id()).unwrap()));
    }
    let again = start(&fs.crash(CrashPolicy::Nothing), &[]);
    for _ in 0..1_500 {
        assert!(given.insert(wait(again.allocate_producer_id()).unwrap()));
    }
    broker.shutdown();
    again.shutdown();
}

#[test]
fn a_stopped_broker_changes_nothing() {
    let broker = start(&MemFs::new(), &[]);
    broker.shutdown();
    assert!(matches!(wait(broker.create_offsets_topic()), Err(ControllerError::Stopping)));
    assert!(matches!(wait(broker.refill_producer_ids()), Err(ControllerError::Stopping)));
    assert_eq!(wait(broker.auto_create_topics(names(&["a"]))), []);
    assert!(broker.topics().is_empty());
}

#[test]
fn settings_of_the_broker_that_are_no_topic_s_reach_the_logs_at_once() {
    let broker = start(&MemFs::new(), &[]);
    assert_eq!(wait(broker.auto_create_topics(names(&["a"]))), []);
    let expiration = |broker: &Broker| {
        let topics = broker.topics();
        let partition = topics.by_name("a").unwrap().partitions[0].clone();
        partition.log().config().producer_id_expiration_ms
    };
    assert_eq!(expiration(&broker), 86_400_000);
    let operation = AlterConfigOp {
        key: "producer.id.expiration.ms".to_owned(),
        operation: AlterConfigOperation::Set,
        value: Some("5000".to_owned()),
    };
    let alteration = ConfigAlteration { resource: ConfigResource::cluster_default(), operations: vec![operation] };
    assert_eq!(wait(broker.alter_configs(vec![alteration], false)).unwrap(), [Ok(())]);
    assert_eq!(expiration(&broker), 5000);
    broker.shutdown();
}
