//! Measuring a cell: producing a record at a time, producing at full speed, and consuming what was produced.

use anyhow::ensure;
use mainstem_client::{OffsetSpec, ProducerConfig};

use super::bed::Bed;
use super::cell::{Cell, Limits};
use crate::commands::bench::load::{self, Load};
use crate::commands::bench::measure::{BenchOutcome, Usage};
use crate::commands::bench::options::buffer_bytes;
use crate::commands::bench::pace::Pace;
use crate::commands::bench::reading::{self, Reading};

const BATCH_BYTES: usize = 128 * 1024;
const CONSUMERS_MAX: u32 = 8;
/// Consuming ends after as many times the producing.
const CONSUME_TIMES: u32 = 2;
/// The part of a cell's time in which acknowledgements are measured.
const ACK_PART: u32 = 2;

/// The results of a cell, in the order of [`super::cell::WORKS`].
pub async fn measure(bed: &mut Bed, cell: &Cell, limits: Limits) -> anyhow::Result<[BenchOutcome; 3]> {
    let mut load = Load {
        producers: cell.producers,
        size: cell.size,
        pace: Pace::OneAtATime,
        count: Some((limits.bytes / u64::from(cell.size)).max(1)),
        duration: Some(limits.duration / ACK_PART),
        stamp: None,
        config: ProducerConfig {
            batch_size: BATCH_BYTES,
            buffer_size: buffer_bytes(cell.producers),
            ..ProducerConfig::default()
        },
    };
    let ack = produce(bed, "ack", &load).await?;
    let consumers = cell.producers.min(CONSUMERS_MAX);
    let readers = reading::readers(&bed.cluster, &bed.topics, consumers, OffsetSpec::Latest).await?;
    load.pace = Pace::Full;
    load.duration = Some(limits.duration);
    let produced = produce(bed, "produce", &load).await?;
    let usage = Usage::watch(Some(bed.broker.process()));
    let reading = Reading { count: Some(produced.records), duration: Some(limits.duration * CONSUME_TIMES) };
    let consumed = reading::run(&bed.cluster, &bed.topics, readers, reading).await?;
    ensure!(consumed.records > 0, "none of {} records was consumed", produced.records);
    Ok([ack, produced, usage.consumed(&consumed)])
}

async fn produce(bed: &mut Bed, work: &str, load: &Load) -> anyhow::Result<BenchOutcome> {
    let usage = Usage::watch(Some(bed.broker.process()));
    let produced = load::produce(&bed.cluster, &bed.topics, load).await?;
    let outcome = usage.produced(work, &produced, load);
    bed.wrote(outcome.bytes);
    let error = outcome.first_error.clone().unwrap_or_default();
    ensure!(outcome.errors == 0, "{} records failed; the first error: {error}", outcome.errors);
    Ok(outcome)
}
