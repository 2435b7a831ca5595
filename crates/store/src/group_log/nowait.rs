//! Reading a file without waiting for the disk.

use std::io;

use mainstem_env::{File, Residency};

/// Reads what is in memory; fewer bytes than asked for only where the file ends. `None`: not all of it is in memory.
pub(super) fn read_nowait(file: &dyn File, buffer: &mut [u8], position: u64) -> io::Result<Option<usize>> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.try_read_at_nowait(&mut buffer[filled..], position + filled as u64)? {
            Some(0) => break,
            Some(count) => filled += count,
            // Not every file system reads without waiting, even where the system can tell what is in memory.
            None => match file.residency(position, buffer.len() as u64)? {
                Residency::Resident => return file.read_full_at(buffer, position).map(Some),
                Residency::Partial | Residency::Unknown => return Ok(None),
            },
        }
    }
    Ok(Some(filled))
}
