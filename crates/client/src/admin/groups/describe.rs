//! One group with its members.

use mainstem_kafka_wire::messages::consumer_group_describe_response as modern;
use mainstem_kafka_wire::messages::describe_groups_response as classic;
use mainstem_kafka_wire::messages::{
    ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse, ConsumerProtocolAssignment, DescribeGroupsRequest,
    DescribeGroupsResponse,
};
use mainstem_kafka_wire::{ApiKey, ErrorCode, decode_versioned};
use mainstem_types::{PartitionIndex, TopicPartition};

use super::of_group;
use crate::client::Client;
use crate::connection::Connection;
use crate::error::ClientError;
use crate::metadata::Broker;
use crate::retry::Attempts;

/// The protocol type under which consumers join.
const CONSUMERS: &str = "consumer";

/// A group and its members.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupDescription {
    pub group: String,
    /// `classic`, or `consumer` (KIP-848).
    pub kind: &'static str,
    /// In Kafka's words: `Empty`, `Stable`, `PreparingRebalance`, …
    pub state: String,
    /// `consumer` for consumers; empty when the group only stores offsets.
    pub protocol_type: String,
    /// How partitions are given to members; empty without members.
    pub assignor: String,
    pub coordinator: Broker,
    pub members: Vec<GroupMember>,
}

/// A member and its partitions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupMember {
    pub member_id: String,
    /// Of a static member.
    pub instance_id: Option<String>,
    pub client_id: String,
    pub host: String,
    /// Empty for members that are no consumers, whose assignment only they understand.
    pub assignment: Vec<TopicPartition>,
}

impl Client {
    /// A group. One that does not exist is the error GROUP_ID_NOT_FOUND.
    pub async fn describe_group(&self, group: &str) -> Result<GroupDescription, ClientError> {
        let mut attempts = Attempts::new(self.config());
        loop {
            match self.describe_group_once(group).await {
                Err(error) if self.try_again(&mut attempts, &error).await => {}
                other => return other,
            }
        }
    }

    async fn describe_group_once(&self, group: &str) -> Result<GroupDescription, ClientError> {
        let coordinator = self.coordinator(group).await?;
        let connection = self.broker(&coordinator).await?;
        // Each of the two APIs knows its own kind of groups only.
        if connection.version(ApiKey::CONSUMER_GROUP_DESCRIBE).is_ok() {
            match describe_modern(&connection, group, &coordinator).await {
                Err(error) if error.code() == Some(ErrorCode::GROUP_ID_NOT_FOUND) => {}
                other => return other,
            }
        }
        describe_classic(&connection, group, &coordinator).await
    }
}

async fn describe_modern(
    connection: &Connection,
    group: &str,
    coordinator: &Broker,
) -> Result<GroupDescription, ClientError> {
    let request = ConsumerGroupDescribeRequest { group_ids: vec![group.into()], ..Default::default() };
    let response = connection.call(&request).await?;
    let answer: ConsumerGroupDescribeResponse<'_> = response.decode()?;
    let found = answer.groups.iter().find(|found| found.group_id == group);
    let found = found.ok_or_else(|| response.missing(format!("group {group}")))?;
    of_group("ConsumerGroupDescribe", group, found.error_code, found.error_message.as_deref())?;
    Ok(GroupDescription {
        group: group.to_owned(),
        kind: "consumer",
        state: found.group_state.to_string(),
        protocol_type: CONSUMERS.to_owned(),
        assignor: found.assignor_name.to_string(),
        coordinator: coordinator.clone(),
        members: found.members.iter().map(modern_member).collect(),
    })
}

fn modern_member(member: &modern::Member<'_>) -> GroupMember {
    let topics = member.assignment.topic_partitions.iter();
    let partitions = topics.flat_map(|topic| assigned(&topic.topic_name, &topic.partitions));
    GroupMember {
        member_id: member.member_id.to_string(),
        instance_id: member.instance_id.as_deref().map(str::to_owned),
        client_id: member.client_id.to_string(),
        host: member.client_host.to_string(),
        assignment: sorted(partitions),
    }
}

async fn describe_classic(
    connection: &Connection,
    group: &str,
    coordinator: &Broker,
) -> Result<GroupDescription, ClientError> {
    const API: &str = "DescribeGroups";
    let request = DescribeGroupsRequest { groups: vec![group.into()], ..Default::default() };
    let response = connection.call(&request).await?;
    let answer: DescribeGroupsResponse<'_> = response.decode()?;
    let found = answer.groups.iter().find(|found| found.group_id == group);
    let found = found.ok_or_else(|| response.missing(format!("group {group}")))?;
    of_group(API, group, found.error_code, found.error_message.as_deref())?;
    // Before version 6 a group that does not exist is a dead one.
    if found.group_state == "Dead" {
        of_group(API, group, ErrorCode::GROUP_ID_NOT_FOUND.0, None)?;
    }
    let members = found.members.iter().map(|member| classic_member(member, &found.protocol_type));
    Ok(GroupDescription {
        group: group.to_owned(),
        kind: "classic",
        state: found.group_state.to_string(),
        protocol_type: found.protocol_type.to_string(),
        assignor: found.protocol_data.to_string(),
        coordinator: coordinator.clone(),
        members: members.collect(),
    })
}

fn classic_member(member: &classic::DescribedGroupMember<'_>, protocol_type: &str) -> GroupMember {
    let mut assignment = Vec::new();
    // Empty while a rebalance is on. Bytes that are no assignment are the business of those who wrote them.
    if protocol_type == CONSUMERS
        && let Ok((decoded, _)) = decode_versioned::<ConsumerProtocolAssignment<'_>>(&member.member_assignment)
    {
        let topics = decoded.assigned_partitions.iter();
        assignment = sorted(topics.flat_map(|topic| assigned(&topic.topic, &topic.partitions)));
    }
    GroupMember {
        member_id: member.member_id.to_string(),
        instance_id: member.group_instance_id.as_deref().map(str::to_owned),
        client_id: member.client_id.to_string(),
        host: member.client_host.to_string(),
        assignment,
    }
}

fn assigned(topic: &str, partitions: &[i32]) -> impl Iterator<Item = TopicPartition> {
    let topic: std::sync::Arc<str> = topic.into();
    partitions.iter().map(move |index| TopicPartition::new(topic.clone(), PartitionIndex(*index)))
}

fn sorted(partitions: impl Iterator<Item = TopicPartition>) -> Vec<TopicPartition> {
    let mut partitions: Vec<_> = partitions.collect();
    partitions.sort();
    partitions
}
