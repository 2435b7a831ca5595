//! What all parts of the broker share: the folder, the image, the topics, the settings.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwap;
use mainstem_metadata::config::BrokerConfig;
use mainstem_metadata::image::ClusterImage;
use mainstem_store::{DataFolder, PartitionLog, StoreEnv};
use mainstem_types::{NodeId, Offset};
use parking_lot::Mutex;

use crate::consumer_groups::ConsumerGroups;
use crate::group_unit::GroupUnits;
use crate::producer_ids::ProducerIds;
use crate::space::Space;
use crate::topics::TopicMap;

/// Called on the controller thread: it must not wait for that.
pub type ConfigWatcher = Box<dyn Fn(&BrokerConfig) + Send + Sync>;

/// Read by every request, without locks; written by the controller thread alone.
pub(crate) struct NodeState {
    pub env: Arc<StoreEnv>,
    pub folder: DataFolder,
    pub node: NodeId,
    pub cluster_id: String,
    pub config: ArcSwap<BrokerConfig>,
    /// Told of every change of the settings.
    pub config_watcher: OnceLock<ConfigWatcher>,
    pub image: ArcSwap<ClusterImage>,
    pub topics: ArcSwap<TopicMap>,
    pub group_units: GroupUnits,
    pub consumer_groups: ConsumerGroups,
    pub producer_ids: ProducerIds,
    /// The epoch of this node's registration.
    pub broker_epoch: Mutex<i64>,
    pub metadata_log: Arc<PartitionLog>,
    pub space: Space,
    /// Set once, when an orderly stop begins.
    pub stopping: AtomicBool,
}

impl NodeState {
    /// Every log that has files of its own, with its high watermark, the metadata log among them: what the checkpoints
    /// cover that are not a group's.
    pub fn all_logs(&self) -> Vec<(Arc<PartitionLog>, Offset)> {
        let topics = self.topics.load();
        let partitions = topics.iter().flat_map(|topic| topic.partitions.iter());
        let own =
            partitions.filter_map(|p| p.log().as_partition_log().map(|log| (Arc::clone(log), p.high_watermark())));
        let mut logs: Vec<_> = own.collect();
        logs.push((Arc::clone(&self.metadata_log), self.metadata_log.log_end()));
        logs
    }
}
