//! Fingerprints of records: they tell whether the destination has the record of the source.

use std::hash::{DefaultHasher, Hash, Hasher};

use mainstem_client::FetchedRecord;

/// Records with the same content have the same fingerprint. Others differ, except by a rare chance.
pub(super) fn fingerprint(record: &FetchedRecord, with_time: bool) -> u64 {
    let mut hasher = DefaultHasher::new();
    (&record.key, &record.value, &record.headers).hash(&mut hasher);
    with_time.then_some(record.timestamp.0).hash(&mut hasher);
    hasher.finish()
}
