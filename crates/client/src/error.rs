//! What can go wrong between a client and its brokers.

use mainstem_kafka_wire::{DecodeError, EncodeError, ErrorCode};

/// Why a request has no good answer. Cheap to clone: one failure may be told to many senders.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ClientError {
    #[error("no broker to ask: the list of bootstrap addresses is empty; give host:port of at least one")]
    NoBootstrap,
    #[error("none of the brokers {addresses} answered ({detail}); check the address and that a broker listens there")]
    NoBroker { addresses: String, detail: String },
    #[error("broker {node} is not known; it left the cluster, or the metadata is out of date")]
    UnknownBroker { node: i32 },
    #[error("cannot connect to {address}: {detail}")]
    Connect { address: String, detail: String },
    #[error("the connection to {address} is closed: {reason}")]
    ConnectionLost { address: String, reason: String },
    #[error("{address} did not answer {api} within {wait_ms} ms")]
    Timeout { address: String, api: &'static str, wait_ms: u64 },
    #[error("{address} offers {api} in versions {theirs} and this client speaks {ours}; one of both is too old")]
    Unsupported { address: String, api: &'static str, ours: String, theirs: String },
    #[error("{address} answered {api} with something else: {error}")]
    Decode { address: String, api: &'static str, error: DecodeError },
    #[error("{address} left {subject} out of its answer to {api}")]
    Missing { address: String, api: &'static str, subject: String },
    #[error("the request {api} cannot be written: {error}")]
    Encode { api: &'static str, error: EncodeError },
    #[error("{api} for {subject}: {code}: {message}")]
    Broker { api: &'static str, subject: String, code: ErrorCode, message: String },
}

impl ClientError {
    /// What a broker said against `subject` (a topic, a partition, a resource).
    pub(crate) fn of_broker(
        api: &'static str,
        subject: impl Into<String>,
        code: ErrorCode,
        message: Option<&str>,
    ) -> ClientError {
        let message = message.filter(|text| !text.is_empty()).unwrap_or_else(|| code.message()).to_owned();
        ClientError::Broker { api, subject: subject.into(), code, message }
    }

    /// Whether the same may succeed later.
    pub fn is_retriable(&self) -> bool {
        match self {
            ClientError::NoBroker { .. }
            | ClientError::UnknownBroker { .. }
            | ClientError::Connect { .. }
            | ClientError::ConnectionLost { .. }
            | ClientError::Timeout { .. } => true,
            ClientError::Broker { code, .. } => code.is_retriable(),
            ClientError::NoBootstrap
            | ClientError::Unsupported { .. }
            | ClientError::Decode { .. }
            | ClientError::Missing { .. }
            | ClientError::Encode { .. } => false,
        }
    }

    /// The broker's code, when a broker answered.
    pub fn code(&self) -> Option<ErrorCode> {
        match self {
            ClientError::Broker { code, .. } => Some(*code),
            _ => None,
        }
    }

    /// Whether what is known of leaders and brokers should be asked for anew before another attempt.
    pub(crate) fn wants_metadata(&self) -> bool {
        match self {
            ClientError::Broker { code, .. } => {
                matches!(
                    *code,
                    ErrorCode::UNKNOWN_TOPIC_OR_PARTITION
                        | ErrorCode::LEADER_NOT_AVAILABLE
                        | ErrorCode::NOT_LEADER_OR_FOLLOWER
                        | ErrorCode::REPLICA_NOT_AVAILABLE
                        | ErrorCode::NOT_CONTROLLER
                        | ErrorCode::KAFKA_STORAGE_ERROR
                        | ErrorCode::FENCED_LEADER_EPOCH
                        | ErrorCode::UNKNOWN_LEADER_EPOCH
                        | ErrorCode::OFFSET_NOT_AVAILABLE
                        | ErrorCode::UNKNOWN_TOPIC_ID
                        | ErrorCode::INCONSISTENT_TOPIC_ID
                )
            }
            other => other.is_retriable(),
        }
    }
}
