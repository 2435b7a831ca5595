//! Small files: read as one of four outcomes, replaced as a whole.

use crate::error::OpenError;
use crate::formats::FormatError;
use mainstem_env::Fs;
use std::path::Path;

/// What a small file held. "Cannot be read" is an error beside it, never one of these.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Loaded<T> {
    Absent,
    /// Present, with no byte in it.
    Empty,
    Damaged(FormatError),
    Content(T),
}

impl<T> Loaded<T> {
    pub fn content(self) -> Option<T> {
        match self {
            Loaded::Content(content) => Some(content),
            _ => None,
        }
    }

    /// The content, or nothing if the file is absent; empty and damaged files are errors.
    pub fn required(self, path: &Path) -> Result<Option<T>, OpenError> {
        match self {
            Loaded::Absent => Ok(None),
            Loaded::Content(content) => Ok(Some(content)),
            Loaded::Empty => Err(OpenError::Empty { path: path.to_owned() }),
            Loaded::Damaged(FormatError::Version { found, supported, .. }) if found > supported => {
                Err(OpenError::Newer { path: path.to_owned(), found, supported })
            }
            Loaded::Damaged(FormatError::Version { found, .. }) => {
                Err(OpenError::Older { path: path.to_owned(), found })
            }
            Loaded::Damaged(error) => Err(OpenError::Format { path: path.to_owned(), error }),
        }
    }
}

pub(crate) fn load<T>(
    fs: &dyn Fs,
    path: &Path,
    decode: impl FnOnce(&[u8]) -> Result<T, FormatError>,
) -> Result<Loaded<T>, OpenError> {
    let bytes = fs.read_if_present(path).map_err(|error| OpenError::Io { path: path.to_owned(), error })?;
    Ok(match bytes {
        None => Loaded::Absent,
        Some(bytes) if bytes.is_empty() => Loaded::Empty,
        Some(bytes) => decode(&bytes).map_or_else(Loaded::Damaged, Loaded::Content),
    })
}
