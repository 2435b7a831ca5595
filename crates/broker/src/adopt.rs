//! To which node the folder belongs, what its metadata says, and whether this node may start on it.
//!
//! The broker changes nothing before it knows all of that. It leaves a refused folder exactly as it is, an orderly stop
//! included, so that the owner can continue with it.

use std::path::PathBuf;
use std::sync::Arc;

use mainstem_env::Rng;
use mainstem_metadata::config::{BrokerConfig, ConfigError};
use mainstem_metadata::image::ConfigResource;
use mainstem_store::{
    DataFolder, FolderReport, LogConfig, LogRecovery, MetaProperties, MetadataFiles, OpenError, PartitionLog,
};
use mainstem_types::{NodeId, TopicId};

use crate::metadata_log::{LoadError, LoadedMetadata, MetadataLog};
use crate::random_ids::random_id;

/// Why a node does not start on a folder.
#[derive(Debug, thiserror::Error)]
pub enum AdoptError {
    #[error(transparent)]
    Folder(#[from] OpenError),
    #[error("the folder {} belongs to node {found}, and node.id is {wanted}: set node.id={found}, or choose another --data-dir", folder.display())]
    NodeId { folder: PathBuf, found: NodeId, wanted: NodeId },
    #[error(
        "the folder {} has {partitions} partitions, but no metadata log that names their topics: a Kafka with metadata.log.dir keeps it \
         elsewhere; move its __cluster_metadata-0 here, or choose another --data-dir",
        folder.display()
    )]
    NoMetadata { folder: PathBuf, partitions: usize },
    #[error(
        "the folder {} has commit logs, but no metadata log that names the topics of their records: put its __cluster_metadata-0 back, or choose \
         another --data-dir",
        folder.display()
    )]
    NoMetadataOfGroups { folder: PathBuf },
    #[error(
        "node {node} keeps partitions in other folders, too, or only there (directory.id {}; that of {} is {own}): Mainstem uses one \
         folder; move all partitions to one log.dirs entry with Kafka's reassignment tool first",
        list(others), folder.display()
    )]
    OtherFolders { folder: PathBuf, node: NodeId, own: TopicId, others: Vec<TopicId> },
    #[error("cannot load the metadata: {0}")]
    Load(#[from] LoadError),
    #[error("settings in the metadata contradict the configuration: {0}")]
    Config(#[from] ConfigError),
}

/// A folder that this node may start on.
pub(crate) struct Adopted {
    pub properties: MetaProperties,
    pub directory_id: TopicId,
    pub log: Arc<PartitionLog>,
    pub recovery: LogRecovery,
    pub metadata_log: MetadataLog,
    pub loaded: LoadedMetadata,
}

/// Looks at everything; gives the folder back if the node must not start.
pub(crate) fn adopt(
    folder: &DataFolder,
    found: &FolderReport,
    config: &BrokerConfig,
    rng: &dyn Rng,
) -> Result<Adopted, AdoptError> {
    let adopted = look(folder, found, config, rng);
    if adopted.is_err()
        && let Err(error) = folder.give_back(found)
    {
        tracing::warn!("the folder stays as after a crash: {error}");
    }
    adopted
}

fn look(
    folder: &DataFolder,
    found: &FolderReport,
    config: &BrokerConfig,
    rng: &dyn Rng,
) -> Result<Adopted, AdoptError> {
    if !found.partitions.is_empty() && !folder.has_metadata_log()? {
        return Err(AdoptError::NoMetadata { folder: folder.path().to_owned(), partitions: found.partitions.len() });
    }
    if folder.has_groups()? && !folder.has_metadata_log()? {
        return Err(AdoptError::NoMetadataOfGroups { folder: folder.path().to_owned() });
    }
    let known = known_properties(folder, config)?;
    let node = known.as_ref().map_or(NodeId(config.node_id), |properties| properties.node_id);
    let (log, recovery) = folder.open_metadata_log(Arc::new(metadata_log_config(config)))?;
    let files = MetadataFiles::new(Arc::clone(&folder.env().fs), &log.folder());
    let mut metadata_log = MetadataLog::new(Arc::clone(&log), files, node);
    let loaded = metadata_log.load()?;
    let registered = loaded.image.broker(node.0).map(|broker| broker.record.log_dirs.clone()).unwrap_or_default();
    let properties = properties(folder, known, node, &registered, rng)?;
    let directory_id = properties.directory_id.unwrap_or_default();
    let others: Vec<TopicId> = registered.into_iter().filter(|directory| *directory != directory_id).collect();
    if !others.is_empty() {
        let folder = folder.path().to_owned();
        return Err(AdoptError::OtherFolders { folder, node, own: directory_id, others });
    }
    let own = loaded.image.configs(&ConfigResource::broker(node.0));
    config.with_dynamic(loaded.image.configs(&ConfigResource::cluster_default()), own)?;
    Ok(Adopted { properties, directory_id, log, recovery, metadata_log, loaded })
}

/// Whose folder the folder says it is.
fn known_properties(folder: &DataFolder, config: &BrokerConfig) -> Result<Option<MetaProperties>, AdoptError> {
    let (properties, wanted) = (folder.meta_properties()?, NodeId(config.node_id));
    match properties.as_ref().filter(|properties| config.is_set("node.id") && properties.node_id != wanted) {
        Some(other) => Err(AdoptError::NodeId { folder: folder.path().to_owned(), found: other.node_id, wanted }),
        None => Ok(properties),
    }
}

/// Whose folder this is; a new one becomes this node's. What is lost is taken from the metadata, which know the one
/// `directory` of the node. They do not know the cluster's id: it is given anew.
fn properties(
    folder: &DataFolder,
    known: Option<MetaProperties>,
    node: NodeId,
    directories: &[TopicId],
    rng: &dyn Rng,
) -> Result<MetaProperties, AdoptError> {
    let directory_id = known.as_ref().and_then(|known| known.directory_id);
    if let Some(known) = known.as_ref().filter(|_| directory_id.is_some()) {
        return Ok(known.clone());
    }
    let directory = match directories {
        [own] => *own,
        _ => random_id(rng),
    };
    let cluster_id = known.map_or_else(|| random_id(rng).to_string(), |known| known.cluster_id);
    let properties = MetaProperties { cluster_id, node_id: node, directory_id: Some(directory) };
    if !directories.is_empty() {
        tracing::warn!(
            "meta.properties or its directory.id was lost; the broker writes a new one, for cluster {}",
            properties.cluster_id
        );
    }
    folder.write_meta_properties(&properties)?;
    Ok(properties)
}

/// The metadata log keeps everything that its snapshots do not cover.
fn metadata_log_config(config: &BrokerConfig) -> LogConfig {
    LogConfig {
        segment_bytes: config.metadata_log.segment_bytes.max(1024) as u32,
        segment_ms: config.metadata_log.segment_ms,
        max_message_bytes: i32::MAX as u32,
        cleanup_delete: false,
        ..LogConfig::default()
    }
}

fn list(directories: &[TopicId]) -> String {
    directories.iter().map(TopicId::to_string).collect::<Vec<_>>().join(", ")
}
