//! What travels between the parties.

use std::fmt;

use bytes::Bytes;
use mainstem_types::{LeaderEpoch, Offset, TopicPartition};

/// Who sends or receives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Address {
    Controller,
    Broker(i32),
    Client(u32),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Address::Controller => "controller".to_owned(),
            Address::Broker(id) => format!("broker {id}"),
            Address::Client(id) => format!("client {id}"),
        };
        f.pad(&text)
    }
}

/// A follower asks its leader for records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FetchRequest {
    pub number: u64,
    pub partition: TopicPartition,
    pub broker_epoch: i64,
    pub leader_epoch: LeaderEpoch,
    pub offset: Offset,
    pub last_fetched_epoch: LeaderEpoch,
}

/// What a leader answers to a follower.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fetched {
    Records {
        bytes: Bytes,
        high_watermark: Offset,
        log_start: Offset,
    },
    /// The leader has nothing at the offset: it was deleted, or it never was.
    OutOfRange {
        log_start: Offset,
        log_end: Offset,
    },
    /// The logs differ: the leader's end of the largest epoch at or below the one asked for.
    Diverging {
        epoch: LeaderEpoch,
        end: Offset,
    },
    Refused(Refusal),
}

/// Why a broker does not do what it was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    NotLeader,
    FencedEpoch,
    UnknownEpoch,
    OffsetOutOfRange { log_start: Offset },
    StaleBrokerEpoch,
    NotEnoughReplicas,
    OutOfOrderSequence,
}

/// What the controller answers to AlterPartition when it refuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AlterRefusal {
    /// The leader gives the change up: a member cannot be in the in-sync set.
    Ineligible,
    /// The leader waits for newer metadata.
    Stale,
}

/// What a group member asks of the coordinator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GroupCall {
    Join { member: String },
    Sync { member: String, generation: i32, assignments: Vec<(String, Vec<u8>)> },
    Heartbeat { member: String, generation: i32 },
    Leave { member: String },
    Commit { member: String, generation: i32, partition: i32, value: i64 },
    Offsets { partition: i32 },
}

/// What the coordinator answers. The text of an error is the domain's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GroupAnswer {
    Joined { member: String, generation: i32, leads: bool, members: Vec<String> },
    MemberIdRequired { member: String },
    Synced { assignment: Vec<u8> },
    Done,
    Offset { value: i64 },
    Rejoin,
    Unknown,
    Retry,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    Register { incarnation: u64 },
    Registered { incarnation: u64, broker_epoch: i64 },
    Heartbeat { broker_epoch: i64, metadata_end: Offset },
    AlterPartition(AlterPartition),
    AlterRefused { partition: TopicPartition, partition_epoch: i32, refusal: AlterRefusal },
    CreateTopic { name: String },
    DeleteTopic { name: String },
    MetadataFetch { from: Offset },
    MetadataBatches { from: Offset, bytes: Bytes },
    Fetch(FetchRequest),
    FetchReply { number: u64, partition: TopicPartition, fetched: Fetched },
    Produce { request: u64, partition: TopicPartition, batch: Bytes, all: bool },
    ProduceReply { request: u64, result: Result<Offset, Refusal> },
    Read { request: u64, partition: TopicPartition, from: Offset },
    ReadReply { request: u64, epoch: LeaderEpoch, latest: Option<Offset>, result: Result<Bytes, Refusal> },
    Group { request: u64, call: GroupCall },
    GroupReply { request: u64, answer: GroupAnswer },
}

/// A leader asks for another in-sync set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AlterPartition {
    pub broker_epoch: i64,
    pub partition: TopicPartition,
    pub leader_epoch: LeaderEpoch,
    pub partition_epoch: i32,
    /// Each with the broker epoch of its last fetch.
    pub in_sync: Vec<(i32, i64)>,
}

/// Short, for the trace: payloads by their size.
impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Message::MetadataBatches { from, bytes } => write!(f, "MetadataBatches from {from}, {} bytes", bytes.len()),
            Message::Fetch(fetch) => write!(
                f,
                "Fetch #{} {} at {} epoch {} last {}",
                fetch.number, fetch.partition, fetch.offset, fetch.leader_epoch, fetch.last_fetched_epoch
            ),
            Message::FetchReply { number, partition, fetched: Fetched::Records { bytes, high_watermark, .. } } => {
                write!(f, "FetchReply #{number} {partition} {} bytes, high watermark {high_watermark}", bytes.len())
            }
            Message::FetchReply { number, partition, fetched } => {
                write!(f, "FetchReply #{number} {partition} {fetched:?}")
            }
            Message::Produce { request, partition, batch, all } => {
                let acks = if *all { "all" } else { "1" };
                write!(f, "Produce #{request} {partition} {} bytes, acks {acks}", batch.len())
            }
            Message::Read { request, partition, from } => write!(f, "Read #{request} {partition} from {from}"),
            Message::ReadReply { request, epoch, latest, result } => {
                let result = result.as_ref().map(Bytes::len);
                let latest = latest.map(|offset| offset.0);
                write!(f, "ReadReply #{request} epoch {epoch} latest {latest:?} {result:?} bytes")
            }
            Message::AlterPartition(alter) => write!(
                f,
                "AlterPartition {} epoch {}/{} in-sync {:?}",
                alter.partition, alter.leader_epoch, alter.partition_epoch, alter.in_sync
            ),
            other => write!(f, "{other:?}"),
        }
    }
}
