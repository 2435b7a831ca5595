//! `<20-digit base offset>.timeindex`: the largest timestamp so far, one entry beside each offset index entry that
//! raised it, and one when the segment stops being active.

use super::array;

/// Bytes of one entry: timestamp i64, relative offset i32.
pub const ENTRY_SIZE: usize = RELATIVE_OFFSET_AT + 4;
const RELATIVE_OFFSET_AT: usize = 8;

/// No record of this segment up to and including `relative_offset` (of the last record of its batch) has a timestamp
/// above `timestamp_ms`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct TimeIndexEntry {
    pub timestamp_ms: i64,
    pub relative_offset: u32,
}

impl TimeIndexEntry {
    pub fn encode(self) -> [u8; ENTRY_SIZE] {
        let mut bytes = [0; ENTRY_SIZE];
        bytes[..RELATIVE_OFFSET_AT].copy_from_slice(&self.timestamp_ms.to_be_bytes());
        bytes[RELATIVE_OFFSET_AT..].copy_from_slice(&self.relative_offset.to_be_bytes());
        bytes
    }

    /// Reads the entry at byte `at`; absent when the bytes end before, or a field is negative.
    pub fn decode(bytes: &[u8], at: usize) -> Option<Self> {
        let timestamp_ms = i64::from_be_bytes(array(bytes, at)?);
        let relative_offset = i32::from_be_bytes(array(bytes, at + RELATIVE_OFFSET_AT)?);
        let relative_offset = u32::try_from(relative_offset).ok()?;
        (timestamp_ms >= 0).then_some(TimeIndexEntry { timestamp_ms, relative_offset })
    }

    /// Whether `self` may directly follow `previous`: both grow, the timestamp strictly.
    pub fn follows(self, previous: Option<TimeIndexEntry>) -> bool {
        match previous {
            None => self.timestamp_ms > 0 || self.relative_offset > 0,
            Some(p) => self.timestamp_ms > p.timestamp_ms && self.relative_offset >= p.relative_offset,
        }
    }
}

/// What a whole index file holds.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TimeIndexContent {
    pub entries: Vec<TimeIndexEntry>,
    /// Bytes after the entries that are neither entries nor preallocated zeros: the file is damaged and to be rebuilt.
    pub damaged: bool,
}

/// Decodes a whole file: entries as long as they ascend, then zeros or damage.
pub fn decode(bytes: &[u8]) -> TimeIndexContent {
    let mut content = TimeIndexContent::default();
    let mut at = 0;
    while let Some(entry) = TimeIndexEntry::decode(bytes, at) {
        if !entry.follows(content.entries.last().copied()) {
            break;
        }
        content.entries.push(entry);
        at += ENTRY_SIZE;
    }
    content.damaged = bytes.get(at..).is_some_and(|rest| rest.iter().any(|b| *b != 0));
    content
}

pub fn encode(entries: &[TimeIndexEntry]) -> Vec<u8> {
    entries.iter().flat_map(|e| e.encode()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn entries_round_trip_with_and_without_preallocated_zeros(
            steps in prop::collection::vec((1i64..100_000, 0u32..1000), 0..200), zeros in 0usize..100,
        ) {
            let mut entry = TimeIndexEntry { timestamp_ms: 0, relative_offset: 0 };
            let entries: Vec<_> = steps.into_iter().map(|(timestamp, offset)| {
                entry = TimeIndexEntry {
                    timestamp_ms: entry.timestamp_ms + timestamp,
                    relative_offset: entry.relative_offset + offset,
                };
                entry
            }).collect();
            let mut bytes = encode(&entries);
            bytes.resize(bytes.len() + zeros, 0);
            prop_assert_eq!(decode(&bytes), TimeIndexContent { entries, damaged: false });
        }

        #[test]
        fn any_bytes_decode_to_ascending_entries(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            let content = decode(&bytes);
            prop_assert!(content.entries.windows(2).all(|w| w[1].follows(Some(w[0]))));
        }
    }

    #[test]
    fn bytes_are_kafka_s() {
        let entry = TimeIndexEntry { timestamp_ms: 0x0102, relative_offset: 0x0304 };
        assert_eq!(entry.encode(), [0, 0, 0, 0, 0, 0, 1, 2, 0, 0, 3, 4]);
    }
}
