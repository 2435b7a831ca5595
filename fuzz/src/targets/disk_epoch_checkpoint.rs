//! `leader-epoch-checkpoint`.

use mainstem_store::formats::epoch_checkpoint::{decode, encode};

pub fn run(data: &[u8]) {
    if let Ok(entries) = decode(data) {
        assert_eq!(decode(&encode(&entries)), Ok(entries));
    }
}
