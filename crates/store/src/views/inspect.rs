//! The tags and keys of the records of a batch, for the views.

use mainstem_record::{BatchView, Record};

use crate::config::KeyIndexing;
use crate::formats::key_index::{continue_hash, stored_hash};

/// Bytes of a batch, decompressed, that are looked through: they are all in memory meanwhile.
pub(crate) const INSPECTED_BYTES_MAX: usize = 64 << 20;

/// The record headers under which RocketMQ's properties are kept.
pub(crate) const TAGS: &str = "TAGS";
pub(crate) const KEYS: &str = "KEYS";
pub(crate) const UNIQUE_KEY: &str = "UNIQ_KEY";

/// The parts of a batch that the views take.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Inspected {
    /// The hash of each record's tag; `None` when no record has one.
    pub(crate) tags: Option<Box<[i64]>>,
    /// The hashes of all keys, `topic#key`.
    pub(crate) keys: Vec<u32>,
}

/// What stands before a key when it is hashed.
pub(crate) fn topic_hash(topic: &str) -> i32 {
    continue_hash(continue_hash(0, topic), "#")
}

/// Looks through the records for what is wanted of them. Control batches have none that anybody asks for; a compressed
/// batch that takes more than 64 MiB decompressed is not looked through: its records have no tag and are found by no
/// key.
pub(crate) fn inspect(view: &BatchView<'_>, topic_hash: i32, indexing: KeyIndexing) -> Inspected {
    let mut inspected = Inspected::default();
    if view.header().attributes.is_control() {
        return inspected;
    }
    let count = view.header().record_count.max(0) as usize;
    let mut scratch = Vec::new();
    let Ok(records) = view.records(&mut scratch, INSPECTED_BYTES_MAX) else { return inspected };
    for (index, record) in records.map_while(Result::ok).enumerate() {
        let tag = tag_hash(&record);
        if tag != 0 && index < count {
            inspected.tags.get_or_insert_with(|| vec![0; count].into())[index] = tag;
        }
        for_each_key(&record, indexing, |key| inspected.keys.push(stored_hash(continue_hash(topic_hash, key))));
    }
    inspected
}

/// Java's hash of the record's tag, sign-extended; 0 without one.
pub(crate) fn tag_hash(record: &Record<'_>) -> i64 {
    if record.headers.is_empty() {
        return 0;
    }
    let tag = record.headers.last(TAGS).and_then(|header| header.value);
    let text = tag.and_then(|tag| std::str::from_utf8(tag).ok());
    text.map_or(0, |text| i64::from(mainstem_types::java_string_hash(text)))
}

/// Shows every key by which the record can be found: the words of `KEYS`, its unique id, its own key.
pub(crate) fn for_each_key<'r>(record: &Record<'r>, indexing: KeyIndexing, mut visit: impl FnMut(&'r str)) {
    let text = |bytes: &'r [u8]| std::str::from_utf8(bytes).ok().filter(|text| !text.is_empty());
    if indexing == KeyIndexing::All
        && let Some(key) = record.key.and_then(text)
    {
        visit(key);
    }
    if indexing == KeyIndexing::None || record.headers.is_empty() {
        return;
    }
    for header in record.headers.iter() {
        let Some(value) = header.value.and_then(text) else { continue };
        match header.key {
            key if key == KEYS.as_bytes() => value.split(' ').filter(|word| !word.is_empty()).for_each(&mut visit),
            key if key == UNIQUE_KEY.as_bytes() => visit(value),
            _ => {}
        }
    }
}
