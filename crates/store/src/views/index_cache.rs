//! Offset index files that readers keep open: of the segments that are being read behind the tail, whatever the number
//! of logs.
//!
//! - At most as many files as [`IndexCache::set_files_max`] says (256 if nobody does) are open; past that the one that
//!   was not used for the longest time (roughly: second chance) is closed.
//! - Each remembers where its last look-up ended, so that the next one of the same reader is one read.
//! - A log that is not read this way has no entry and costs nothing.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use mainstem_env::File;
use mainstem_types::Offset;
use parking_lot::Mutex;

/// Files kept open when nobody says otherwise.
const FILES_MAX_DEFAULT: usize = 256;

/// A segment: the number of its log in this process, and its base.
type Key = (u64, Offset);

/// One open index file.
#[derive(Debug)]
pub(crate) struct OpenIndex {
    pub(crate) file: Arc<dyn File>,
    /// The entry that the last look-up found.
    near: AtomicUsize,
    used: AtomicBool,
}

impl OpenIndex {
    pub(crate) fn new(file: Arc<dyn File>) -> OpenIndex {
        OpenIndex { file, near: AtomicUsize::new(0), used: AtomicBool::new(false) }
    }

    pub(crate) fn near(&self) -> usize {
        self.near.load(Ordering::Relaxed)
    }

    pub(crate) fn found_at(&self, index: usize) {
        self.near.store(index, Ordering::Relaxed);
    }
}

/// The open index files of all logs of a process.
#[derive(Debug)]
pub(crate) struct IndexCache {
    files_max: AtomicUsize,
    files: Mutex<Files>,
}

#[derive(Debug, Default)]
struct Files {
    open: HashMap<Key, Arc<OpenIndex>>,
    /// In the order in which they may be closed; a key whose file was closed already is passed over.
    order: VecDeque<Key>,
}

impl Default for IndexCache {
    fn default() -> Self {
        IndexCache { files_max: AtomicUsize::new(FILES_MAX_DEFAULT), files: Mutex::default() }
    }
}

impl IndexCache {
    pub(crate) fn set_files_max(&self, files: usize) {
        self.files_max.store(files.max(1), Ordering::Relaxed);
    }

    pub(crate) fn get(&self, log: u64, base: Offset) -> Option<Arc<OpenIndex>> {
        let files = self.files.lock();
        let index = files.open.get(&(log, base))?;
        index.used.store(true, Ordering::Relaxed);
        Some(Arc::clone(index))
    }

    pub(crate) fn insert(&self, log: u64, base: Offset, index: Arc<OpenIndex>) {
        let limit = self.files_max.load(Ordering::Relaxed);
        // Closed after the lock is released.
        let mut closed = Vec::new();
        let mut files = self.files.lock();
        if let Some(replaced) = files.open.insert((log, base), index) {
            closed.push(replaced);
        } else {
            files.order.push_back((log, base));
        }
        // Twice round at the most: then every used file has had its second chance.
        for _ in 0..2 * files.order.len() {
            if files.open.len() <= limit {
                break;
            }
            let Some(key) = files.order.pop_front() else { break };
            if files.open.get(&key).is_some_and(|index| index.used.swap(false, Ordering::Relaxed)) {
                files.order.push_back(key);
            } else {
                closed.extend(files.open.remove(&key));
            }
        }
        drop(files);
        drop(closed);
    }

    /// Closes the files of a log: it was cut, closed, or its files were removed.
    pub(crate) fn forget(&self, log: u64) {
        self.close_where(|key, _| key.0 == log);
    }

    /// Closes the files that nobody has looked into since the last call.
    pub(crate) fn release_idle(&self) {
        self.close_where(|_, index| !index.used.swap(false, Ordering::Relaxed));
    }

    fn close_where(&self, goes: impl Fn(&Key, &OpenIndex) -> bool) {
        let mut closed = Vec::new();
        let mut files = self.files.lock();
        if files.open.is_empty() {
            return;
        }
        closed.extend(files.open.extract_if(|key, index| goes(key, index)));
        let Files { open, order } = &mut *files;
        order.retain(|key| open.contains_key(key));
        if open.is_empty() {
            *files = Files::default();
        }
        drop(files);
        drop(closed);
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.files.lock().open.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mainstem_env::{Fs, MemFs, OpenOptions};

    fn index() -> Arc<OpenIndex> {
        let fs = MemFs::new();
        Arc::new(OpenIndex::new(fs.open(std::path::Path::new("/i"), &OpenOptions::create()).unwrap()))
    }

    #[test]
    fn no_more_files_than_allowed_and_those_in_use_stay() {
        let cache = IndexCache::default();
        cache.set_files_max(3);
        for number in 0..50 {
            cache.insert(number, Offset(0), index());
            assert!(cache.len() <= 3);
            assert!(cache.get(0, Offset(0)).is_some(), "used before each insertion, gone after {number}");
        }
        cache.forget(0);
        assert!(cache.get(0, Offset(0)).is_none());
        assert_eq!(cache.len(), 2);
    }

    #[test]
    fn what_is_not_used_is_closed() {
        let cache = IndexCache::default();
        for number in 0..4 {
            cache.insert(number, Offset(7), index());
        }
        (0..4).for_each(|number| drop(cache.get(number, Offset(7))));
        cache.release_idle();
        assert_eq!(cache.len(), 4);
        cache.get(2, Offset(7)).unwrap();
        cache.release_idle();
        assert_eq!(cache.len(), 1);
        assert!(cache.get(2, Offset(7)).is_some());
    }
}
