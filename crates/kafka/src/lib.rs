//! The Kafka door: one file an API, one registry.
