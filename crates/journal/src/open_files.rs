//! How many segment files are open at the same time.
//!
//! A list has every opened segment, in the order of opening. When the list is longer than the limit, the files at its
//! front are closed, except those that were used since the list last came to them (second chance). A caller that needs
//! a closed file opens it again.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use crate::segment::Segment;

/// The open segment files of all journals of a host.
#[derive(Debug)]
pub struct OpenFiles {
    limit: AtomicUsize,
    list: Mutex<VecDeque<Weak<Segment>>>,
}

impl Default for OpenFiles {
    /// No limit.
    fn default() -> Self {
        OpenFiles { limit: AtomicUsize::new(usize::MAX), list: Mutex::default() }
    }
}

impl OpenFiles {
    /// From the next opening on at most `files` stay open, beside those that readers hold at this moment.
    pub fn set_limit(&self, files: usize) {
        self.limit.store(files.max(1), Ordering::Relaxed);
    }

    pub(crate) fn add(&self, segment: &Arc<Segment>) {
        self.list.lock().push_back(Arc::downgrade(segment));
        let limit = self.limit.load(Ordering::Relaxed);
        // Each turn shortens the list, or takes the sign of use from a file: twice round is enough.
        for _ in 0..2 * limit.saturating_add(1).min(1 << 20) {
            let first = {
                let mut list = self.list.lock();
                if list.len() <= limit {
                    return;
                }
                list.pop_front()
            };
            // The list is not locked while a file is: others open files meanwhile.
            let Some(used) = first.as_ref().and_then(Weak::upgrade) else { continue };
            if !used.close_if_unused() {
                self.list.lock().push_back(Arc::downgrade(&used));
            }
        }
    }

    /// Closes the files that were not used since the last call.
    pub fn release_idle(&self) {
        let listed = self.list.lock().len();
        for _ in 0..listed {
            let Some(first) = self.list.lock().pop_front() else { return };
            let Some(segment) = first.upgrade() else { continue };
            if !segment.close_if_unused() {
                self.list.lock().push_back(first);
            }
        }
        let mut list = self.list.lock();
        if list.len() * 4 < list.capacity() {
            list.shrink_to_fit();
        }
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.list.lock().len()
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use mainstem_env::{Fs, MemFs, OpenOptions, RealClock};

    use super::*;
    use crate::{JournalHost, SegmentBase};

    #[test]
    fn past_the_limit_the_file_that_was_not_used_is_closed() {
        let fs = Arc::new(MemFs::new());
        let host = JournalHost::new(fs.clone(), Arc::new(RealClock::new()), 0);
        host.open_files.set_limit(3);
        let path = |number: u64| PathBuf::from(format!("/{number}"));
        let segments: Vec<_> = (0..20)
            .map(|number| {
                fs.open(&path(number), &OpenOptions::create()).unwrap();
                Arc::new(Segment::found(SegmentBase(number)))
            })
            .collect();
        for round in 0..3 {
            for segment in &segments {
                segment.file(&host, || path(segment.base.0)).unwrap();
                segments[0].file(&host, || path(0)).unwrap();
                let open = segments.iter().filter(|segment| segment.is_open()).count();
                assert!(open <= 3, "{open} files are open in round {round}");
                assert!(host.open_files.len() <= 3);
            }
        }
        assert!(segments[0].is_open(), "it was used all the time");
    }

    #[test]
    fn segments_that_are_gone_leave_the_list() {
        let fs = Arc::new(MemFs::new());
        let host = JournalHost::new(fs.clone(), Arc::new(RealClock::new()), 0);
        host.open_files.set_limit(3);
        fs.open(&PathBuf::from("/f"), &OpenOptions::create()).unwrap();
        for number in 0..100 {
            let segment = Arc::new(Segment::found(SegmentBase(number)));
            segment.file(&host, || PathBuf::from("/f")).unwrap();
        }
        assert!(host.open_files.len() <= 3);
    }
}
