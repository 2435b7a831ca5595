//! `log-starts` of a partition group: what its checkpoint need not tell yet. Where partitions begin since records were
//! deleted, and which ones are gone with their topics.

use std::collections::BTreeMap;

use super::{FormatError, array};
use mainstem_types::{Offset, PartitionIndex, TopicId};

const WHAT: &str = "log starts of a group";
pub const FILE_NAME: &str = "log-starts";
/// In the place of a log start: the topic was deleted.
pub const DELETED: Offset = Offset(i64::MAX);

const MAGIC: [u8; 4] = *b"MSLS";
const VERSION: u16 = 1;
const VERSION_AT: usize = 4;
const CRC_AT: usize = VERSION_AT + 2;
const BODY_AT: usize = CRC_AT + 4;
const ENTRY_SIZE: usize = 16 + 4 + 8;

pub type LogStarts = BTreeMap<(TopicId, PartitionIndex), Offset>;

pub fn encode(log_starts: &LogStarts) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(BODY_AT + log_starts.len() * ENTRY_SIZE);
    bytes.extend_from_slice(&MAGIC);
    bytes.extend_from_slice(&VERSION.to_be_bytes());
    bytes.extend_from_slice(&[0; 4]);
    for ((topic_id, partition), log_start) in log_starts {
        bytes.extend_from_slice(&topic_id.0);
        bytes.extend_from_slice(&partition.0.to_be_bytes());
        bytes.extend_from_slice(&log_start.0.to_be_bytes());
    }
    let crc = crate::crc32c(&bytes[BODY_AT..]);
    bytes[CRC_AT..BODY_AT].copy_from_slice(&crc.to_be_bytes());
    bytes
}

pub fn decode(bytes: &[u8]) -> Result<LogStarts, FormatError> {
    let short = || FormatError::TooShort { what: WHAT, length: bytes.len(), needed: BODY_AT };
    let version = u16::from_be_bytes(array(bytes, VERSION_AT).ok_or_else(short)?);
    if bytes.get(..VERSION_AT) != Some(&MAGIC) || version != VERSION {
        return Err(FormatError::Version { what: WHAT, found: version.into(), supported: VERSION.into() });
    }
    let stored = u32::from_be_bytes(array(bytes, CRC_AT).ok_or_else(short)?);
    let body = bytes.get(BODY_AT..).ok_or_else(short)?;
    let computed = crate::crc32c(body);
    if stored != computed {
        return Err(FormatError::Checksum { what: WHAT, stored, computed });
    }
    let (entries, rest) = body.as_chunks::<ENTRY_SIZE>();
    if !rest.is_empty() {
        return Err(FormatError::Trailing { what: WHAT, extra: rest.len() });
    }
    let entry = |entry: &[u8; ENTRY_SIZE]| {
        let key = (TopicId(array(entry, 0)?), PartitionIndex(i32::from_be_bytes(array(entry, 16)?)));
        Some((key, Offset(i64::from_be_bytes(array(entry, 20)?))))
    };
    Ok(entries.iter().filter_map(entry).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_written_is_read(
            entries in prop::collection::vec(any::<([u8; 16], i32, i64)>(), 0..5), damaged in any::<prop::sample::Index>(),
        ) {
            let key = |id, partition| (TopicId(id), PartitionIndex(partition));
            let log_starts: LogStarts =
                entries.into_iter().map(|(id, partition, start)| (key(id, partition), Offset(start))).collect();
            let bytes = encode(&log_starts);
            prop_assert_eq!(decode(&bytes), Ok(log_starts));
            let mut bad = bytes.clone();
            bad[damaged.index(bytes.len())] ^= 4;
            prop_assert!(decode(&bad).is_err());
            prop_assert!(decode(&bytes[..bytes.len() - 1]).is_err());
        }

        #[test]
        fn arbitrary_bytes_never_panic(body in prop::collection::vec(any::<u8>(), 0..100)) {
            let _ = decode(&body);
            let mut bytes = MAGIC.to_vec();
            bytes.extend(VERSION.to_be_bytes());
            bytes.extend(crate::crc32c(&body).to_be_bytes());
            bytes.extend(&body);
            let _ = decode(&bytes);
        }
    }
}
