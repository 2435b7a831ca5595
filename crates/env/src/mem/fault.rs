//! Faults on demand.

use std::fmt;
use std::io;
use std::path::Path;

/// The kinds of calls that can be told to fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OpKind {
    Open,
    Read,
    Write,
    /// `sync_data` and `sync_all`.
    Sync,
    SetLen,
    /// `allocate_keep_size`.
    Allocate,
    Rename,
    /// Of a file, or of a directory with all that is in it.
    Remove,
    CreateDir,
    ReadDir,
    SyncDir,
    /// `metadata`, `len` and `free_space`.
    Metadata,
}

/// A call that will fail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// `None`: any kind.
    pub kind: Option<OpKind>,
    /// Only calls whose path contains this.
    pub path_contains: Option<String>,
    /// Which of the matching calls from now on, counted from 1.
    pub nth: u64,
    /// All later ones too.
    pub and_later: bool,
    pub action: FaultAction,
}

/// How a call fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultAction {
    /// EIO. A sync that fails so loses the bytes that were not synced.
    Io,
    /// ENOSPC.
    NoSpace,
    /// EMFILE. A directory that cannot be opened for its sync loses nothing.
    NoDescriptor,
    /// EINTR.
    Interrupted,
    /// A read or write does at most this many bytes (at least 1); other calls succeed.
    Short(usize),
}

impl Fault {
    /// The `nth` call (from 1) of any kind fails with EIO.
    pub fn any(nth: u64) -> Self {
        Fault { kind: None, path_contains: None, nth, and_later: false, action: FaultAction::Io }
    }

    /// The `nth` call (from 1) of this kind fails with EIO.
    pub fn of(kind: OpKind, nth: u64) -> Self {
        Fault { kind: Some(kind), ..Fault::any(nth) }
    }

    /// The same with another action.
    #[must_use]
    pub fn with(self, action: FaultAction) -> Self {
        Fault { action, ..self }
    }

    /// The same for paths that contain `text` alone.
    #[must_use]
    pub fn on(self, text: &str) -> Self {
        Fault { path_contains: Some(text.to_owned()), ..self }
    }

    /// The same for all later calls too.
    #[must_use]
    pub fn and_later(self) -> Self {
        Fault { and_later: true, ..self }
    }

    fn matches(&self, kind: OpKind, path: &Path) -> bool {
        self.kind.is_none_or(|wanted| wanted == kind)
            && self.path_contains.as_ref().is_none_or(|text| path.to_string_lossy().contains(text.as_str()))
    }
}

/// The error of every call after a stop.
#[derive(Debug)]
struct Stopped;

impl fmt::Display for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the in-memory file system was stopped by the test")
    }
}

impl std::error::Error for Stopped {}

/// Whether a call failed because of [`crate::MemFs::stop_after`].
pub fn is_stopped(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.is::<Stopped>())
}

/// The planned faults, and the calls so far.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) calls: u64,
    pub(super) mutations: u64,
    pub(super) stop_at: Option<u64>,
    pub(super) stopped: bool,
    pub(super) faults: Vec<Armed>,
    pub(super) faults_met: u64,
}

/// A fault, and how many matching calls it has seen.
#[derive(Debug)]
pub(super) struct Armed {
    fault: Fault,
    seen: u64,
}

impl Plan {
    pub(super) fn add(&mut self, fault: Fault) {
        self.faults.push(Armed { fault, seen: 0 });
    }

    /// Decides the fate of a call. `Some(n)`: it does at most n bytes.
    pub(super) fn gate(&mut self, kind: OpKind, mutates: bool, path: &Path) -> io::Result<Option<usize>> {
        self.calls += 1;
        self.stopped |= mutates && self.stop_at.is_some_and(|at| self.mutations >= at);
        if self.stopped {
            return Err(io::Error::other(Stopped));
        }
        self.mutations += u64::from(mutates);
        // Every fault counts the call, also after another one has decided it.
        let mut decided = None;
        for armed in self.faults.iter_mut().filter(|armed| armed.fault.matches(kind, path)) {
            armed.seen += 1;
            let meets = armed.seen == armed.fault.nth || (armed.fault.and_later && armed.seen > armed.fault.nth);
            if meets && decided.is_none() {
                decided = Some(armed.fault.action);
            }
        }
        self.faults_met += u64::from(decided.is_some());
        match decided {
            None => Ok(None),
            Some(FaultAction::Io) => Err(io::Error::from_raw_os_error(libc::EIO)),
            Some(FaultAction::NoSpace) => Err(io::Error::from_raw_os_error(libc::ENOSPC)),
            Some(FaultAction::NoDescriptor) => Err(io::Error::from_raw_os_error(libc::EMFILE)),
            Some(FaultAction::Interrupted) => Err(io::ErrorKind::Interrupted.into()),
            Some(FaultAction::Short(bytes)) => Ok(Some(bytes.max(1))),
        }
    }
}
