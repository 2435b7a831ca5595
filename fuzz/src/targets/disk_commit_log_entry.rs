//! Entries of a commit log.

use mainstem_store::formats::commit_log_entry::{EntryHeader, EntryKind, HEADER_SIZE, decode};

pub fn run(data: &[u8]) {
    let mut at = 0;
    while let Ok((header, view)) = decode(&data[at..]) {
        let written = match view {
            Some(view) => {
                assert_eq!(view.size_in_bytes() + HEADER_SIZE, header.length as usize);
                let head = view.as_bytes().first_chunk().unwrap_or(&[0; 61]);
                header.encode(head)
            }
            None => EntryHeader::blank(header.length),
        };
        // A blank may carry anything where a batch has its topic.
        assert!(header.kind == EntryKind::Blank || data[at..].starts_with(&written));
        at += header.stored_len();
    }
}
