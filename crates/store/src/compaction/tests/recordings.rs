//! The same input as a real Kafka had: the same records stay.
