//! How slices of log files are divided for sending, and why sending fails.

use std::io;

/// Slices up to this length are read into the output; for them, sendfile costs more than the copy.
pub(super) const READ_SLICE_BYTES_MAX: u64 = 32 << 10;
/// The part of a slice that is checked, read ahead and sent as one.
pub(super) const PIECE_BYTES: u64 = 1 << 20;

/// Why a reply could not be sent.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SendError {
    #[error("the client has left: {0}")]
    Socket(io::Error),
    #[error("cannot read a log file at {position}: {error}")]
    File { position: u64, error: io::Error },
    #[error("a log file ends before {position}, in the middle of a reply")]
    FileTooShort { position: u64 },
}
