//! `.kafka_cleanshutdown`.

use mainstem_store::formats::clean_shutdown::{decode, encode};

pub fn run(data: &[u8]) {
    if let Ok(mark) = decode(data) {
        assert_eq!(decode(&encode(mark)), Ok(mark));
    }
}
