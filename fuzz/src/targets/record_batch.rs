//! Record batches in a row: validated, iterated, recompressed. The checksum is made right first, so that damage under
//! it is looked at too.

use mainstem_record::{
    BatchView, Batches, Codec, Origin, Stamp, StampTimestamp, ValidationRules, recompress, stamp_in_place,
    stamped_header, validate,
};
use mainstem_types::{LeaderEpoch, Offset, TimestampMs};

const DECOMPRESSED_SIZE_MAX: usize = 1 << 20;

pub fn run(data: &[u8]) {
    for batch in Batches::new(data) {
        let Ok(batch) = batch else { return };
        let header = batch.header().with_crc_over(batch.payload()).write();
        let repaired = [&header[..], batch.payload()].concat();
        if let Ok(batch) = BatchView::parse(&repaired) {
            check(&batch);
        }
    }
}

fn check(batch: &BatchView<'_>) {
    assert!(batch.crc_is_valid());
    let rules = ValidationRules {
        origin: Origin::Broker,
        timestamp_after_max_ms: i64::MAX,
        decompressed_size_max: DECOMPRESSED_SIZE_MAX,
        ..ValidationRules::new(TimestampMs(0))
    };
    let validated = validate(batch, &rules);
    let mut scratch = Vec::new();
    let read = batch.records(&mut scratch, DECOMPRESSED_SIZE_MAX).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    // Walking and iterating are two ways over the same bytes.
    match (&validated, &read) {
        (Ok(_), Ok(records)) => assert_eq!(records.len(), batch.header().record_count.max(0) as usize),
        (Ok(_), Err(error)) => panic!("validated, and cannot be read: {error}"), // reason: the target looks for this.
        (Err(_), _) => return,
    }
    stamp(batch);
    let Ok(changed) = recompress(batch, Codec::Lz4, None, DECOMPRESSED_SIZE_MAX) else { return };
    // reason: the target looks for this.
    let changed = BatchView::parse(&changed).expect("what was recompressed is a batch");
    assert!(changed.crc_is_valid());
    let mut scratch = Vec::new();
    let again = changed.records(&mut scratch, DECOMPRESSED_SIZE_MAX).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    assert_eq!(read, again);
}

fn stamp(batch: &BatchView<'_>) {
    let timestamp = StampTimestamp::LogAppendTime(TimestampMs(5));
    let stamp = Stamp { base_offset: Offset(7), leader_epoch: LeaderEpoch(1), timestamp };
    let mut bytes = batch.as_bytes().to_vec();
    let header = stamp_in_place(&mut bytes, &stamp);
    assert_eq!(header.map(|header| header.write()), Ok(stamped_header(batch, &stamp)));
    assert!(BatchView::parse(&bytes).is_ok_and(|stamped| stamped.crc_is_valid()));
}
