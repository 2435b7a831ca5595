//! Why the door wants a connection closed.

/// Kafka closes where a client cannot be answered in a form that it would understand.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CloseReason {
    #[error("malformed request: {0}")]
    Malformed(String),
    #[error("api key {0} is unknown")]
    UnknownApi(i16),
    #[error("{api} version {version} is not supported")]
    UnsupportedVersion { api: &'static str, version: i16 },
    #[error("a produce request with acks=0 failed: {0}")]
    FireAndForgetFailed(String),
    #[error("a response could not be encoded: {0}")]
    Encoding(String),
}
