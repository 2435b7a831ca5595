//! Checksums of batches made right, so that the damage under them is looked at too.

use mainstem_record::{BatchView, HEADER_SIZE};

/// Repairs the checksums of all whole batches at the front of `bytes`.
pub fn repair(bytes: &mut [u8]) {
    let mut at = 0;
    while let Ok(batch) = BatchView::parse(&bytes[at..]) {
        let size = batch.size_in_bytes();
        let header = batch.header().with_crc_over(batch.payload()).write();
        bytes[at..at + HEADER_SIZE].copy_from_slice(&header);
        at += size;
    }
}
