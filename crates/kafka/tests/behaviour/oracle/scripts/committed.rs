//! OffsetCommit and OffsetFetch.

use std::borrow::Cow;

use mainstem_kafka_wire::messages::offset_commit_request::{
    OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use mainstem_kafka_wire::messages::offset_fetch_request::{
    OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics,
};
use mainstem_kafka_wire::messages::{OffsetCommitResponse, OffsetFetchResponse};
use mainstem_types::TopicId;

use super::super::canonical::Names;
use super::super::script::Script;
use super::cluster::wait_for_coordinator;
use super::produce::KEPT;
use crate::support::requests::Topic;

fn partition(
    version: i16,
    index: i32,
    offset: i64,
    epoch: i32,
    metadata: Option<&'static str>,
) -> OffsetCommitRequestPartition<'static> {
    OffsetCommitRequestPartition {
        partition_index: index,
        committed_offset: offset,
        committed_leader_epoch: if version >= 6 { epoch } else { -1 },
        committed_metadata: metadata.map(Cow::Borrowed),
    }
}

fn commit<'m>(
    version: i16,
    group: &'m str,
    topics: Vec<(Topic, Vec<OffsetCommitRequestPartition<'static>>)>,
) -> OffsetCommitRequest<'m> {
    let topic = |(topic, partitions): (Topic, Vec<_>)| OffsetCommitRequestTopic {
        name: Cow::Borrowed(if version >= 10 { "" } else { topic.name }),
        topic_id: if version >= 10 { topic.id } else { TopicId::ZERO },
        partitions,
    };
    OffsetCommitRequest {
        group_id: Cow::Borrowed(group),
        generation_id_or_member_epoch: -1,
        retention_time_ms: -1,
        topics: topics.into_iter().map(topic).collect(),
        ..Default::default()
    }
}

/// Kafka puts what it refuses before the rest.
fn ask_commit(script: &mut Script, name: &str, version: i16, request: &OffsetCommitRequest<'_>) {
    script.ask_shaped(name, version, request, |response: &mut OffsetCommitResponse<'static>, names: &mut Names| {
        response.topics.sort_by_cached_key(|topic| (topic.name.clone(), names.topic(topic.topic_id)));
        response.topics.iter_mut().for_each(|topic| topic.partitions.sort_by_key(|p| p.partition_index));
    });
}

/// Commits offset 5 of partition 0.
pub(super) fn commit_as(
    script: &mut Script,
    name: &str,
    version: i16,
    topic: Topic,
    group: &str,
    member: &str,
    generation: i32,
) {
    let request = OffsetCommitRequest {
        generation_id_or_member_epoch: generation,
        member_id: Cow::Borrowed(member),
        ..commit(version, group, vec![(topic, vec![partition(version, 0, 5, 0, Some("m"))])])
    };
    ask_commit(script, name, version, &request);
}

/// `None` asks for all.
fn fetch<'m>(
    version: i16,
    groups: &[&'m str],
    topics: Option<&[(Topic, &[i32])]>,
    require_stable: bool,
) -> OffsetFetchRequest<'m> {
    if version < 8 {
        let topic = |(topic, partitions): &(Topic, &[i32])| OffsetFetchRequestTopic {
            name: Cow::Borrowed(topic.name),
            partition_indexes: partitions.to_vec(),
        };
        return OffsetFetchRequest {
            group_id: Cow::Borrowed(groups[0]),
            topics: topics.map(|topics| topics.iter().map(topic).collect()),
            require_stable,
            ..Default::default()
        };
    }
    let topic = |(topic, partitions): &(Topic, &[i32])| OffsetFetchRequestTopics {
        name: Cow::Borrowed(if version >= 10 { "" } else { topic.name }),
        topic_id: if version >= 10 { topic.id } else { TopicId::ZERO },
        partition_indexes: partitions.to_vec(),
    };
    let group = |group: &&'m str| OffsetFetchRequestGroup {
        group_id: Cow::Borrowed(*group),
        topics: topics.map(|topics| topics.iter().map(topic).collect()),
        member_epoch: -1,
        ..Default::default()
    };
    OffsetFetchRequest { groups: groups.iter().map(group).collect(), require_stable, ..Default::default() }
}

/// Kafka lists the topics of "all" in the order of a hash map, and those that it does not know first.
fn sorted(response: &mut OffsetFetchResponse<'static>, names: &mut Names) {
    response.topics.sort_by(|a, b| a.name.cmp(&b.name));
    response.topics.iter_mut().for_each(|topic| topic.partitions.sort_by_key(|p| p.partition_index));
    for group in &mut response.groups {
        group.topics.sort_by_cached_key(|topic| (topic.name.clone(), names.topic(topic.topic_id)));
        group.topics.iter_mut().for_each(|topic| topic.partitions.sort_by_key(|p| p.partition_index));
    }
}

fn ask_fetch(script: &mut Script, name: &str, version: i16, request: &OffsetFetchRequest<'_>) {
    script.ask_shaped(name, version, request, sorted);
}

/// Asks for partitions 0 and 1.
pub(super) fn fetch_one(script: &mut Script, name: &str, version: i16, topic: Topic, group: &str) {
    ask_fetch(script, name, version, &fetch(version, &[group], Some(&[(topic, &[0, 1])]), false));
}

#[test]
fn offset_commit_in_all_versions() {
    let mut script = Script::start("offset_commit_in_all_versions");
    wait_for_coordinator(&mut script);
    let topic = script.create("commit", 3, &[KEPT]);
    let long: &'static str = "x".repeat(4_096).leak();
    let too_long: &'static str = "x".repeat(4_097).leak();
    for version in 2..=10 {
        let group: &'static str = format!("commit-{version}").leak();
        let part = |index, offset, epoch, metadata| partition(version, index, offset, epoch, metadata);
        let generation = |generation| OffsetCommitRequest {
            generation_id_or_member_epoch: generation,
            member_id: Cow::Borrowed("somebody"),
            ..commit(version, group, vec![(topic, vec![part(0, 1, 0, None)])])
        };
        ask_commit(&mut script, "a generation without a group", version, &generation(3));
        ask_commit(&mut script, "a name without a generation", version, &generation(-1));
        let partitions =
            vec![part(0, 1, 0, Some("m")), part(1, 2, -1, None), part(2, 0, 4, Some(long)), part(7, 1, 0, None)];
        let request = commit(version, group, vec![(topic, partitions), (Topic::UNKNOWN, vec![part(0, 1, 0, None)])]);
        ask_commit(&mut script, "simple", version, &request);
        let partitions = vec![part(0, 3, 0, Some(too_long)), part(1, 4, 0, None)];
        ask_commit(&mut script, "too much metadata", version, &commit(version, group, vec![(topic, partitions)]));
        let partitions = vec![part(0, -1, 0, None), part(1, i64::MAX, 0, None)];
        ask_commit(&mut script, "strange offsets", version, &commit(version, group, vec![(topic, partitions)]));
        let partitions = vec![part(2, 8, 0, None), part(2, 9, 0, None)];
        ask_commit(&mut script, "a partition twice", version, &commit(version, group, vec![(topic, partitions)]));
        let request = commit(version, group, vec![(Topic::UNKNOWN, vec![part(0, 1, 0, None), part(1, 1, 0, None)])]);
        ask_commit(&mut script, "an unknown topic", version, &request);
        ask_commit(&mut script, "nothing", version, &commit(version, group, Vec::new()));
        ask_commit(&mut script, "a generation of a simple group", version, &generation(0));
        let request = commit(version, "", vec![(topic, vec![part(0, 1, 0, None)])]);
        ask_commit(&mut script, "an empty name", version, &request);
        ask_fetch(&mut script, "what is there", version, &fetch(version, &[group], None, false));
    }
    script.finish();
}

#[test]
fn offset_fetch_in_all_versions() {
    let mut script = Script::start("offset_fetch_in_all_versions");
    wait_for_coordinator(&mut script);
    let topic = script.create("committed", 3, &[KEPT]);
    let other = script.create("committed-other", 1, &[KEPT]);
    let parts = vec![partition(8, 0, 10, 2, Some("hello")), partition(8, 1, 11, -1, None)];
    let request = commit(8, "fetch-1", vec![(topic, parts), (other, vec![partition(8, 0, 12, 0, None)])]);
    ask_commit(&mut script, "first", 8, &request);
    ask_commit(&mut script, "second", 8, &commit(8, "fetch-2", vec![(topic, vec![partition(8, 2, 13, 0, None)])]));
    for version in 1..=10 {
        let some: &[(Topic, &[i32])] = &[(topic, &[0, 1, 2, 9]), (Topic::UNKNOWN, &[0]), (other, &[0])];
        for group in ["fetch-1", "fetch-none", ""] {
            let request = fetch(version, &[group], Some(some), false);
            ask_fetch(&mut script, &format!("some of [{group}]"), version, &request);
            ask_fetch(&mut script, &format!("none of [{group}]"), version, &fetch(version, &[group], Some(&[]), false));
            // Other scripts commit to the empty name, too.
            if version >= 2 && !group.is_empty() {
                ask_fetch(&mut script, &format!("all of [{group}]"), version, &fetch(version, &[group], None, false));
            }
            if version >= 7 {
                let request = fetch(version, &[group], Some(some), true);
                ask_fetch(&mut script, &format!("stable of [{group}]"), version, &request);
            }
        }
        if version >= 8 {
            let groups = ["fetch-2", "fetch-none", "fetch-1"];
            ask_fetch(&mut script, "all of several groups", version, &fetch(version, &groups, None, false));
            let request = fetch(version, &groups, Some(&[(topic, &[0, 2])]), true);
            ask_fetch(&mut script, "some of several groups", version, &request);
            ask_fetch(&mut script, "no groups", version, &fetch(version, &[], None, false));
        }
        if version >= 9 {
            for (member, epoch) in [(Some("nobody"), 1), (None, 1), (Some("nobody"), -1), (Some(""), -1)] {
                let mut request = fetch(version, &["fetch-1"], Some(&[(topic, &[0])]), false);
                request.groups[0].member_id = member.map(Cow::Borrowed);
                request.groups[0].member_epoch = epoch;
                ask_fetch(&mut script, &format!("as {member:?} of epoch {epoch}"), version, &request);
            }
        }
    }
    script.finish();
}
