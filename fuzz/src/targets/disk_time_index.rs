//! `.timeindex` files.

use mainstem_store::formats::time_index::{decode, encode};

pub fn run(data: &[u8]) {
    let content = decode(data);
    assert!(content.entries.windows(2).all(|pair| pair[1].follows(Some(pair[0]))));
    assert!(data.starts_with(&encode(&content.entries)));
}
