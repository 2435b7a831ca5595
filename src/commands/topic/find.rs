//! `mainstem topic find`: the records of a topic that have a key.

use clap::Args;
use jiff::Timestamp;
use mainstem_client::{
    Client, ClientError, FetchedRecord, FoundByKey, IndexedKeys, Isolation, KeyMatches, KeySearch, PartitionIndex,
    TimestampMs, TopicPartition,
};

use super::offsets::parse_time;
use crate::Usage;
use crate::cluster::ClusterOptions;
use crate::commands::check_partition;
use crate::commands::consume::format::{Format, Printer};
use crate::output::{Output, Table, note};

/// What a broker gives at most.
const MAX: i64 = 1000;

const EXAMPLES: &str = "\
Examples:
  mainstem topic find orders 42                 finds the newest records with the key 42
  mainstem topic find orders 42 --from -1d --max 1
  mainstem topic find orders 42 --partition 2 --format json
  mainstem topic find orders 42 --format '%p %o %s\\n'

The command finds a record by its key, by each word of its header KEYS, and by its header UNIQ_KEY. It prints the newest \
record first. The topic needs a key index:
  mainstem topic config set orders mainstem.key.index=all
With mainstem.layout=partition, the first look-up after that reads the whole topic. With mainstem.layout=topic or shared, \
the index has only records that are written after the change; without the setting it has only the two headers.

Text output has one line for each record; line breaks are escaped. JSON and format strings are the same as in \
`mainstem consume`.

Only Mainstem brokers can find records by key.";

/// Find the records that have a key.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Find {
    /// The topic
    topic: String,
    /// The key
    #[arg(value_parser = parse_key)]
    key: String,
    /// Only this partition [default: all]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(0..))]
    partition: Option<i32>,
    /// Only records at or after this time: a time (2026-03-01T08:00:00Z), or a time ago (-1h)
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = parse_time)]
    from: Option<TimestampMs>,
    /// Only records at or before this time
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = parse_time)]
    to: Option<TimestampMs>,
    /// At most this many records, the newest ones
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(i32).range(1..=MAX))]
    max: i32,
    /// Leave out records of open and aborted transactions
    #[arg(long)]
    read_committed: bool,
    /// How to print a record: text, json, or a format string
    #[arg(long, visible_alias = "output", value_name = "FORMAT", default_value = "text", value_parser = Format::parse)]
    format: Format,
    #[command(flatten)]
    cluster: ClusterOptions,
}

fn parse_key(text: &str) -> Result<String, String> {
    if text.is_empty() { Err("an empty key is in no index".to_owned()) } else { Ok(text.to_owned()) }
}

impl Find {
    pub async fn run(self) -> anyhow::Result<()> {
        if let (Some(from), Some(to)) = (self.from, self.to)
            && to < from
        {
            return Err(Usage("--to is before --from, so no record can match".to_owned()).into());
        }
        let client = self.cluster.connect().await?;
        let topic = client.topic(&self.topic).await.map_err(|error| self.explain(error))?;
        if let Some(partition) = self.partition {
            check_partition(&topic, PartitionIndex(partition))?;
        }
        let found = client.find_by_key(&self.topic, &self.search()).await.map_err(|error| self.explain(error))?;
        let records = self.read(&client, &found.records).await?;
        self.print(&records)?;
        self.tell(&found, records.len());
        Ok(())
    }

    fn search(&self) -> KeySearch {
        KeySearch {
            partition: self.partition.map(PartitionIndex),
            from: self.from,
            to: self.to,
            max: self.max,
            isolation: self.isolation(),
            ..KeySearch::new(&*self.key)
        }
    }

    fn isolation(&self) -> Isolation {
        if self.read_committed { Isolation::ReadCommitted } else { Isolation::ReadUncommitted }
    }

    /// The records that were found; without those that were deleted since.
    async fn read(&self, client: &Client, found: &[FoundByKey]) -> anyhow::Result<Vec<FetchedRecord>> {
        let place = |found: &FoundByKey| (TopicPartition::new(&*self.topic, found.partition), found.offset);
        let places: Vec<_> = found.iter().map(place).collect();
        let records = client.records_at(&places, self.isolation()).await;
        let records = records.map_err(|error| self.cluster.explain_fetch(&self.topic, error))?;
        Ok(records.into_iter().flatten().collect())
    }

    fn print(&self, records: &[FetchedRecord]) -> anyhow::Result<()> {
        let mut output = Output::new();
        if self.format == Format::Text {
            if !records.is_empty() {
                output.write(in_words(records).as_bytes())?;
            }
        } else {
            let mut printer = Printer::new(self.format.clone(), None);
            for record in records {
                output.write(printer.line(record)?)?;
            }
        }
        output.flush()
    }

    /// What there is to know beside the records.
    fn tell(&self, found: &KeyMatches, count: usize) {
        let (topic, key) = (&self.topic, &self.key);
        note(&format!("{count} {} of {topic} with the key {key}", if count == 1 { "record" } else { "records" }));
        if !found.complete {
            note("older records may have the key, too: too many records match, and the broker did not check all");
        } else if found.records.len() == self.max as usize {
            note("these are the newest records; --max shows more, --to shows older ones");
        }
        if found.indexed == IndexedKeys::Headers {
            note(&format!(
                "the index has the record headers KEYS and UNIQ_KEY alone: `mainstem topic config set {topic} \
                 mainstem.key.index=all` adds the keys of records that are written from then on"
            ));
        }
    }

    fn explain(&self, error: ClientError) -> anyhow::Error {
        match error {
            ClientError::Unsupported { address, api: "FindByKey", .. } => anyhow::anyhow!(
                "the broker at {address} cannot look records up by key: it is no Mainstem, or an older one; \
                 `mainstem consume {} --format json` reads all records",
                self.topic
            ),
            other => self.cluster.explain_topic(&self.topic, other),
        }
    }
}

fn in_words(records: &[FetchedRecord]) -> String {
    let mut table = Table::new(&["PARTITION", "OFFSET", "TIME", "KEY", "VALUE", "HEADERS"]);
    for record in records {
        let headers =
            record.headers.iter().map(|(name, value)| format!("{}={}", escaped(name), text(value.as_deref())));
        table.row(vec![
            record.partition.to_string(),
            record.offset.to_string(),
            time(record.timestamp),
            text(record.key.as_deref()),
            text(record.value.as_deref()),
            headers.collect::<Vec<_>>().join(" "),
        ]);
    }
    table.render("")
}

fn time(time: TimestampMs) -> String {
    let parsed = Timestamp::from_millisecond(time.0).ok().filter(|_| time.0 >= 0);
    parsed.map_or_else(|| "-".to_owned(), |time| format!("{time:.3}"))
}

fn text(bytes: Option<&[u8]>) -> String {
    bytes.map_or_else(|| "null".to_owned(), |bytes| escaped(&String::from_utf8_lossy(bytes)))
}

/// Nothing that moves the cursor.
fn escaped(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() { line.extend(c.escape_default()) } else { line.push(c) }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_one_line_of_text() {
        let record = FetchedRecord {
            topic: "orders".into(),
            partition: PartitionIndex(1),
            offset: mainstem_client::Offset(7),
            leader_epoch: mainstem_client::LeaderEpoch(0),
            timestamp: TimestampMs(1_772_352_000_000),
            key: Some("ü".into()),
            value: Some("a\nb\x1b[1m".into()),
            headers: vec![("h".to_owned(), None)],
        };
        let text = in_words(&[record]);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 2);
        assert_eq!(lines[1], r"1          7       2026-03-01T08:00:00.000Z  ü    a\nb\u{1b}[1m  h=null");
        assert_eq!(time(TimestampMs(-1)), "-");
    }
}
