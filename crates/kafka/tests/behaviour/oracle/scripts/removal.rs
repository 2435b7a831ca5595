//! DeleteGroups, OffsetDelete, DescribeProducers, ListPartitionReassignments.

use std::borrow::Cow;

use mainstem_kafka_wire::messages::describe_producers_request::{self, DescribeProducersRequest};
use mainstem_kafka_wire::messages::offset_delete_request::{
    OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic,
};
use mainstem_kafka_wire::messages::{
    DeleteGroupsRequest, DeleteGroupsResponse, DescribeProducersResponse, InitProducerIdRequest,
    InitProducerIdResponse, ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse,
    OffsetDeleteResponse, ProduceResponse,
};

use super::super::script::Script;
use super::cluster::{wait_for_coordinator, wait_for_producer_ids};
use super::committed;
use super::groups::{ask_join, join_alone, sync, sync_in};
use super::produce::KEPT;
use crate::support::batches::sequenced;
use crate::support::requests::{join, produce};

#[test]
fn delete_groups_in_all_versions() {
    let mut script = Script::start("delete_groups_in_all_versions");
    wait_for_coordinator(&mut script);
    let topic = script.create("deleted-groups", 2, &[KEPT]);
    for version in 0..=3 {
        let simple: &'static str = format!("simple-{version}").leak();
        let active: &'static str = format!("active-{version}").leak();
        committed::commit_as(&mut script, "commit", 8, topic, simple, "", -1);
        join_alone(&mut script, 9, active);
        for name in ["delete", "delete again"] {
            let groups_names = [simple, active, "no-such-group"].map(Cow::Borrowed).to_vec();
            let request = DeleteGroupsRequest { groups_names };
            script.ask_shaped(name, version, &request, |response: &mut DeleteGroupsResponse<'static>, _| {
                response.results.sort_by(|a, b| a.group_id.cmp(&b.group_id));
            });
        }
        let request = DeleteGroupsRequest { groups_names: Vec::new() };
        script.ask::<_, DeleteGroupsResponse<'static>>("none", version, &request);
        committed::fetch_one(&mut script, "its offsets", 8, topic, simple);
    }
    script.finish();
}

#[test]
fn offset_delete() {
    let mut script = Script::start("offset_delete");
    wait_for_coordinator(&mut script);
    let topic = script.create("offset-delete", 2, &[KEPT]);
    script.create("offset-delete-other", 1, &[KEPT]);
    let delete = |group: &'static str, topics: &[(&'static str, &[i32])]| OffsetDeleteRequest {
        group_id: Cow::Borrowed(group),
        topics: topics
            .iter()
            .map(|(name, partitions)| OffsetDeleteRequestTopic {
                name: Cow::Borrowed(*name),
                partitions: partitions
                    .iter()
                    .map(|partition_index| OffsetDeleteRequestPartition { partition_index: *partition_index })
                    .collect(),
            })
            .collect(),
    };
    let ask = |script: &mut Script, name: &str, request: &OffsetDeleteRequest<'static>| {
        script.ask_shaped(name, 0, request, |response: &mut OffsetDeleteResponse<'static>, _| {
            response.topics.sort_by(|a, b| a.name.cmp(&b.name));
            response.topics.iter_mut().for_each(|topic| topic.partitions.sort_by_key(|p| p.partition_index));
        });
    };
    committed::commit_as(&mut script, "commit", 8, topic, "od-simple", "", -1);
    ask(&mut script, "some", &delete("od-simple", &[("offset-delete", &[0, 1, 7]), ("nowhere", &[0])]));
    committed::fetch_one(&mut script, "what is left", 8, topic, "od-simple");
    ask(&mut script, "an unknown group", &delete("od-none", &[("offset-delete", &[0])]));
    ask(&mut script, "no group", &delete("", &[("offset-delete", &[0])]));
    // A subscription to the topic, as the protocol `consumer` encodes it (version 0).
    let subscription = [&[0, 0, 0, 0, 0, 1, 0, 13][..], b"offset-delete", &[0, 0, 0, 0]].concat();
    let joined = ask_join(&mut script, "join", 3, &join("od-active", "", &subscription));
    let (id, generation) = (joined.member_id.into_owned(), joined.generation_id);
    let request = sync_in(5, sync("od-active", &id, generation, &[(&id, b"")]));
    script.ask::<_, mainstem_kafka_wire::messages::SyncGroupResponse<'static>>("sync", 5, &request);
    ask(
        &mut script,
        "of a group with members",
        &delete("od-active", &[("offset-delete", &[0]), ("offset-delete-other", &[0])]),
    );
    script.finish();
}

#[test]
fn describe_producers() {
    let mut script = Script::start("describe_producers");
    let topic = script.create("producers", 2, &[KEPT]);
    wait_for_producer_ids(&mut script);
    let request = InitProducerIdRequest { transactional_id: None, ..Default::default() };
    let response: InitProducerIdResponse = script.ask("an id", 4, &request);
    let sent = sequenced(response.producer_id, 0, 0, &["a", "b", "c"]);
    script.ask::<_, ProduceResponse<'static>>("produce", 9, &produce(9, topic, 0, -1, &sent));
    let of = |name: &'static str, partitions: &[i32]| describe_producers_request::TopicRequest {
        name: Cow::Borrowed(name),
        partition_indexes: partitions.to_vec(),
    };
    let topics = vec![of("producers", &[0, 1, 9]), of("nowhere", &[0])];
    script.ask::<_, DescribeProducersResponse<'static>>("describe", 0, &DescribeProducersRequest { topics });
    script.finish();
}

#[test]
fn list_partition_reassignments() {
    let mut script = Script::start("list_partition_reassignments");
    let request = ListPartitionReassignmentsRequest { timeout_ms: 10_000, topics: None };
    script.ask::<_, ListPartitionReassignmentsResponse<'static>>("all", 0, &request);
    script.finish();
}
