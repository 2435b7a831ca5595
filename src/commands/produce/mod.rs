//! `mainstem produce`: sends lines as records.
//!
//! Lines are sent in order while their fates are awaited. The first error ends the reading; what was handed over before
//! is still awaited and told. At most 32 MiB of records and 100,000 fates wait in memory.

mod input;
mod pace;
mod summary;

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use bytes::Bytes;
use clap::builder::NonEmptyStringValueParser;
use clap::{Args, ValueEnum};
use mainstem_client::{
    Acks, Client, Codec, Delivery, Isolation, NewRecord, OffsetSpec, PartitionIndex, ProduceError, Producer,
    ProducerConfig, Receipt, Topic, TopicPartition,
};

use crate::Usage;
use crate::cluster::ClusterOptions;
use crate::interrupt::Interrupt;
use crate::output::progress::Progress;
use crate::output::{self, OutputFormat, note};
use input::{Line, Lines, Place};
use pace::Pace;
use summary::Summary;

/// Records whose fate is awaited; more make the reading wait.
const DELIVERIES_MAX: usize = 100_000;
/// How long a batch waits for more lines: no delay for a person who types, and much larger batches from a pipe.
const LINGER: Duration = Duration::from_millis(5);

const INTERRUPTED: &str = "interrupted: the rest of the input was not read";

const EXAMPLES: &str = "\
Examples:
  echo 'two of them' | mainstem produce orders
  echo '42:two of them' | mainstem produce orders --key-separator :
  mainstem produce orders --key 42 --header source=shop --file order.json
  seq 1000000 | mainstem produce numbers --codec zstd --idempotent
  mainstem produce pictures --whole --file a.png --file b.png
  mainstem produce orders --file orders.txt --rate 500
  echo '42:gone' | mainstem produce orders --key-separator : --null gone

Input: each line is a record, without its line end (line feed, or carriage return and line feed). With --whole, each \
file is a record. A record has at most 16 MiB. Records with the same key go to the same partition; records without a \
key go to any partition. The first Ctrl-C stops reading and waits for the records that were sent. The second Ctrl-C \
ends the command at once.

Exit codes:
  0  every record was written
  1  an error; the summary says how many records were written, the last line names the first line that failed
  2  the command line is wrong";

/// Send lines from standard input or a file as records.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Produce {
    /// The topic; it must exist
    topic: String,
    /// Read this file; may be repeated, the files are read in order [default: standard input]
    #[arg(long = "file", value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Send each file as one record
    #[arg(long, requires = "files", conflicts_with = "key_separator")]
    whole: bool,
    /// Send at most this many records a second
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    rate: Option<u32>,
    /// Send null for a key or value that equals this text
    #[arg(long, value_name = "TEXT")]
    null: Option<String>,
    /// Split each line at the first occurrence of this text: the key comes before it, the value after it
    #[arg(long, value_name = "TEXT", value_parser = NonEmptyStringValueParser::new())]
    key_separator: Option<String>,
    /// The key of all records
    #[arg(long, value_name = "KEY", conflicts_with = "key_separator")]
    key: Option<String>,
    /// A header of all records; may be repeated
    #[arg(long = "header", value_name = "KEY=VALUE", value_parser = crate::commands::parse_pair)]
    headers: Vec<(String, String)>,
    /// Compression of batches
    #[arg(long, value_name = "CODEC", default_value = "none", value_parser = crate::commands::codec_parser())]
    codec: Codec,
    /// Who must confirm a record: nobody (0), the leader (1), or all in-sync replicas (all) [default: all]
    #[arg(long, value_name = "ACKS", value_enum, allow_negative_numbers = true)]
    acks: Option<AcksChoice>,
    /// Send all records to this partition
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(0..))]
    partition: Option<i32>,
    /// Write each record once, even if a batch is sent again (needs --acks all)
    #[arg(long)]
    idempotent: bool,
    /// Format of the summary: text on standard error, or JSON on standard output
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = OutputFormat::Text)]
    output: OutputFormat,
    #[command(flatten)]
    cluster: ClusterOptions,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum AcksChoice {
    #[value(name = "0")]
    None,
    #[value(name = "1")]
    Leader,
    #[value(name = "all", alias = "-1")]
    All,
}

impl Produce {
    pub fn run(self) -> anyhow::Result<()> {
        if self.idempotent && self.acks.is_some_and(|acks| acks != AcksChoice::All) {
            return Err(Usage("--idempotent needs --acks all: give --acks all, or leave --acks out".to_owned()).into());
        }
        super::runtime()?.block_on(self.produce())
    }

    async fn produce(self) -> anyhow::Result<()> {
        let mut interrupt = Interrupt::watch()?;
        let lines = Lines::open(&self.files, self.whole)?;
        let client = tokio::select! {
            client = self.cluster.connect() => client?,
            () = interrupt.came() => bail!("interrupted before a record was sent"),
        };
        let topic = client.topic(&self.topic).await.map_err(|error| self.cluster.explain_topic(&self.topic, error))?;
        if let Some(partition) = self.partition {
            super::check_partition(&topic, PartitionIndex(partition))?;
        }
        if lines.are_typed() {
            note(&format!("each line becomes a record of {}; Ctrl-D ends", self.topic));
        }
        let mut sending = Sending {
            producer: client.producer(self.producer_config()),
            template: self.template(topic.name.clone()),
            deliveries: VecDeque::new(),
            summary: Summary::new(&self.topic, self.acks == Some(AcksChoice::None)),
            progress: if lines.are_typed() { Progress::hidden("records") } else { Progress::new("records", None) },
            pace: Pace::new(self.rate),
            options: &self,
        };
        let sent = sending.send_all(lines, &mut interrupt).await;
        let delivered = sending.await_all(&mut interrupt).await;
        if self.acks == Some(AcksChoice::None) {
            self.await_sockets(&client, &topic).await?;
        }
        match self.output {
            OutputFormat::Text => note(&sending.summary.in_words()),
            OutputFormat::Json => output::print_json(&sending.summary.json())?,
        }
        sent.and(delivered)
    }

    fn producer_config(&self) -> ProducerConfig {
        let acks = match self.acks {
            Some(AcksChoice::None) => Acks::None,
            Some(AcksChoice::Leader) => Acks::Leader,
            Some(AcksChoice::All) | None => Acks::All,
        };
        ProducerConfig {
            acks,
            codec: self.codec,
            linger: LINGER,
            idempotent: self.idempotent,
            delivery_timeout: self.cluster.timeout(),
            ..Default::default()
        }
    }

    /// What nobody confirms may wait in this process yet, and would end with it. A question on the same connections is
    /// answered after all that was sent before it.
    async fn await_sockets(&self, client: &Client, topic: &Topic) -> anyhow::Result<()> {
        let wanted = topic
            .partitions
            .iter()
            .map(|partition| (TopicPartition::new(topic.name.clone(), partition.index), OffsetSpec::Latest));
        let answered = client.list_offsets(&wanted.collect::<Vec<_>>(), Isolation::ReadUncommitted).await;
        answered.map(|_| ()).map_err(|error| self.cluster.explain_topic(&self.topic, error))
    }

    /// A record with all that does not come from its line.
    fn template(&self, topic: Arc<str>) -> NewRecord {
        let headers = self.headers.iter().map(|(key, value)| (key.clone(), Some(Bytes::from(value.clone()))));
        NewRecord {
            topic,
            partition: self.partition.map(PartitionIndex),
            key: self.key.clone().map(Bytes::from),
            headers: headers.collect(),
            ..Default::default()
        }
    }
}

/// Records on their way.
struct Sending<'a> {
    options: &'a Produce,
    producer: Producer,
    template: NewRecord,
    /// With the place of the line, in the order of sending.
    deliveries: VecDeque<(Place, Delivery)>,
    summary: Summary,
    progress: Progress,
    pace: Pace,
}

impl Sending<'_> {
    /// Sends every line, or those before the first error.
    async fn send_all(&mut self, mut lines: Lines, interrupt: &mut Interrupt) -> anyhow::Result<()> {
        loop {
            let has_room = self.deliveries.len() < DELIVERIES_MAX;
            let line = tokio::select! {
                line = self.pace.then(lines.next()), if has_room => match line {
                    Some(line) => line.context("cannot read the rest of the input")?,
                    None => return Ok(()),
                },
                (place, fate) = next_fate(&mut self.deliveries) => {
                    self.settle(place, fate)?;
                    continue;
                }
                () = self.progress.due() => {
                    self.progress.show(self.summary.written());
                    continue;
                }
                () = interrupt.came() => bail!(INTERRUPTED),
            };
            self.pace.step();
            // Waits for room in memory, which may last when the broker is away.
            tokio::select! {
                sent = self.send(line) => sent?,
                () = interrupt.came() => bail!(INTERRUPTED),
            }
        }
    }

    async fn send(&mut self, Line { place, bytes }: Line) -> anyhow::Result<()> {
        let mut record = self.template.clone();
        let mut value = Bytes::from(bytes);
        if let Some(separator) = &self.options.key_separator {
            let Some(at) = find(&value, separator.as_bytes()) else {
                bail!(
                    "{place} has no key, because {separator:?} is not in it; this line and the following ones were not sent"
                );
            };
            record.key = Some(value.split_to(at));
            value = value.slice(separator.len()..);
        }
        let is_null = |bytes: &Bytes| self.options.null.as_deref().is_some_and(|null| null.as_bytes() == bytes);
        record.key = record.key.filter(|key| !is_null(key));
        record.value = Some(value).filter(|value| !is_null(value));
        let delivery = self.producer.send(record).await.map_err(|error| self.explain(&place, error))?;
        self.deliveries.push_back((place, delivery));
        Ok(())
    }

    fn settle(&mut self, place: Place, fate: Result<Receipt, ProduceError>) -> anyhow::Result<()> {
        match fate {
            Ok(receipt) => {
                self.summary.count(&receipt);
                Ok(())
            }
            Err(error) => {
                self.summary.count_failure();
                Err(self.explain(&place, error))
            }
        }
    }

    /// Awaits the fates of all records that were sent; gives the first error of them.
    async fn await_all(&mut self, interrupt: &mut Interrupt) -> anyhow::Result<()> {
        let mut result = Ok(());
        while !self.deliveries.is_empty() {
            tokio::select! {
                (place, fate) = next_fate(&mut self.deliveries) => {
                    let settled = self.settle(place, fate);
                    result = result.and(settled);
                }
                () = self.progress.due() => self.progress.show(self.summary.written()),
                () = interrupt.came() => {
                    let waiting = self.deliveries.len();
                    return result.and(Err(anyhow!("interrupted: {waiting} records are unconfirmed; they may be written or not")));
                }
            }
        }
        result
    }

    fn explain(&self, place: &Place, error: ProduceError) -> anyhow::Error {
        self.options.cluster.explain_produce(&self.options.topic, error).context(place.to_string())
    }
}

/// The fate of the oldest record; never comes when there is none. May be dropped and called again.
async fn next_fate(deliveries: &mut VecDeque<(Place, Delivery)>) -> (Place, Result<Receipt, ProduceError>) {
    let Some((_, delivery)) = deliveries.front_mut() else { return std::future::pending().await };
    let fate = delivery.await;
    match deliveries.pop_front() {
        Some((place, _)) => (place, fate),
        // The front was there a moment ago, and nobody else takes it.
        None => std::future::pending().await,
    }
}

fn find(bytes: &[u8], part: &[u8]) -> Option<usize> {
    bytes.windows(part.len()).position(|window| window == part)
}
