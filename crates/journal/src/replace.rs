//! Putting one segment in the place of several: what compaction made of them.
//!
//! This changes only memory. The owner renames the files, in an order that its recovery understands. Until the owner
//! says that the files have their final names, the journal keeps the new file open, because the segment's name still
//! leads to the old one.

use std::sync::Arc;

use mainstem_env::File;

use crate::segment::Segment;
use crate::{Journal, ReplaceError, SegmentBase};

impl Journal {
    /// Puts a segment of `len` bytes, which are durable, in the place of all segments from `first` up to (and without)
    /// `next`. It bears the base of the first. `next` must be a segment too: the active one cannot be replaced.
    ///
    /// Readers that hold slices of the old segments go on. Call [`Journal::settle_replaced`] when the file has its
    /// name.
    pub fn replace_segments(
        &self,
        first: SegmentBase,
        next: SegmentBase,
        file: Arc<dyn File>,
        len: u64,
    ) -> Result<(), ReplaceError> {
        let new = Segment::replacing(first, file, len);
        let replaced: Vec<_> = {
            let mut segments = self.segments.write();
            let find = |base| segments.binary_search_by_key(&base, |segment| segment.base);
            let (Ok(from), Ok(to)) = (find(first), find(next)) else {
                return Err(ReplaceError::NotThere { dir: self.dir.to_path_buf(), first, next });
            };
            if from >= to {
                return Err(ReplaceError::NotThere { dir: self.dir.to_path_buf(), first, next });
            }
            segments.splice(from..to, [Arc::clone(&new)]).collect()
        };
        new.enlist(&self.host.open_files);
        // The last handle of a file that has lost its name frees its blocks: after the lock.
        drop(replaced);
        Ok(())
    }

    /// The files are renamed: the segment may be closed, and opened by its name.
    pub fn settle_replaced(&self, base: SegmentBase) {
        let segments = self.segments.read();
        if let Ok(index) = segments.binary_search_by_key(&base, |segment| segment.base) {
            segments[index].unpin();
        }
    }
}
