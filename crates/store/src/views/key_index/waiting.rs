//! Keys on their way into the files, and keys that are left out while the files take none.

use super::NewKey;

/// With so many an append writes them. Tests come to the limits with little data.
pub(super) const DUE: usize = if cfg!(test) { 48 } else { 65_536 };
/// What comes when so many wait, and writing them failed, is left out.
const WAITING_MAX: usize = 4 * DUE;
/// The same for keys that wait until another thread has created a file, or has written.
const PUT_OFF_MAX: usize = 16 * DUE;

#[derive(Debug, Default)]
pub(super) struct Waiting {
    keys: Vec<NewKey>,
    /// With so many, if more than [`DUE`], somebody should write: that was put off or failed, and not every append is
    /// to try again.
    due: usize,
    /// The last write failed.
    failed: bool,
    missing: Option<Missing>,
}

/// Keys that were left out.
#[derive(Debug, Clone, Copy)]
struct Missing {
    /// All keys of records before are in the index, or wait.
    from: u64,
    /// The last record that was left out.
    last: u64,
}

impl Waiting {
    /// `true`: it is time to write.
    pub(super) fn add(&mut self, hashes: &[u32], position: u64, time_ms: i64) -> bool {
        if let Some(missing) = &mut self.missing {
            missing.from = missing.from.min(position);
            missing.last = missing.last.max(position);
            return false;
        }
        let keys_max = if self.failed { WAITING_MAX } else { PUT_OFF_MAX };
        if self.due > DUE && self.keys.len() >= keys_max {
            self.missing = Some(Missing { from: position, last: position });
            let reason = if self.failed { "the disk is full" } else { "the disk is slow" };
            tracing::warn!("{reason}: the key index lacks records from position {position} on");
            return false;
        }
        self.keys.extend(hashes.iter().map(|hash| NewKey { hash: *hash, position, time_ms }));
        self.keys.len() >= self.due.max(DUE)
    }

    pub(super) fn take(&mut self) -> Vec<NewKey> {
        std::mem::take(&mut self.keys)
    }

    /// The taken keys are in the files.
    pub(super) fn written(&mut self) {
        self.due = DUE;
        self.failed = false;
    }

    /// Keys that could not be written, ahead of those that came meanwhile.
    pub(super) fn put_back(&mut self, keys: &[NewKey]) {
        self.put_off(keys);
        self.failed = true;
    }

    /// Keys that are left to another thread, ahead of those that came meanwhile.
    pub(super) fn put_off(&mut self, keys: &[NewKey]) {
        self.keys.splice(0..0, keys.iter().copied());
        self.due = self.keys.len() + DUE;
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    /// The positions of a hash.
    pub(super) fn newest_first(&self, hash: u32) -> Vec<u64> {
        self.keys.iter().rev().filter(|key| key.hash == hash).map(|key| key.position).collect()
    }

    pub(super) fn missing_from(&self) -> Option<u64> {
        self.missing.map(|missing| missing.from)
    }

    /// All keys before `end` are in the files. Keys that were left out behind it stay missing.
    pub(super) fn found_before(&mut self, end: u64) {
        self.missing =
            self.missing.filter(|missing| missing.last >= end).map(|missing| Missing { from: end, ..missing });
    }
}
