//! What holds for every decompressor.

use mainstem_record::codec::{Codec, compress, decompress};

const LIMIT: usize = 1 << 20;

pub fn check(codec: Codec, data: &[u8]) {
    let mut plain = Vec::new();
    let result = decompress(codec, data, LIMIT, &mut plain);
    assert!(plain.len() <= LIMIT);
    if result.is_err() {
        return;
    }
    let mut exact = Vec::new();
    assert_eq!(decompress(codec, data, plain.len(), &mut exact), Ok(()));
    assert_eq!(plain, exact);
    let mut packed = Vec::new();
    assert_eq!(compress(codec, None, &plain, &mut packed), Ok(()));
    let mut again = Vec::new();
    assert_eq!(decompress(codec, &packed, plain.len(), &mut again), Ok(()));
    assert_eq!(plain, again);
}
