//! A little space of the disk that is the broker's own: a start writes a few records, and must be able to when somebody
//! else took the rest.

use std::io;
use std::path::Path;

use mainstem_env::{Fs, OpenOptions};

use super::DataFolder;

/// Empty, with space that no other program gets.
pub(super) const FILE_NAME: &str = ".reserve";
const BYTES: u64 = 1 << 20;

/// Gives the space back to the file system if that has next to none left.
pub(super) fn release_if_needed(fs: &dyn Fs, folder: &Path) {
    if fs.free_space(folder).is_ok_and(|free| free >= BYTES) {
        return;
    }
    match fs.remove_file(&folder.join(FILE_NAME)) {
        Ok(()) => tracing::warn!("the disk of {} is full: the start uses its last {BYTES} bytes", folder.display()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => tracing::warn!("cannot remove {FILE_NAME} of {}: {error}", folder.display()),
    }
}

impl DataFolder {
    /// Takes some space for the next start, unless it is taken or scarce.
    pub fn keep_reserve(&self) {
        let (fs, path) = (self.env.fs.as_ref(), self.path.join(FILE_NAME));
        let take = || {
            if !fs.exists(&path)? && fs.free_space(&self.path)? >= 4 * BYTES {
                let file = fs.open(&path, &OpenOptions::create())?;
                // The next look would take a file without its space for one that has it.
                file.allocate_keep_size(0, BYTES).or_else(|error| fs.remove_file(&path).and(Err(error)))?;
            }
            io::Result::Ok(())
        };
        if let Err(error) = take() {
            tracing::debug!("no space is reserved: {error}");
        }
    }
}
