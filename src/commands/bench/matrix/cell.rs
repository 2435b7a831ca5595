//! One cell: its broker, its topic, producing, and consuming what was produced.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use mainstem_client::ProducerConfig;
use serde::{Deserialize, Serialize};

use super::broker::Broker;
use crate::cluster::ClusterOptions;
use crate::commands::bench::load::{self, Load, Reading};
use crate::commands::bench::measure::{Cpu, Outcome};
use crate::commands::bench::options::buffer_bytes;
use crate::commands::bench::produce::outcome_of;
use crate::commands::bench::topic::BenchTopic;

/// Creating ten thousand partitions takes a while.
const TIMEOUT: Duration = Duration::from_secs(120);
const BATCH_BYTES: usize = 128 * 1024;
/// Consuming ends after as many times the producing.
const CONSUME_TIMES: u32 = 2;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cell {
    pub layout: String,
    pub durability: String,
    pub partitions: i32,
    pub size: u32,
    pub producers: u32,
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Cell { layout, durability, partitions, size, producers } = self;
        write!(f, "{layout}, {durability}, {partitions} partitions, {size} bytes, {producers} producers")
    }
}

/// One result, as it stands in the file. The fields are stable.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ResultLine {
    #[serde(flatten)]
    pub cell: Cell,
    pub outcome: Option<Outcome>,
    /// Why there is none, and will be none.
    pub skipped: Option<String>,
}

/// How much a cell does at most.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    pub duration: Duration,
    pub bytes: u64,
}

pub async fn measure(cell: &Cell, limits: Limits, work_dir: &Path) -> anyhow::Result<Vec<ResultLine>> {
    let broker = Broker::start(work_dir)?;
    let cluster = ClusterOptions::of(Some(broker.address.clone()), None, Some(TIMEOUT));
    let client = cluster.connect().await?;
    let config = [
        ("mainstem.layout".to_owned(), cell.layout.clone()),
        ("mainstem.durability".to_owned(), cell.durability.clone()),
    ];
    let line = |outcome, skipped| ResultLine { cell: cell.clone(), outcome, skipped };
    let topic = match BenchTopic::create(&client, &cluster, cell.partitions, &config).await {
        Ok(topic) => topic,
        // A broker that does not have such a layout or durability.
        Err(error) => return Ok(vec![line(None, Some(format!("{error:#}")))]),
    };
    let load = Load {
        producers: cell.producers,
        size: cell.size,
        rate: None,
        count: Some((limits.bytes / u64::from(cell.size)).max(1)),
        duration: Some(limits.duration),
        stamp: None,
        config: ProducerConfig {
            batch_size: BATCH_BYTES,
            buffer_size: buffer_bytes(cell.producers),
            ..ProducerConfig::default()
        },
    };
    let cpu = Cpu::watch(Some(broker.process()));
    let produced = load::produce(&cluster, &topic, &load).await?;
    let produce = outcome_of("produce", &produced, cell.size, &cpu);
    let reading =
        Reading { consumers: cell.producers.min(8), count: None, duration: Some(limits.duration * CONSUME_TIMES) };
    let cpu = Cpu::watch(Some(broker.process()));
    let consumed = load::consume(&cluster, &topic, reading).await?;
    let consume = cpu.outcome("consume", consumed.records, consumed.bytes, consumed.elapsed);
    Ok(vec![line(Some(produce), None), line(Some(consume), None)])
}
