//! The last bytes of a disk are not for clients: below `mainstem.disk.reserve` what they produce is refused, save what is stored already.
//!
//! Reads, deletions, groups and administration go on, and need a little space to do so. The disk is looked at about once a
//! second, so what is written in between may take some of the reserve; a disk that is full all the same refuses each write by itself.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::state::State;

/// The most that is kept free if nobody says how much.
const RESERVE_BYTES_MAX: u64 = 1 << 30;

/// Whether there is too little space for clients' writes. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Space {
    short: Arc<AtomicBool>,
}

impl Space {
    pub fn is_short(&self) -> bool {
        self.short.load(Ordering::Relaxed)
    }

    /// Judges what is free. Once it was too little, a tenth more than the reserve has to be free again, so that it does not
    /// change every second.
    fn judge(&self, free: u64, reserve: u64) {
        let short = self.is_short();
        let enough = if short { reserve.saturating_add(reserve / 10) } else { reserve };
        if (free < enough) == short {
            return;
        }
        self.short.store(!short, Ordering::Relaxed);
        if short {
            tracing::info!("{free} bytes are free on the disk: records are taken again");
        } else {
            tracing::error!(
                "{free} bytes are free on the disk, less than mainstem.disk.reserve={reserve}: no records are taken from \
                 producers until there is more; delete topics or records, shorten retention, or enlarge the disk"
            );
        }
    }
}

/// Looks at the disk. One that cannot be asked stays as it was.
pub(crate) fn look(state: &State) -> io::Result<()> {
    let reserve = match u64::try_from(state.config.load().log.disk_reserve_bytes) {
        Ok(bytes) => bytes,
        Err(_) => suggested_reserve(state.folder.total_space()?),
    };
    state.space.judge(state.folder.free_space()?, reserve);
    Ok(())
}

fn suggested_reserve(total: u64) -> u64 {
    (total / 20).min(RESERVE_BYTES_MAX)
}

#[cfg(test)]
#[path = "space_tests.rs"]
mod tests;
