//! `.txnindex` files.

use mainstem_store::formats::transaction_index::{decode, encode};

pub fn run(data: &[u8]) {
    if let Ok(entries) = decode(data) {
        assert_eq!(encode(&entries), data);
    }
}
