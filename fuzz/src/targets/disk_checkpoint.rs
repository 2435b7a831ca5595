//! `checkpoint`.

use mainstem_store::formats::checkpoint::{decode, encode};

pub fn run(data: &[u8]) {
    if let Ok(checkpoint) = decode(data) {
        assert_eq!(decode(&encode(&checkpoint)), Ok(checkpoint));
    }
}
