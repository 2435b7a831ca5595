//! Where offsets shall go: what the options and the file say.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, bail};
use jiff::tz::TimeZone;
use jiff::{SpanRelativeTo, Timestamp};
use mainstem_client::{PartitionIndex, TimestampMs, TopicPartition};

use super::To;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    Earliest,
    Latest,
    Current,
    Offset(i64),
    Shift(i64),
    Time(TimestampMs),
    File(BTreeMap<TopicPartition, i64>),
}

impl Target {
    /// One of the options is given.
    pub fn of(to: &To, group: &str) -> anyhow::Result<Target> {
        Ok(match to {
            To { to_earliest: true, .. } => Target::Earliest,
            To { to_latest: true, .. } => Target::Latest,
            To { to_offset: Some(offset), .. } => Target::Offset(*offset),
            To { shift_by: Some(count), .. } => Target::Shift(*count),
            To { by_duration: Some(duration), .. } => Target::Time(ago(*duration)),
            To { to_datetime: Some(time), .. } => Target::Time(*time),
            To { from_file: Some(path), .. } => Target::File(read_file(path, group)?),
            _ => Target::Current,
        })
    }
}

fn ago(duration: Duration) -> TimestampMs {
    let length = i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
    TimestampMs(Timestamp::now().as_millisecond().saturating_sub(length).max(0))
}

/// ISO 8601, as Java's `Duration`: days have 24 hours, and nothing is longer than a day.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let span = text.starts_with(['P', 'p']).then(|| text.parse::<jiff::Span>().ok()).flatten();
    let length = span.and_then(|span| span.to_duration(SpanRelativeTo::days_are_24_hours()).ok());
    let length = length.and_then(|length| Duration::try_from(length).ok());
    length.ok_or_else(|| format!("{text} is not a duration in ISO 8601 form, such as PT1H30M or P7D"))
}

/// A time with a zone, or one that is meant in UTC.
pub fn parse_datetime(text: &str) -> Result<TimestampMs, String> {
    let zoned = text.parse::<Timestamp>().ok();
    let plain = || TimeZone::UTC.to_timestamp(text.parse().ok()?).ok();
    let time = zoned.or_else(plain);
    let time = time.filter(|_| text.contains(['T', 't', ' ']));
    time.map(|time| TimestampMs(time.as_millisecond()))
        .ok_or_else(|| format!("{text} is not a time such as 2026-03-01T08:00:00 or 2026-03-01T08:00:00.500+02:00"))
}

fn read_file(path: &Path, group: &str) -> anyhow::Result<BTreeMap<TopicPartition, i64>> {
    let shown = path.display();
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {shown}"))?;
    let mut offsets = BTreeMap::new();
    for (number, line) in (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty()) {
        let Some((of, partition, offset)) = parse_line(line) else {
            bail!(
                "line {number} of {shown} is neither topic,partition,offset nor group,topic,partition,offset: {line}"
            );
        };
        if of.is_none_or(|of| of == group) {
            offsets.insert(partition, offset);
        }
    }
    if offsets.is_empty() {
        bail!("{shown} has no offset for group {group}");
    }
    Ok(offsets)
}

/// Kafka's tool quotes what it exports where that is needed; names of topics never need it, those of groups may.
fn parse_line(line: &str) -> Option<(Option<String>, TopicPartition, i64)> {
    let (rest, offset) = line.trim().rsplit_once(',')?;
    let (rest, partition) = rest.rsplit_once(',')?;
    let (group, topic) = match rest.rsplit_once(',') {
        Some((group, topic)) => (Some(unquoted(group)), topic),
        None => (None, rest),
    };
    let topic = unquoted(topic);
    let partition = partition.trim().parse().ok().filter(|index| *index >= 0)?;
    let offset = offset.trim().parse().ok().filter(|offset| *offset >= 0)?;
    (!topic.is_empty()).then(|| (group, TopicPartition::new(topic, PartitionIndex(partition)), offset))
}

fn unquoted(text: &str) -> String {
    let text = text.trim();
    match text.strip_prefix('"').and_then(|text| text.strip_suffix('"')) {
        Some(quoted) => quoted.replace("\"\"", "\""),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_those_of_java() {
        for (text, seconds) in [("PT1H", 3600), ("P7D", 604_800), ("P1DT2H3M4S", 93_784), ("PT0S", 0)] {
            assert_eq!(parse_duration(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for wrong in ["", "1h", "PT", "P1Y", "P1M", "-PT1H", "PT-1H"] {
            assert!(parse_duration(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_time_without_zone_is_utc() {
        let at = |text: &str| Ok(TimestampMs(text.parse::<Timestamp>().unwrap().as_millisecond()));
        assert_eq!(parse_datetime("2026-03-01T08:00:00.500"), at("2026-03-01T08:00:00.5Z"));
        assert_eq!(parse_datetime("2026-03-01T08:00:00Z"), at("2026-03-01T08:00:00Z"));
        assert_eq!(parse_datetime("2026-03-01T08:00:00+02:00"), at("2026-03-01T06:00:00Z"));
        for wrong in ["", "2026-03-01", "soon", "08:00"] {
            assert!(parse_datetime(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn lines_may_begin_with_the_group() {
        let partition = TopicPartition::new("orders", PartitionIndex(2));
        assert_eq!(parse_line("orders,2,15"), Some((None, partition.clone(), 15)));
        assert_eq!(parse_line("\"a,b\",orders, 2, 15"), Some((Some("a,b".to_owned()), partition, 15)));
        for wrong in ["orders,2", "orders,x,1", "orders,2,-1", ",1,2", "topic,partition,offset"] {
            assert_eq!(parse_line(wrong), None, "{wrong}");
        }
    }
}
