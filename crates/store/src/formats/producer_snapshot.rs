//! `<20-digit offset>.snapshot`: the state of every producer of the partition as it was before the record at that
//! offset.

use super::{FormatError, array};
use mainstem_types::{Offset, ProducerEpoch, ProducerId, TimestampMs};

const WHAT: &str = "producer snapshot";
const VERSION: i16 = 1;
const CRC_AT: usize = 2;
const COUNT_AT: usize = CRC_AT + 4;
const ENTRIES_AT: usize = COUNT_AT + 4;

const EPOCH_AT: usize = 8;
const LAST_SEQUENCE_AT: usize = EPOCH_AT + 2;
const LAST_OFFSET_AT: usize = LAST_SEQUENCE_AT + 4;
const OFFSET_DELTA_AT: usize = LAST_OFFSET_AT + 8;
const TIMESTAMP_AT: usize = OFFSET_DELTA_AT + 4;
const COORDINATOR_EPOCH_AT: usize = TIMESTAMP_AT + 8;
const TRANSACTION_FIRST_OFFSET_AT: usize = COORDINATOR_EPOCH_AT + 4;
/// Bytes of one entry.
pub const ENTRY_SIZE: usize = TRANSACTION_FIRST_OFFSET_AT + 8;

/// One producer. Of its last five batches only the newest is kept here, as in Kafka.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProducerSnapshotEntry {
    pub producer_id: ProducerId,
    pub epoch: ProducerEpoch,
    /// Sequence of the last record, -1 when there is no batch.
    pub last_sequence: i32,
    /// Offset of the last record, -1 when there is no batch.
    pub last_offset: Offset,
    /// Last offset minus first offset of that batch.
    pub offset_delta: i32,
    /// Timestamp of the last batch or marker.
    pub timestamp: TimestampMs,
    /// Epoch of the transaction coordinator that wrote the last marker, -1 for none.
    pub coordinator_epoch: i32,
    /// First offset of the transaction that is open, -1 for none.
    pub transaction_first_offset: Offset,
}

fn checksum(bytes: &[u8]) -> u32 {
    crate::crc32c(bytes)
}

impl ProducerSnapshotEntry {
    fn encode_into(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&self.producer_id.0.to_be_bytes());
        bytes.extend_from_slice(&self.epoch.0.to_be_bytes());
        bytes.extend_from_slice(&self.last_sequence.to_be_bytes());
        bytes.extend_from_slice(&self.last_offset.0.to_be_bytes());
        bytes.extend_from_slice(&self.offset_delta.to_be_bytes());
        bytes.extend_from_slice(&self.timestamp.0.to_be_bytes());
        bytes.extend_from_slice(&self.coordinator_epoch.to_be_bytes());
        bytes.extend_from_slice(&self.transaction_first_offset.0.to_be_bytes());
    }

    fn decode(entry: &[u8; ENTRY_SIZE]) -> Option<Self> {
        Some(ProducerSnapshotEntry {
            producer_id: ProducerId(i64::from_be_bytes(array(entry, 0)?)),
            epoch: ProducerEpoch(i16::from_be_bytes(array(entry, EPOCH_AT)?)),
            last_sequence: i32::from_be_bytes(array(entry, LAST_SEQUENCE_AT)?),
            last_offset: Offset(i64::from_be_bytes(array(entry, LAST_OFFSET_AT)?)),
            offset_delta: i32::from_be_bytes(array(entry, OFFSET_DELTA_AT)?),
            timestamp: TimestampMs(i64::from_be_bytes(array(entry, TIMESTAMP_AT)?)),
            coordinator_epoch: i32::from_be_bytes(array(entry, COORDINATOR_EPOCH_AT)?),
            transaction_first_offset: Offset(i64::from_be_bytes(array(entry, TRANSACTION_FIRST_OFFSET_AT)?)),
        })
    }
}

pub fn encode(entries: &[ProducerSnapshotEntry]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(ENTRIES_AT + entries.len() * ENTRY_SIZE);
    bytes.extend_from_slice(&VERSION.to_be_bytes());
    bytes.extend_from_slice(&[0; 4]);
    bytes.extend_from_slice(&(entries.len() as u32).to_be_bytes());
    for entry in entries {
        entry.encode_into(&mut bytes);
    }
    let crc = checksum(&bytes[COUNT_AT..]);
    bytes[CRC_AT..COUNT_AT].copy_from_slice(&crc.to_be_bytes());
    bytes
}

pub fn decode(bytes: &[u8]) -> Result<Vec<ProducerSnapshotEntry>, FormatError> {
    let short = || FormatError::TooShort { what: WHAT, length: bytes.len(), needed: ENTRIES_AT };
    let version = i16::from_be_bytes(array(bytes, 0).ok_or_else(short)?);
    if version != VERSION {
        return Err(FormatError::Version { what: WHAT, found: version.into(), supported: VERSION.into() });
    }
    let stored = u32::from_be_bytes(array(bytes, CRC_AT).ok_or_else(short)?);
    let count = i32::from_be_bytes(array(bytes, COUNT_AT).ok_or_else(short)?);
    let computed = checksum(bytes.get(COUNT_AT..).ok_or_else(short)?);
    if stored != computed {
        return Err(FormatError::Checksum { what: WHAT, stored, computed });
    }
    let (chunks, rest) = bytes.get(ENTRIES_AT..).ok_or_else(short)?.as_chunks::<ENTRY_SIZE>();
    if usize::try_from(count) != Ok(chunks.len()) {
        return Err(FormatError::Count { what: WHAT, stated: count.into(), found: chunks.len() });
    }
    if !rest.is_empty() {
        return Err(FormatError::Trailing { what: WHAT, extra: rest.len() });
    }
    Ok(chunks.iter().filter_map(ProducerSnapshotEntry::decode).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn entry() -> impl Strategy<Value = ProducerSnapshotEntry> {
        (any::<i64>(), any::<i16>(), any::<i32>(), any::<i64>(), any::<i32>(), any::<i64>(), any::<i32>(), any::<i64>())
            .prop_map(|(id, epoch, sequence, offset, delta, timestamp, coordinator, first)| ProducerSnapshotEntry {
                producer_id: ProducerId(id),
                epoch: ProducerEpoch(epoch),
                last_sequence: sequence,
                last_offset: Offset(offset),
                offset_delta: delta,
                timestamp: TimestampMs(timestamp),
                coordinator_epoch: coordinator,
                transaction_first_offset: Offset(first),
            })
    }

    proptest! {
        #[test]
        fn snapshots_round_trip(entries in prop::collection::vec(entry(), 0..50)) {
            prop_assert_eq!(decode(&encode(&entries)), Ok(entries));
        }

        #[test]
        fn a_flipped_bit_is_noticed(entries in prop::collection::vec(entry(), 1..10), at in any::<prop::sample::Index>(), bit in 0..8) {
            let mut bytes = encode(&entries);
            let at = at.index(bytes.len());
            bytes[at] ^= 1u8 << bit;
            prop_assert!(decode(&bytes).is_err());
        }

        #[test]
        fn any_bytes_are_decoded_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode(&bytes);
        }
    }

    #[test]
    fn an_empty_snapshot_has_ten_bytes_and_a_torn_one_is_refused() {
        assert_eq!(encode(&[]).len(), 10);
        assert_eq!(ENTRY_SIZE, 46);
        assert!(matches!(decode(&encode(&[])[..9]), Err(FormatError::TooShort { .. })));
    }
}
