//! Scratch windows that each thread keeps, so that decompressing a batch allocates nothing once warm.

use std::cell::RefCell;

const KEPT_BUFFERS_MAX: usize = 4;
const KEPT_BYTES_MAX: usize = 256 * 1024;

thread_local! {
    static BUFFERS: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// A zeroed-or-stale byte buffer; goes back to its thread when dropped, unless it grew large.
pub(crate) struct Buffer(Vec<u8>);

impl Buffer {
    pub(crate) fn take() -> Self {
        Buffer(BUFFERS.with_borrow_mut(Vec::pop).unwrap_or_default())
    }

    /// At least `size` bytes to write into. What they hold is left over from earlier use.
    pub(crate) fn at_least(&mut self, size: usize) -> &mut [u8] {
        if self.0.len() < size {
            self.0.resize(size, 0);
        }
        &mut self.0
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if self.0.capacity() <= KEPT_BYTES_MAX {
            let buffer = std::mem::take(&mut self.0);
            // Fails only while the thread ends; then the buffer just goes.
            let _ = BUFFERS.try_with(|kept| {
                let mut kept = kept.borrow_mut();
                if kept.len() < KEPT_BUFFERS_MAX {
                    kept.push(buffer);
                }
            });
        }
    }
}
