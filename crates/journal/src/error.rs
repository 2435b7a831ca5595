//! One error for each operation, built from few facts.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use crate::{Location, SegmentBase};

/// The error that ended a journal. The journal keeps it, and gives it to all later appends and flushes.
#[derive(Debug, thiserror::Error)]
#[error("journal {}: {operation} failed at segment {segment}: {source}; the journal writes nothing more until a restart checks its files", dir.display())]
pub struct JournalFailure {
    pub dir: PathBuf,
    pub segment: SegmentBase,
    /// The action that failed: "write", "sync", …
    pub operation: &'static str,
    pub source: io::Error,
}

/// Why a journal cannot be opened. Nothing was deleted; what recovery did before the error is repeated at the next try.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("journal {}: cannot read the directory: {source}", dir.display())]
    Directory { dir: PathBuf, source: io::Error },
    #[error("cannot read journal file {}: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("cannot repair journal file {} ({operation}): {source}", path.display())]
    Repair { path: PathBuf, operation: &'static str, source: io::Error },
    /// [`crate::JournalHost::set_stop`]. What was checked and repaired so far stays so.
    #[error("journal {}: the recovery was told to stop", dir.display())]
    Stopped { dir: PathBuf },
}

/// Why an append was refused. Nothing of the entry will be seen by a reader.
#[derive(Debug, Clone, thiserror::Error)]
pub enum AppendError {
    #[error("{0}")]
    Failed(Arc<JournalFailure>),
    #[error("journal {}: no space left for {bytes} bytes; free space, then write again", dir.display())]
    DiskFull { dir: PathBuf, bytes: u64 },
    #[error("journal {}: it has no segment yet; roll before the first append", dir.display())]
    NoSegment { dir: PathBuf },
    #[error("journal {}: it is closed", dir.display())]
    Closed { dir: PathBuf },
    #[error("cannot open journal file {}: {source}", path.display())]
    Open { path: PathBuf, source: Arc<io::Error> },
}

/// Why no new segment was begun. The old one goes on.
#[derive(Debug, Clone, thiserror::Error)]
pub enum RollError {
    #[error("{0}")]
    Failed(Arc<JournalFailure>),
    #[error("journal {}: segment {base} cannot follow segment {active}", dir.display())]
    NotAfter { dir: PathBuf, base: SegmentBase, active: SegmentBase },
    #[error("journal {}: it is closed", dir.display())]
    Closed { dir: PathBuf },
    #[error("journal file {} exists, but is not a segment of the journal; move it away", path.display())]
    Occupied { path: PathBuf },
    #[error("cannot create journal file {}: {source}", path.display())]
    Create { path: PathBuf, source: Arc<io::Error> },
    #[error("journal file {}: bytes that are only in memory must be written before a new segment begins, but: {source}", path.display())]
    WriteOut { path: PathBuf, source: Arc<io::Error> },
}

/// Why bytes cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error("journal {}: there is no segment {segment}; it was deleted or never existed", dir.display())]
    NoSegment { dir: PathBuf, segment: SegmentBase },
    #[error("journal {}: {location} is past the end of its segment at {len}", dir.display())]
    PastEnd { dir: PathBuf, location: Location, len: u64 },
    #[error("cannot read journal file {}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
}

/// Why a scan ended early.
pub type ScanError = ReadError;

/// Why segments were not deleted. Those that were not renamed yet are still part of the journal.
#[derive(Debug, thiserror::Error)]
pub enum DeleteError {
    #[error("cannot rename journal file {} for deletion: {source}", path.display())]
    Rename { path: PathBuf, source: io::Error },
    /// No file descriptor is left. The renamed segment is no part of the journal any more, but a crash may bring it
    /// back.
    #[error("cannot open directory {} to sync it: {source}; the next deletion tries again", path.display())]
    Sync { path: PathBuf, source: io::Error },
    #[error("{0}")]
    Failed(Arc<JournalFailure>),
    #[error("cannot remove journal file {}: {source}", path.display())]
    Remove { path: PathBuf, source: io::Error },
}

/// Why a journal was not cut.
#[derive(Debug, thiserror::Error)]
pub enum TruncateError {
    #[error("{0}")]
    Failed(Arc<JournalFailure>),
    #[error("{0}")]
    Read(#[from] ReadError),
    #[error("journal {}: it is closed", dir.display())]
    Closed { dir: PathBuf },
}

/// Why segments were not replaced. Nothing has changed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ReplaceError {
    #[error("journal {}: it has no segments from {first} up to {next} to replace", dir.display())]
    NotThere { dir: PathBuf, first: SegmentBase, next: SegmentBase },
}

/// Why a flush made nothing durable.
#[derive(Debug, Clone, thiserror::Error)]
pub enum FlushError {
    #[error("{0}")]
    Failed(#[from] Arc<JournalFailure>),
    /// No file descriptor is left. The journal goes on, and the next flush covers what this one did not.
    #[error("cannot open {} to sync it: {source}; the next flush tries again", path.display())]
    Open { path: PathBuf, source: Arc<io::Error> },
}

/// Why a journal was not closed cleanly: treat it as after a crash.
#[derive(Debug, Clone, thiserror::Error)]
pub enum CloseError {
    #[error("{0}")]
    Failed(#[from] Arc<JournalFailure>),
    #[error("{0}")]
    Flush(#[from] FlushError),
}
