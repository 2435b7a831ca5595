//! Parts of a key index file, and entries of a consume queue.

use mainstem_store::formats::{key_index, queue_entry};

pub fn run(data: &[u8]) {
    if let Ok(header) = key_index::IndexHeader::decode(data) {
        assert!(data.starts_with(&header.encode()));
    }
    if let Some(entry) = key_index::IndexEntry::decode(data) {
        assert!(data.starts_with(&entry.encode()));
    }
    let entries: Vec<u8> = queue_entry::decode(data).flat_map(|entry| entry.encode()).collect();
    assert!(data.starts_with(&entries));
    if let Ok(text) = std::str::from_utf8(data) {
        let hash = key_index::continue_hash(key_index::continue_hash(0, "topic#"), text);
        assert!(key_index::stored_hash(hash) <= i32::MAX as u32);
    }
}
