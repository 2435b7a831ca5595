//! The snappy decompressor: no more than the limit comes out, and what comes out goes in and out again.

use mainstem_record::Codec;

pub fn run(data: &[u8]) {
    super::decompress::check(Codec::Snappy, data);
}
