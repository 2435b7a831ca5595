//! Parts of a key index file, how far a partition's has come, and entries of a consume queue.

use mainstem_store::formats::{key_index, key_index_state, queue_entry};

pub fn run(data: &[u8]) {
    if let Ok(header) = key_index::IndexHeader::decode(data) {
        assert!(data.starts_with(&header.encode()));
    }
    if let Some(entry) = key_index::IndexEntry::decode(data) {
        assert!(data.starts_with(&entry.encode()));
    }
    if let Ok(state) = key_index_state::decode(data) {
        assert_eq!(key_index_state::encode(&state), data);
    }
    let entries: Vec<u8> = queue_entry::decode(data).flat_map(|entry| entry.encode()).collect();
    assert!(data.starts_with(&entries));
    if let Ok(text) = std::str::from_utf8(data) {
        let hash = key_index::continue_hash(key_index::continue_hash(0, "topic#"), text);
        assert!(key_index::stored_hash(hash) <= i32::MAX as u32);
    }
}
