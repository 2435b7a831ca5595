//! `checkpoint` of a partition group.

use mainstem_store::formats::group_checkpoint::{decode, encode};

pub fn run(data: &[u8]) {
    if let Ok(content) = decode(data) {
        assert_eq!(decode(&encode(&content)), Ok(content));
    }
}
