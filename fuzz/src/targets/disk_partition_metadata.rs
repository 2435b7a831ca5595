//! `partition.metadata`.

use mainstem_store::formats::partition_metadata::{decode, encode};

pub fn run(data: &[u8]) {
    if let Ok(id) = decode(data) {
        assert_eq!(decode(&encode(id)), Ok(id));
    }
}
