//! The bytes of a file, and the bytes that a power cut would leave.

use mainstem_types::TimestampMs;

#[derive(Debug)]
pub(super) struct Contents {
    /// What readers see.
    pub(super) live: Vec<u8>,
    /// The bytes that are on the disk for certain.
    pub(super) durable: Vec<u8>,
    /// Changes that lead from `durable` to `live`, unless a failed sync lost some.
    pub(super) pending: Vec<Change>,
    pub(super) modified_ms: TimestampMs,
    /// Held through [`crate::File::try_lock`].
    pub(super) locked: bool,
}

#[derive(Debug, Clone)]
pub(super) enum Change {
    Write { position: usize, bytes: Vec<u8> },
    SetLen(usize),
}

impl Contents {
    pub(super) fn new(now: TimestampMs) -> Self {
        Contents { live: Vec::new(), durable: Vec::new(), pending: Vec::new(), modified_ms: now, locked: false }
    }

    /// A file that is wholly on the disk.
    pub(super) fn settled(bytes: Vec<u8>, modified_ms: TimestampMs) -> Self {
        Contents { durable: bytes.clone(), live: bytes, pending: Vec::new(), modified_ms, locked: false }
    }

    pub(super) fn write(&mut self, position: usize, bytes: Vec<u8>, now: TimestampMs) {
        self.change(Change::Write { position, bytes }, now);
    }

    pub(super) fn set_len(&mut self, len: usize, now: TimestampMs) {
        self.change(Change::SetLen(len), now);
    }

    fn change(&mut self, change: Change, now: TimestampMs) {
        change.apply(&mut self.live);
        self.pending.push(change);
        self.modified_ms = now;
    }

    pub(super) fn sync(&mut self) {
        for change in self.pending.drain(..) {
            change.apply(&mut self.durable);
        }
    }

    /// Linux marks pages clean when their write fails: readers go on seeing them, and no later sync writes them.
    pub(super) fn lose_pending(&mut self) {
        self.pending.clear();
    }
}

impl Change {
    pub(super) fn apply(&self, bytes: &mut Vec<u8>) {
        match self {
            Change::Write { position, bytes: written } => {
                let end = position + written.len();
                if bytes.len() < end {
                    bytes.resize(end, 0);
                }
                bytes[*position..end].copy_from_slice(written);
            }
            // Zeros that the allocator has take no memory until they are written: a large file with holes.
            Change::SetLen(len) if bytes.is_empty() => *bytes = vec![0; *len],
            Change::SetLen(len) => bytes.resize(*len, 0),
        }
    }
}
