//! OffsetFetch (9), versions 1-10: where a group is. v2: null topics ask for all. v5: leader epoch. v6: flexible.
//! v7: require_stable. v8: several groups, another shape. v9: member epochs (KIP-848). v10: topics by id.
//!
//! - A partition without a committed offset is -1, -1, "" and no error.
//! - A group or partition that the request names several times is answered once: an offset may carry some kilobytes,
//!   and repetitions would make the answer large.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use mainstem_broker::TopicMap;
use mainstem_coordinator::{FetchTopic, FetchedPartition, FetchedTopic, GroupError, OffsetFetchRequest as Fetch};
use mainstem_door::{Handled, Reply};
use mainstem_kafka_wire::ErrorCode;
use mainstem_kafka_wire::messages::offset_fetch_request::{
    OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics,
};
use mainstem_kafka_wire::messages::offset_fetch_response::{
    OffsetFetchResponse, OffsetFetchResponseGroup, OffsetFetchResponsePartition, OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic, OffsetFetchResponseTopics,
};
use mainstem_types::{PartitionIndex, TopicId};

use crate::close::CloseReason;
use crate::context::{Api, Connection, Door};
use crate::errors::group_error_code;
use crate::request::Request;

pub const API: Api = Api::new(9, "OffsetFetch", 1..=10, handle);

fn handle(door: &Door, _connection: &Arc<Connection>, request: Request) -> Result<Handled, CloseReason> {
    let message: OffsetFetchRequest<'_> = request.decode()?;
    let topics = door.broker.topics();
    let reply = if request.version >= 8 {
        let by_id = request.version >= 10;
        let mut seen = HashSet::with_capacity(message.groups.len());
        let distinct = message.groups.iter().filter(|group| seen.insert(group.group_id.as_ref()));
        let groups = distinct.map(|group| fetch_group(door, &topics, group, message.require_stable, by_id));
        request.reply(&OffsetFetchResponse { groups: groups.collect(), ..Default::default() })
    } else {
        fetch_one(door, &topics, &request, &message)
    };
    Ok(Handled::Ready(reply))
}

fn fetch_one(door: &Door, topics: &TopicMap, request: &Request, message: &OffsetFetchRequest<'_>) -> Reply {
    let wanted = message.topics.as_ref().map(|wanted| {
        let topic = |t: &'_ mainstem_kafka_wire::messages::offset_fetch_request::OffsetFetchRequestTopic<'_>| {
            (t.name.as_ref().to_owned(), t.partition_indexes.clone())
        };
        wanted.iter().map(topic).collect::<Vec<_>>()
    });
    let mut seen = HashSet::new();
    let fetch = Fetch {
        group_id: &message.group_id,
        member_id: None,
        member_epoch: -1,
        topics: wanted
            .as_ref()
            .map(|wanted| wanted.iter().map(|(name, indexes)| fetch_topic(topics, name, indexes, &mut seen)).collect()),
        require_stable: message.require_stable,
    };
    let (fetched, error) = match door.broker.consumer_groups().fetch_offsets(&fetch) {
        Ok(fetched) => (fetched, ErrorCode::NONE),
        // Version 1 has no error of the whole: each partition carries it.
        Err(error) if request.version < 2 => (failed(&fetch, &error), ErrorCode::NONE),
        Err(error) => (Vec::new(), group_error_code(&error)),
    };
    let topics = fetched.iter().map(|topic| OffsetFetchResponseTopic {
        name: Cow::Borrowed(topic.name.as_ref()),
        partitions: topic.partitions.iter().map(partition_before_8).collect(),
    });
    request.reply(&OffsetFetchResponse { topics: topics.collect(), error_code: error.0, ..Default::default() })
}

/// The partitions that were not `seen` before.
fn fetch_topic<'m>(
    topics: &TopicMap,
    name: &'m str,
    indexes: &[i32],
    seen: &mut HashSet<(&'m str, i32)>,
) -> FetchTopic<'m> {
    FetchTopic {
        name,
        topic_id: topics.by_name(name).map_or(TopicId::ZERO, |topic| topic.id),
        partitions: indexes.iter().filter(|index| seen.insert((name, **index))).map(|i| PartitionIndex(*i)).collect(),
    }
}

/// Each partition asked for, with the error of the whole.
fn failed(fetch: &Fetch<'_>, error: &GroupError) -> Vec<FetchedTopic> {
    let topic = |topic: &FetchTopic<'_>| FetchedTopic {
        name: topic.name.into(),
        partitions: topic
            .partitions
            .iter()
            .map(|partition| FetchedPartition {
                partition: *partition,
                offset: mainstem_types::Offset::NONE,
                leader_epoch: mainstem_types::LeaderEpoch::NONE,
                metadata: "".into(),
                error: Some(error.clone()),
            })
            .collect(),
    };
    fetch.topics.iter().flatten().map(topic).collect()
}

fn partition_before_8(fetched: &FetchedPartition) -> OffsetFetchResponsePartition<'_> {
    OffsetFetchResponsePartition {
        partition_index: fetched.partition.0,
        committed_offset: fetched.offset.0,
        committed_leader_epoch: fetched.leader_epoch.0,
        metadata: Some(Cow::Borrowed(fetched.metadata.as_ref())),
        error_code: fetched.error.as_ref().map_or(0, |error| group_error_code(error).0),
    }
}

fn fetch_group(
    door: &Door,
    topics: &TopicMap,
    group: &OffsetFetchRequestGroup<'_>,
    require_stable: bool,
    by_id: bool,
) -> OffsetFetchResponseGroup<'static> {
    let mut response =
        OffsetFetchResponseGroup { group_id: Cow::Owned(group.group_id.as_ref().to_owned()), ..Default::default() };
    let names: Option<Vec<Option<String>>> =
        group.topics.as_ref().map(|wanted| wanted.iter().map(|topic| name_of(topics, topic, by_id)).collect());
    let mut seen = HashSet::new();
    let known = group.topics.as_ref().zip(names.as_ref()).map(|(wanted, names)| {
        let pairs = wanted.iter().zip(names).filter_map(|(topic, name)| name.as_ref().map(|name| (topic, name)));
        pairs.map(|(topic, name)| fetch_topic(topics, name, &topic.partition_indexes, &mut seen)).collect()
    });
    let fetch = Fetch {
        group_id: &group.group_id,
        member_id: group.member_id.as_deref(),
        member_epoch: group.member_epoch,
        topics: known,
        require_stable,
    };
    match door.broker.consumer_groups().fetch_offsets(&fetch) {
        Ok(fetched) => response.topics = fetched.iter().map(|topic| topic_response(topics, topic, by_id)).collect(),
        Err(error) => response.error_code = group_error_code(&error).0,
    }
    if response.error_code == 0 {
        let unknown = group.topics.iter().flatten().zip(names.iter().flatten()).filter(|(_, name)| name.is_none());
        response.topics.extend(unknown.map(|(topic, _)| unknown_topic(topic)));
    }
    response
}

fn name_of(topics: &TopicMap, wanted: &OffsetFetchRequestTopics<'_>, by_id: bool) -> Option<String> {
    if by_id {
        topics.by_id(wanted.topic_id).map(|topic| topic.name.as_ref().to_owned())
    } else {
        Some(wanted.name.as_ref().to_owned())
    }
}

/// An unknown topic id: each of its partitions says so.
fn unknown_topic(wanted: &OffsetFetchRequestTopics<'_>) -> OffsetFetchResponseTopics<'static> {
    let partition = |index: &i32| OffsetFetchResponsePartitions {
        partition_index: *index,
        committed_offset: -1,
        committed_leader_epoch: -1,
        metadata: Some(Cow::Borrowed("")),
        error_code: ErrorCode::UNKNOWN_TOPIC_ID.0,
    };
    OffsetFetchResponseTopics {
        topic_id: wanted.topic_id,
        partitions: wanted.partition_indexes.iter().map(partition).collect(),
        ..Default::default()
    }
}

fn topic_response(topics: &TopicMap, topic: &FetchedTopic, by_id: bool) -> OffsetFetchResponseTopics<'static> {
    let partition = |fetched: &FetchedPartition| OffsetFetchResponsePartitions {
        partition_index: fetched.partition.0,
        committed_offset: fetched.offset.0,
        committed_leader_epoch: fetched.leader_epoch.0,
        metadata: Some(Cow::Owned(fetched.metadata.as_ref().to_owned())),
        error_code: fetched.error.as_ref().map_or(0, |error| group_error_code(error).0),
    };
    OffsetFetchResponseTopics {
        name: Cow::Owned(topic.name.as_ref().to_owned()),
        topic_id: if by_id {
            topics.by_name(&topic.name).map_or(TopicId::ZERO, |topic| topic.id)
        } else {
            TopicId::ZERO
        },
        partitions: topic.partitions.iter().map(partition).collect(),
    }
}
