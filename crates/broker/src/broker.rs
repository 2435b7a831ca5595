//! The broker: what doors call.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::Guard;
use mainstem_env::{Clock, Rng};
use mainstem_metadata::config::BrokerConfig;
use mainstem_metadata::controller::{Controller, Decision};
use mainstem_metadata::image::ClusterImage;
use mainstem_types::{NodeId, ProducerId};

use crate::cleaner::Cleaner;
use crate::consumer_groups::ConsumerGroups;
use crate::controller_thread::{ControllerError, ControllerThread};
use crate::maintenance::Maintenance;
use crate::node_state::{ConfigWatcher, NodeState};
use crate::producer_ids::ProducerIds;
use crate::random_ids::random_bytes;
use crate::read_counters::ReadCounters;
use crate::topics::TopicMap;
use mainstem_waits::BlockingPool;

/// Where clients of one listener reach a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    pub node: NodeId,
    pub host: Arc<str>,
    pub port: u16,
    pub rack: Option<Arc<str>>,
}

/// One node.
pub struct Broker {
    pub(crate) state: Arc<NodeState>,
    pub(crate) controller: ControllerThread,
    pub(crate) blocking: Arc<BlockingPool>,
    pub(crate) heavy: Arc<BlockingPool>,
    pub(crate) maintenance: Maintenance,
    pub(crate) cleaner: Cleaner,
    pub(crate) reads: ReadCounters,
    /// Set by the orderly stop.
    pub(crate) down: AtomicBool,
}

impl Broker {
    pub fn node_id(&self) -> NodeId {
        self.state.node
    }

    pub fn cluster_id(&self) -> &str {
        &self.state.cluster_id
    }

    pub fn clock(&self) -> &dyn Clock {
        &*self.state.env.clock
    }

    /// For ids that cannot be guessed or repeated.
    pub fn random_bytes(&self) -> [u8; 16] {
        random_bytes(&*self.state.env.rng)
    }

    /// Settings as they are now, changes while running included.
    pub fn config(&self) -> Guard<Arc<BrokerConfig>> {
        self.state.config.load()
    }

    /// Tells `watcher` the settings as they are now, and again when they change, before the change is answered. There
    /// is one watcher: a second one is not told.
    pub fn watch_config(&self, watcher: ConfigWatcher) {
        let watching = self.state.config_watcher.get_or_init(|| watcher);
        loop {
            let config = self.state.config.load_full();
            watching(&config);
            // A change that came meanwhile may have told the watcher before this call.
            if Arc::ptr_eq(&config, &self.state.config.load()) {
                return;
            }
        }
    }

    /// The image of the metadata.
    pub fn image(&self) -> Guard<Arc<ClusterImage>> {
        self.state.image.load()
    }

    /// The topics that are served.
    pub fn topics(&self) -> Guard<Arc<TopicMap>> {
        self.state.topics.load()
    }

    pub fn consumer_groups(&self) -> &ConsumerGroups {
        &self.state.consumer_groups
    }

    /// Threads for work that may wait for the disk.
    pub fn blocking(&self) -> &Arc<BlockingPool> {
        &self.blocking
    }

    /// Threads for requests that need much of a processor: half as many as there are processors, so that they never
    /// take all.
    pub fn heavy(&self) -> &Arc<BlockingPool> {
        &self.heavy
    }

    /// Where looks of fetches found what they looked for.
    pub fn reads(&self) -> &ReadCounters {
        &self.reads
    }

    pub fn producer_ids(&self) -> &ProducerIds {
        &self.state.producer_ids
    }

    /// Changes the metadata: `decide` sees the cluster as it is after all earlier changes. When this returns, the
    /// records are durable and the node follows them: a topic that was created can be written.
    pub async fn change_metadata<R: Send + 'static>(
        &self,
        decide: impl FnOnce(&Controller, &BrokerConfig, &dyn Rng) -> Decision<R> + Send + 'static,
    ) -> Result<R, ControllerError> {
        self.controller.change(move |controller, state| decide(controller, &state.config.load(), &*state.env.rng)).await
    }

    /// A producer id, from a new block if need be.
    pub async fn allocate_producer_id(&self) -> Result<ProducerId, ControllerError> {
        loop {
            if let Some(id) = self.state.producer_ids.next_at_hand() {
                return Ok(id);
            }
            self.refill_producer_ids().await?;
        }
    }

    /// Where clients of a listener reach this node; of the first listener if there is none of that name.
    pub fn endpoint(&self, listener: &str) -> Endpoint {
        let config = self.config();
        let named = config.advertised_listeners.iter().find(|l| l.name == listener);
        let (host, port) = named.or(config.advertised_listeners.first()).map_or(("", 0), |l| (l.host.as_str(), l.port));
        Endpoint { node: self.state.node, host: host.into(), port, rack: config.rack.as_deref().map(Into::into) }
    }

    /// Long polls from here on are answered at once, those that wait are woken: the broker is about to stop.
    pub fn end_long_polls(&self) {
        self.state.stopping.store(true, Ordering::SeqCst);
        // What they are at ends while requests under way are answered.
        self.maintenance.ask_to_stop();
        self.cleaner.ask_to_stop();
        for topic in self.state.topics.load().iter() {
            topic.partitions.iter().for_each(|partition| partition.fetch_waiters.wake_all());
        }
    }

    /// Whether the broker is about to stop, so that nothing should wait any more.
    pub fn is_stopping(&self) -> bool {
        self.state.stopping.load(Ordering::SeqCst)
    }

    /// Ends all waits, closes the logs, and writes what makes the next start a clean one. A second call does nothing.
    pub fn shutdown(&self) {
        if self.down.swap(true, Ordering::SeqCst) {
            return;
        }
        self.end_long_polls();
        self.cleaner.stop();
        self.maintenance.stop();
        self.state.consumer_groups.stop();
        self.controller.stop(crate::stop::last_operation);
        for topic in self.state.topics.load().iter() {
            topic.partitions.iter().for_each(|partition| partition.close_waits());
        }
        self.blocking.stop();
        self.heavy.stop();
        // Before the logs are collected: none comes into being after that.
        self.state.folder.end_creations();
        let epoch = *self.state.broker_epoch.lock();
        if let Err(error) = self.state.folder.close(&self.state.all_logs(), epoch) {
            tracing::error!("cannot close the data folder in order; the next start will check it: {error}");
        }
    }
}
