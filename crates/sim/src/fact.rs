//! What nodes and clients state about themselves, for the invariants.

use bytes::Bytes;
use mainstem_metadata::image::ClusterImage;
use mainstem_replica::Positions;
use mainstem_types::{LeaderEpoch, Offset, TopicPartition};

use crate::message::Address;

/// A batch, as far as two logs can differ in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchFact {
    pub base: Offset,
    pub last: Offset,
    pub epoch: LeaderEpoch,
    /// Over everything but offset and epoch: two batches of clients never have the same.
    pub crc: u32,
    /// The producer has an id: a repeated batch is noticed.
    pub idempotent: bool,
}

#[derive(Debug, Clone)]
pub enum Fact {
    /// A broker opened a log after a stop. `known` is what it had promised to find again.
    Recovered {
        node: i32,
        partition: TopicPartition,
        end: Offset,
        known: Offset,
        log: Vec<BatchFact>,
    },
    /// A batch is in the log of a node, at its end.
    Stored {
        node: i32,
        partition: TopicPartition,
        batch: BatchFact,
    },
    Truncated {
        node: i32,
        partition: TopicPartition,
        to: Offset,
    },
    /// The four positions of a replica, after each change.
    Positions {
        node: i32,
        partition: TopicPartition,
        positions: Positions,
    },
    /// A node began to lead, with these batches from the log start on.
    LeaderBegan {
        node: i32,
        partition: TopicPartition,
        epoch: LeaderEpoch,
        log: Vec<BatchFact>,
        end: Offset,
    },
    /// The high watermark of a replica passed these batches.
    Committed {
        node: i32,
        partition: TopicPartition,
        to: Offset,
        batches: Vec<BatchFact>,
    },
    /// A producer got its answer.
    Acknowledged {
        partition: TopicPartition,
        base: Offset,
        crc: u32,
        all: bool,
    },
    /// A reader got records.
    Read {
        client: Address,
        partition: TopicPartition,
        epoch: LeaderEpoch,
        latest: Option<Offset>,
        batches: Vec<BatchFact>,
    },
    /// The controller made a batch of metadata durable; also each batch that it finds when it starts.
    MetadataCommitted {
        bytes: Bytes,
    },
    /// The image of a node, after it changed.
    Image {
        node: Address,
        image: ClusterImage,
    },
    /// How the state of a coordinator differs from a replay of its log, after each append.
    Groups {
        node: i32,
        difference: Option<String>,
    },
    /// The coordinator answers a member's sync.
    SyncServed {
        epoch: LeaderEpoch,
        generation: i32,
    },
    /// A member knows its assignment.
    Owns {
        generation: i32,
        member: String,
        partitions: Vec<i32>,
    },
    /// A member was told that its commit is kept.
    OffsetKept {
        partition: i32,
        value: i64,
    },
    /// A client asks for a committed offset.
    OffsetAsked {
        client: Address,
        request: u64,
        partition: i32,
    },
    /// The coordinator answers that.
    OffsetServed {
        client: Address,
        request: u64,
        epoch: LeaderEpoch,
        value: i64,
    },
}
