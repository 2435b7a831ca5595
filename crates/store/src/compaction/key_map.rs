//! The first half of a pass: which offset is the newest of each key of the dirty part.

use mainstem_record::BatchView;
use mainstem_types::Offset;

use super::offset_map::OffsetMap;
use super::pass::{Pass, record_error};
use super::segment_reader::SegmentReader;
use super::transactions::Transactions;
use super::{CleaningControl, CompactError};
use crate::partition_log::SealedSegment;

/// Goes through the dirty part, `first_dirty..end`, until it ends or the map is full. Records of aborted transactions
/// count for nothing.
pub(super) fn build(
    pass: &Pass<'_>,
    dirty: &[SealedSegment],
    control: &mut dyn CleaningControl,
) -> Result<OffsetMap, CompactError> {
    let (from, end) = (pass.first_dirty, pass.end);
    // Offsets are dense at the most: there are no more keys than that.
    let keys = (end.0 - from.0).max(0) as u64;
    let seed = pass.log.env().rng.next_u64().unwrap_or(0);
    let mut map = OffsetMap::new(pass.limits.dedupe_bytes, pass.limits.load_factor, keys, seed);
    let mut transactions = Transactions::default();
    transactions.announce(pass.log.aborted_transactions(from, end).map_err(CompactError::of_read)?);
    let mut scratch = Vec::new();
    for segment in dirty {
        let position = match segment.base < from {
            true => pass.log.position_of(segment.base, from).map_err(CompactError::of_read)?,
            false => 0,
        };
        let mut reader = SegmentReader::open(pass.log, segment, position, pass.buffer_bytes())?;
        while let Some(batch) = reader.next(pass.log, control)? {
            let aborted = transactions.can_go(&batch).map_err(|error| record_error(pass, segment, &batch, error))?;
            if !aborted && !batch.header().attributes.is_control() {
                let whole = put_all(&batch, &mut map, from, &mut scratch);
                if !whole.map_err(|error| record_error(pass, segment, &batch, error))? {
                    return Ok(map);
                }
            }
            map.looked_at(batch.header().last_offset());
        }
        // Offsets that are missing at the end of the segment were looked at too.
        map.looked_at(Offset(segment.next.0 - 1));
    }
    Ok(map)
}

/// `false`: the map became full within the batch.
fn put_all(
    batch: &BatchView<'_>,
    map: &mut OffsetMap,
    from: Offset,
    scratch: &mut Vec<u8>,
) -> Result<bool, mainstem_record::RecordError> {
    for record in batch.records(scratch, super::batch_filter::DECOMPRESSED_BYTES_MAX)? {
        let record = record?;
        if let Some(key) = record.key
            && record.offset >= from
            && !map.put(key, record.offset)
        {
            return Ok(false);
        }
    }
    Ok(true)
}
