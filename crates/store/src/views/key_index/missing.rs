//! Adds the keys that were left out while the disk was full.

use std::io;

use mainstem_env::Fs;
use parking_lot::MutexGuard;

use super::{KeyIndex, NewKey};

/// Adds the missing keys; one at a time does.
pub(crate) struct CatchUp<'i> {
    index: &'i KeyIndex,
    keys: Vec<NewKey>,
    _alone: MutexGuard<'i, ()>,
}

impl KeyIndex {
    /// From which position on keys are missing.
    pub(crate) fn missing_from(&self) -> Option<u64> {
        self.waiting.lock().missing_from()
    }

    #[cfg(test)]
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.lock().len()
    }

    /// Begins to add missing keys. Waiting keys are older, and are written first.
    pub(crate) fn catch_up(&self, fs: &dyn Fs) -> io::Result<CatchUp<'_>> {
        let alone = self.catching_up.lock();
        self.write(fs)?;
        Ok(CatchUp { index: self, keys: Vec::new(), _alone: alone })
    }
}

impl CatchUp<'_> {
    pub(crate) fn missing_from(&self) -> Option<u64> {
        self.index.missing_from()
    }

    /// The keys of the next record.
    pub(crate) fn add(&mut self, fs: &dyn Fs, hashes: &[u32], position: u64, time_ms: i64) -> io::Result<()> {
        self.keys.extend(hashes.iter().map(|hash| NewKey { hash: *hash, position, time_ms }));
        if self.keys.len() < super::waiting::DUE {
            return Ok(());
        }
        self.write(fs)?;
        // The record has been added as a whole.
        self.index.waiting.lock().found_before(position + 1);
        Ok(())
    }

    fn write(&mut self, fs: &dyn Fs) -> io::Result<()> {
        let written = self.index.write_all(fs, &mut self.index.state.lock(), &self.keys);
        // The next attempt finds the rest again.
        self.keys.clear();
        written.map_err(|(_, error)| error)
    }

    /// All records before `end` were added.
    pub(crate) fn finish_before(&mut self, fs: &dyn Fs, end: u64) -> io::Result<()> {
        self.write(fs)?;
        self.index.waiting.lock().found_before(end);
        Ok(())
    }
}
