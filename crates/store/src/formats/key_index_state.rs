//! `key-index/applied`: how far the key index of a partition has come, and which files it has.
//!
//! ```text
//! version 2 │ crc 4 │ applied 8 │ base offset 8 │ batch crc 4 │ files 4 │ files × (name 8 │ count 4)
//! ```

use super::group_checkpoint::IndexFact;
use super::{FormatError, array};
use mainstem_types::Offset;

/// The name of the file, in the folder of the index.
pub const FILE_NAME: &str = "applied";
const WHAT: &str = "state of a key index";
const VERSION: i16 = 0;
const CRC_AT: usize = 2;
const APPLIED_AT: usize = CRC_AT + 4;
const BASE_AT: usize = APPLIED_AT + 8;
const BATCH_CRC_AT: usize = BASE_AT + 8;
const FILES_AT: usize = BATCH_CRC_AT + 4;
const HEADER_SIZE: usize = FILES_AT + 4;
const FILE_SIZE: usize = 12;

/// Everything below `applied` is in the index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyIndexState {
    pub applied: Offset,
    /// Base offset and checksum of the batch before `applied`: with another batch there it is another log.
    pub last_batch: (Offset, u32),
    pub files: Vec<IndexFact>,
}

pub fn encode(state: &KeyIndexState) -> Vec<u8> {
    let mut bytes = vec![0; CRC_AT];
    bytes[..CRC_AT].copy_from_slice(&VERSION.to_be_bytes());
    bytes.extend_from_slice(&[0; APPLIED_AT - CRC_AT]);
    bytes.extend_from_slice(&state.applied.0.to_be_bytes());
    bytes.extend_from_slice(&state.last_batch.0.0.to_be_bytes());
    bytes.extend_from_slice(&state.last_batch.1.to_be_bytes());
    bytes.extend_from_slice(&(state.files.len() as u32).to_be_bytes());
    for file in &state.files {
        bytes.extend_from_slice(&file.name.to_be_bytes());
        bytes.extend_from_slice(&file.count.to_be_bytes());
    }
    let crc = crate::crc32c(&bytes[APPLIED_AT..]);
    bytes[CRC_AT..APPLIED_AT].copy_from_slice(&crc.to_be_bytes());
    bytes
}

pub fn decode(bytes: &[u8]) -> Result<KeyIndexState, FormatError> {
    let short = || FormatError::TooShort { what: WHAT, length: bytes.len(), needed: HEADER_SIZE };
    let version = i16::from_be_bytes(array(bytes, 0).ok_or_else(short)?);
    if version != VERSION {
        return Err(FormatError::Version { what: WHAT, found: version.into(), supported: VERSION.into() });
    }
    let stored = u32::from_be_bytes(array(bytes, CRC_AT).ok_or_else(short)?);
    let computed = crate::crc32c(bytes.get(APPLIED_AT..).ok_or_else(short)?);
    if stored != computed {
        return Err(FormatError::Checksum { what: WHAT, stored, computed });
    }
    let long = |at| array(bytes, at).map(i64::from_be_bytes).ok_or_else(short);
    let int = |at| array(bytes, at).map(u32::from_be_bytes).ok_or_else(short);
    let (count, files) = (int(FILES_AT)?, bytes.get(HEADER_SIZE..).ok_or_else(short)?);
    if files.len() != count as usize * FILE_SIZE {
        return Err(FormatError::Count { what: WHAT, stated: count.into(), found: files.len() / FILE_SIZE });
    }
    let file = |bytes: &[u8]| {
        let (name, count) = (array(bytes, 0)?, array(bytes, 8)?);
        Some(IndexFact { name: u64::from_be_bytes(name), count: u32::from_be_bytes(count) })
    };
    Ok(KeyIndexState {
        applied: Offset(long(APPLIED_AT)?),
        last_batch: (Offset(long(BASE_AT)?), int(BATCH_CRC_AT)?),
        files: files.chunks_exact(FILE_SIZE).filter_map(file).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn states_are_read_as_written_and_damage_is_seen(
            applied in any::<i64>(), base in any::<i64>(), crc in any::<u32>(),
            files in prop::collection::vec(any::<(u64, u32)>(), 0..5), at in any::<prop::sample::Index>(),
        ) {
            let files = files.into_iter().map(|(name, count)| IndexFact { name, count }).collect();
            let state = KeyIndexState { applied: Offset(applied), last_batch: (Offset(base), crc), files };
            let mut bytes = encode(&state);
            prop_assert_eq!(decode(&bytes), Ok(state));
            let at = at.index(bytes.len());
            bytes[at] ^= 1;
            prop_assert!(decode(&bytes).is_err());
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = decode(&bytes);
        }
    }
}
