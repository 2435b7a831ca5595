//! `<20-digit base offset>.txnindex`: the aborted transactions whose abort marker lies in the segment. The file exists
//! only when there is one.

use super::{FormatError, array};
use mainstem_types::{Offset, ProducerId};

const WHAT: &str = "transaction index";
const VERSION: i16 = 0;
const PRODUCER_ID_AT: usize = 2;
const FIRST_OFFSET_AT: usize = PRODUCER_ID_AT + 8;
const LAST_OFFSET_AT: usize = FIRST_OFFSET_AT + 8;
const LAST_STABLE_OFFSET_AT: usize = LAST_OFFSET_AT + 8;
/// Bytes of one entry.
pub const ENTRY_SIZE: usize = LAST_STABLE_OFFSET_AT + 8;

/// One aborted transaction of one producer in one partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AbortedTransaction {
    pub producer_id: ProducerId,
    /// Offset of the transaction's first record.
    pub first_offset: Offset,
    /// Offset of the abort marker.
    pub last_offset: Offset,
    /// The last stable offset right after the marker: nothing below it belongs to a transaction that was still open
    /// then.
    pub last_stable_offset: Offset,
}

impl AbortedTransaction {
    pub fn encode(&self) -> [u8; ENTRY_SIZE] {
        let mut bytes = [0; ENTRY_SIZE];
        bytes[..PRODUCER_ID_AT].copy_from_slice(&VERSION.to_be_bytes());
        bytes[PRODUCER_ID_AT..FIRST_OFFSET_AT].copy_from_slice(&self.producer_id.0.to_be_bytes());
        bytes[FIRST_OFFSET_AT..LAST_OFFSET_AT].copy_from_slice(&self.first_offset.0.to_be_bytes());
        bytes[LAST_OFFSET_AT..LAST_STABLE_OFFSET_AT].copy_from_slice(&self.last_offset.0.to_be_bytes());
        bytes[LAST_STABLE_OFFSET_AT..].copy_from_slice(&self.last_stable_offset.0.to_be_bytes());
        bytes
    }

    fn decode(bytes: &[u8], at: usize) -> Result<Self, FormatError> {
        let short = || FormatError::TooShort { what: WHAT, length: bytes.len(), needed: at + ENTRY_SIZE };
        let entry = bytes.get(at..at + ENTRY_SIZE).ok_or_else(short)?;
        let version = i16::from_be_bytes(array(entry, 0).ok_or_else(short)?);
        if version != VERSION {
            return Err(FormatError::Version { what: WHAT, found: version.into(), supported: VERSION.into() });
        }
        let field = |at| array(entry, at).map(i64::from_be_bytes).ok_or_else(short);
        Ok(AbortedTransaction {
            producer_id: ProducerId(field(PRODUCER_ID_AT)?),
            first_offset: Offset(field(FIRST_OFFSET_AT)?),
            last_offset: Offset(field(LAST_OFFSET_AT)?),
            last_stable_offset: Offset(field(LAST_STABLE_OFFSET_AT)?),
        })
    }
}

/// Bytes of the whole entries of a file of `len` bytes.
pub fn whole_entries(len: u64) -> u64 {
    len - len % ENTRY_SIZE as u64
}

/// Decodes a whole file. Entries ascend by `last_offset`.
pub fn decode(bytes: &[u8]) -> Result<Vec<AbortedTransaction>, FormatError> {
    let mut entries: Vec<AbortedTransaction> = Vec::with_capacity(bytes.len() / ENTRY_SIZE);
    let mut at = 0;
    while at < bytes.len() {
        let entry = AbortedTransaction::decode(bytes, at)?;
        if entries.last().is_some_and(|previous| entry.last_offset <= previous.last_offset) {
            return Err(FormatError::Order { what: WHAT, entry: entries.len() });
        }
        entries.push(entry);
        at += ENTRY_SIZE;
    }
    Ok(entries)
}

/// The entries before the first that cannot be one: what a power cut left of a file that had been durable up to
/// somewhere.
pub fn decode_front(bytes: &[u8]) -> Vec<AbortedTransaction> {
    let mut entries: Vec<AbortedTransaction> = Vec::new();
    for chunk in bytes.chunks_exact(ENTRY_SIZE) {
        let Ok(entry) = AbortedTransaction::decode(chunk, 0) else { break };
        let follows = entries.last().is_none_or(|previous| entry.last_offset > previous.last_offset);
        // A transaction has a record before its marker; zeros have none.
        if !follows || entry.first_offset >= entry.last_offset {
            break;
        }
        entries.push(entry);
    }
    entries
}

pub fn encode(entries: &[AbortedTransaction]) -> Vec<u8> {
    entries.iter().flat_map(|e| e.encode()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn entries_round_trip(
            raw in prop::collection::vec((any::<i64>(), any::<i64>(), 1i64..1_000_000, any::<i64>()), 0..40),
        ) {
            let mut last = 0;
            let entries: Vec<_> = raw.into_iter().map(|(producer, first, step, stable)| {
                last += step;
                AbortedTransaction {
                    producer_id: ProducerId(producer),
                    first_offset: Offset(first),
                    last_offset: Offset(last),
                    last_stable_offset: Offset(stable),
                }
            }).collect();
            prop_assert_eq!(decode(&encode(&entries)), Ok(entries));
        }

        #[test]
        fn any_bytes_are_decoded_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(entries) = decode(&bytes) {
                prop_assert_eq!(encode(&entries), bytes);
            }
        }
    }

    #[test]
    fn of_a_torn_file_the_front_is_believed() {
        let entry = |last_offset| AbortedTransaction {
            producer_id: ProducerId(1),
            first_offset: Offset(last_offset - 1),
            last_offset: Offset(last_offset),
            last_stable_offset: Offset(last_offset + 1),
        };
        let whole = encode(&[entry(3), entry(7)]);
        assert_eq!(decode_front(&whole), [entry(3), entry(7)]);
        assert_eq!(decode_front(&whole[..ENTRY_SIZE + 5]), [entry(3)]);
        assert_eq!(decode_front(&[&whole[..], &[0; ENTRY_SIZE]].concat()), [entry(3), entry(7)]);
        assert_eq!(decode_front(&encode(&[entry(7), entry(3)])), [entry(7)]);
        assert_eq!(decode_front(&[0; 2 * ENTRY_SIZE]), []);
    }

    #[test]
    fn an_entry_has_34_bytes_and_a_torn_one_is_refused() {
        assert_eq!(ENTRY_SIZE, 34);
        let refused = decode(&[0; 35]);
        assert_eq!(refused, Err(FormatError::TooShort { what: WHAT, length: 35, needed: 68 }));
    }
}
