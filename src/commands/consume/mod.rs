//! `mainstem consume`: prints the records of topics.
//!
//! Without `--follow` it reads what is there at the start, to the end that each partition has then, and ends, however
//! fast others write.

mod choice;
pub mod format;
mod template;

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

use clap::Args;
use mainstem_client::{Client, CommittedOffset, Fetcher, FetcherConfig, Isolation, Offset, OffsetSpec, TopicPartition};
use regex::Regex;

use crate::Usage;
use crate::cluster::ClusterOptions;
use crate::commands::ends::{self, Ends, is_before_end, leave_ended};
use crate::commands::patience::Patience;
use crate::commands::position::Position;
use crate::interrupt::Interrupt;
use crate::output::progress::Progress;
use crate::output::{Output, note};
use format::{Format, Printer};

/// How long one look for records takes; between two it is checked whether anybody still reads the output.
const LOOK: Duration = Duration::from_millis(500);
/// How often the offsets of a group are committed while reading.
const COMMIT_EVERY: Duration = Duration::from_secs(5);

const EXAMPLES: &str = "\
Examples:
  mainstem consume orders                  prints all records, each value as a line
  mainstem consume orders -f --from end    prints new records, until Ctrl-C
  mainstem consume orders --from -1h --format json
  mainstem consume orders --from 2026-03-01T08:00:00Z --count 10
  mainstem consume orders --partition 2 --from 1500
  mainstem consume orders --format '%t[%p] %o %k=%s\\n'
  mainstem consume --pattern 'orders-.*' --group nightly
  mainstem consume orders --format json | jq .value

JSON: one object a line, with topic, partition, offset, timestamp, key, value, headers. For example:
  {\"topic\":\"orders\",\"partition\":0,\"offset\":5, …
   \"headers\":[{\"key\":\"source\",\"value\":\"shop\"}]}
The timestamp is in milliseconds since 1970. A missing key or value is null. Bytes that are not UTF-8 are written as \
{\"base64\":\"/wA=\"} instead of a string.

Format strings, as in kcat: %t topic, %p partition, %o offset, %k key, %K its length, %s value, %S its length (-1: null), \
%R the same length as 4 bytes, %T timestamp, %h headers as a=1,b=2, %% a per cent sign; \\n \\r \\t \\0 \\\\ \\x41. The \
command adds no line feed.

With --group, the command starts at the group's committed offsets. --from applies to partitions without a committed \
offset. The command commits the offsets of printed records every 5 seconds and at the end. After a crash it may print \
some records again. The command does not join the group, and fails if the group has members.

Exit codes:
  0  the command reached the end, Ctrl-C, or the reader of the output has closed it
  1  an error
  2  the command line is wrong";

/// Print the records of topics.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Consume {
    /// The topics
    #[arg(value_name = "TOPIC", required_unless_present = "pattern")]
    topics: Vec<String>,
    /// All topics whose whole name matches this regular expression when the command starts
    #[arg(long, value_name = "REGEX", value_parser = parse_pattern)]
    pattern: Option<Regex>,
    /// Where to start: beginning, end, an offset, a time (2026-03-01T08:00:00Z), or a time ago (-1h, -2d, -90s)
    #[arg(long, value_name = "WHERE", default_value = "beginning", allow_hyphen_values = true, value_parser = Position::parse)]
    from: Position,
    /// Only this partition; may be repeated [default: all]
    #[arg(long = "partition", value_name = "N", value_parser = clap::value_parser!(i32).range(0..))]
    partitions: Vec<i32>,
    /// Stop after this many records
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Wait for more records at the end of the topics
    #[arg(long, short)]
    follow: bool,
    /// Stop where the topics ended when the command started; this is the default without --follow
    #[arg(long, conflicts_with = "follow")]
    until_end: bool,
    /// Start at this group's committed offsets, and commit the offsets of printed records
    #[arg(long, value_name = "GROUP")]
    group: Option<String>,
    /// Leave out records of open and aborted transactions
    #[arg(long)]
    read_committed: bool,
    /// How to print a record: text, json, or a format string
    #[arg(long, visible_alias = "output", value_name = "FORMAT", default_value = "text", value_parser = Format::parse)]
    format: Format,
    /// With --format text, print the key, this text, then the value
    #[arg(long, value_name = "TEXT")]
    key_separator: Option<String>,
    #[command(flatten)]
    cluster: ClusterOptions,
}

/// What has been printed.
#[derive(Default)]
struct Printed {
    count: u64,
    /// Where each partition goes on.
    next: BTreeMap<TopicPartition, Offset>,
}

fn parse_pattern(text: &str) -> Result<Regex, String> {
    Regex::new(&format!("^(?:{text})$")).map_err(|error| error.to_string())
}

impl Consume {
    pub fn run(self) -> anyhow::Result<()> {
        if self.key_separator.is_some() && self.format != Format::Text {
            let text =
                "--key-separator works only with --format text: JSON contains the key, and a format string has %k";
            return Err(Usage(text.to_owned()).into());
        }
        super::runtime()?.block_on(self.consume())
    }

    async fn consume(self) -> anyhow::Result<()> {
        let mut interrupt = Interrupt::watch()?;
        let client = tokio::select! {
            client = self.cluster.connect() => client?,
            () = interrupt.came() => return Ok(()),
        };
        let mut printed = Printed::default();
        let mut output = Output::new();
        let result = tokio::select! {
            result = self.read(&client, &mut output, &mut printed) => result,
            () = interrupt.came() => Ok(()),
        };
        // What was read before an error is worth as much as before the end.
        output.flush()?;
        let committed = self.commit(&client, &printed).await;
        result.and(committed)?;
        let count = printed.count;
        note(&format!("{count} {} of {}", if count == 1 { "record" } else { "records" }, self.title()));
        Ok(())
    }

    async fn read(&self, client: &Client, output: &mut Output, printed: &mut Printed) -> anyhow::Result<()> {
        let topics = self.topics(client).await?;
        let partitions = self.partitions(&topics)?;
        // Found before the start, so that a start at the end reads nothing.
        let ends =
            if self.follow { None } else { Some(offsets_of(client, self, &partitions, OffsetSpec::Latest).await?) };
        let mut fetcher =
            client.fetcher(FetcherConfig { isolation: self.isolation(), ..self.cluster.fetcher_config() });
        self.assign(client, &mut fetcher, &partitions).await?;
        let mut printer = Printer::new(self.format.clone(), self.key_separator.clone());
        let mut progress = self.progress(&fetcher, ends.as_ref());
        let mut patience = Patience::new(self.cluster.timeout());
        let mut commit_next = Instant::now() + COMMIT_EVERY;
        loop {
            if let Some(ends) = &ends {
                leave_ended(&mut fetcher, ends);
                if ends::is_empty(&fetcher) {
                    return Ok(());
                }
            }
            let records = match fetcher.poll(LOOK).await {
                Ok(records) => records,
                Err(error) if patience.allows(&error) => Vec::new(),
                Err(error) => return Err(self.cluster.explain_fetch(&self.title(), error)),
            };
            for record in records.iter().filter(|record| ends.as_ref().is_none_or(|ends| is_before_end(record, ends))) {
                output.write(printer.line(record)?)?;
                printed.count += 1;
                if self.group.is_some() {
                    let partition = TopicPartition { topic: record.topic.clone(), partition: record.partition };
                    printed.next.insert(partition, record.offset.plus(1));
                }
                if self.count == Some(printed.count) {
                    return Ok(());
                }
            }
            output.flush()?;
            progress.tick(printed.count);
            if Instant::now() >= commit_next {
                self.commit(client, printed).await?;
                commit_next = Instant::now() + COMMIT_EVERY;
            }
            if records.is_empty() {
                output.check_reader()?;
            } else {
                patience.renew();
            }
        }
    }

    /// Where the records themselves go to the terminal they are progress enough.
    fn progress(&self, fetcher: &Fetcher, ends: Option<&Ends>) -> Progress {
        if std::io::stdout().is_terminal() {
            return Progress::hidden("records");
        }
        let total = ends.map(|ends| {
            let left = fetcher.positions().filter_map(|(partition, at)| Some(ends.get(partition)?.0 - at.position.0));
            left.map(|left| left.max(0).unsigned_abs()).sum::<u64>()
        });
        Progress::new("records", total.map(|total| self.count.map_or(total, |count| count.min(total))))
    }

    fn isolation(&self) -> Isolation {
        if self.read_committed { Isolation::ReadCommitted } else { Isolation::ReadUncommitted }
    }

    /// Tells the group's coordinator what has been printed.
    async fn commit(&self, client: &Client, printed: &Printed) -> anyhow::Result<()> {
        let Some(group) = self.group.as_deref().filter(|_| !printed.next.is_empty()) else { return Ok(()) };
        let offsets = printed.next.iter().map(|(partition, next)| (partition.clone(), CommittedOffset::at(*next)));
        let results = client.commit_group_offsets(group, &offsets.collect::<Vec<_>>()).await;
        let results = results.map_err(|error| self.cluster.explain_group(group, error))?;
        for (partition, result) in results {
            let explain = |error| self.cluster.explain_group(group, error);
            result.map_err(|error| explain(error).context(format!("cannot commit the offset of {partition}")))?;
        }
        Ok(())
    }

    /// What is read, in words.
    fn title(&self) -> String {
        match (&*self.topics, &self.pattern) {
            ([topic], None) => topic.clone(),
            (topics, None) => topics.join(", "),
            _ => "the topics of the pattern".to_owned(),
        }
    }
}

/// What `spec` finds in each partition.
async fn offsets_of(
    client: &Client,
    consume: &Consume,
    partitions: &[TopicPartition],
    spec: OffsetSpec,
) -> anyhow::Result<BTreeMap<TopicPartition, Offset>> {
    let wanted: Vec<_> = partitions.iter().map(|partition| (partition.clone(), spec)).collect();
    let found = client.list_offsets(&wanted, consume.isolation()).await;
    let found = found.map_err(|error| consume.cluster.explain_topic(&consume.title(), error))?;
    Ok(found.into_iter().map(|(partition, listed)| (partition, listed.offset.unwrap_or(Offset::ZERO))).collect())
}
