//! One entry of a consume queue: where the batch of a record is, and the hash of the record's tag. RocketMQ's layout.

use mainstem_types::Position;

use super::array;

const POSITION_AT: usize = 0;
const SIZE_AT: usize = POSITION_AT + 8;
const TAG_AT: usize = SIZE_AT + 4;
/// Bytes of one entry. The entry of offset n is at n × 20.
pub const ENTRY_SIZE: usize = TAG_AT + 8;

/// Where a record is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QueueEntry {
    /// Byte position of the commit log's entry.
    pub position: Position,
    /// Bytes of that entry, its header included. 0: there is no record at this offset.
    pub size: u32,
    /// Java's `String.hashCode` of the record's tag, sign-extended; 0 without a tag.
    pub tag_hash: i64,
}

impl QueueEntry {
    /// Where the entry of the commit log ends.
    pub fn end(&self) -> Position {
        self.position.plus(self.size.into())
    }

    pub fn encode(&self) -> [u8; ENTRY_SIZE] {
        let mut bytes = [0; ENTRY_SIZE];
        bytes[POSITION_AT..SIZE_AT].copy_from_slice(&self.position.0.to_be_bytes());
        bytes[SIZE_AT..TAG_AT].copy_from_slice(&self.size.to_be_bytes());
        bytes[TAG_AT..].copy_from_slice(&self.tag_hash.to_be_bytes());
        bytes
    }

    /// `None`: fewer than 20 bytes.
    pub fn decode(bytes: &[u8]) -> Option<QueueEntry> {
        Some(QueueEntry {
            position: Position(u64::from_be_bytes(array(bytes, POSITION_AT)?)),
            size: u32::from_be_bytes(array(bytes, SIZE_AT)?),
            tag_hash: i64::from_be_bytes(array(bytes, TAG_AT)?),
        })
    }
}

/// The whole entries of a file or a part of one; half an entry at the end is left out.
pub fn decode(bytes: &[u8]) -> impl Iterator<Item = QueueEntry> {
    bytes.chunks_exact(ENTRY_SIZE).filter_map(QueueEntry::decode)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_written_is_read(position in any::<u64>(), size in any::<u32>(), tag_hash in any::<i64>()) {
            let entry = QueueEntry { position: Position(position), size, tag_hash };
            prop_assert_eq!(QueueEntry::decode(&entry.encode()), Some(entry));
        }

        #[test]
        fn half_an_entry_is_none(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            prop_assert_eq!(decode(&bytes).count(), bytes.len() / ENTRY_SIZE);
        }
    }
}
