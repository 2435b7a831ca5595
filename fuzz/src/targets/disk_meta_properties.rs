//! `meta.properties`.

use mainstem_store::formats::meta_properties::decode;

pub fn run(data: &[u8]) {
    let _ = decode(data);
}
