//! The parts of an index file for look-ups by key: RocketMQ's layout. A header, a table of slots, entries that are
//! chained newest first.
//!
//! ```text
//! header 40 │ slots × 4 │ entries × 20 (entry 0 is not used)
//! ```

use super::{FormatError, array};

const WHAT: &str = "key index";
const BEGIN_TIME_AT: usize = 0;
const END_TIME_AT: usize = BEGIN_TIME_AT + 8;
const BEGIN_POSITION_AT: usize = END_TIME_AT + 8;
const END_POSITION_AT: usize = BEGIN_POSITION_AT + 8;
const USED_SLOTS_AT: usize = END_POSITION_AT + 8;
const COUNT_AT: usize = USED_SLOTS_AT + 4;
/// Bytes before the slots.
pub const HEADER_SIZE: usize = COUNT_AT + 4;
/// Bytes of one slot: the number of the newest entry in it, 0 for none.
pub const SLOT_SIZE: usize = 4;

const POSITION_AT: usize = 4;
const SECONDS_AT: usize = POSITION_AT + 8;
const PREVIOUS_AT: usize = SECONDS_AT + 4;
/// Bytes of one entry.
pub const ENTRY_SIZE: usize = PREVIOUS_AT + 4;

/// The head of an index file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct IndexHeader {
    /// Times of the first and the newest record in it.
    pub begin_ms: i64,
    pub end_ms: i64,
    /// Commit log positions of the first and the last record in it.
    pub begin_position: u64,
    pub end_position: u64,
    pub used_slots: u32,
    /// The number of the next entry: 1 in an empty file.
    pub count: u32,
}

impl IndexHeader {
    pub fn encode(&self) -> [u8; HEADER_SIZE] {
        let mut bytes = [0; HEADER_SIZE];
        bytes[BEGIN_TIME_AT..END_TIME_AT].copy_from_slice(&self.begin_ms.to_be_bytes());
        bytes[END_TIME_AT..BEGIN_POSITION_AT].copy_from_slice(&self.end_ms.to_be_bytes());
        bytes[BEGIN_POSITION_AT..END_POSITION_AT].copy_from_slice(&self.begin_position.to_be_bytes());
        bytes[END_POSITION_AT..USED_SLOTS_AT].copy_from_slice(&self.end_position.to_be_bytes());
        bytes[USED_SLOTS_AT..COUNT_AT].copy_from_slice(&self.used_slots.to_be_bytes());
        bytes[COUNT_AT..].copy_from_slice(&self.count.to_be_bytes());
        bytes
    }

    pub fn decode(bytes: &[u8]) -> Result<IndexHeader, FormatError> {
        let short = || FormatError::TooShort { what: WHAT, length: bytes.len(), needed: HEADER_SIZE };
        let long = |at| array(bytes, at).ok_or_else(short);
        let header = IndexHeader {
            begin_ms: i64::from_be_bytes(long(BEGIN_TIME_AT)?),
            end_ms: i64::from_be_bytes(long(END_TIME_AT)?),
            begin_position: u64::from_be_bytes(long(BEGIN_POSITION_AT)?),
            end_position: u64::from_be_bytes(long(END_POSITION_AT)?),
            used_slots: u32::from_be_bytes(array(bytes, USED_SLOTS_AT).ok_or_else(short)?),
            count: u32::from_be_bytes(array(bytes, COUNT_AT).ok_or_else(short)?),
        };
        match header.count {
            0 => Err(FormatError::Count { what: WHAT, stated: 0, found: 1 }),
            _ => Ok(header),
        }
    }
}

/// One key of one record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct IndexEntry {
    /// Of `topic#key`, never negative.
    pub hash: u32,
    /// Of the commit log's entry.
    pub position: u64,
    /// Seconds after the file's begin time.
    pub seconds: u32,
    /// The entry before it in the same slot; 0 for none.
    pub previous: u32,
}

impl IndexEntry {
    pub fn encode(&self) -> [u8; ENTRY_SIZE] {
        let mut bytes = [0; ENTRY_SIZE];
        bytes[..POSITION_AT].copy_from_slice(&self.hash.to_be_bytes());
        bytes[POSITION_AT..SECONDS_AT].copy_from_slice(&self.position.to_be_bytes());
        bytes[SECONDS_AT..PREVIOUS_AT].copy_from_slice(&self.seconds.to_be_bytes());
        bytes[PREVIOUS_AT..].copy_from_slice(&self.previous.to_be_bytes());
        bytes
    }

    /// `None`: fewer than 20 bytes.
    pub fn decode(bytes: &[u8]) -> Option<IndexEntry> {
        Some(IndexEntry {
            hash: u32::from_be_bytes(array(bytes, 0)?),
            position: u64::from_be_bytes(array(bytes, POSITION_AT)?),
            seconds: u32::from_be_bytes(array(bytes, SECONDS_AT)?),
            previous: u32::from_be_bytes(array(bytes, PREVIOUS_AT)?),
        })
    }
}

/// Java's `String.hashCode` of a text, of which `hash` is that of what stands before it.
pub fn continue_hash(hash: i32, text: &str) -> i32 {
    text.encode_utf16().fold(hash, |hash, unit| hash.wrapping_mul(31).wrapping_add(i32::from(unit)))
}

/// What is stored of a hash: its absolute value, 0 for the one that has none.
pub fn stored_hash(hash: i32) -> u32 {
    hash.checked_abs().unwrap_or(0) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_hash_is_javas() {
        let hash = |text: &str| continue_hash(continue_hash(0, "orders#"), text);
        assert_eq!(hash("k1"), mainstem_types::java_string_hash("orders#k1"));
        assert_eq!(stored_hash(i32::MIN), 0);
        assert_eq!(stored_hash(-7), 7);
    }

    proptest! {
        #[test]
        fn headers_and_entries_are_read_as_written(
            times in any::<(i64, i64)>(), positions in any::<(u64, u64)>(), used_slots in any::<u32>(), count in 1u32..,
            hash in any::<u32>(), seconds in any::<u32>(), previous in any::<u32>(),
        ) {
            let header = IndexHeader {
                begin_ms: times.0, end_ms: times.1, begin_position: positions.0, end_position: positions.1, used_slots, count,
            };
            prop_assert_eq!(IndexHeader::decode(&header.encode()), Ok(header));
            let entry = IndexEntry { hash, position: positions.0, seconds, previous };
            prop_assert_eq!(IndexEntry::decode(&entry.encode()), Some(entry));
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            let _ = (IndexHeader::decode(&bytes), IndexEntry::decode(&bytes));
        }
    }
}
