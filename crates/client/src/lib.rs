//! A small Kafka client: metadata, produce, fetch, admin.
