//! Several batches in a row: for scanners of files and readers of responses.

use mainstem_types::{LeaderEpoch, Offset};

use crate::header::{HEADER_SIZE, PEEK_SIZE, layout};
use crate::view::{BatchView, FramingError};

/// What the first 17 bytes of a batch tell.
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

/// The batches of a slice, in order. Ends after the last whole batch or with one error.
///
/// `Err(FramingError::Partial)` at the end is the cut tail that fetch responses and torn files have; any other error
/// is corruption. [`Batches::position`] tells how many bytes the batches given so far take.
#[derive(Debug, Clone)]
pub struct Batches<'a> {
    bytes: &'a [u8],
    position: usize,
    failed: bool,
}

impl<'a> Batches<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Batches { bytes, position: 0, failed: false }
    }

    /// Bytes of the whole batches given so far.
    pub fn position(&self) -> usize {
        self.position
    }
}

impl<'a> Iterator for Batches<'a> {
    type Item = Result<BatchView<'a>, FramingError>;

    fn next(&mut self) -> Option<Self::Item> {
        let rest = self.bytes.get(self.position..).filter(|rest| !rest.is_empty() && !self.failed)?;
        let batch = BatchView::parse(rest);
        match &batch {
            Ok(view) => self.position += view.size_in_bytes(),
            Err(_) => self.failed = true,
        }
        Some(batch)
    }
}
