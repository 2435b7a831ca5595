//! A small Kafka client: metadata, produce, fetch, offsets, administration of topics, groups and settings, and
//! Mainstem's look-up by key. It is for Mainstem's command line, its tests and benches, and other Rust programs that
//! need no more. It works with Mainstem and with Kafka 2.1 and later.
//!
//! Guarantees:
//!
//! - One connection to each broker, many requests on it at once; every request ends within `request_timeout`, every
//!   operation within about `retry_timeout`. Errors that pass are tried again, with fresh metadata where that may help.
//! - Producing keeps the order within a partition, tells each record's fate exactly once, and bounds its memory;
//!   fetching gives each record once, in order, with its checksum verified ([`Producer`], [`Fetcher`]).
//! - Errors say what was asked of whom about what, and what to do.
//!
//! Numbers: answers of at most 256 MiB; 64 requests queued for a connection; one batch of a partition and one fetch of
//! a broker under way at a time; 32 MiB of records in a producer; retries after 50 ms to 1 s. All but the third are
//! settings.
//!
//! Not here (yet): transactions, TLS, SASL; of consumer groups the protocol of KIP-848.
//!
//! # Administer
//!
//! ```no_run
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! use mainstem_client::{Client, ClientConfig, ConfigChange, ConfigResource, NewTopic};
//!
//! let client = Client::connect(ClientConfig::new("127.0.0.1:9092")).await?;
//! let topic = NewTopic::new("orders").partitions(3).config("retention.ms", "86400000");
//! for (name, created) in client.create_topics(&[topic], false).await? {
//!     println!("{name} has {} partitions", created?.partitions);
//! }
//! let orders = ConfigResource::Topic("orders".to_owned());
//! client.alter_configs(&orders, &[ConfigChange::set("max.message.bytes", "2000000")], false).await?;
//! for topic in client.list_topics(false).await? {
//!     println!("{} {}", topic.name, topic.partitions.len());
//! }
//! # Ok(())
//! # }
//! ```
//!
//! Offsets of a consumer group, which must have no members at the time:
//!
//! ```no_run
//! # async fn run(client: mainstem_client::Client) -> Result<(), Box<dyn std::error::Error>> {
//! use mainstem_client::{CommittedOffset, Offset, PartitionIndex, TopicPartition};
//!
//! for (partition, committed) in client.group_offsets("billing").await? {
//!     println!("{partition} {}", committed.offset);
//! }
//! let first = TopicPartition::new("orders", PartitionIndex(0));
//! let offsets = [(first, CommittedOffset::at(Offset(0)))];
//! for (partition, result) in client.commit_group_offsets("billing", &offsets).await? {
//!     result.map_err(|error| format!("{partition}: {error}"))?;
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # Produce
//!
//! ```no_run
//! # async fn run(client: mainstem_client::Client) -> Result<(), Box<dyn std::error::Error>> {
//! use mainstem_client::{Codec, NewRecord, ProducerConfig};
//!
//! let config = ProducerConfig { codec: Codec::Zstd, idempotent: true, ..Default::default() };
//! let producer = client.producer(config);
//! let delivery = producer.send(NewRecord::new("orders", Some(b"42"), Some(b"two of them"))).await?;
//! let receipt = delivery.await?;
//! println!("{} at {:?}", receipt.partition, receipt.offset);
//! producer.flush().await; // before the program ends
//! # Ok(())
//! # }
//! ```
//!
//! # Consume
//!
//! ```no_run
//! # async fn run(client: mainstem_client::Client) -> Result<(), Box<dyn std::error::Error>> {
//! use std::time::Duration;
//! use mainstem_client::{FetcherConfig, OffsetSpec, TimestampMs, TopicPartition};
//!
//! let topic = client.topic("orders").await?;
//! let partitions: Vec<_> =
//!     topic.partitions.iter().map(|one| TopicPartition::new("orders", one.index)).collect();
//! let mut fetcher = client.fetcher(FetcherConfig::default());
//! fetcher.assign_at(&partitions, OffsetSpec::Timestamp(TimestampMs(1_700_000_000_000))).await?;
//! loop {
//!     for record in fetcher.poll(Duration::from_secs(1)).await? {
//!         println!("{}-{} {}: {:?}", record.topic, record.partition, record.offset, record.value);
//!     }
//!     if fetcher.is_at_end() {
//!         break; // leave this out to follow
//!     }
//! }
//! # Ok(())
//! # }
//! ```

mod admin;
mod client;
mod config;
mod connection;
mod error;
mod fetcher;
mod lookup;
mod membership;
mod metadata;
mod offsets;
mod producer;
mod retry;
mod versions;

pub use admin::{
    ByName, ByPartition, ClusterDescription, CommittedOffset, ConfigChange, ConfigEntry, ConfigResource, ConfigSource,
    ConfigSynonym, CreatedTopic, GroupDescription, GroupMember, ListedGroup, NewTopic,
};
pub use client::Client;
pub use config::ClientConfig;
pub use error::ClientError;
pub use fetcher::{FetchError, FetchedRecord, Fetcher, FetcherConfig, PartitionState};
pub use lookup::{FoundByKey, IndexedKeys, KeyMatches, KeySearch};
pub use membership::{Membership, MembershipChange, MembershipConfig};
pub use metadata::{Broker, Partition, Topic};
pub use offsets::{Isolation, ListedOffset, OffsetSpec};
pub use producer::{Acks, Delivery, NewRecord, ProduceError, Producer, ProducerConfig, Receipt};

pub use mainstem_kafka_wire::ErrorCode;
pub use mainstem_record::Codec;
pub use mainstem_types::{LeaderEpoch, NodeId, Offset, PartitionIndex, TimestampMs, TopicId, TopicPartition};
