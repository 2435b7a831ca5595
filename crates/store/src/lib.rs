//! Partition logs over journals: Kafka's own files, indexes, recovery, retention.
