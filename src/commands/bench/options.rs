//! What the benches have in common on the command line.

use std::time::Duration;

use clap::Args;
use clap::builder::PossibleValuesParser;
use mainstem_client::{Acks, Codec, ProducerConfig};

use crate::cluster::{ClusterOptions, parse_timeout};
use crate::commands::parse_pair;
use crate::output::OutputFormat;

/// Memory of all producers for records that are under way.
const BUFFER_BYTES: usize = 256 << 20;
const BUFFER_BYTES_LEAST: usize = 1 << 20;
const BUFFER_BYTES_MOST: usize = 32 << 20;
pub const SIZE_MAX: u32 = 100 << 20;

#[derive(Debug, Clone, Args)]
pub struct Common {
    /// An existing topic; without this option the command creates one, and deletes it at the end
    #[arg(long, value_name = "TOPIC", conflicts_with_all = ["topics", "partitions", "config"])]
    pub topic: Option<String>,
    /// How many topics to create; they get batches in turn
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub topics: u32,
    /// Number of partitions of a created topic
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(i32).range(1..=100_000))]
    pub partitions: i32,
    /// A setting of created topics, for example mainstem.layout=shared; may be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse_pair)]
    pub config: Vec<(String, String)>,
    /// Size of a record's value
    #[arg(long, value_name = "BYTES", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..=i64::from(SIZE_MAX)))]
    pub size: u32,
    /// Process id of the broker, to measure its CPU time [default: found by its port, if it is on this machine]
    #[arg(long, value_name = "PID")]
    pub broker_pid: Option<u32>,
    /// Format of the result
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = OutputFormat::Text)]
    pub output: OutputFormat,
    #[command(flatten)]
    pub cluster: ClusterOptions,
}

/// How records are sent.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Producers")]
pub struct ProducerOptions {
    /// Number of producers; each has a connection of its own
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub producers: u32,
    /// Who must confirm a record: nobody (0), the leader (1), or all in-sync replicas (all)
    #[arg(long, value_name = "ACKS", default_value = "all", value_parser = PossibleValuesParser::new(["0", "1", "all"]))]
    acks: String,
    /// Compression of batches
    #[arg(long, value_name = "CODEC", default_value = "none", value_parser = PossibleValuesParser::new(["none", "gzip", "snappy", "lz4", "zstd"]))]
    codec: String,
    /// Size of a batch before compression; with 1 each record is a batch
    #[arg(long, value_name = "BYTES", default_value_t = 128 * 1024, value_parser = clap::value_parser!(u32).range(1..=i64::from(SIZE_MAX)))]
    pub batch_bytes: u32,
    /// How long a batch waits for more records
    #[arg(long, value_name = "DURATION", value_parser = parse_timeout)]
    linger: Option<Duration>,
    /// Write each record once, even if a batch is sent again
    #[arg(long)]
    idempotent: bool,
}

impl ProducerOptions {
    pub fn config(&self) -> ProducerConfig {
        let acks = match self.acks.as_str() {
            "0" => Acks::None,
            "1" => Acks::Leader,
            _ => Acks::All,
        };
        ProducerConfig {
            acks,
            // clap takes no other names.
            codec: self.codec.parse().unwrap_or(Codec::None),
            linger: self.linger.unwrap_or_default(),
            batch_size: self.batch_bytes as usize,
            buffer_size: buffer_bytes(self.producers),
            idempotent: self.idempotent,
            ..ProducerConfig::default()
        }
    }
}

/// What one of so many producers may have in memory.
pub fn buffer_bytes(producers: u32) -> usize {
    (BUFFER_BYTES / producers.max(1) as usize).clamp(BUFFER_BYTES_LEAST, BUFFER_BYTES_MOST)
}
