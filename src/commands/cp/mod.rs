//! `mainstem cp`: copies a topic from one cluster to another.
//!
//! Guarantees, as long as nobody else writes to the destination and its state file is kept: each record of the source
//! that a reader of committed records sees comes once, in the order of its partition, with key, value, headers and
//! timestamp, in the partition of the same number. That holds over crashes of this program and of either cluster, as
//! far as the destination keeps what it confirmed. Somebody else's records are noticed and end the copy. Offsets are
//! kept only where the source has no gaps.
//!
//! How: the file holds pairs of offsets up to which everything is copied. What the destination has beyond that was
//! written before the last stop: it is compared with the source and not written again.

mod copy;
mod fingerprint;
mod prepare;
mod state;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{anyhow, bail};
use clap::Args;
use mainstem_client::Codec;
use serde::Serialize;

use crate::Usage;
use crate::cluster::{ClusterOptions, parse_bootstrap, parse_timeout};
use crate::interrupt::Interrupt;
use crate::output::{self, OutputFormat, note};
use copy::Copy;
use mainstem_charts::grouped;
use state::PartitionState;

/// What is under way when a copy is interrupted has this long to be confirmed.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(10);

const EXAMPLES: &str = "\
Examples:
  mainstem cp orders --from kafka-1:9092 --to 127.0.0.1:9092
  mainstem cp orders orders-copy --from-profile live --to-profile dev --codec zstd
  mainstem cp orders --from kafka-1:9092 --to 127.0.0.1:9092 --follow

If the destination does not exist, the command creates it with the partitions and settings of the source. The \
destination must be empty, and nobody else may write to it. Then the command copies each record once, in order, with \
its key, value, headers, timestamp and partition. Offsets stay the same only where the source has no gaps. The command \
does not copy records of open and aborted transactions.

The state file records the progress. After an error, a crash or Ctrl-C, the same command continues from there. After a \
finished copy, the same command copies newer records. Records that were written but not yet recorded are compared, not \
written twice. Without the state file a copy starts from the beginning, and the destination must be empty again.

Exit codes:
  0  everything was copied
  1  an error, or Ctrl-C without --follow
  2  the command line is wrong";

/// Copy a topic between clusters, with keys, headers and timestamps. Resumes after an interruption.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Cp {
    /// The topic to copy
    #[arg(value_name = "SOURCE")]
    source: String,
    /// The topic to write [default: the same name]
    #[arg(value_name = "DESTINATION")]
    destination: Option<String>,
    /// A broker of the source [default: the same as --bootstrap-server of other commands]
    #[arg(long, value_name = "HOST:PORT", value_parser = parse_bootstrap)]
    from: Option<String>,
    /// The source cluster, by the name of its profile
    #[arg(long, value_name = "NAME", conflicts_with = "from")]
    from_profile: Option<String>,
    /// A broker of the destination [default: the same as --bootstrap-server of other commands]
    #[arg(long, value_name = "HOST:PORT", value_parser = parse_bootstrap)]
    to: Option<String>,
    /// The destination cluster, by the name of its profile
    #[arg(long, value_name = "NAME", conflicts_with = "to")]
    to_profile: Option<String>,
    /// The file that records the progress of the copy [default: DESTINATION.mainstem-cp.json in the current folder]
    #[arg(long, value_name = "FILE")]
    state: Option<PathBuf>,
    /// Replication factor of the destination if the command creates it [default: the broker's]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i16).range(1..))]
    replication_factor: Option<i16>,
    /// Compression of the batches that are sent to the destination
    #[arg(long, value_name = "CODEC", default_value = "none", value_parser = crate::commands::codec_parser())]
    codec: Codec,
    /// Wait for more records at the end of the source, until Ctrl-C
    #[arg(long, short)]
    follow: bool,
    /// How long brokers may take, including retries: 10s, 500ms, 2m
    #[arg(long, value_name = "DURATION", value_parser = parse_timeout)]
    timeout: Option<Duration>,
    /// Format of the result
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = OutputFormat::Text)]
    output: OutputFormat,
}

/// What was copied, in JSON.
#[derive(Debug, Serialize)]
struct CopyOutcome<'a> {
    source: &'a str,
    destination: &'a str,
    /// Whether all that was there at the start has been copied.
    finished: bool,
    copied: u64,
    /// Found in the destination, from a stop before.
    found: u64,
    elapsed_ms: u64,
    state_file: String,
    partitions: &'a [PartitionState],
}

impl Cp {
    pub fn run(self) -> anyhow::Result<()> {
        let side = |address: &Option<String>, profile: &Option<String>| address.is_some() || profile.is_some();
        if !side(&self.from, &self.from_profile) && !side(&self.to, &self.to_profile) && self.destination.is_none() {
            let text = "source and destination are missing: give --from and --to, or --from-profile and --to-profile";
            return Err(Usage(text.to_owned()).into());
        }
        crate::commands::runtime()?.block_on(self.copy())
    }

    async fn copy(self) -> anyhow::Result<()> {
        let begun = Instant::now();
        let mut interrupt = Interrupt::watch()?;
        let destination = self.destination.as_deref().unwrap_or(&self.source);
        let state_file =
            self.state.clone().unwrap_or_else(|| Path::new(&format!("{destination}.mainstem-cp.json")).to_path_buf());
        let from = ClusterOptions::of(self.from.clone(), self.from_profile.clone(), self.timeout);
        let to = ClusterOptions::of(self.to.clone(), self.to_profile.clone(), self.timeout);
        let mut copy = tokio::select! {
            copy = Copy::prepare(&self, &from, &to, destination, &state_file) => copy?,
            () = interrupt.came() => bail!("interrupted before a record was copied"),
        };
        let mut interrupted = false;
        let mut result = tokio::select! {
            result = copy.run() => result,
            () = interrupt.came() => {
                interrupted = true;
                Ok(())
            }
        };
        if interrupted || result.is_err() {
            let settled = tokio::time::timeout(SETTLE_TIMEOUT, copy.settle_all()).await;
            let settled = settled.unwrap_or_else(|_| Err(anyhow!("records in flight were not confirmed in time")));
            result = result.and(settled);
        }
        let saved = copy.save();
        let finished = result.is_ok() && saved.is_ok() && !interrupted;
        self.tell(&copy, destination, finished, begun, &state_file)?;
        result.and(saved)?;
        if interrupted && !self.follow {
            bail!("interrupted: the same command continues from the state in {}", state_file.display());
        }
        Ok(())
    }

    fn tell(
        &self,
        copy: &Copy,
        destination: &str,
        finished: bool,
        begun: Instant,
        state_file: &Path,
    ) -> anyhow::Result<()> {
        let outcome = CopyOutcome {
            source: &self.source,
            destination,
            finished,
            copied: copy.copied,
            found: copy.found,
            elapsed_ms: begun.elapsed().as_millis() as u64,
            state_file: state_file.display().to_string(),
            partitions: copy.partitions(),
        };
        if self.output == OutputFormat::Json {
            return output::print_json(&outcome);
        }
        let records = if outcome.copied == 1 { "record" } else { "records" };
        let found = match outcome.found {
            0 => String::new(),
            found => format!(", {} already written by an earlier copy", grouped(found)),
        };
        note(&format!(
            "{} {records} of {} copied to {destination} in {} ms{found}; the progress is in {}",
            grouped(outcome.copied),
            self.source,
            outcome.elapsed_ms,
            outcome.state_file
        ));
        Ok(())
    }
}
