//! The offset checkpoints of a data folder: `recovery-point-offset-checkpoint`, `log-start-offset-checkpoint`,
//! `replication-offset-checkpoint`, `cleaner-offset-checkpoint`.
//! Text: line 1 the version 0, line 2 the number of entries, then `topic partition offset`.

use super::{FormatError, line_error, text};
use mainstem_types::{Offset, PartitionIndex, TopicPartition};
use std::collections::BTreeMap;
use std::fmt::Write;

const WHAT: &str = "offset checkpoint";

/// Offsets by partition; ordered, so that the same content gives the same bytes.
pub type OffsetsByPartition = BTreeMap<TopicPartition, Offset>;

pub fn encode(entries: &OffsetsByPartition) -> Vec<u8> {
    let mut out = format!("0\n{}\n", entries.len());
    for (key, offset) in entries {
        let _ = writeln!(out, "{} {} {}", key.topic, key.partition, offset);
    }
    out.into_bytes()
}

pub fn decode(bytes: &[u8]) -> Result<OffsetsByPartition, FormatError> {
    let mut entries = OffsetsByPartition::new();
    let mut found = 0usize;
    let count = lines(WHAT, text(WHAT, bytes)?, |number, line| {
        let entry = parse_entry(line).ok_or_else(|| line_error(WHAT, number, "`topic partition offset`", line))?;
        entries.insert(entry.0, entry.1);
        found += 1;
        Ok(())
    })?;
    if count != found as i64 {
        return Err(FormatError::Count { what: WHAT, stated: count, found });
    }
    Ok(entries)
}

fn parse_entry(line: &str) -> Option<(TopicPartition, Offset)> {
    let mut words = line.split_ascii_whitespace();
    let topic = words.next()?;
    let partition = words.next()?.parse().ok()?;
    let offset = words.next()?.parse().ok()?;
    words.next().is_none().then(|| (TopicPartition::new(topic, PartitionIndex(partition)), Offset(offset)))
}

/// Reads the two head lines of a checkpoint text and hands every further line, with its number, to `entry`. Gives the
/// stated count.
pub(super) fn lines(
    what: &'static str,
    text: &str,
    mut entry: impl FnMut(usize, &str) -> Result<(), FormatError>,
) -> Result<i64, FormatError> {
    let short = || FormatError::TooShort { what, length: text.len(), needed: 4 };
    let mut lines = text.lines();
    let version = lines.next().ok_or_else(short)?;
    let version: i64 = version.trim().parse().map_err(|_| line_error(what, 1, "a version", version))?;
    if version != 0 {
        return Err(FormatError::Version { what, found: version, supported: 0 });
    }
    let count = lines.next().ok_or_else(short)?;
    let count: i64 = count.trim().parse().map_err(|_| line_error(what, 2, "a count", count))?;
    for (number, line) in lines.enumerate() {
        entry(number + 3, line)?;
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn entries_round_trip(raw in prop::collection::btree_map(("[a-zA-Z0-9._-]{1,20}", 0i32..9999), any::<i64>(), 0..40)) {
            let entries: OffsetsByPartition = raw.into_iter()
                .map(|((topic, partition), offset)| (TopicPartition::new(topic, PartitionIndex(partition)), Offset(offset)))
                .collect();
            prop_assert_eq!(decode(&encode(&entries)), Ok(entries));
        }

        #[test]
        fn any_text_is_decoded_or_refused(text in "[0-9a-z \n-]{0,100}") {
            let _ = decode(text.as_bytes());
        }
    }

    #[test]
    fn text_is_kafka_s() {
        let entries = OffsetsByPartition::from([(TopicPartition::new("orders", PartitionIndex(3)), Offset(42))]);
        assert_eq!(encode(&entries), b"0\n1\norders 3 42\n");
        assert_eq!(encode(&OffsetsByPartition::new()), b"0\n0\n");
        assert!(matches!(decode(b"1\n0\n"), Err(FormatError::Version { found: 1, .. })));
        assert!(matches!(decode(b"0\n1\norders 3\n"), Err(FormatError::Line { line: 3, .. })));
        assert!(matches!(decode(b"0\n2\norders 3 4\n"), Err(FormatError::Count { .. })));
    }
}
