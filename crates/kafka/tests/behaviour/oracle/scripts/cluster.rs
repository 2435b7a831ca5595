//! ApiVersions, Metadata, DescribeCluster, FindCoordinator, InitProducerId.

use std::borrow::Cow;

use mainstem_kafka::registry::APIS;
use mainstem_kafka_wire::messages::metadata_request::{MetadataRequest, MetadataRequestTopic};
use mainstem_kafka_wire::messages::{
    ApiVersionsRequest, ApiVersionsResponse, DescribeClusterRequest, DescribeClusterResponse, DescribeGroupsRequest,
    DescribeGroupsResponse, FindCoordinatorRequest, FindCoordinatorResponse, InitProducerIdRequest,
    InitProducerIdResponse, MetadataResponse,
};
use mainstem_metadata::image::SUPPORTED_FEATURES;
use mainstem_types::TopicId;

use super::super::canonical::Names;
use super::super::script::Script;

/// What both brokers have: features, too, follow from apis.
fn common_apis(response: &mut ApiVersionsResponse<'static>, _: &mut Names) {
    response.api_keys.retain(|row| APIS.iter().any(|api| api.key == row.api_key));
    // InitProducerId 6 is the unstable version of two-phase commit, which a Kafka that is started with defaults does
    // not show.
    let names: Vec<&str> = SUPPORTED_FEATURES.iter().map(|feature| feature.name).collect();
    response.supported_features.retain(|feature| names.contains(&feature.name.as_ref()));
    response.finalized_features.retain(|feature| names.contains(&feature.name.as_ref()));
    response.supported_features.sort_by(|a, b| a.name.cmp(&b.name));
    response.finalized_features.sort_by(|a, b| a.name.cmp(&b.name));
    // An offset of the metadata log.
    response.finalized_features_epoch = response.finalized_features_epoch.signum();
}

#[test]
fn api_versions() {
    let mut script = Script::start("api_versions");
    for version in 0..=5 {
        let (name, software) = if version >= 3 { ("mainstem", "1.0") } else { ("", "") };
        let request = ApiVersionsRequest {
            client_software_name: Cow::Borrowed(name),
            client_software_version: Cow::Borrowed(software),
            ..Default::default()
        };
        script.ask_shaped("all", version, &request, common_apis);
    }
    for version in [6, 99] {
        // Header of version 2: no client id, no tags. What follows cannot be read.
        let frame = [0, 18, 0, version, 0, 0, 0, 9, 0xff, 0xff, 0, 0xff, 0xff, 0xff];
        script.ask_raw("an unknown version", 0, &frame, common_apis);
    }
    for (name, software) in [("", ""), ("-a", "1"), ("a", "1-"), ("a b", "1")] {
        let request = ApiVersionsRequest {
            client_software_name: Cow::Borrowed(name),
            client_software_version: Cow::Borrowed(software),
            ..Default::default()
        };
        script.ask_shaped(&format!("software [{name}] [{software}]"), 4, &request, common_apis);
    }
    for (cluster, node) in [(Some("another"), 1), (Some("another"), -1), (None, 1)] {
        let request = ApiVersionsRequest {
            client_software_name: Cow::Borrowed("a"),
            client_software_version: Cow::Borrowed("1"),
            cluster_id: cluster.map(Cow::Borrowed),
            node_id: node,
        };
        script.ask_shaped(&format!("cluster {cluster:?} node {node}"), 5, &request, common_apis);
    }
    script.finish();
}

fn named(names: &[&'static str]) -> Option<Vec<MetadataRequestTopic<'static>>> {
    let topic = |name: &&'static str| MetadataRequestTopic { name: Some(Cow::Borrowed(*name)), ..Default::default() };
    Some(names.iter().map(topic).collect())
}

/// Kafka gives topics in the order of a hash map.
fn sorted(response: &mut MetadataResponse<'static>, names: &mut Names) {
    response.topics.sort_by_cached_key(|topic| (topic.name.clone(), names.topic(topic.topic_id)));
}

#[test]
fn metadata() {
    let mut script = Script::start("metadata");
    let topic = script.create("metadata-a", 2, &[]);
    for version in 0..=13 {
        let request = MetadataRequest { topics: named(&["metadata-a", "metadata-a"]), ..Default::default() };
        script.ask_shaped("a topic, twice", version, &request, sorted);
        let may_create = version < 4;
        if may_create {
            // Versions before 4 cannot say that nothing should be created.
            continue;
        }
        let request = MetadataRequest {
            topics: named(&["metadata-a", "nowhere", "not valid", "", "__consumer_offsets_"]),
            allow_auto_topic_creation: false,
            ..Default::default()
        };
        script.ask_shaped("unknown topics", version, &request, sorted);
        if version > 0 {
            let request = MetadataRequest { topics: named(&[]), ..Default::default() };
            script.ask_shaped("no topics", version, &request, sorted);
        }
        if version >= 8 {
            let request = MetadataRequest {
                topics: named(&["metadata-a", "nowhere", "not valid", "__transaction_state"]),
                allow_auto_topic_creation: false,
                include_topic_authorized_operations: true,
                include_cluster_authorized_operations: version <= 10,
            };
            script.ask_shaped("authorized operations", version, &request, sorted);
        }
        if version >= 10 {
            let by_id = |id: TopicId| MetadataRequestTopic { topic_id: id, name: None };
            let request = MetadataRequest {
                topics: Some(vec![by_id(topic.id), by_id(TopicId([9; 16]))]),
                allow_auto_topic_creation: false,
                include_topic_authorized_operations: true,
                ..Default::default()
            };
            script.ask_shaped("by id", version, &request, sorted);
        }
    }
    script.finish();
}

#[test]
fn metadata_creates_topics() {
    let mut script = Script::start("metadata_creates_topics");
    for version in [1, 4, 9, 13] {
        let name: &'static str = format!("metadata-created-{version}").leak();
        let request = MetadataRequest { topics: named(&[name, "not/valid"]), ..Default::default() };
        script.ask_shaped("not there yet", version, &request, sorted);
    }
    script.finish();
}

#[test]
fn describe_cluster() {
    let mut script = Script::start("describe_cluster");
    for version in 0..=2 {
        let request = DescribeClusterRequest { include_cluster_authorized_operations: true, ..Default::default() };
        script.ask::<_, DescribeClusterResponse>("with operations", version, &request);
        script.ask::<_, DescribeClusterResponse>("plain", version, &DescribeClusterRequest::default());
        if version >= 1 {
            for endpoint_type in [2, 3] {
                let request = DescribeClusterRequest { endpoint_type, ..Default::default() };
                script.ask::<_, DescribeClusterResponse>(&format!("type {endpoint_type}"), version, &request);
            }
        }
    }
    script.finish();
}

fn coordinator_of(version: i16, keys: &[&'static str], key_type: i8) -> FindCoordinatorRequest<'static> {
    let mut request = FindCoordinatorRequest { key_type, ..Default::default() };
    if version >= 4 {
        request.coordinator_keys = keys.iter().map(|key| Cow::Borrowed(*key)).collect();
    } else {
        request.key = Cow::Borrowed(keys[0]);
    }
    request
}

#[test]
fn find_coordinator() {
    let mut script = Script::start("find_coordinator");
    wait_for_coordinator(&mut script);
    for version in 0..=6 {
        let request = coordinator_of(version, &["one", "two", "one"], 0);
        script.ask::<_, FindCoordinatorResponse>("groups", version, &request);
        let request = coordinator_of(version, &[""], 0);
        script.ask::<_, FindCoordinatorResponse>("an empty name", version, &request);
        if version >= 1 {
            let request = coordinator_of(version, &["one"], 3);
            script.ask::<_, FindCoordinatorResponse>("an unknown type", version, &request);
        }
        if (1..6).contains(&version) {
            let request = coordinator_of(version, &["group:AAAAAAAAAAAAAAAAAAAAAQ:0"], 2);
            let reason = "Kafka sends an empty text here, we say why";
            let script = script.except(&["error_message"], reason);
            script.ask::<_, FindCoordinatorResponse>("a share group in a version without them", version, &request);
        }
    }
    script.finish();
}

/// Until the topic of the offsets is there, both answer COORDINATOR_NOT_AVAILABLE; a Kafka then loads one of its
/// partitions after the other.
pub(super) fn wait_for_coordinator(script: &mut Script) {
    let groups: Vec<Cow<'_, str>> = (0..20).map(|number| Cow::Owned(format!("wait-{number}"))).collect();
    for _ in 0..300 {
        let request = coordinator_of(2, &["one"], 0);
        let found: FindCoordinatorResponse<'static> = script.link().call(2, &request);
        assert!([0, 15].contains(&found.error_code), "{found:?}");
        let request = DescribeGroupsRequest { groups: groups.clone(), ..Default::default() };
        let described: DescribeGroupsResponse<'static> = script.link().call(5, &request);
        if found.error_code == 0 && described.groups.iter().all(|group| group.error_code == 0) {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    panic!("there is no coordinator after 15 s");
}

/// The first requests find a Kafka that has no block of ids yet.
pub(super) fn wait_for_producer_ids(script: &mut Script) {
    for _ in 0..300 {
        let request = InitProducerIdRequest { transactional_id: None, ..Default::default() };
        let response: InitProducerIdResponse = script.link().call(4, &request);
        if response.error_code == 0 {
            return;
        }
        assert_eq!(response.error_code, 14, "{response:?}");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    panic!("there are no producer ids after 15 s");
}

#[test]
fn init_producer_id() {
    let mut script = Script::start("init_producer_id");
    wait_for_producer_ids(&mut script);
    for version in 0..=5 {
        let new =
            InitProducerIdRequest { transactional_id: None, transaction_timeout_ms: 60_000, ..Default::default() };
        script.ask::<_, InitProducerIdResponse>("a new one", version, &new);
        let request = InitProducerIdRequest { transactional_id: Some(Cow::Borrowed("")), ..new.clone() };
        script.ask::<_, InitProducerIdResponse>("an empty transactional id", version, &request);
        if version >= 3 {
            for (producer_id, producer_epoch) in [(5, 3), (5, -1), (-1, 3)] {
                let request = InitProducerIdRequest { producer_id, producer_epoch, ..new.clone() };
                let name = format!("with id {producer_id} epoch {producer_epoch}");
                script.ask::<_, InitProducerIdResponse>(&name, version, &request);
            }
        }
    }
    script.finish();
}
