//! Why a configuration is refused.

/// Kafka's code for all of these is INVALID_CONFIG (40). At start the broker stops with the message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    #[error("Invalid value {value} for configuration {key}: {reason}")]
    InvalidValue { key: String, value: String, reason: String },
    #[error("Unknown topic config name: {key}")]
    UnknownTopicKey { key: String },
    #[error("Unknown server property: {key}{}", hint(.suggestion))]
    UnknownBrokerKey { key: String, suggestion: Option<&'static str> },
    /// Two related values contradict each other.
    #[error("Invalid value {value} for configuration {key}: {reason}")]
    Conflict { key: String, value: String, reason: String },
    #[error("Cannot update {key} while the broker runs: change the configuration file and restart")]
    ReadOnly { key: String },
    #[error("Cannot set {key} for all brokers: name the broker")]
    PerBrokerOnly { key: String },
    #[error("Null value not supported for topic configs: {key}")]
    NullValue { key: String },
}

/// The setting that the operator may have meant.
pub(super) fn hint(suggestion: &Option<&'static str>) -> String {
    suggestion.map(|name| format!(" (did you mean {name}?)")).unwrap_or_default()
}
