//! `<20-digit base offset>.index`: where in the segment a batch begins, one entry each `index.interval.bytes`.
//!
//! Kafka preallocates the file with zeros while the segment is active and trims it at roll and close, so a file of a
//! killed Kafka ends in zeros: those are not entries.

use super::array;

/// Bytes of one entry: relative offset i32, position i32.
pub const ENTRY_SIZE: usize = RELATIVE_OFFSET_SIZE + POSITION_SIZE;
const RELATIVE_OFFSET_SIZE: usize = 4;
const POSITION_AT: usize = RELATIVE_OFFSET_SIZE;
const POSITION_SIZE: usize = 4;

/// The *last* offset of a batch, relative to the segment's base offset, and the byte at which that batch begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct OffsetIndexEntry {
    pub relative_offset: u32,
    pub position: u32,
}

impl OffsetIndexEntry {
    pub fn encode(self) -> [u8; ENTRY_SIZE] {
        let mut bytes = [0; ENTRY_SIZE];
        bytes[..POSITION_AT].copy_from_slice(&self.relative_offset.to_be_bytes());
        bytes[POSITION_AT..].copy_from_slice(&self.position.to_be_bytes());
        bytes
    }

    /// Reads the entry at byte `at`; absent when the bytes end before, or a field has its sign bit set.
    pub fn decode(bytes: &[u8], at: usize) -> Option<Self> {
        let relative_offset = i32::from_be_bytes(array(bytes, at)?);
        let position = i32::from_be_bytes(array(bytes, at + POSITION_AT)?);
        Some(OffsetIndexEntry {
            relative_offset: u32::try_from(relative_offset).ok()?,
            position: u32::try_from(position).ok()?,
        })
    }

    /// Whether `self` may directly follow `previous`: both fields grow strictly. Nothing ever points at byte 0.
    pub fn follows(self, previous: Option<OffsetIndexEntry>) -> bool {
        match previous {
            None => self.position > 0,
            Some(p) => self.relative_offset > p.relative_offset && self.position > p.position,
        }
    }
}

/// What a whole index file holds.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OffsetIndexContent {
    pub entries: Vec<OffsetIndexEntry>,
    /// Bytes after the entries that are neither entries nor preallocated zeros: the file is damaged and to be rebuilt.
    pub damaged: bool,
}

/// Decodes a whole file: entries as long as they ascend, then zeros or damage.
pub fn decode(bytes: &[u8]) -> OffsetIndexContent {
    let mut content = OffsetIndexContent::default();
    let mut at = 0;
    while let Some(entry) = OffsetIndexEntry::decode(bytes, at) {
        if !entry.follows(content.entries.last().copied()) {
            break;
        }
        content.entries.push(entry);
        at += ENTRY_SIZE;
    }
    content.damaged = bytes.get(at..).is_some_and(|rest| rest.iter().any(|b| *b != 0));
    content
}

pub fn encode(entries: &[OffsetIndexEntry]) -> Vec<u8> {
    entries.iter().flat_map(|e| e.encode()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn entries_round_trip_with_and_without_preallocated_zeros(
            steps in prop::collection::vec((1u32..1000, 1u32..100_000), 0..200), zeros in 0usize..100,
        ) {
            let mut entry = OffsetIndexEntry::default();
            let entries: Vec<_> = steps.into_iter().map(|(offset, position)| {
                entry = OffsetIndexEntry {
                    relative_offset: entry.relative_offset + offset,
                    position: entry.position + position,
                };
                entry
            }).collect();
            let mut bytes = encode(&entries);
            bytes.resize(bytes.len() + zeros, 0);
            prop_assert_eq!(decode(&bytes), OffsetIndexContent { entries, damaged: false });
        }

        #[test]
        fn any_bytes_decode_to_ascending_entries(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            let content = decode(&bytes);
            prop_assert!(content.entries.windows(2).all(|w| w[1].follows(Some(w[0]))));
            prop_assert!(encode(&content.entries).len() <= bytes.len());
        }
    }

    #[test]
    fn bytes_are_kafka_s() {
        let entry = OffsetIndexEntry { relative_offset: 0x0102, position: 0x0304_0506 };
        assert_eq!(entry.encode(), [0, 0, 1, 2, 3, 4, 5, 6]);
    }

    #[test]
    fn bytes_after_the_entries_that_are_not_zero_are_damage() {
        let mut bytes = encode(&[OffsetIndexEntry { relative_offset: 5, position: 9 }]);
        bytes.extend_from_slice(&[0; 8]);
        assert!(!decode(&bytes).damaged);
        bytes.push(1);
        assert!(decode(&bytes).damaged);
    }
}
