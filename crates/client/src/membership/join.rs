//! Joining: JoinGroup until the coordinator takes the member, the assignment if it leads, SyncGroup.

use std::collections::BTreeMap;
use std::time::Duration;

use mainstem_kafka_wire::messages::consumer_protocol_assignment::TopicPartition as AssignedTopic;
use mainstem_kafka_wire::messages::join_group_request::JoinGroupRequestProtocol;
use mainstem_kafka_wire::messages::sync_group_request::SyncGroupRequestAssignment;
use mainstem_kafka_wire::messages::{
    ConsumerProtocolAssignment, ConsumerProtocolSubscription, JoinGroupRequest, JoinGroupResponse, SyncGroupRequest,
    SyncGroupResponse,
};
use mainstem_kafka_wire::{ErrorCode, decode_versioned, encode_versioned};
use mainstem_types::{PartitionIndex, TopicPartition};

use super::assignors::{Assignor, Subscriber};
use super::heartbeats::Heartbeats;
use super::{Identity, Membership, MembershipChange, is_lost};
use crate::admin::CommittedOffset;
use crate::error::ClientError;
use crate::retry::Attempts;

const CONSUMER: &str = "consumer";
/// Every client reads these versions of the subscription and the assignment.
const SUBSCRIPTION_VERSION: i16 = 1;
const ASSIGNMENT_VERSION: i16 = 0;
/// What an answer may take beyond the time that the coordinator waits for members.
const ANSWER_TIME: Duration = Duration::from_secs(5);

/// The answer to a join.
struct Joined {
    protocol: String,
    /// Of the leader, which assigns.
    members: Option<Vec<Subscriber>>,
}

impl Membership {
    /// Joins the group, or joins again after a change, and waits until every member has its partitions. What was read
    /// before is to be committed before. Gives the partitions, each with the group's offset if it has one.
    ///
    /// May be dropped while it waits, and called again.
    ///
    /// # Errors
    /// What another attempt does not mend: FENCED_INSTANCE_ID, INCONSISTENT_GROUP_PROTOCOL, GROUP_MAX_SIZE_REACHED, and
    /// errors that should pass and did not within `retry_timeout`. The time that a rebalance takes does not count.
    pub async fn join(&mut self) -> Result<BTreeMap<TopicPartition, Option<CommittedOffset>>, ClientError> {
        if self.change() == Some(MembershipChange::Lost) {
            self.identity = Identity::none();
        }
        // The join itself keeps the session alive.
        self.heartbeats = None;
        self.assigned.clear();
        // Since the first of the failures that followed each other.
        let mut failing = None;
        loop {
            let error = match self.join_once(&mut failing).await {
                Ok(assigned) => {
                    self.assigned = assigned;
                    break;
                }
                Err(error) => error,
            };
            match error.code() {
                // Taken note of: the id is used at once.
                Some(ErrorCode::MEMBER_ID_REQUIRED) => continue,
                Some(ErrorCode::FENCED_INSTANCE_ID) => return Err(error),
                // The others go on without this member, or another generation has begun.
                Some(ErrorCode::REBALANCE_IN_PROGRESS) => failing = None,
                // Other members took long. A new connection asks the coordinator first: a dead one is a failure there.
                _ if is_late(&error) => {
                    self.link.forget().await;
                    failing = None;
                }
                _ if is_lost(&error) => self.identity = Identity::none(),
                _ if self.link.doubt(&error).await || error.is_retriable() => {}
                _ => return Err(error),
            }
            if !failing.get_or_insert_with(|| Attempts::new(self.client.config())).wait().await {
                return Err(error);
            }
        }
        self.heartbeats = Some(Heartbeats::start(self.link.clone(), self.config.clone(), self.identity.clone()));
        self.offsets_of_assigned().await
    }

    async fn offsets_of_assigned(&self) -> Result<BTreeMap<TopicPartition, Option<CommittedOffset>>, ClientError> {
        let mut offsets: BTreeMap<_, _> =
            self.client.stable_group_offsets(&self.config.group).await?.into_iter().collect();
        Ok(self.assigned.iter().map(|partition| (partition.clone(), offsets.remove(partition))).collect())
    }

    async fn join_once(&mut self, failing: &mut Option<Attempts>) -> Result<Vec<TopicPartition>, ClientError> {
        let joined = self.ask_to_join().await?;
        *failing = None;
        let assignments = match &joined.members {
            Some(members) => self.assign(&joined.protocol, members).await?,
            None => Vec::new(),
        };
        self.sync(&joined.protocol, assignments).await
    }

    async fn ask_to_join(&mut self) -> Result<Joined, ClientError> {
        let topics = self.config.topics.iter().map(|topic| topic.as_str().into()).collect();
        let subscription = ConsumerProtocolSubscription { topics, ..Default::default() };
        let metadata = encode(&subscription, SUBSCRIPTION_VERSION, "JoinGroup")?;
        let protocols = Assignor::ALL.map(|assignor| JoinGroupRequestProtocol {
            name: assignor.name().into(),
            metadata: metadata.as_slice().into(),
        });
        let request = JoinGroupRequest {
            group_id: self.config.group.as_str().into(),
            session_timeout_ms: ms(self.config.session_timeout),
            rebalance_timeout_ms: ms(self.config.rebalance_timeout),
            member_id: self.identity.member_id.as_str().into(),
            group_instance_id: self.config.instance_id.as_deref().map(Into::into),
            protocol_type: CONSUMER.into(),
            protocols: protocols.into(),
            ..Default::default()
        };
        let connection = self.link.connection().await?;
        self.join_pending = true;
        let response = connection.call_within(&request, self.config.rebalance_timeout + ANSWER_TIME).await;
        self.join_pending = false;
        let response = response?;
        let answer: JoinGroupResponse<'_> = response.decode()?;
        let code = ErrorCode(answer.error_code);
        if code == ErrorCode::MEMBER_ID_REQUIRED {
            self.identity.member_id = answer.member_id.to_string();
        }
        if code.is_error() {
            return Err(ClientError::of_broker("JoinGroup", format!("group {}", self.config.group), code, None));
        }
        self.identity = Identity { member_id: answer.member_id.to_string(), generation: answer.generation_id };
        let leads = answer.leader == answer.member_id && !answer.skip_assignment;
        let members = answer.members.iter().map(|member| Subscriber {
            member_id: member.member_id.to_string(),
            instance_id: member.group_instance_id.as_deref().map(str::to_owned),
            topics: subscribed_topics(&member.metadata),
        });
        Ok(Joined {
            protocol: answer.protocol_name.as_deref().unwrap_or_default().to_owned(),
            members: leads.then(|| members.collect()),
        })
    }

    /// As leader: the partitions of each member.
    async fn assign(
        &self,
        protocol: &str,
        members: &[Subscriber],
    ) -> Result<Vec<(String, Vec<TopicPartition>)>, ClientError> {
        let assignor = Assignor::of(protocol).unwrap_or(Assignor::Range);
        let mut names: Vec<&str> = members.iter().flat_map(|member| &member.topics).map(String::as_str).collect();
        names.sort_unstable();
        names.dedup();
        let mut topics = BTreeMap::new();
        for (name, topic) in self.client.fetch_topics(&names).await? {
            // One that does not exist has no partitions to be read; the others are assigned.
            if let Ok(topic) = topic {
                topics.insert(name, topic.partitions.iter().map(|one| one.index).collect());
            }
        }
        Ok(assignor.assign(members, &topics))
    }

    async fn sync(
        &mut self,
        protocol: &str,
        assignments: Vec<(String, Vec<TopicPartition>)>,
    ) -> Result<Vec<TopicPartition>, ClientError> {
        let mut encoded = Vec::with_capacity(assignments.len());
        for (member_id, partitions) in assignments {
            encoded.push(SyncGroupRequestAssignment {
                member_id: member_id.into(),
                assignment: encode_assignment(&partitions)?.into(),
            });
        }
        let request = SyncGroupRequest {
            group_id: self.config.group.as_str().into(),
            generation_id: self.identity.generation,
            member_id: self.identity.member_id.as_str().into(),
            group_instance_id: self.config.instance_id.as_deref().map(Into::into),
            protocol_type: Some(CONSUMER.into()),
            protocol_name: Some(protocol.into()),
            assignments: encoded,
        };
        let connection = self.link.connection().await?;
        self.join_pending = true;
        let response = connection.call_within(&request, self.config.rebalance_timeout + ANSWER_TIME).await;
        self.join_pending = false;
        let response = response?;
        let answer: SyncGroupResponse<'_> = response.decode()?;
        match ErrorCode(answer.error_code) {
            ErrorCode::NONE => Ok(decode_assignment(&answer.assignment)),
            code => Err(ClientError::of_broker("SyncGroup", format!("group {}", self.config.group), code, None)),
        }
    }
}

/// Whether the coordinator has not answered a request that waits for other members.
fn is_late(error: &ClientError) -> bool {
    matches!(error, ClientError::Timeout { api, .. } if ["JoinGroup", "SyncGroup"].contains(api))
}

fn ms(time: Duration) -> i32 {
    i32::try_from(time.as_millis()).unwrap_or(i32::MAX)
}

fn encode<'a, M: mainstem_kafka_wire::Message<'a>>(
    message: &M,
    version: i16,
    api: &'static str,
) -> Result<Vec<u8>, ClientError> {
    encode_versioned(message, version).map(Into::into).map_err(|error| ClientError::Encode { api, error })
}

fn encode_assignment(partitions: &[TopicPartition]) -> Result<Vec<u8>, ClientError> {
    let mut topics: BTreeMap<&str, Vec<i32>> = BTreeMap::new();
    for partition in partitions {
        topics.entry(&partition.topic).or_default().push(partition.partition.0);
    }
    let assigned_partitions =
        topics.into_iter().map(|(topic, partitions)| AssignedTopic { topic: topic.into(), partitions }).collect();
    let assignment = ConsumerProtocolAssignment { assigned_partitions, ..Default::default() };
    encode(&assignment, ASSIGNMENT_VERSION, "SyncGroup")
}

/// A member that the leader forgot has empty bytes, and no partitions.
fn decode_assignment(bytes: &[u8]) -> Vec<TopicPartition> {
    let Ok((decoded, _)) = decode_versioned::<ConsumerProtocolAssignment<'_>>(bytes) else { return Vec::new() };
    let mut partitions = Vec::new();
    for topic in &decoded.assigned_partitions {
        let name: std::sync::Arc<str> = topic.topic.as_ref().into();
        partitions
            .extend(topic.partitions.iter().map(|index| TopicPartition::new(name.clone(), PartitionIndex(*index))));
    }
    partitions.sort();
    partitions
}

/// Of a member whose bytes cannot be read: none.
fn subscribed_topics(metadata: &[u8]) -> Vec<String> {
    let decoded = decode_versioned::<ConsumerProtocolSubscription<'_>>(metadata);
    decoded.map_or_else(|_| Vec::new(), |(one, _)| one.topics.iter().map(ToString::to_string).collect())
}
