//! Deleting at the front, and cutting at the back.
//!
//! A segment leaves the journal at once; its file is renamed to `<name>.deleted`, and unlinked by
//! [`Journal::remove_deleted`] or the next [`Journal::open`]. Readers that hold the file can continue to read it.
//! Where the disk has no room for the longer name, the file is unlinked at once.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mainstem_env::{OpenDir, is_disk_full, is_out_of_descriptors};

use crate::deleted_names::{DELETED_SUFFIX, with_suffix};
use crate::segment::Segment;
use crate::{DeleteError, Journal, Location, SegmentBase, TruncateError};

/// The segments that one call deleted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DeletedSegments {
    pub bases: Vec<SegmentBase>,
    pub bytes: u64,
}

impl Journal {
    /// Deletes the segments below `keep`; never the active one. Durable when it returns `Ok`: they do not come back.
    ///
    /// From the first one up, each rename durable before the next: a crash in the middle leaves the later ones and no
    /// hole.
    pub fn delete_before(&self, keep: SegmentBase) -> Result<DeletedSegments, DeleteError> {
        self.delete_before_with(keep, &|| self.host.fs.sync_dir(&self.dir))
    }

    /// As [`Journal::delete_before`], by an owner who holds the directory open: `sync` makes the names durable.
    pub fn delete_before_with(
        &self,
        keep: SegmentBase,
        sync: &dyn Fn() -> io::Result<()>,
    ) -> Result<DeletedSegments, DeleteError> {
        if let Some(failure) = self.failure() {
            return Err(DeleteError::Failed(failure));
        }
        let gone = self.take_before(keep);
        let mut report = DeletedSegments::default();
        if !gone.is_empty()
            && self.state.lock().deletion_unsynced
            && let Err(error) = self.sync_deletion(keep, sync)
        {
            self.put_back(&gone);
            return Err(error);
        }
        for (index, segment) in gone.iter().enumerate() {
            let path = self.path(segment.base);
            // Only counted; a file that cannot be asked is renamed all the same.
            report.bytes += self.len_of(segment).unwrap_or(0);
            if let Err(source) = self.rename_deleted(&path) {
                self.put_back(&gone[index..]);
                return Err(DeleteError::Rename { path, source });
            }
            if let Err(error) = self.sync_deletion(segment.base, sync) {
                self.put_back(&gone[index + 1..]);
                return Err(error);
            }
            report.bases.push(segment.base);
        }
        Ok(report)
    }

    /// Makes a rename durable. After an error, which names a restart will find is unknown, and to delete more could
    /// leave a hole: it ends the journal, unless no descriptor was left. Then the next deletion begins with this sync.
    fn sync_deletion(&self, base: SegmentBase, sync: &dyn Fn() -> io::Result<()>) -> Result<(), DeleteError> {
        let synced = sync();
        self.state.lock().deletion_unsynced = synced.is_err();
        synced.map_err(|source| match is_out_of_descriptors(&source) {
            true => DeleteError::Sync { path: self.dir.to_path_buf(), source },
            false => DeleteError::Failed(self.fail("sync of the directory", base, source)),
        })
    }

    fn take_before(&self, keep: SegmentBase) -> Vec<Arc<Segment>> {
        let mut segments = self.segments.write();
        let count = segments.partition_point(|segment| segment.base < keep).min(segments.len().saturating_sub(1));
        segments.drain(..count).collect()
    }

    fn put_back(&self, kept: &[Arc<Segment>]) {
        let mut segments = self.segments.write();
        segments.splice(0..0, kept.iter().cloned());
        segments.sort_by_key(|segment| segment.base);
    }

    /// Unlinks the files of deleted segments and says how many. Slow for large files: call it where no request waits.
    /// What fails is tried again by the next call.
    pub fn remove_deleted(&self) -> Result<usize, DeleteError> {
        self.remove_deleted_while(&|| true)
    }

    /// As [`Journal::remove_deleted`], as long as `go_on` says so; it is asked before each file. What is left goes with
    /// a later call, or with the next open.
    pub fn remove_deleted_while(&self, go_on: &dyn Fn() -> bool) -> Result<usize, DeleteError> {
        let mut removed = 0;
        while go_on() {
            // Whoever asks how much space is free after this must not miss a file that another thread is about to
            // unlink.
            let _one = self.unlinking.lock();
            let Some(path) = self.state.lock().deleted.pop() else { break };
            match self.host.fs.remove_file(&path) {
                Ok(()) => removed += 1,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(source) => {
                    self.state.lock().deleted.push(path.clone());
                    return Err(DeleteError::Remove { path, source });
                }
            }
        }
        Ok(removed)
    }

    /// Cuts everything from `to` on, durably; `to` must be the end or the start of an entry. Waits for a running flush
    /// and holds appends up: only replication and recovery cut. A checkpoint above `to` must be lowered first.
    ///
    /// [`TruncateError::Failed`] ends the journal. After every other error nothing has changed.
    ///
    /// A reader that holds a slice past `to` gets fewer bytes than the slice promises.
    pub fn truncate_to(&self, to: Location) -> Result<(), TruncateError> {
        let _order = self.flush_order.lock();
        let mut state = self.state.lock();
        if let Some(failure) = self.failure() {
            return Err(TruncateError::Failed(failure));
        }
        if state.closed {
            return Err(TruncateError::Closed { dir: self.dir.to_path_buf() });
        }
        self.write_out_locked(&mut state)
            .map_err(|error| self.write_out_failure(&state, error))
            .map_err(TruncateError::Failed)?;
        let segment = self.segment(to.segment)?;
        let (len, file) = (self.len_of(&segment)?, self.file_of(&segment)?);
        if to.position > len {
            return Err(crate::ReadError::PastEnd { dir: self.dir.to_path_buf(), location: to, len }.into());
        }
        // From here on nothing is opened: an error for want of a descriptor comes before anything has changed.
        let dir = self.host.fs.open_dir(&self.dir);
        let dir = dir.map_err(|source| crate::ReadError::Io { path: self.dir.to_path_buf(), source })?;
        self.tail.clear(&self.host.tail_budget);
        state.active = None;
        let fail = |operation| move |source| TruncateError::Failed(self.fail(operation, to.segment, source));
        for path in self.drop_segments_after(to.segment, dir.as_ref()).map_err(fail("deleting what follows a cut"))? {
            state.deleted.push(path);
        }
        // First unseen, then gone.
        segment.set_len(to.position);
        state.end = Some(to);
        state.reserved_to = 0;
        state.reserve_refused = false;
        state.written_back_to = to.position;
        file.set_len(to.position).and_then(|()| file.sync_data()).map_err(fail("cut"))?;
        let mut durable = self.durable.lock();
        *durable = to.min(*durable);
        Ok(())
    }

    /// From the last one down, each rename durable before the next: a crash leaves no hole.
    fn drop_segments_after(&self, base: SegmentBase, dir: &dyn OpenDir) -> io::Result<Vec<PathBuf>> {
        let mut paths = Vec::new();
        loop {
            let mut segments = self.segments.write();
            let Some(last) = segments.pop_if(|last| last.base > base) else { return Ok(paths) };
            drop(segments);
            let path = self.path(last.base);
            let deleted = with_suffix(&path, DELETED_SUFFIX);
            self.host.fs.rename(&path, &deleted)?;
            dir.sync()?;
            paths.push(deleted);
        }
    }

    fn rename_deleted(&self, path: &Path) -> io::Result<()> {
        let deleted = with_suffix(path, DELETED_SUFFIX);
        match self.host.fs.rename(path, &deleted) {
            Ok(()) => self.state.lock().deleted.push(deleted),
            // Only a deletion makes room.
            Err(error) if is_disk_full(&error) => {
                let _one = self.unlinking.lock();
                self.host.fs.remove_file(path)?;
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }
}
