//! The offsets that a group has committed.

use std::collections::{BTreeMap, HashMap};

use mainstem_kafka_wire::ErrorCode;
use mainstem_kafka_wire::messages::offset_commit_request::{OffsetCommitRequestPartition, OffsetCommitRequestTopic};
use mainstem_kafka_wire::messages::offset_delete_request::{OffsetDeleteRequestPartition, OffsetDeleteRequestTopic};
use mainstem_kafka_wire::messages::offset_fetch_request::OffsetFetchRequestGroup;
use mainstem_kafka_wire::messages::{
    OffsetCommitRequest, OffsetCommitResponse, OffsetDeleteRequest, OffsetDeleteResponse, OffsetFetchRequest,
    OffsetFetchResponse,
};
use mainstem_types::{LeaderEpoch, Offset, PartitionIndex, TopicPartition};

use super::of_group;
use crate::admin::ByPartition;
use crate::client::Client;
use crate::connection::Response;
use crate::error::ClientError;

/// OffsetFetch asks for a list of groups from this version on.
const OFFSET_FETCH_OF_GROUPS: i16 = 8;
/// OffsetFetch can be told to show no offset that a transaction is about to change.
const OFFSET_FETCH_STABLE: i16 = 7;

/// Where a group goes on in a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommittedOffset {
    /// The offset that is read next.
    pub offset: Offset,
    /// −1 is none.
    pub leader_epoch: LeaderEpoch,
    /// The metadata text of the commit.
    pub metadata: String,
}

impl CommittedOffset {
    pub fn at(offset: Offset) -> Self {
        CommittedOffset { offset, leader_epoch: LeaderEpoch::NONE, metadata: String::new() }
    }
}

impl Client {
    /// All offsets of a group, by partition. A group that does not exist has none.
    pub async fn group_offsets(&self, group: &str) -> Result<Vec<(TopicPartition, CommittedOffset)>, ClientError> {
        self.offsets_of_group(group, false).await
    }

    /// The same for somebody who goes on there: offsets of open transactions are waited for.
    pub(crate) async fn stable_group_offsets(
        &self,
        group: &str,
    ) -> Result<Vec<(TopicPartition, CommittedOffset)>, ClientError> {
        self.offsets_of_group(group, true).await
    }

    async fn offsets_of_group(
        &self,
        group: &str,
        stable: bool,
    ) -> Result<Vec<(TopicPartition, CommittedOffset)>, ClientError> {
        let request = |version| {
            let require_stable = stable && version >= OFFSET_FETCH_STABLE;
            if version >= OFFSET_FETCH_OF_GROUPS {
                let wanted = OffsetFetchRequestGroup { group_id: group.into(), topics: None, ..Default::default() };
                OffsetFetchRequest { groups: vec![wanted], require_stable, ..Default::default() }
            } else {
                OffsetFetchRequest { group_id: group.into(), topics: None, require_stable, ..Default::default() }
            }
        };
        self.ask_coordinator(group, request, |response| read_offsets(group, response)).await
    }

    /// Sets offsets of a group that has no members; it comes into being if it does not exist. A group with members
    /// answers UNKNOWN_MEMBER_ID for each.
    pub async fn commit_group_offsets(
        &self,
        group: &str,
        offsets: &[(TopicPartition, CommittedOffset)],
    ) -> Result<ByPartition<()>, ClientError> {
        self.ask_coordinator(
            group,
            |_| commit_request(group, offsets),
            |response| {
                let answer: OffsetCommitResponse<'_> = response.decode()?;
                read_commit(group, response, &answer, offsets)
            },
        )
        .await
    }

    /// Deletes offsets of a group. A group that is subscribed to the topic answers GROUP_SUBSCRIBED_TO_TOPIC.
    pub async fn delete_group_offsets(
        &self,
        group: &str,
        partitions: &[TopicPartition],
    ) -> Result<ByPartition<()>, ClientError> {
        const API: &str = "OffsetDelete";
        let request = |_| {
            let mut topics: BTreeMap<&str, Vec<OffsetDeleteRequestPartition>> = BTreeMap::new();
            for partition in partitions {
                let wanted = OffsetDeleteRequestPartition { partition_index: partition.partition.0 };
                topics.entry(&partition.topic).or_default().push(wanted);
            }
            let topics =
                topics.into_iter().map(|(name, partitions)| OffsetDeleteRequestTopic { name: name.into(), partitions });
            OffsetDeleteRequest { group_id: group.into(), topics: topics.collect() }
        };
        self.ask_coordinator(group, request, |response| {
            let answer: OffsetDeleteResponse<'_> = response.decode()?;
            of_group(API, group, answer.error_code, None)?;
            let codes = answer.topics.iter().flat_map(|topic| {
                topic.partitions.iter().map(|one| (&*topic.name, one.partition_index, one.error_code))
            });
            by_partition(API, group, response, partitions.iter(), codes)
        })
        .await
    }
}

/// The request of a client that is no member.
pub(crate) fn commit_request<'a>(
    group: &'a str,
    offsets: &'a [(TopicPartition, CommittedOffset)],
) -> OffsetCommitRequest<'a> {
    let mut topics: BTreeMap<&str, Vec<OffsetCommitRequestPartition<'_>>> = BTreeMap::new();
    for (partition, committed) in offsets {
        topics.entry(&partition.topic).or_default().push(OffsetCommitRequestPartition {
            partition_index: partition.partition.0,
            committed_offset: committed.offset.0,
            committed_leader_epoch: committed.leader_epoch.0,
            committed_metadata: Some(committed.metadata.as_str().into()),
        });
    }
    let topics = topics.into_iter().map(|(name, partitions)| OffsetCommitRequestTopic {
        name: name.into(),
        partitions,
        ..Default::default()
    });
    OffsetCommitRequest { group_id: group.into(), topics: topics.collect(), ..Default::default() }
}

pub(crate) fn read_commit(
    group: &str,
    response: &Response,
    answer: &OffsetCommitResponse<'_>,
    offsets: &[(TopicPartition, CommittedOffset)],
) -> Result<ByPartition<()>, ClientError> {
    let codes = answer
        .topics
        .iter()
        .flat_map(|topic| topic.partitions.iter().map(|one| (&*topic.name, one.partition_index, one.error_code)));
    by_partition("OffsetCommit", group, response, offsets.iter().map(|(partition, _)| partition), codes)
}

/// The answer of either form.
fn read_offsets(group: &str, response: &Response) -> Result<Vec<(TopicPartition, CommittedOffset)>, ClientError> {
    const API: &str = "OffsetFetch";
    let answer: OffsetFetchResponse<'_> = response.decode()?;
    of_group(API, group, answer.error_code, None)?;
    let mut offsets = BTreeMap::new();
    let mut take = |topic: &str, index: i32, code: i16, offset: i64, leader_epoch: i32, metadata: Option<&str>| {
        let partition = TopicPartition::new(topic, PartitionIndex(index));
        if ErrorCode(code).is_error() {
            let subject = format!("partition {partition} of group {group}");
            return Err(ClientError::of_broker(API, subject, ErrorCode(code), None));
        }
        if offset >= 0 {
            let metadata = metadata.unwrap_or_default().to_owned();
            let committed =
                CommittedOffset { offset: Offset(offset), leader_epoch: LeaderEpoch(leader_epoch), metadata };
            offsets.insert(partition, committed);
        }
        Ok(())
    };
    for topic in &answer.topics {
        for one in &topic.partitions {
            let metadata = one.metadata.as_deref();
            let (offset, epoch) = (one.committed_offset, one.committed_leader_epoch);
            take(&topic.name, one.partition_index, one.error_code, offset, epoch, metadata)?;
        }
    }
    for found in answer.groups.iter().filter(|found| found.group_id == group) {
        of_group(API, group, found.error_code, None)?;
        for topic in &found.topics {
            for one in &topic.partitions {
                let metadata = one.metadata.as_deref();
                let (offset, epoch) = (one.committed_offset, one.committed_leader_epoch);
                take(&topic.name, one.partition_index, one.error_code, offset, epoch, metadata)?;
            }
        }
    }
    Ok(offsets.into_iter().collect())
}

/// Puts a coordinator's codes into the order of the partitions that were asked for.
///
/// A coordinator that has moved or is still loading says so for every partition: that is the error of the whole.
fn by_partition<'a>(
    api: &'static str,
    group: &str,
    response: &Response,
    partitions: impl Iterator<Item = &'a TopicPartition>,
    codes: impl Iterator<Item = (&'a str, i32, i16)>,
) -> Result<ByPartition<()>, ClientError> {
    let codes: HashMap<_, _> = codes.map(|(topic, index, code)| ((topic, index), ErrorCode(code))).collect();
    let coordination = [
        ErrorCode::NOT_COORDINATOR,
        ErrorCode::COORDINATOR_NOT_AVAILABLE,
        ErrorCode::COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode::REQUEST_TIMED_OUT,
    ];
    if let Some(code) = codes.values().find(|code| coordination.contains(code)) {
        return Err(ClientError::of_broker(api, format!("group {group}"), *code, None));
    }
    let results = partitions.map(|partition| {
        let subject = || format!("partition {partition} of group {group}");
        let result = match codes.get(&(&*partition.topic, partition.partition.0)) {
            None => Err(response.missing(subject())),
            Some(&ErrorCode::NONE) => Ok(()),
            Some(code) => Err(ClientError::of_broker(api, subject(), *code, None)),
        };
        (partition.clone(), result)
    });
    Ok(results.collect())
}
