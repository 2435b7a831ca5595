//! `quorum-state`.

use mainstem_store::formats::quorum_state::{decode, encode};

pub fn run(data: &[u8]) {
    if let Ok(state) = decode(data) {
        assert_eq!(decode(&encode(&state)), Ok(state));
    }
}
