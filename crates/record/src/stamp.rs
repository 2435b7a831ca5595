//! The fields that the broker writes into a batch on its way into the log: base offset, leader epoch, sometimes times.

use mainstem_types::{LeaderEpoch, Offset, TimestampMs};

use crate::header::{BatchHeader, HEADER_SIZE, TimestampType};
use crate::peek::FramingError;
use crate::view::BatchView;

/// What to stamp into a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    pub base_offset: Offset,
    pub leader_epoch: LeaderEpoch,
    pub timestamp: StampTimestamp,
}

/// What to do with `max_timestamp` and the timestamp type, which the checksum covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StampTimestamp {
    /// Leave both; the checksum stays as it is.
    Keep,
    /// The producer's times count, and this is the largest of them ([`crate::Validated::max_timestamp`]). When the
    /// batch says so already, nothing changes.
    CreateTime(TimestampMs),
    /// The broker's time counts, for every record.
    LogAppendTime(TimestampMs),
}

/// A copy of the header with the stamp in it and the right checksum. The payload is read only when the checksum
/// changes.
///
/// Appending is then one vectored write of this and [`BatchView::payload`].
pub fn stamped_header(view: &BatchView<'_>, stamp: &Stamp) -> [u8; HEADER_SIZE] {
    stamped(view, stamp).write()
}

/// As [`stamped_header`], not yet in bytes.
pub fn stamped(view: &BatchView<'_>, stamp: &Stamp) -> BatchHeader {
    let mut header = *view.header();
    let crc_changes = apply(&mut header, stamp);
    if crc_changes { header.with_crc_over(view.payload()) } else { header }
}

/// Stamps the batch at the head of `bytes` where it stands; gives the header as it is now.
pub fn stamp_in_place(bytes: &mut [u8], stamp: &Stamp) -> Result<BatchHeader, FramingError> {
    let stamped = stamped(&BatchView::parse(bytes)?, stamp);
    bytes[..HEADER_SIZE].copy_from_slice(&stamped.write());
    Ok(stamped)
}

/// Changes the fields; says whether a field under the checksum changed.
fn apply(header: &mut BatchHeader, stamp: &Stamp) -> bool {
    header.base_offset = stamp.base_offset;
    header.leader_epoch = stamp.leader_epoch;
    let (kind, time) = match stamp.timestamp {
        StampTimestamp::Keep => return false,
        StampTimestamp::CreateTime(time) => (TimestampType::CreateTime, time),
        StampTimestamp::LogAppendTime(time) => (TimestampType::LogAppendTime, time),
    };
    let before = (header.attributes, header.max_timestamp);
    header.attributes = header.attributes.with_timestamp_type(kind);
    header.max_timestamp = time;
    before != (header.attributes, header.max_timestamp)
}
