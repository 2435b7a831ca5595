//! Removing files little by little: each may take long, and there may be thousands.

use std::io;
use std::path::Path;

use mainstem_env::Fs;

/// Which files are removed, and for how long the removal may run.
#[derive(Clone, Copy)]
pub struct Removal<'a> {
    /// Files whose delay (`file.delete.delay.ms`) is not over, too: their space is needed.
    pub everything: bool,
    /// Asked before each file. Files that are left go later, at the latest after the next start.
    pub go_on: &'a dyn Fn() -> bool,
}

impl Removal<'static> {
    /// Everything whose delay is over.
    pub fn due() -> Self {
        Removal { everything: false, go_on: &|| true }
    }
}

impl std::fmt::Debug for Removal<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Removal").field("everything", &self.everything).finish_non_exhaustive()
    }
}

/// How far the removal of a folder came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FolderRemoval {
    Removed,
    /// It was not there.
    Absent,
    /// It was told not to go on: the rest is still there.
    Stopped,
}

/// Removes a folder with all that is in it, one file after the other. A link to a folder is followed: its space is what
/// is to be freed.
pub(crate) fn remove_folder(fs: &dyn Fs, path: &Path, go_on: &dyn Fn() -> bool) -> io::Result<FolderRemoval> {
    let entries = match fs.read_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(FolderRemoval::Absent),
        entries => entries?,
    };
    for entry in entries {
        let entry_path = path.join(&entry.name);
        if entry.is_dir {
            if remove_folder(fs, &entry_path, go_on)? == FolderRemoval::Stopped {
                return Ok(FolderRemoval::Stopped);
            }
            continue;
        }
        if !go_on() {
            return Ok(FolderRemoval::Stopped);
        }
        fs.remove_file(&entry_path)?;
    }
    if !go_on() {
        return Ok(FolderRemoval::Stopped);
    }
    fs.remove_dir_all(path).map(|()| FolderRemoval::Removed)
}
