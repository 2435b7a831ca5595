//! What concerns the node and the cluster: AlterReplicaLogDirs, DescribeLogDirs, AlterPartitionReassignments,
//! ListPartitionReassignments, DescribeQuorum, UpdateFeatures, UnregisterBroker, ListConfigResources.

use std::borrow::Cow;

use mainstem_kafka_wire::messages::alter_partition_reassignments_request::{
    AlterPartitionReassignmentsRequest, ReassignablePartition, ReassignableTopic,
};
use mainstem_kafka_wire::messages::alter_replica_log_dirs_request::{
    AlterReplicaLogDir, AlterReplicaLogDirTopic, AlterReplicaLogDirsRequest,
};
use mainstem_kafka_wire::messages::describe_log_dirs_request::{DescribableLogDirTopic, DescribeLogDirsRequest};
use mainstem_kafka_wire::messages::describe_quorum_request::{self, DescribeQuorumRequest};
use mainstem_kafka_wire::messages::list_partition_reassignments_request::{
    ListPartitionReassignmentsRequest, ListPartitionReassignmentsTopics,
};
use mainstem_kafka_wire::messages::update_features_request::{FeatureUpdateKey, UpdateFeaturesRequest};
use mainstem_kafka_wire::messages::{
    AlterPartitionReassignmentsResponse, AlterReplicaLogDirsResponse, DescribeLogDirsResponse, DescribeQuorumResponse,
    ListConfigResourcesRequest, ListConfigResourcesResponse, ListPartitionReassignmentsResponse, ProduceResponse,
    UnregisterBrokerRequest, UnregisterBrokerResponse, UpdateFeaturesResponse,
};

use super::super::canonical::Names;
use super::super::script::Script;
use super::produce::KEPT;
use crate::support::batches::batch;
use crate::support::requests::produce;

/// Kafka gives topics and partitions in the order of hash maps. How large the disk is is nobody's business.
fn in_order(response: &mut DescribeLogDirsResponse<'static>, _: &mut Names) {
    for folder in &mut response.results {
        folder.topics.sort_by(|a, b| a.name.cmp(&b.name));
        folder.topics.iter_mut().for_each(|topic| topic.partitions.sort_by_key(|partition| partition.partition_index));
        (folder.total_bytes, folder.usable_bytes) = (folder.total_bytes.signum(), folder.usable_bytes.signum());
    }
}

#[test]
fn describe_log_dirs_in_all_versions() {
    let mut script = Script::start("describe_log_dirs_in_all_versions");
    let topic = script.create("log-dirs", 3, &[KEPT]);
    let records = batch(&["a", "b", "c"]);
    for partition in [0, 0, 2] {
        script.ask::<_, ProduceResponse<'static>>("produce", 9, &produce(9, topic, partition, -1, &records));
    }
    let of = |topic: &'static str, partitions: &[i32]| DescribableLogDirTopic {
        topic: Cow::Borrowed(topic),
        partitions: partitions.to_vec(),
    };
    for version in 1..=5 {
        for (name, topics) in [
            ("all partitions", vec![of(topic.name, &[0, 1, 2])]),
            ("one", vec![of(topic.name, &[2])]),
            ("one twice", vec![of(topic.name, &[0, 0])]),
            ("unknown ones", vec![of(topic.name, &[9, -1, i32::MAX]), of("nowhere", &[0]), of("", &[0])]),
            ("no partitions", vec![of(topic.name, &[])]),
            ("none", Vec::new()),
        ] {
            script.ask_shaped(name, version, &DescribeLogDirsRequest { topics: Some(topics) }, in_order);
        }
    }
    script.finish();
}

#[test]
fn alter_replica_log_dirs_in_all_versions() {
    let mut script = Script::start("alter_replica_log_dirs_in_all_versions");
    let topic = script.create("log-dirs-altered", 2, &[]);
    let described: DescribeLogDirsResponse<'static> =
        script.link().call(4, &DescribeLogDirsRequest { topics: Some(Vec::new()) });
    let own: &'static str = described.results[0].log_dir.to_string().leak();
    let to = |path: &'static str, topics: &[(&'static str, &[i32])]| {
        let topic = |(name, partitions): &(&'static str, &[i32])| AlterReplicaLogDirTopic {
            name: Cow::Borrowed(*name),
            partitions: partitions.to_vec(),
        };
        AlterReplicaLogDir { path: Cow::Borrowed(path), topics: topics.iter().map(topic).collect() }
    };
    for version in 1..=2 {
        let mut ask = |name: &str, dirs: Vec<AlterReplicaLogDir<'static>>| {
            let request = AlterReplicaLogDirsRequest { dirs };
            script.ask_shaped(name, version, &request, |response: &mut AlterReplicaLogDirsResponse<'static>, _| {
                response.results.sort_by(|a, b| a.topic_name.cmp(&b.topic_name));
                for topic in &mut response.results {
                    topic.partitions.sort_by_key(|partition| partition.partition_index);
                }
            });
        };
        ask("where they are", vec![to(own, &[(topic.name, &[0, 1])])]);
        ask("unknown ones", vec![to(own, &[(topic.name, &[9, -1]), ("nowhere", &[0]), ("", &[0])])]);
        ask("to an unknown folder", vec![to("/no/such/folder", &[(topic.name, &[0]), ("nowhere", &[0])])]);
        ask("to a relative folder", vec![to("folder", &[(topic.name, &[0])])]);
        ask("to no folder", vec![to("", &[(topic.name, &[0])])]);
        ask("no partitions", vec![to(own, &[(topic.name, &[])])]);
        ask("no topics", vec![to(own, &[])]);
        ask("none", Vec::new());
    }
    script.finish();
}

#[test]
fn alter_partition_reassignments_in_all_versions() {
    let mut script = Script::start("alter_partition_reassignments_in_all_versions");
    let topic = script.create("reassigned", 3, &[]);
    let of = |name: &'static str, partitions: &[(i32, Option<&[i32]>)]| {
        let partition = |(partition_index, replicas): &(i32, Option<&[i32]>)| ReassignablePartition {
            partition_index: *partition_index,
            replicas: replicas.map(<[i32]>::to_vec),
        };
        ReassignableTopic { name: Cow::Borrowed(name), partitions: partitions.iter().map(partition).collect() }
    };
    let stays: Option<&[i32]> = Some(&[1]);
    for version in 0..=1 {
        for may_change in [true, false].into_iter().filter(|may| version >= 1 || *may) {
            let mut ask = |name: &str, topics: Vec<ReassignableTopic<'static>>| {
                let request = AlterPartitionReassignmentsRequest {
                    timeout_ms: 10_000,
                    allow_replication_factor_change: may_change,
                    topics,
                };
                let name = format!("{name}, factor may change: {may_change}");
                script.except(&["error_message"], "we say why, Kafka does so only sometimes");
                script.ask::<_, AlterPartitionReassignmentsResponse<'static>>(&name, version, &request);
            };
            ask("where they are", vec![of(topic.name, &[(0, stays), (1, stays), (2, stays)])]);
            ask("cancelled", vec![of(topic.name, &[(0, None), (9, None)]), of("nowhere", &[(0, None)])]);
            for replicas in [&[][..], &[2], &[1, 2], &[1, 1], &[-1], &[i32::MAX], &[0]] {
                ask(&format!("to {replicas:?}"), vec![of(topic.name, &[(0, Some(replicas))])]);
            }
            ask("unknown ones", vec![of(topic.name, &[(3, stays), (-1, stays), (i32::MAX, stays)])]);
            ask("unknown topics", vec![of("nowhere", &[(0, stays)]), of("", &[(0, stays)])]);
            ask("no partitions", vec![of(topic.name, &[])]);
            ask("none", Vec::new());
        }
    }
    script.finish();
}

#[test]
fn list_partition_reassignments_of_some() {
    let mut script = Script::start("list_partition_reassignments_of_some");
    let topic = script.create("reassignments-listed", 2, &[]);
    let of = |name: &'static str, partition_indexes: &[i32]| ListPartitionReassignmentsTopics {
        name: Cow::Borrowed(name),
        partition_indexes: partition_indexes.to_vec(),
    };
    for (name, topics) in [
        ("two", vec![of(topic.name, &[0, 1])]),
        ("unknown ones", vec![of(topic.name, &[9, -1]), of("nowhere", &[0]), of("", &[])]),
        ("one twice", vec![of(topic.name, &[0, 0]), of(topic.name, &[0])]),
        ("no topics", Vec::new()),
    ] {
        let request = ListPartitionReassignmentsRequest { timeout_ms: 10_000, topics: Some(topics) };
        script.ask::<_, ListPartitionReassignmentsResponse<'static>>(name, 0, &request);
    }
    script.finish();
}

/// The log goes on growing, and each broker has its own.
fn at_any_moment(response: &mut DescribeQuorumResponse<'static>, _: &mut Names) {
    for partition in response.topics.iter_mut().flat_map(|topic| &mut topic.partitions) {
        partition.leader_epoch = partition.leader_epoch.signum();
        partition.high_watermark = partition.high_watermark.signum();
        for voter in &mut partition.current_voters {
            voter.log_end_offset = voter.log_end_offset.signum();
            voter.last_fetch_timestamp = voter.last_fetch_timestamp.signum();
            voter.last_caught_up_timestamp = voter.last_caught_up_timestamp.signum();
        }
    }
}

#[test]
fn describe_quorum_in_all_versions() {
    let mut script = Script::start("describe_quorum_in_all_versions");
    let of = |name: &'static str, partitions: &[i32]| describe_quorum_request::TopicData {
        topic_name: Cow::Borrowed(name),
        partitions: partitions
            .iter()
            .map(|partition_index| describe_quorum_request::PartitionData { partition_index: *partition_index })
            .collect(),
    };
    const METADATA: &str = "__cluster_metadata";
    for version in 0..=2 {
        for (name, topics) in [
            ("the metadata log", vec![of(METADATA, &[0])]),
            ("another partition", vec![of(METADATA, &[1])]),
            ("two partitions", vec![of(METADATA, &[0, 1])]),
            ("another topic", vec![of("nowhere", &[0])]),
            ("two topics", vec![of(METADATA, &[0]), of("nowhere", &[0])]),
            ("no partitions", vec![of(METADATA, &[])]),
            ("nothing", Vec::new()),
        ] {
            script.except(&["listeners[0].name"], "Kafka's voters have a listener of their own, we have none");
            script.except(&["error_message"], "we say why, Kafka does so only sometimes");
            script.ask_shaped(name, version, &DescribeQuorumRequest { topics }, at_any_moment);
        }
    }
    script.finish();
}

#[test]
fn update_features_in_all_versions() {
    let mut script = Script::start("update_features_in_all_versions");
    const METADATA: &str = "metadata.version";
    const ELIGIBLE: &str = "eligible.leader.replicas.version";
    for version in 0..=2 {
        let mut ask = |name: &str, updates: &[(&'static str, i16, i8)]| {
            let update = |(feature, level, kind): &(&'static str, i16, i8)| FeatureUpdateKey {
                feature: Cow::Borrowed(*feature),
                max_version_level: *level,
                allow_downgrade: version == 0 && *kind > 1,
                upgrade_type: if version == 0 { 1 } else { *kind },
            };
            let request = UpdateFeaturesRequest {
                timeout_ms: 10_000,
                feature_updates: updates.iter().map(update).collect(),
                // Others look at the same cluster.
                validate_only: version > 0,
            };
            script.ask_shaped(name, version, &request, |response: &mut UpdateFeaturesResponse<'static>, _| {
                response.results.sort_by(|a, b| a.feature.cmp(&b.feature));
            });
        };
        ask("what is so", &[(METADATA, 33, 1), (ELIGIBLE, 1, 1)]);
        ask("none", &[]);
        for level in [32, 7, 6, 0, -1, 34, i16::MAX, i16::MIN] {
            for kind in if version == 0 { 1..=2 } else { 0..=4 } {
                ask(&format!("{METADATA} to {level}, kind {kind}"), &[(METADATA, level, kind)]);
            }
        }
        if version > 0 {
            ask("down", &[(ELIGIBLE, 0, 2)]);
            ask("down otherwise", &[(ELIGIBLE, 0, 3)]);
            ask("two", &[(ELIGIBLE, 0, 2), (METADATA, 33, 1)]);
        }
        ask("down without saying so", &[(ELIGIBLE, 0, 1)]);
        ask("too high", &[(ELIGIBLE, 2, 1)]);
        ask("an unknown one", &[("no.such.feature", 1, 1)]);
        ask("an unknown one to nothing", &[("no.such.feature", 0, 1)]);
        ask("without a name", &[("", 1, 1)]);
        ask("a right one and a wrong one", &[(METADATA, 33, 1), ("no.such.feature", 1, 1)]);
    }
    script.finish();
}

#[test]
fn unregister_broker() {
    let mut script = Script::start("unregister_broker");
    for broker_id in [77, 0, -1, i32::MAX, i32::MIN] {
        script.ask::<_, UnregisterBrokerResponse<'static>>(
            &format!("broker {broker_id}"),
            0,
            &UnregisterBrokerRequest { broker_id },
        );
    }
    script.finish();
}

#[test]
fn list_config_resources_in_all_versions() {
    let mut script = Script::start("list_config_resources_in_all_versions");
    script.create("config-resources-a", 1, &[]);
    script.create("config-resources-b", 1, &[("retention.ms", "1000")]);
    // Others have topics in the same cluster.
    let own = |response: &mut ListConfigResourcesResponse<'static>, _: &mut Names| {
        response
            .config_resources
            .retain(|found| found.resource_type != 2 || found.resource_name.starts_with("config-resources-"));
        response
            .config_resources
            .sort_by(|a, b| (a.resource_type, &a.resource_name).cmp(&(b.resource_type, &b.resource_name)));
    };
    script.ask_shaped("client metrics", 0, &ListConfigResourcesRequest::default(), own);
    for kinds in [&[][..], &[2], &[4], &[8], &[16], &[32], &[2, 4], &[2, 2], &[0], &[1], &[3], &[99], &[-1], &[2, 99]] {
        let request = ListConfigResourcesRequest { resource_types: kinds.to_vec() };
        script.ask_shaped(&format!("kinds {kinds:?}"), 1, &request, own);
    }
    script.finish();
}
