//! The persisted structures, one a file: layout constants, encode, decode, and a property test.
//!
//! Nothing here does IO. Every decoder takes arbitrary bytes, never panics, and never allocates more than a small
//! multiple of the bytes it was given. The byte tables are drawn in `docs/formats/`.

pub mod checkpoint;
pub mod clean_shutdown;
pub mod commit_log_entry;
pub mod epoch_checkpoint;
pub mod group_checkpoint;
pub mod group_log_starts;
pub mod key_index;
pub mod key_index_state;
pub mod lock;
pub mod meta_properties;
pub mod names;
pub mod offset_checkpoint;
pub mod offset_index;
pub mod partition_metadata;
pub mod producer_snapshot;
pub mod queue_entry;
pub mod quorum_state;
pub mod time_index;
pub mod transaction_index;

/// Why bytes are not the structure they should be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    #[error("{what} ends after {length} bytes, at least {needed} are needed")]
    TooShort { what: &'static str, length: usize, needed: usize },
    #[error("{what} has {extra} bytes after its end")]
    Trailing { what: &'static str, extra: usize },
    #[error("{what} has version {found}; this program reads version {supported}")]
    Version { what: &'static str, found: i64, supported: i64 },
    #[error("{what} has checksum {stored:08x}, but its bytes have {computed:08x}")]
    Checksum { what: &'static str, stored: u32, computed: u32 },
    #[error("{what} says that it has {stated} entries, but has {found}")]
    Count { what: &'static str, stated: i64, found: usize },
    #[error("{what}, line {line}: {expected} expected, found {found:?}")]
    Line { what: &'static str, line: usize, expected: &'static str, found: String },
    #[error("{what} has no key {key}")]
    MissingKey { what: &'static str, key: &'static str },
    #[error("{what}: entry {entry} is not above the one before it")]
    Order { what: &'static str, entry: usize },
    #[error("{what} is not UTF-8 text")]
    NotText { what: &'static str },
    #[error("{what} is not valid JSON of its kind (line {line}, column {column})")]
    Json { what: &'static str, line: usize, column: usize },
}

/// The `N` bytes at `at`, for `from_be_bytes`.
pub(crate) fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk::<N>().copied()
}

pub(crate) fn text<'a>(what: &'static str, bytes: &'a [u8]) -> Result<&'a str, FormatError> {
    std::str::from_utf8(bytes).map_err(|_| FormatError::NotText { what })
}

/// A parse error of line `line` (from 1). The found text is bounded, so that a damaged file cannot fill a log line.
pub(crate) fn line_error(what: &'static str, line: usize, expected: &'static str, found: &str) -> FormatError {
    FormatError::Line { what, line, expected, found: found.chars().take(120).collect() }
}
