//! Membership in a consumer group, by the classic protocol (JoinGroup, SyncGroup, Heartbeat, LeaveGroup), beside any
//! other client: the assignors `range` and `roundrobin` are those of Java's consumer and librdkafka.
//!
//! Guarantees:
//!
//! - While the program works, heartbeats keep the session alive; a rebalance, or the loss of the membership, is seen by
//!   [`Membership::change`] within a heartbeat interval. Until the program joins again its partitions are nobody else's
//!   (but for the rebalance timeout): what was processed can be committed first.
//! - A commit carries generation and member id: the coordinator refuses one that comes after the partitions went to
//!   another.
//! - [`Membership::leave`] tells the coordinator, which gives the partitions to others at once. A static member (with
//!   an instance id) does not leave: it has its partitions again when it comes back within the session timeout.
//!
//! The membership has a connection of its own, since a join waits for the other members. Partitions are all taken back
//! in each rebalance (the eager protocol).

mod assignors;
mod coordinator;
mod heartbeats;
mod join;

use std::time::Duration;

use mainstem_kafka_wire::ApiKey;
use mainstem_kafka_wire::ErrorCode;
use mainstem_kafka_wire::messages::leave_group_request::MemberIdentity;
use mainstem_kafka_wire::messages::{LeaveGroupRequest, OffsetCommitResponse};
use mainstem_types::TopicPartition;

use crate::admin::{CommittedOffset, commit_request, read_commit};
use crate::client::Client;
use crate::error::ClientError;
use crate::retry::Attempts;
use coordinator::CoordinatorLink;
use heartbeats::Heartbeats;

/// The first version of LeaveGroup that names members in a list.
const LEAVE_LISTS_MEMBERS: i16 = 3;
/// For leaving: a member that leaves does not want to wait.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(3);

/// Settings of a [`Membership`].
#[derive(Debug, Clone)]
pub struct MembershipConfig {
    pub group: String,
    /// The topics to be read.
    pub topics: Vec<String>,
    /// Makes the member a static one (KIP-345).
    pub instance_id: Option<String>,
    /// After so long without a heartbeat the coordinator gives the partitions to others.
    pub session_timeout: Duration,
    pub heartbeat_interval: Duration,
    /// How long the others wait in a rebalance for this member to commit and join again.
    pub rebalance_timeout: Duration,
}

impl MembershipConfig {
    /// Kafka's defaults: sessions of 45 s, a heartbeat every 3 s; 60 s to join again.
    pub fn new(group: impl Into<String>, topics: Vec<String>) -> MembershipConfig {
        MembershipConfig {
            group: group.into(),
            topics,
            instance_id: None,
            session_timeout: Duration::from_secs(45),
            heartbeat_interval: Duration::from_secs(3),
            rebalance_timeout: Duration::from_secs(60),
        }
    }
}

/// What happened to a membership.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MembershipChange {
    /// The group rebalances: commit the processed records, then join again.
    Rebalance,
    /// The coordinator does not know the member any more: its partitions are others' already, and a commit will be
    /// refused.
    Lost,
    /// Another member has taken over the instance id. To join again would take it back: two members would fence each
    /// other for ever. The end.
    Fenced,
}

/// The identity of a member at the coordinator.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Identity {
    /// Empty: the coordinator chooses one.
    member_id: String,
    /// −1: none.
    generation: i32,
}

impl Identity {
    fn none() -> Identity {
        Identity { member_id: String::new(), generation: -1 }
    }
}

/// A member of a consumer group. The module's documentation has the guarantees.
pub struct Membership {
    client: Client,
    config: MembershipConfig,
    link: CoordinatorLink,
    identity: Identity,
    heartbeats: Option<Heartbeats>,
    assigned: Vec<TopicPartition>,
    /// A join was sent and not answered: it may still wait, and hold up what follows on its connection.
    join_pending: bool,
}

impl Client {
    /// A membership that has not joined yet: see [`Membership::join`].
    pub fn membership(&self, config: MembershipConfig) -> Membership {
        Membership {
            client: self.clone(),
            link: CoordinatorLink::new(self.clone(), config.group.clone()),
            config,
            identity: Identity::none(),
            heartbeats: None,
            assigned: Vec::new(),
            join_pending: false,
        }
    }
}

impl Membership {
    /// The partitions that the last join gave, in order; none if there are more members than partitions.
    pub fn assigned(&self) -> &[TopicPartition] {
        &self.assigned
    }

    /// The generation of the group that the last join gave; −1 before the first.
    pub fn generation(&self) -> i32 {
        self.identity.generation
    }

    /// What happened since the last join; `None`: nothing, go on. Asks nobody.
    pub fn change(&self) -> Option<MembershipChange> {
        self.heartbeats.as_ref().and_then(Heartbeats::change)
    }

    /// Commits offsets as a member of the current generation.
    ///
    /// # Errors
    /// ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID: the partitions are others' by now; nothing was
    /// committed. REBALANCE_IN_PROGRESS: the others have joined already.
    pub async fn commit(&mut self, offsets: &[(TopicPartition, CommittedOffset)]) -> Result<(), ClientError> {
        let mut attempts = Attempts::new(self.client.config());
        loop {
            let error = match self.commit_once(offsets).await {
                Ok(()) => return Ok(()),
                Err(error) => error,
            };
            let moved = self.link.doubt(&error).await;
            if !moved || !attempts.pause(&error).await {
                return Err(error);
            }
        }
    }

    async fn commit_once(&self, offsets: &[(TopicPartition, CommittedOffset)]) -> Result<(), ClientError> {
        let group = &self.config.group;
        let mut request = commit_request(group, offsets);
        request.generation_id_or_member_epoch = self.identity.generation;
        request.member_id = self.identity.member_id.as_str().into();
        request.group_instance_id = self.config.instance_id.as_deref().map(Into::into);
        let response = self.link.connection().await?.call(&request).await?;
        let answer: OffsetCommitResponse<'_> = response.decode()?;
        for (_, result) in read_commit(group, &response, &answer, offsets)? {
            result?;
        }
        Ok(())
    }

    /// Leaves the group in any state. Errors help nobody, and are not given. May join again.
    pub async fn leave(&mut self) {
        self.heartbeats = None;
        self.assigned.clear();
        let identity = std::mem::replace(&mut self.identity, Identity::none());
        if self.config.instance_id.is_some() || identity.member_id.is_empty() {
            return;
        }
        if std::mem::take(&mut self.join_pending) {
            self.link.forget().await;
        }
        // The session ends by itself if this does not arrive.
        let _ = tokio::time::timeout(LEAVE_TIMEOUT, self.leave_once(&identity.member_id)).await;
    }

    async fn leave_once(&self, member_id: &str) -> Result<(), ClientError> {
        let connection = self.link.connection().await?;
        let mut request = LeaveGroupRequest { group_id: self.config.group.as_str().into(), ..Default::default() };
        if connection.version(ApiKey::LEAVE_GROUP)? >= LEAVE_LISTS_MEMBERS {
            let reason = Some("the consumer is being closed".into());
            request.members = vec![MemberIdentity { member_id: member_id.into(), reason, ..Default::default() }];
        } else {
            request.member_id = member_id.into();
        }
        connection.call(&request).await.map(drop)
    }
}

/// Whether an answer says that the member, or its generation, is not the coordinator's.
fn is_lost(error: &ClientError) -> bool {
    let lost = [ErrorCode::UNKNOWN_MEMBER_ID, ErrorCode::ILLEGAL_GENERATION];
    error.code().is_some_and(|code| lost.contains(&code))
}
