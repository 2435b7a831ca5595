//! Segments that are not the log's, or cannot be: set aside under names as the journal gives them, never deleted.

use std::io;

use super::Opening;
use crate::error::OpenError;
use crate::error::io_error;
use crate::formats::names;
use crate::partition_log::headers;
use crate::partition_log::listing::Listing;
use mainstem_types::Offset;

impl Opening<'_> {
    /// Whether there is any batch, whole or not.
    pub(super) fn holds_data(&self) -> Result<bool, OpenError> {
        let listing = Listing::read(self.env.fs.as_ref(), self.folder).map_err(io_error(self.folder))?;
        let mut lens = listing.segments.iter().map(|base| self.segment_file(*base, |segment| Ok(segment.len)));
        lens.try_fold(false, |any, len| Ok(any || len? > 0))
    }

    /// Sets all segments aside, durably.
    pub(super) fn park_segments(&self) -> Result<(), OpenError> {
        let listing = Listing::read(self.env.fs.as_ref(), self.folder).map_err(io_error(self.folder))?;
        self.park(&listing.segments, "all of it is below the log start")
    }

    /// A copy of a segment under another name begins before its name. Looked at where that is likely and costs little:
    /// the last segment, and those without an index.
    pub(super) fn set_misplaced_aside(&mut self) -> Result<(), OpenError> {
        loop {
            let last = self.listing.segments.last().copied();
            let suspects = self.listing.segments.iter().skip(1).copied();
            let suspects = suspects.filter(|base| Some(*base) == last || !self.listing.indexes.contains(base));
            let mut misplaced = Vec::new();
            for base in suspects {
                let first = self.segment_file(base, |segment| headers::header_at(segment.file, 0))?;
                misplaced.extend(first.filter(|header| header.base_offset < base).map(|_| base));
            }
            if misplaced.is_empty() {
                return Ok(());
            }
            self.park(&misplaced, "it begins before its name, as a copy does")?;
            self.misplaced += misplaced.len();
            self.listing.segments.retain(|base| !misplaced.contains(base));
        }
    }

    fn park(&self, segments: &[Offset], why: &str) -> Result<(), OpenError> {
        let fs = self.env.fs.as_ref();
        let park = |base: &Offset| -> io::Result<()> {
            let name = names::segment_file(*base, names::LOG);
            let mut to = self.folder.join(format!("{name}.parked"));
            for number in 1.. {
                if !fs.exists(&to)? {
                    break;
                }
                to = self.folder.join(format!("{name}.parked.{number}"));
            }
            tracing::warn!(partition = %self.partition, "{name}: {why}; it stays as {}", to.display());
            fs.rename(&self.folder.join(&name), &to)
        };
        let parked = segments.iter().try_for_each(park).and_then(|()| fs.sync_dir(self.folder));
        parked.map_err(io_error(self.folder))
    }
}
