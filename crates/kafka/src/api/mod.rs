//! One file an api, named by its key.

pub mod k000_produce;
pub mod k001_fetch;
pub mod k002_list_offsets;
pub mod k003_metadata;
pub mod k008_offset_commit;
pub mod k009_offset_fetch;
pub mod k010_find_coordinator;
pub mod k011_join_group;
pub mod k012_heartbeat;
pub mod k013_leave_group;
pub mod k014_sync_group;
pub mod k015_describe_groups;
pub mod k016_list_groups;
pub mod k018_api_versions;
pub mod k019_create_topics;
pub mod k020_delete_topics;
pub mod k022_init_producer_id;
pub mod k023_offset_for_leader_epoch;
pub mod k032_describe_configs;
pub mod k037_create_partitions;
pub mod k044_incremental_alter_configs;
pub mod k060_describe_cluster;
pub mod k075_describe_topic_partitions;
