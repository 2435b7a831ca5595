//! Files that left the log and are removed later.

use std::path::PathBuf;
use std::time::Duration;

/// Index files of deleted segments. The journal keeps the segments' own files; both go at the same time.
#[derive(Debug, Default)]
pub(crate) struct DeletedFiles {
    files: Vec<PathBuf>,
    /// When the first of them may go; `None`: nothing waits, here or in the journal.
    due: Option<Duration>,
}

impl DeletedFiles {
    /// They may go at `due`, or with what waits already.
    pub(super) fn add(&mut self, mut files: Vec<PathBuf>, due: Duration) {
        self.files.append(&mut files);
        self.due.get_or_insert(due);
    }

    /// Whether a waiting file may go at `now`. `everything`: without regard to its time.
    pub(super) fn may_go(&self, now: Duration, everything: bool) -> bool {
        self.due.is_some_and(|due| everything || due <= now)
    }

    /// The next one to remove. `None`: there is none, and nothing waits any more.
    pub(super) fn pop(&mut self) -> Option<PathBuf> {
        let file = self.files.pop();
        if file.is_none() {
            self.due = None;
        }
        file
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_goes_together_when_the_first_of_it_is_due() {
        let seconds = Duration::from_secs;
        let mut deleted = DeletedFiles::default();
        assert!(!deleted.may_go(seconds(99), true), "nothing waits");
        deleted.add(vec!["a".into()], seconds(10));
        deleted.add(vec!["b".into()], seconds(20));
        assert!(!deleted.may_go(seconds(9), false) && deleted.may_go(seconds(9), true));
        assert!(deleted.may_go(seconds(10), false));
        assert_eq!([deleted.pop(), deleted.pop()].map(Option::unwrap), ["b", "a"].map(PathBuf::from));
        assert!(deleted.may_go(seconds(10), false), "the journal's files may wait still");
        assert_eq!(deleted.pop(), None);
        assert!(!deleted.may_go(seconds(99), true));
    }
}
