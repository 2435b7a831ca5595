//! Giving the only segment of a journal another base, while it is empty.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::segment::Segment;
use crate::{Journal, Location, RollError, SegmentBase};

impl Journal {
    /// Renames the active segment, which must be empty and the only one. A flush makes the name durable. After an
    /// error nothing has changed.
    pub fn rename_empty(&self, base: SegmentBase) -> Result<(), RollError> {
        let _order = self.flush_order.lock();
        let mut state = self.state.lock();
        if let Some(failure) = self.failure() {
            return Err(RollError::Failed(failure));
        }
        if state.closed {
            return Err(RollError::Closed { dir: self.dir.to_path_buf() });
        }
        let mut segments = self.segments.write();
        let (Some(end), [old]) = (state.end.filter(|end| end.position == 0), segments.as_slice()) else {
            let active = state.end.map_or(base, |end| end.segment);
            return Err(RollError::NotAfter { dir: self.dir.to_path_buf(), base, active });
        };
        if end.segment == base {
            return Ok(());
        }
        let failed = |path, source| RollError::Create { path, source: Arc::new(source) };
        let from = self.path(old.base);
        let file = self.open_file(old).map_err(|source| failed(from.clone(), source))?;
        self.host.fs.rename(&from, &self.path(base)).map_err(|source| failed(from, source))?;
        let segment = Segment::created(base, file, &self.host.open_files);
        segment.reserved.store(old.reserved.load(Ordering::Acquire), Ordering::Release);
        segments[0] = Arc::clone(&segment);
        state.end = Some(Location::new(base, 0));
        state.active = Some(segment);
        state.dir_dirty = true;
        *self.durable.lock() = Location::new(base, 0);
        Ok(())
    }
}
