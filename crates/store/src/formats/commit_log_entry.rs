//! One entry of a commit log: a header of 32 bytes, then a RecordBatch; or a blank, which says that its file ends here.
//!
//! The header's checksum covers the header and those fields of the batch that the batch's own checksum leaves out (base
//! offset, length, leader epoch, format, the checksum itself): an entry with both checksums right is right in every
//! byte.

use super::array;
use mainstem_record::{BatchView, FramingError, HEADER_SIZE as BATCH_HEADER_SIZE};
use mainstem_types::{PartitionIndex, TopicId};

const LENGTH_AT: usize = 0;
pub(crate) const MAGIC_AT: usize = LENGTH_AT + 4;
const KIND_AT: usize = MAGIC_AT + 2;
const TOPIC_ID_AT: usize = KIND_AT + 2;
const PARTITION_AT: usize = TOPIC_ID_AT + 16;
const CRC_AT: usize = PARTITION_AT + 4;
/// Bytes of an entry before its batch.
pub const HEADER_SIZE: usize = CRC_AT + 4;

/// "MS".
pub(crate) const MAGIC: u16 = 0x4D53;
const KIND_BATCH: u16 = 0;
const KIND_BLANK: u16 = 1;
/// The head of a batch that its own checksum does not cover.
const UNCOVERED: usize = 21;

/// What an entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryKind {
    Batch {
        topic_id: TopicId,
        partition: PartitionIndex,
    },
    /// Nothing follows in this file; the next one begins where this entry's length ends.
    Blank,
}

/// The header of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EntryHeader {
    /// Of the whole entry, this header included. Of a blank: up to the end of the file, which need not be written.
    pub length: u32,
    pub kind: EntryKind,
}

/// Why bytes are no entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryError {
    /// It takes at least this many bytes to decide.
    Partial {
        needed: usize,
    },
    Damaged(&'static str),
}

impl EntryHeader {
    /// The header as it is written before a batch that begins with `head`. `head` is not looked at for a blank.
    pub fn encode(&self, head: &[u8; BATCH_HEADER_SIZE]) -> [u8; HEADER_SIZE] {
        let mut bytes = [0; HEADER_SIZE];
        bytes[LENGTH_AT..MAGIC_AT].copy_from_slice(&self.length.to_be_bytes());
        bytes[MAGIC_AT..KIND_AT].copy_from_slice(&MAGIC.to_be_bytes());
        let covered: &[u8] = match self.kind {
            EntryKind::Batch { topic_id, partition } => {
                bytes[TOPIC_ID_AT..PARTITION_AT].copy_from_slice(&topic_id.0);
                bytes[PARTITION_AT..CRC_AT].copy_from_slice(&partition.0.to_be_bytes());
                &head[..UNCOVERED]
            }
            EntryKind::Blank => {
                bytes[KIND_AT..TOPIC_ID_AT].copy_from_slice(&KIND_BLANK.to_be_bytes());
                &[]
            }
        };
        let crc = checksum(&bytes, covered);
        bytes[CRC_AT..].copy_from_slice(&crc.to_be_bytes());
        bytes
    }

    /// A blank that fills the rest of a file.
    pub fn blank(length: u32) -> [u8; HEADER_SIZE] {
        EntryHeader { length, kind: EntryKind::Blank }.encode(&[0; BATCH_HEADER_SIZE])
    }

    /// Reads and checks the header that the bytes begin with. Of a batch, its first 21 bytes are needed too.
    pub fn decode(bytes: &[u8]) -> Result<EntryHeader, EntryError> {
        let header = bytes.first_chunk::<HEADER_SIZE>().ok_or(EntryError::Partial { needed: HEADER_SIZE })?;
        let short = EntryError::Partial { needed: HEADER_SIZE };
        let length = u32::from_be_bytes(array(header, LENGTH_AT).ok_or(short)?);
        if u16::from_be_bytes(array(header, MAGIC_AT).ok_or(short)?) != MAGIC {
            return Err(EntryError::Damaged("not the mark of an entry"));
        }
        let (kind, covered, least) = match u16::from_be_bytes(array(header, KIND_AT).ok_or(short)?) {
            KIND_BATCH => {
                let needed = HEADER_SIZE + UNCOVERED;
                let covered = bytes.get(HEADER_SIZE..needed).ok_or(EntryError::Partial { needed })?;
                let topic_id = TopicId(array(header, TOPIC_ID_AT).ok_or(short)?);
                let partition = PartitionIndex(i32::from_be_bytes(array(header, PARTITION_AT).ok_or(short)?));
                (EntryKind::Batch { topic_id, partition }, covered, HEADER_SIZE + BATCH_HEADER_SIZE)
            }
            KIND_BLANK => (EntryKind::Blank, &[][..], HEADER_SIZE),
            _ => return Err(EntryError::Damaged("an unknown kind of entry")),
        };
        let stored = u32::from_be_bytes(array(header, CRC_AT).ok_or(short)?);
        if checksum(header, covered) != stored {
            return Err(EntryError::Damaged("the checksum of an entry's header does not match"));
        }
        if (length as usize) < least {
            return Err(EntryError::Damaged("an entry's length is too small"));
        }
        Ok(EntryHeader { length, kind })
    }

    /// Bytes that the entry takes in its file.
    pub fn stored_len(&self) -> usize {
        match self.kind {
            EntryKind::Batch { .. } => self.length as usize,
            EntryKind::Blank => HEADER_SIZE,
        }
    }
}

/// The whole entry that the bytes begin with: its header, and its batch unless it is a blank. Both checksums are right.
pub fn decode(bytes: &[u8]) -> Result<(EntryHeader, Option<BatchView<'_>>), EntryError> {
    let header = EntryHeader::decode(bytes)?;
    if header.kind == EntryKind::Blank {
        return Ok((header, None));
    }
    let needed = header.length as usize;
    let batch = bytes.get(HEADER_SIZE..needed).ok_or(EntryError::Partial { needed })?;
    let view = match BatchView::parse(batch) {
        Ok(view) if view.size_in_bytes() == batch.len() => view,
        Ok(_) | Err(FramingError::Partial { .. }) => {
            return Err(EntryError::Damaged("the lengths of an entry and of its batch differ"));
        }
        Err(_) => return Err(EntryError::Damaged("what is in an entry is not a batch of format 2")),
    };
    if !view.crc_is_valid() {
        return Err(EntryError::Damaged("the checksum of a batch does not match"));
    }
    Ok((header, Some(view)))
}

fn checksum(header: &[u8; HEADER_SIZE], covered: &[u8]) -> u32 {
    let mut joined = [0; CRC_AT + UNCOVERED];
    joined[..CRC_AT].copy_from_slice(&header[..CRC_AT]);
    joined[CRC_AT..CRC_AT + covered.len()].copy_from_slice(covered);
    crate::crc32c(&joined[..CRC_AT + covered.len()])
}

#[cfg(test)]
mod tests {
    use super::*;
    use mainstem_record::BatchBuilder;
    use mainstem_types::TimestampMs;
    use proptest::prelude::*;

    pub(crate) fn entry(topic: [u8; 16], partition: i32, value: &[u8]) -> Vec<u8> {
        let mut builder = BatchBuilder::new();
        builder.append(TimestampMs(5), None, Some(value), &[]);
        let batch = builder.build().unwrap();
        let kind = EntryKind::Batch { topic_id: TopicId(topic), partition: PartitionIndex(partition) };
        let header = EntryHeader { length: (HEADER_SIZE + batch.len()) as u32, kind };
        let mut bytes = header.encode(batch.first_chunk().unwrap()).to_vec();
        bytes.extend(batch);
        bytes
    }

    #[test]
    fn every_single_damaged_byte_is_found() {
        let good = entry([7; 16], 3, b"value");
        assert!(decode(&good).is_ok());
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 0x10;
            assert!(decode(&bad).is_err(), "byte {at}");
        }
        let blank = EntryHeader::blank(1000);
        for at in 0..blank.len() {
            let mut bad = blank;
            bad[at] ^= 1;
            assert!(EntryHeader::decode(&bad).is_err(), "byte {at}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(topic in any::<[u8; 16]>(), partition in any::<i32>(), value in prop::collection::vec(any::<u8>(), 0..200)) {
            let bytes = entry(topic, partition, &value);
            let (header, view) = decode(&bytes).unwrap();
            let kind = EntryKind::Batch { topic_id: TopicId(topic), partition: PartitionIndex(partition) };
            prop_assert_eq!(header, EntryHeader { length: bytes.len() as u32, kind });
            prop_assert_eq!(view.unwrap().as_bytes(), &bytes[HEADER_SIZE..]);
            for end in 0..bytes.len() {
                let partial = matches!(decode(&bytes[..end]), Err(EntryError::Partial { needed }) if needed > end);
                prop_assert!(partial, "cut at {}", end);
            }
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode(&bytes);
        }
    }
}
