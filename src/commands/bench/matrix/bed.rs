//! A broker and a topic that several cells use, one after the other: what they have in common is made once.

use std::path::Path;
use std::time::Duration;

use mainstem_client::ProducerConfig;

use super::broker::Broker;
use super::cell::Cell;
use crate::cluster::ClusterOptions;
use crate::commands::bench::load::{self, Load};
use crate::commands::bench::pace::Pace;
use crate::commands::bench::topic::{self, BenchTopics, Shape};

/// Creating ten thousand partitions takes a while.
const TIMEOUT: Duration = Duration::from_secs(120);
/// After so much a new one is made: what lies on the disk stays bounded, and old data leaves memory with its files.
pub const BYTES_MAX: u64 = 2_000_000_000;
/// Records that are sent before anything is measured.
const FIRST_RECORD_BYTES: u32 = 100;

pub struct Bed {
    pub broker: Broker,
    pub cluster: ClusterOptions,
    pub topics: BenchTopics,
    of: Cell,
    written: u64,
}

impl Bed {
    /// Starts a broker and creates the topic; every partition gets a record, so that no cell measures how files are
    /// created.
    pub async fn make(work_dir: &Path, cell: &Cell) -> anyhow::Result<Bed> {
        let broker = Broker::start(work_dir)?;
        let cluster = ClusterOptions::of(Some(broker.address.clone()), None, Some(TIMEOUT));
        let client = cluster.connect().await?;
        let shape = Shape { topics: 1, partitions: cell.partitions, config: &cell.config() };
        let topics = BenchTopics::create(&client, &cluster, shape).await?;
        let load = Load {
            producers: 1,
            size: FIRST_RECORD_BYTES,
            pace: Pace::Full,
            count: Some(topics.targets.len() as u64),
            duration: None,
            stamp: None,
            config: ProducerConfig { batch_size: 1, ..ProducerConfig::default() },
        };
        let first = load::produce(&cluster, &topics, &load).await?;
        anyhow::ensure!(first.errors == 0, "cannot write the first records: {}", first.first_error.unwrap_or_default());
        Ok(Bed { broker, cluster, topics, of: cell.clone(), written: 0 })
    }

    /// Whether a cell can be measured with it.
    pub fn suits(&self, cell: &Cell) -> bool {
        let of = &self.of;
        (&of.layout, &of.durability, of.partitions) == (&cell.layout, &cell.durability, cell.partitions)
            && self.written < BYTES_MAX
    }

    pub fn wrote(&mut self, bytes: u64) {
        self.written += bytes;
    }
}

/// Of these cells, which differ in layout or durability, those that a broker of this program can have; and why not the
/// others.
pub async fn possible(work_dir: &Path, kinds: &[Cell]) -> anyhow::Result<Vec<Result<(), String>>> {
    let broker = Broker::start(work_dir)?;
    let cluster = ClusterOptions::of(Some(broker.address.clone()), None, Some(TIMEOUT));
    let client = cluster.connect().await?;
    let mut found = Vec::new();
    for kind in kinds {
        let checked = topic::check_config(&client, &cluster, &kind.config()).await;
        found.push(checked.map_err(|error| format!("{error:#}")));
    }
    Ok(found)
}
