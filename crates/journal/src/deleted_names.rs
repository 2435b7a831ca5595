//! The names of files that wait to be unlinked.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The end of the name of a file that waits to be unlinked.
pub(crate) const DELETED_SUFFIX: &str = ".deleted";

pub(crate) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    PathBuf::from(name)
}
