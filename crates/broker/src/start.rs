//! The start of a node: folder, metadata, logs, groups, in this order.

use std::path::Path;
use std::sync::Arc;

use arc_swap::ArcSwap;
use mainstem_env::Rng;
use mainstem_kafka_wire::metadata_records::MetadataRecord;
use mainstem_metadata::config::{BrokerConfig, Listener};
use mainstem_metadata::controller::{
    Controller, Decision, NodeAddress, NodeStart, bootstrap_records, bootstrap_records_of,
};
use mainstem_metadata::image::{ClusterImage, ConfigResource, ImageDelta};
use mainstem_store::{DataFolder, FolderReport, OpenError, StopKind, StoreEnv};
use mainstem_types::{NodeId, TopicId};
use parking_lot::Mutex;

use crate::adopt::{AdoptError, Adopted, adopt};
use crate::broker::Broker;
use crate::cleaner::Cleaner;
use crate::consumer_groups::ConsumerGroups;
use crate::controller_thread::{ControllerError, ControllerState, ControllerThread};
use crate::maintenance::{self, Maintenance};
use crate::metadata_log::{LoadedMetadata, MetadataWriteError};
use crate::node_state::NodeState;
use crate::open_logs::open_logs;
use crate::open_report::OpenReport;
use crate::random_ids::random_id;
use crate::settings::group_config;
use crate::space::Space;
use crate::topics::TopicMap;
use mainstem_waits::BlockingPool;

/// Why a node does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Folder(#[from] OpenError),
    #[error(transparent)]
    Adopt(#[from] AdoptError),
    #[error("cannot write the metadata: {0}")]
    Write(#[from] MetadataWriteError),
    #[error(transparent)]
    Controller(#[from] ControllerError),
    #[error("settings in the metadata contradict the configuration: {0}")]
    Config(#[from] mainstem_metadata::config::ConfigError),
    #[error("cannot start a thread: {0}")]
    Thread(#[from] std::io::Error),
    /// [`StoreEnv::set_stop`].
    #[error("the start was told to stop; the next one goes on where it ended")]
    Stopped,
}

/// The findings and actions of the start, for people.
#[derive(Debug, Default)]
pub struct StartReport {
    /// One line each: how the folder was left; bytes that were scanned and cut; files that were parked or are
    /// unreadable; partitions that are not served; settings that are not applied.
    pub lines: Vec<String>,
}

impl Broker {
    /// Starts a node on a data folder. The advertised listeners of `config` are what clients are told.
    pub fn start(
        env: Arc<StoreEnv>,
        data_dir: &Path,
        config: BrokerConfig,
    ) -> Result<(Arc<Broker>, StartReport), StartError> {
        let began = env.clock.monotonic();
        let (folder, found) = DataFolder::open(&env, data_dir)?;
        let adopted = adopt_unless_stopped(&env, &folder, &found, &config)?;
        let Adopted { properties, directory_id, log, recovery: metadata_recovery, mut metadata_log, loaded } = adopted;
        let LoadedMetadata { image, format } = loaded;
        let node = properties.node_id;
        metadata_log.begin_term(env.clock.wall_ms())?;
        let mut core = ControllerState::new(Controller::new(image), metadata_log, env.clock.monotonic());
        let start = node_start(&config, node, directory_id, &*env.rng);
        let broker_epoch = register(&mut core, &start, format, &env)?;
        let image = core.controller().image().clone();
        let own = image.configs(&ConfigResource::broker(node.0));
        let config = config.with_dynamic(image.configs(&ConfigResource::cluster_default()), own)?;
        let consumer_groups = ConsumerGroups::start(Arc::clone(&env.clock), group_config(&config))?;
        let threads = config.threads.io.max(1) as usize;
        let space = Space::new(Arc::clone(&env), folder.path().to_owned());
        let state = Arc::new(NodeState {
            env,
            folder,
            node,
            cluster_id: properties.cluster_id,
            config: ArcSwap::from_pointee(config),
            config_watcher: Default::default(),
            image: ArcSwap::from_pointee(image.clone()),
            topics: ArcSwap::from_pointee(TopicMap::default()),
            group_units: Default::default(),
            consumer_groups,
            producer_ids: Default::default(),
            broker_epoch: Mutex::new(broker_epoch),
            metadata_log: log,
            space,
            stopping: Default::default(),
        });
        let mut opened = open_logs(&state, &image, &found);
        if state.env.is_stopped() {
            crate::stop::during_start(&mut core, &state, found.stop);
            return Err(StartError::Stopped);
        }
        opened.recovery += metadata_recovery;
        state.folder.keep_reserve();
        maintenance::look_at_disk(&state);
        state.follow_offsets_topic(&image);
        let controller = ControllerThread::start(core, &state)?;
        let maintenance = Maintenance::start(&state)?;
        let cleaner = Cleaner::start(&state)?;
        let blocking = Arc::new(BlockingPool::new(threads));
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let heavy = Arc::new(BlockingPool::named("heavy", processors / 2));
        let took_ms = state.env.clock.monotonic().saturating_sub(began).as_millis();
        let report = report(&found, &opened, &image, took_ms);
        Ok((
            Arc::new(Broker {
                state,
                controller,
                blocking,
                heavy,
                maintenance,
                cleaner,
                reads: Default::default(),
                down: Default::default(),
            }),
            report,
        ))
    }
}

fn adopt_unless_stopped(
    env: &StoreEnv,
    folder: &DataFolder,
    found: &FolderReport,
    config: &BrokerConfig,
) -> Result<Adopted, StartError> {
    if env.is_stopped() {
        folder.give_back(found)?;
        return Err(StartError::Stopped);
    }
    match adopt(folder, found, config, &*env.rng) {
        Err(error) if env.is_stopped() => {
            tracing::info!("told to stop: {error}");
            Err(StartError::Stopped)
        }
        adopted => Ok(adopted?),
    }
}

fn node_start(config: &BrokerConfig, node: NodeId, directory: TopicId, rng: &dyn Rng) -> NodeStart {
    let address = |listener: &Listener| NodeAddress {
        name: listener.name.clone(),
        host: listener.host.clone(),
        port: listener.port,
        security_protocol: listener.protocol.kafka_id(),
    };
    let addresses: Vec<_> = config.advertised_listeners.iter().map(address).collect();
    let controller_addresses = addresses.first().cloned().into_iter().collect();
    NodeStart {
        node,
        incarnation: random_id(rng),
        directory,
        rack: config.rack.clone(),
        addresses,
        controller_addresses,
    }
}

/// Bootstraps a new cluster, registers this node, and elects it for its partitions. One flush covers all of this, the
/// record that began the term included. Gives the broker epoch.
fn register(
    core: &mut ControllerState,
    start: &NodeStart,
    format: Vec<MetadataRecord<'static>>,
    env: &StoreEnv,
) -> Result<i64, ControllerError> {
    let now = env.clock.wall_ms();
    if !core.controller().image().is_bootstrapped() {
        let records = if format.is_empty() { bootstrap_records() } else { bootstrap_records_of(format) };
        let _: ImageDelta = core.append(&records, now)?;
    }
    let Decision { records, reply } = core.controller().start_node(start, core.next_offset());
    let _: ImageDelta = core.append(&records, now)?;
    core.sync()?;
    Ok(reply)
}

fn report(found: &FolderReport, opened: &OpenReport, image: &ClusterImage, took_ms: u128) -> StartReport {
    let mut lines = Vec::new();
    let r = &opened.recovery;
    lines.push(match found.stop {
        StopKind::New => "new data folder".to_owned(),
        StopKind::Clean { .. } => {
            let logs = found.partitions.len() + 1;
            format!("{logs} logs opened after an orderly stop, in {took_ms} ms")
        }
        StopKind::Unclean => format!(
            "recovered from an unclean stop: {} logs, {} segments with {} bytes scanned, {} bytes cut, {} indexes rebuilt, in {took_ms} ms",
            r.logs, r.segments_scanned, r.bytes_scanned, r.bytes_cut, r.indexes_rebuilt
        ),
    });
    if r.segments_parked > 0 {
        let count = r.segments_parked;
        lines.push(format!("set aside: {count} files with what could not be read (*.parked); the log says which"));
    }
    if r.logs_short > 0 {
        let count = r.logs_short;
        lines.push(format!(
            "failed: {count} logs end before their checkpoint: durable records are missing; the log says which"
        ));
    }
    lines.extend(opened.parked.iter().map(|parked| format!("parked: {parked}")));
    lines.extend(found.unreadable.iter().map(|(path, reason)| format!("unreadable: {}: {reason}", path.display())));
    lines.extend(opened.failed.iter().map(|failed| format!("failed: {failed}")));
    lines.extend(opened.in_memory.iter().cloned());
    lines.extend(not_applied(image));
    StartReport { lines }
}

/// Settings that a Kafka enforces and this broker does not: users who rely on them must hear of it.
fn not_applied(image: &ClusterImage) -> Option<String> {
    let (rules, quotas) = (image.acls().count(), image.client_quotas().count());
    let kept = "in the metadata, kept for a Kafka, and not applied here: every client may do everything";
    (rules + quotas > 0).then(|| format!("WARNING: {rules} access rules (ACLs) and {quotas} client quotas are {kept}"))
}

#[cfg(test)]
#[path = "start_tests.rs"]
mod tests;
