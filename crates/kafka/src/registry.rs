//! The lists of apis. ApiVersions advertises exactly these apis, and no other is answered.

use mainstem_kafka_wire::ApiKey;

use crate::api;
use crate::context::Api;

/// All apis that Kafka has, too, by ascending key.
pub static APIS: &[&Api] = &[
    &api::k000_produce::API,
    &api::k001_fetch::API,
    &api::k002_list_offsets::API,
    &api::k003_metadata::API,
    &api::k008_offset_commit::API,
    &api::k009_offset_fetch::API,
    &api::k010_find_coordinator::API,
    &api::k011_join_group::API,
    &api::k012_heartbeat::API,
    &api::k013_leave_group::API,
    &api::k014_sync_group::API,
    &api::k015_describe_groups::API,
    &api::k016_list_groups::API,
    &api::k018_api_versions::API,
    &api::k019_create_topics::API,
    &api::k020_delete_topics::API,
    &api::k021_delete_records::API,
    &api::k022_init_producer_id::API,
    &api::k023_offset_for_leader_epoch::API,
    &api::k032_describe_configs::API,
    &api::k033_alter_configs::API,
    &api::k034_alter_replica_log_dirs::API,
    &api::k035_describe_log_dirs::API,
    &api::k037_create_partitions::API,
    &api::k042_delete_groups::API,
    &api::k043_elect_leaders::API,
    &api::k044_incremental_alter_configs::API,
    &api::k045_alter_partition_reassignments::API,
    &api::k046_list_partition_reassignments::API,
    &api::k047_offset_delete::API,
    &api::k055_describe_quorum::API,
    &api::k057_update_features::API,
    &api::k060_describe_cluster::API,
    &api::k061_describe_producers::API,
    &api::k064_unregister_broker::API,
    &api::k074_list_config_resources::API,
    &api::k075_describe_topic_partitions::API,
];

/// Mainstem's own apis, by ascending key. Only Mainstem's own client is told of them: others see the
/// apis of a Kafka.
pub static OWN_APIS: &[&Api] = &[&api::k20000_find_by_key::API];

/// The api of a key.
pub fn find(key: i16) -> Option<&'static Api> {
    let apis = if ApiKey(key).is_own() { OWN_APIS } else { APIS };
    apis.binary_search_by_key(&key, |api| api.key).ok().map(|index| apis[index])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn apis_stand_in_the_order_of_their_keys() {
        assert!(APIS.windows(2).all(|pair| pair[0].key < pair[1].key));
        assert!(OWN_APIS.windows(2).all(|pair| pair[0].key < pair[1].key));
        assert!(
            APIS.iter().all(|api| !ApiKey(api.key).is_own()) && OWN_APIS.iter().all(|api| ApiKey(api.key).is_own())
        );
    }
}
