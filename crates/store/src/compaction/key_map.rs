//! The first half of a pass: which offset is the newest of each key of the dirty part.

use mainstem_record::{BatchView, Codec};
use mainstem_types::Offset;

use super::batch_filter::DECOMPRESSED_BYTES_MAX;
use super::damaged::DamagedSegments;
use super::offset_map::OffsetMap;
use super::pass::{Pass, record_error};
use super::segment_reader::SegmentReader;
use super::transactions::Transactions;
use super::{CleaningControl, CompactError};
use crate::error::ReadError;
use crate::partition_log::SealedSegment;

/// Goes through the dirty part, `first_dirty..end`, until it ends or the map is full. Records of aborted transactions
/// count for nothing. Nor does a batch that cannot be read: its segment is noted, and what lies behind it counts.
pub(super) fn build(
    pass: &Pass<'_>,
    dirty: &[SealedSegment],
    damaged: &mut DamagedSegments,
    control: &mut dyn CleaningControl,
) -> Result<OffsetMap, CompactError> {
    let (from, end) = (pass.first_dirty, pass.end);
    // Offsets are dense at the most: there are no more keys than that.
    let keys = (end.0 - from.0).max(0) as u64;
    let seed = pass.log.env().rng.next_u64().unwrap_or(0);
    let map = OffsetMap::new(pass.limits.dedupe_bytes, pass.limits.load_factor, keys, seed);
    let mut transactions = Transactions::default();
    transactions.announce(pass.log.aborted_transactions(from, end).map_err(CompactError::of_read)?);
    let mut builder = Builder { pass, map, transactions, scratch: Vec::new() };
    for segment in dirty {
        let mut reader = SegmentReader::open(pass.log, segment, builder.start(segment)?, pass.buffer_bytes())?;
        loop {
            match builder.add_next(segment, &mut reader, control) {
                Ok(Added::Batch) => {}
                Ok(Added::Nothing) => break,
                Ok(Added::Full) => return Ok(builder.map),
                Err(error) => {
                    damaged.note(pass, std::slice::from_ref(segment), error)?;
                    if !reader.skip_damage(pass.log)? {
                        break;
                    }
                }
            }
        }
        // Offsets that are missing at the end of the segment were looked at too.
        builder.map.looked_at(Offset(segment.next.0 - 1));
    }
    Ok(builder.map)
}

enum Added {
    Batch,
    /// The segment ends.
    Nothing,
    /// The map became full within the batch.
    Full,
}

struct Builder<'a> {
    pass: &'a Pass<'a>,
    map: OffsetMap,
    transactions: Transactions,
    scratch: Vec<u8>,
}

impl Builder<'_> {
    /// Where the dirty part of a segment begins.
    fn start(&self, segment: &SealedSegment) -> Result<u64, CompactError> {
        if segment.base >= self.pass.first_dirty {
            return Ok(0);
        }
        match self.pass.log.position_of(segment.base, self.pass.first_dirty) {
            // What lies before the damage counts for nothing, and is passed again.
            Err(ReadError::Corrupt { .. }) => Ok(0),
            position => position.map_err(CompactError::of_read),
        }
    }

    fn add_next(
        &mut self,
        segment: &SealedSegment,
        reader: &mut SegmentReader,
        control: &mut dyn CleaningControl,
    ) -> Result<Added, CompactError> {
        let Some(batch) = reader.next(self.pass.log, control)? else { return Ok(Added::Nothing) };
        let failed = |error| record_error(self.pass, segment, &batch, error);
        let aborted = self.transactions.can_go(&batch).map_err(failed)?;
        if !aborted && !batch.header().attributes.is_control() {
            let whole = put_all(&batch, &mut self.map, self.pass.first_dirty, &mut self.scratch);
            if !whole.map_err(failed)? {
                return Ok(Added::Full);
            }
        }
        self.map.looked_at(batch.header().last_offset());
        Ok(Added::Batch)
    }
}

/// `false`: the map became full within the batch. An error: nothing of the batch is in the map.
fn put_all(
    batch: &BatchView<'_>,
    map: &mut OffsetMap,
    from: Offset,
    scratch: &mut Vec<u8>,
) -> Result<bool, mainstem_record::RecordError> {
    for record in batch.records(scratch, DECOMPRESSED_BYTES_MAX)? {
        record?;
    }
    // A codec that does not exist was refused above.
    let records = match batch.codec().unwrap_or(Codec::None) {
        Codec::None => batch.records_in(batch.payload()),
        _ => batch.records_in(scratch),
    };
    for record in records {
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
