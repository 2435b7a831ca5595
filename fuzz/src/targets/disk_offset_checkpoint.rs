//! The offset checkpoints of a data folder.

use mainstem_store::formats::offset_checkpoint::{decode, encode};

pub fn run(data: &[u8]) {
    if let Ok(entries) = decode(data) {
        assert_eq!(decode(&encode(&entries)), Ok(entries));
    }
}
