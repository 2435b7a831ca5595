//! Several batches in a row: for scanners of files and readers of responses.

use crate::peek::FramingError;
use crate::view::BatchView;

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
