//! A look at the head of a batch, before all of it is there.

use mainstem_types::{LeaderEpoch, Offset};

use crate::header::{HEADER_SIZE, PEEK_SIZE, layout};

/// Why bytes do not begin with a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FramingError {
    /// The bytes end before the batch does: more may come, or the tail of a file was torn.
    #[error("the batch needs {needed} bytes and only {available} are there")]
    Partial { needed: usize, available: usize },
    #[error("the batch says it has {batch_length} bytes after its length field; a batch has at least 49 there")]
    LengthTooSmall { batch_length: i32 },
    #[error("the batch has format {magic}; only format 2 is supported (Kafka 0.11 and later write it)")]
    UnsupportedMagic { magic: i8 },
}

/// The fields in the first 17 bytes of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peek {
    pub base_offset: Offset,
    /// All bytes of the batch, header included: at least 61.
    pub size_in_bytes: usize,
    pub leader_epoch: LeaderEpoch,
}

/// Looks at the head of a batch of which only the first [`PEEK_SIZE`] bytes need to be there.
///
/// `Partial` says that fewer were given. Bytes after the 17 are not looked at.
pub fn peek(bytes: &[u8]) -> Result<Peek, FramingError> {
    let available = bytes.len();
    let head = bytes.first_chunk::<PEEK_SIZE>().ok_or(FramingError::Partial { needed: PEEK_SIZE, available })?;
    let mut padded = [0; HEADER_SIZE];
    padded[..PEEK_SIZE].copy_from_slice(head);
    let header = crate::header::BatchHeader::read(&padded);
    let magic = head[layout::MAGIC] as i8;
    // The format is judged first: older formats have a smaller minimum, and "format 1" helps more than "too small".
    if magic != layout::MAGIC_V2 {
        return Err(FramingError::UnsupportedMagic { magic });
    }
    if header.batch_length < layout::BATCH_LENGTH_MIN {
        return Err(FramingError::LengthTooSmall { batch_length: header.batch_length });
    }
    Ok(Peek {
        base_offset: header.base_offset,
        size_in_bytes: header.size_in_bytes(),
        leader_epoch: header.leader_epoch,
    })
}
