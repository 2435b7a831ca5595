//! One file a target. A target turns bytes into calls of one decoder and checks what must hold for whatever it accepts.

pub mod coordinator_record;
pub mod decompress_gzip;
pub mod decompress_lz4;
pub mod decompress_snappy;
pub mod decompress_zstd;
pub mod disk_checkpoint;
pub mod disk_clean_shutdown;
pub mod disk_commit_log_entry;
pub mod disk_epoch_checkpoint;
pub mod disk_group_checkpoint;
pub mod disk_key_index;
pub mod disk_log_segment;
pub mod disk_meta_properties;
pub mod disk_metadata_log;
pub mod disk_metadata_snapshot;
pub mod disk_names;
pub mod disk_offset_checkpoint;
pub mod disk_offset_index;
pub mod disk_partition_metadata;
pub mod disk_producer_snapshot;
pub mod disk_quorum_state;
pub mod disk_time_index;
pub mod disk_transaction_index;
pub mod frame_reader;
pub mod group_replay;
pub mod kafka_handler;
pub mod kafka_request;
pub mod kafka_response;
pub mod metadata_record;
pub mod metadata_replay;
pub mod record_batch;

mod batches;
mod decompress;
mod messages;
pub(crate) mod node;
