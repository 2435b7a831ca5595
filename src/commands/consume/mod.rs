//! `mainstem consume`: prints the records of topics.
//!
//! Without `--follow` it reads what is there at the start, to the end that each partition has then, and ends, however
//! fast others write.

mod choice;
pub mod format;
mod member;
mod template;

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::time::Duration;

use clap::Args;
use mainstem_client::{
    Client, FetchError, FetchedRecord, Fetcher, FetcherConfig, Isolation, Membership, Offset, OffsetSpec,
    TopicPartition,
};
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
  mainstem consume orders -f --group workers        in several terminals: each reads its share
  mainstem consume orders --format json | jq .value

JSON: one object a line, with topic, partition, offset, timestamp, key, value, headers. For example:
  {\"topic\":\"orders\",\"partition\":0,\"offset\":5, …
   \"headers\":[{\"key\":\"source\",\"value\":\"shop\"}]}
The timestamp is in milliseconds since 1970. A missing key or value is null. Bytes that are not UTF-8 are written as \
{\"base64\":\"/wA=\"} instead of a string.

Format strings, as in kcat: %t topic, %p partition, %o offset, %k key, %K its length, %s value, %S its length (-1: null), \
%R the same length as 4 bytes, %T timestamp, %h headers as a=1,b=2, %% a per cent sign; \\n \\r \\t \\0 \\\\ \\x41. The \
command adds no line feed.

With --group, the command joins the consumer group, beside members of any client. The group gives each member a share \
of the partitions, and shares again when members come and go. The command starts at the group's committed offsets. \
--from applies to partitions without a committed offset, or whose committed offset was deleted. The command commits \
the offsets of printed records every 5 seconds, before partitions go to another member, and at the end. After a crash \
it may print some records again. Ctrl-C leaves the group at once. A member with --instance-id stays in the group for \
45 seconds: a restart moves no partition.

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
    /// Join this consumer group: read a share of the partitions, and commit the offsets of printed records
    #[arg(long, value_name = "GROUP", conflicts_with = "partitions")]
    group: Option<String>,
    /// Be a static member of the group (group.instance.id)
    #[arg(long, value_name = "ID", requires = "group")]
    instance_id: Option<String>,
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
    /// Where each partition goes on, of what the group has not been told yet.
    next: BTreeMap<TopicPartition, Offset>,
}

/// What reading goes through.
struct Reading<'a> {
    output: &'a mut Output,
    printed: &'a mut Printed,
    printer: Printer,
    patience: Patience,
    progress: Progress,
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
        let runtime = if self.group.is_some() { super::runtime_beside_output()? } else { super::runtime()? };
        runtime.block_on(self.consume())
    }

    async fn consume(self) -> anyhow::Result<()> {
        let mut interrupt = Interrupt::watch()?;
        let client = tokio::select! {
            client = self.cluster.connect() => client?,
            () = interrupt.came() => return Ok(()),
        };
        let mut printed = Printed::default();
        let mut output = Output::new();
        let mut membership = None;
        let result = tokio::select! {
            result = self.read(&client, &mut membership, &mut output, &mut printed) => result,
            () = interrupt.came() => Ok(()),
        };
        // What was read before an error is worth as much as before the end.
        let flushed = output.flush();
        let mut committed = Ok(());
        if let Some(membership) = &mut membership {
            let end = async {
                // Only what was written out.
                let committed = if flushed.is_ok() { self.commit(membership, &mut printed).await } else { Ok(()) };
                membership.leave().await;
                committed
            };
            tokio::select! {
                result = end => committed = result,
                () = interrupt.came() => note(
                    "mainstem: interrupted before the group's coordinator answered; the group may read some printed \
                     records again, and may wait for this member until its session ends",
                ),
            }
        }
        flushed?;
        result.and(committed)?;
        let count = printed.count;
        note(&format!("{count} {} of {}", if count == 1 { "record" } else { "records" }, self.title()));
        Ok(())
    }

    async fn read(
        &self,
        client: &Client,
        membership: &mut Option<Membership>,
        output: &mut Output,
        printed: &mut Printed,
    ) -> anyhow::Result<()> {
        let printer = Printer::new(self.format.clone(), self.key_separator.clone());
        let patience = Patience::new(self.cluster.timeout());
        let mut reading = Reading { output, printed, printer, patience, progress: Progress::hidden("records") };
        match &self.group {
            Some(group) => {
                let membership = membership.insert(self.membership(client, group).await?);
                self.read_as_member(client, membership, &mut reading).await
            }
            None => self.read_alone(client, &mut reading).await,
        }
    }

    async fn read_alone(&self, client: &Client, reading: &mut Reading<'_>) -> anyhow::Result<()> {
        let topics = self.topics(client).await?;
        let partitions = self.partitions(&topics)?;
        // Found before the start, so that a start at the end reads nothing.
        let ends =
            if self.follow { None } else { Some(offsets_of(client, self, &partitions, OffsetSpec::Latest).await?) };
        let mut fetcher = self.fetcher(client);
        self.assign(client, &mut fetcher, &partitions, &BTreeMap::new()).await?;
        reading.progress = self.progress(&fetcher, ends.as_ref());
        loop {
            if let Some(ends) = &ends {
                leave_ended(&mut fetcher, ends);
                if ends::is_empty(&fetcher) {
                    return Ok(());
                }
            }
            let found = fetcher.poll(LOOK).await;
            let records = self.found(found, reading)?;
            if reading.print(self, &records, ends.as_ref())? {
                return Ok(());
            }
        }
    }

    fn fetcher(&self, client: &Client) -> Fetcher {
        client.fetcher(FetcherConfig { isolation: self.isolation(), ..self.cluster.fetcher_config() })
    }

    /// What a look for records has found: none while errors pass.
    fn found(
        &self,
        found: Result<Vec<FetchedRecord>, FetchError>,
        reading: &mut Reading<'_>,
    ) -> anyhow::Result<Vec<FetchedRecord>> {
        match found {
            Ok(records) => Ok(records),
            Err(error) if reading.patience.allows(&error) => Ok(Vec::new()),
            Err(error) => Err(self.cluster.explain_fetch(&self.title(), error)),
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

    /// What is read, in words.
    fn title(&self) -> String {
        match (&*self.topics, &self.pattern) {
            ([topic], None) => topic.clone(),
            (topics, None) => topics.join(", "),
            _ => "the topics of the pattern".to_owned(),
        }
    }
}

impl Reading<'_> {
    /// Prints what lies before the ends. True: as many as `--count` says have been printed.
    fn print(&mut self, consume: &Consume, records: &[FetchedRecord], ends: Option<&Ends>) -> anyhow::Result<bool> {
        for record in records.iter().filter(|record| ends.is_none_or(|ends| is_before_end(record, ends))) {
            self.output.write(self.printer.line(record)?)?;
            self.printed.count += 1;
            if consume.group.is_some() {
                let partition = TopicPartition { topic: record.topic.clone(), partition: record.partition };
                self.printed.next.insert(partition, record.offset.plus(1));
            }
            if consume.count == Some(self.printed.count) {
                return Ok(true);
            }
        }
        self.output.flush()?;
        self.progress.tick(self.printed.count);
        if records.is_empty() {
            self.output.check_reader()?;
        } else {
            self.patience.renew();
        }
        Ok(false)
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
