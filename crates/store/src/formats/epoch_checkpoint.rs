//! `leader-epoch-checkpoint`: at which offset each leader epoch of the partition began.
//! Text: line 1 the version 0, line 2 the number of entries, then `epoch start-offset`.

use super::{FormatError, line_error, text};
use mainstem_types::{LeaderEpoch, Offset};
use std::fmt::Write;

pub const FILE_NAME: &str = "leader-epoch-checkpoint";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EpochEntry {
    pub epoch: LeaderEpoch,
    /// Offset of the first record written in that epoch.
    pub start_offset: Offset,
}

pub fn encode(entries: &[EpochEntry]) -> Vec<u8> {
    let mut out = format!("0\n{}\n", entries.len());
    for entry in entries {
        let _ = writeln!(out, "{} {}", entry.epoch, entry.start_offset);
    }
    out.into_bytes()
}

/// Entries ascend by epoch and by offset; anything else is refused.
pub fn decode(bytes: &[u8]) -> Result<Vec<EpochEntry>, FormatError> {
    let mut entries: Vec<EpochEntry> = Vec::new();
    let count = super::offset_checkpoint::lines(FILE_NAME, text(FILE_NAME, bytes)?, |number, line| {
        let entry = line.split_once(' ').and_then(|(epoch, offset)| {
            Some(EpochEntry { epoch: LeaderEpoch(epoch.parse().ok()?), start_offset: Offset(offset.parse().ok()?) })
        });
        let entry = entry.ok_or_else(|| line_error(FILE_NAME, number, "`epoch offset`", line))?;
        if entries.last().is_some_and(|p| entry.epoch <= p.epoch || entry.start_offset < p.start_offset) {
            return Err(FormatError::Order { what: FILE_NAME, entry: entries.len() });
        }
        entries.push(entry);
        Ok(())
    })?;
    if count != entries.len() as i64 {
        return Err(FormatError::Count { what: FILE_NAME, stated: count, found: entries.len() });
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn entries_round_trip(steps in prop::collection::vec((1i32..50, 0i64..1_000_000), 0..40)) {
            let (mut epoch, mut offset) = (-1, 0);
            let entries: Vec<_> = steps.into_iter().map(|(e, o)| {
                (epoch, offset) = (epoch + e, offset + o);
                EpochEntry { epoch: LeaderEpoch(epoch), start_offset: Offset(offset) }
            }).collect();
            prop_assert_eq!(decode(&encode(&entries)), Ok(entries));
        }

        #[test]
        fn any_bytes_are_decoded_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            let _ = decode(&bytes);
        }
    }

    #[test]
    fn text_is_kafka_s() {
        let entries = [EpochEntry { epoch: LeaderEpoch(0), start_offset: Offset(0) }];
        assert_eq!(encode(&entries), b"0\n1\n0 0\n");
        assert!(matches!(decode(b"0\n2\n0 0\n"), Err(FormatError::Count { .. })));
        assert!(matches!(decode(b"0\n2\n1 5\n0 9\n"), Err(FormatError::Order { .. })));
        assert!(matches!(decode(b""), Err(FormatError::TooShort { .. })));
    }
}
