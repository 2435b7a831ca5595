//! The smaller parts of the image: brokers, configuration resources, quota entities.

use std::fmt;

use mainstem_kafka_wire::metadata_records::RegisterBrokerRecord;

/// A registered broker: its registration, with the changes since applied.
#[derive(Debug, Clone, PartialEq)]
pub struct BrokerRegistration {
    pub record: RegisterBrokerRecord<'static>,
}

impl BrokerRegistration {
    pub fn id(&self) -> i32 {
        self.record.broker_id
    }

    pub fn epoch(&self) -> i64 {
        self.record.broker_epoch
    }

    /// Takes part: is not fenced, and is not leaving.
    pub fn is_active(&self) -> bool {
        !self.record.fenced && !self.record.in_controlled_shutdown
    }
}

/// What a setting belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConfigResource {
    /// Kafka's number: 2 topic, 4 broker, 8 broker logger, 16 client metrics, 32 group.
    pub kind: i8,
    /// The empty name of kind 4 stands for all brokers.
    pub name: String,
}

impl ConfigResource {
    pub const TOPIC: i8 = 2;
    pub const BROKER: i8 = 4;

    pub fn topic(name: impl Into<String>) -> Self {
        ConfigResource { kind: Self::TOPIC, name: name.into() }
    }

    pub fn broker(id: i32) -> Self {
        ConfigResource { kind: Self::BROKER, name: id.to_string() }
    }

    /// All brokers.
    pub fn cluster_default() -> Self {
        ConfigResource { kind: Self::BROKER, name: String::new() }
    }
}

impl fmt::Display for ConfigResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.kind, self.name.as_str()) {
            (Self::TOPIC, name) => write!(f, "topic {name}"),
            (Self::BROKER, "") => f.write_str("all brokers"),
            (Self::BROKER, name) => write!(f, "broker {name}"),
            (kind, name) => write!(f, "resource {name} of kind {kind}"),
        }
    }
}

/// Whom a quota is for: pairs of entity type (`user`, `client-id`, `ip`) and name, where no name is the default entity.
/// Sorted, because the order in a record means nothing.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct QuotaEntity(pub Vec<(String, Option<String>)>);
