//! `mainstem consume`: prints the records of a topic.
//!
//! Without `--follow` it reads what is there at the start, to the end that each partition has then, and ends, however fast others write.

mod format;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::bail;
use clap::Args;
use mainstem_client::{
    Client, FetchError, FetchedRecord, Fetcher, Isolation, Offset, OffsetSpec, PartitionIndex, Topic, TopicPartition,
};

use crate::Usage;
use crate::cluster::ClusterOptions;
use crate::commands::position::Position;
use crate::interrupt::Interrupt;
use crate::output::{Output, note};
use format::{Format, Printer};

/// How long one look for records takes; between two it is checked whether anybody still reads the output.
const LOOK: Duration = Duration::from_millis(500);

const EXAMPLES: &str = "\
Examples:
  mainstem consume orders                  all that is there, values as lines
  mainstem consume orders -f --from end    what comes from now on, until Ctrl-C
  mainstem consume orders --from -1h --format json
  mainstem consume orders --from 2026-03-01T08:00:00Z --count 10
  mainstem consume orders --partition 2 --from 1500
  mainstem consume orders --format json | jq .value

JSON: one object a line, with topic, partition, offset, timestamp, key, value, headers, for example
  {\"topic\":\"orders\",\"partition\":0,\"offset\":5, …
   \"headers\":[{\"key\":\"source\",\"value\":\"shop\"}]}
The timestamp is in milliseconds since 1970. What a record does not have is null. What is not UTF-8 is written as \
{\"base64\":\"/wA=\"} in place of a string.

Exit codes: 0 at the end, after Ctrl-C, and when the reader of the output has gone; 1 after an error; 2 for a wrong \
command line.";

/// Print the records of a topic.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Consume {
    /// The topic
    topic: String,
    /// Where to begin: beginning, end, an offset, a time (2026-03-01T08:00:00Z), or a time ago (-1h, -2d, -90s)
    #[arg(long, value_name = "WHERE", default_value = "beginning", allow_hyphen_values = true, value_parser = Position::parse)]
    from: Position,
    /// Only this partition; may be repeated [default: all]
    #[arg(long = "partition", value_name = "N", value_parser = clap::value_parser!(i32).range(0..))]
    partitions: Vec<i32>,
    /// End after this many records
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Do not end where the topic ends: wait for more
    #[arg(long, short)]
    follow: bool,
    /// How to print a record
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = Format::Text)]
    format: Format,
    /// As text, print the key too, and this between key and value
    #[arg(long, value_name = "TEXT")]
    key_separator: Option<String>,
    #[command(flatten)]
    cluster: ClusterOptions,
}

impl Consume {
    pub fn run(self) -> anyhow::Result<()> {
        if self.key_separator.is_some() && self.format == Format::Json {
            return Err(Usage("--key-separator is for --format text: JSON has the key anyway".to_owned()).into());
        }
        super::runtime()?.block_on(self.consume())
    }

    async fn consume(self) -> anyhow::Result<()> {
        let mut interrupt = Interrupt::watch()?;
        let mut printed = 0;
        let mut output = Output::new();
        let result = tokio::select! {
            result = self.read(&mut output, &mut printed) => result,
            () = interrupt.came() => Ok(()),
        };
        // What was read before an error is worth as much as before the end.
        output.flush()?;
        result?;
        note(&format!("{printed} {} of {}", if printed == 1 { "record" } else { "records" }, self.topic));
        Ok(())
    }

    async fn read(&self, output: &mut Output, printed: &mut u64) -> anyhow::Result<()> {
        let client = self.cluster.connect().await?;
        let topic = client.topic(&self.topic).await.map_err(|error| self.cluster.explain_topic(&self.topic, error))?;
        let partitions = self.choose(&topic)?;
        // Found before the start, so that a start at the end reads nothing.
        let ends = if self.follow { None } else { Some(self.offsets(&client, &partitions, OffsetSpec::Latest).await?) };
        let mut fetcher = client.fetcher(self.cluster.fetcher_config());
        self.assign(&client, &mut fetcher, &partitions).await?;
        let mut printer = Printer::new(self.format, self.key_separator.clone());
        let mut patience = Patience::new(self.cluster.timeout());
        loop {
            if let Some(ends) = &ends
                && !leave_ended(&mut fetcher, ends)
            {
                return Ok(());
            }
            let records = match fetcher.poll(LOOK).await {
                Ok(records) => records,
                Err(error) if patience.allows(&error) => Vec::new(),
                Err(error) => return Err(self.cluster.explain_fetch(&self.topic, error)),
            };
            for record in records.iter().filter(|record| ends.as_ref().is_none_or(|ends| is_before_end(record, ends))) {
                output.write(printer.line(record)?)?;
                *printed += 1;
                if self.count == Some(*printed) {
                    return Ok(());
                }
            }
            output.flush()?;
            if records.is_empty() {
                output.check_reader()?;
            } else {
                patience.renew();
            }
        }
    }

    fn choose(&self, topic: &Topic) -> anyhow::Result<Vec<TopicPartition>> {
        let chosen = if self.partitions.is_empty() {
            topic.partitions.iter().map(|partition| partition.index).collect()
        } else {
            let mut chosen: Vec<_> = self.partitions.iter().copied().map(PartitionIndex).collect();
            chosen.sort_unstable();
            chosen.dedup();
            chosen
        };
        for partition in &chosen {
            super::check_partition(topic, *partition)?;
        }
        Ok(chosen.into_iter().map(|partition| TopicPartition::new(topic.name.clone(), partition)).collect())
    }

    async fn assign(&self, client: &Client, fetcher: &mut Fetcher, all: &[TopicPartition]) -> anyhow::Result<()> {
        let spec = match self.from {
            Position::Beginning => OffsetSpec::Earliest,
            Position::End => OffsetSpec::Latest,
            Position::Time(time) => OffsetSpec::Timestamp(time),
            Position::Offset(offset) => {
                self.check_offset(client, all, offset).await?;
                all.iter().for_each(|partition| fetcher.assign(partition.clone(), offset));
                return Ok(());
            }
        };
        fetcher.assign_at(all, spec).await.map_err(|error| self.cluster.explain_fetch(&self.topic, error))
    }

    /// Nobody who names an offset wants to begin at another one.
    async fn check_offset(&self, client: &Client, all: &[TopicPartition], offset: Offset) -> anyhow::Result<()> {
        let starts = self.offsets(client, all, OffsetSpec::Earliest).await?;
        let ends = self.offsets(client, all, OffsetSpec::Latest).await?;
        for ((partition, start), end) in starts.iter().zip(ends.values()) {
            if offset < *start || offset > *end {
                let holds = if start == end {
                    format!("it is empty, and its next offset is {end}")
                } else {
                    format!("it holds {start} to {}", end.0 - 1)
                };
                bail!(
                    "{partition} has no offset {offset}: {holds}; give --from an offset that is there, beginning or \
                     end, or choose with --partition"
                );
            }
        }
        Ok(())
    }

    async fn offsets(
        &self,
        client: &Client,
        partitions: &[TopicPartition],
        spec: OffsetSpec,
    ) -> anyhow::Result<BTreeMap<TopicPartition, Offset>> {
        let wanted: Vec<_> = partitions.iter().map(|partition| (partition.clone(), spec)).collect();
        let found = client.list_offsets(&wanted, Isolation::ReadUncommitted).await;
        let found = found.map_err(|error| self.cluster.explain_topic(&self.topic, error))?;
        Ok(found.into_iter().map(|(partition, listed)| (partition, listed.offset.unwrap_or(Offset::ZERO))).collect())
    }
}

fn is_before_end(record: &FetchedRecord, ends: &BTreeMap<TopicPartition, Offset>) -> bool {
    let partition = TopicPartition { topic: record.topic.clone(), partition: record.partition };
    ends.get(&partition).is_some_and(|end| record.offset < *end)
}

/// Stops reading partitions that are read to their end; `false` when none is left.
fn leave_ended(fetcher: &mut Fetcher, ends: &BTreeMap<TopicPartition, Offset>) -> bool {
    let ended = |partition: &TopicPartition, position: Offset| ends.get(partition).is_none_or(|end| position >= *end);
    let ended: Vec<_> = fetcher
        .positions()
        .filter(|(partition, state)| ended(partition, state.position))
        .map(|(partition, _)| partition.clone())
        .collect();
    ended.iter().for_each(|partition| fetcher.unassign(partition));
    fetcher.positions().next().is_some()
}

/// How long errors that pass are waited out: a broker may restart while somebody follows.
struct Patience {
    most: Duration,
    failing_since: Option<Instant>,
}

impl Patience {
    fn new(most: Duration) -> Self {
        Patience { most, failing_since: None }
    }

    fn renew(&mut self) {
        if self.failing_since.take().is_some() {
            note("mainstem: reading again");
        }
    }

    fn allows(&mut self, error: &FetchError) -> bool {
        let FetchError::Client(passing) = error else { return false };
        if !passing.is_retriable() {
            return false;
        }
        let since = *self.failing_since.get_or_insert_with(|| {
            note(&format!("mainstem: {error}; trying again for {} s", self.most.as_secs_f64()));
            Instant::now()
        });
        since.elapsed() < self.most
    }
}
