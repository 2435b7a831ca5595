//! gzip, one or several members in a row.

use std::io::{Read, Write};

use flate2::Compression;
use flate2::bufread::MultiGzDecoder;
use flate2::write::GzEncoder;

use super::pool::Buffer;
use super::{Codec, CompressError, DecompressError};

const WINDOW_SIZE: usize = 64 * 1024;
const LEVEL_DEFAULT: u32 = 6;

pub(super) fn compress(level: Option<i32>, input: &[u8], out: &mut Vec<u8>) -> Result<(), CompressError> {
    let level = match level {
        None | Some(-1) => LEVEL_DEFAULT,
        Some(level) => level.clamp(1, 9) as u32,
    };
    let mut encoder = GzEncoder::new(out, Compression::new(level));
    let written = encoder.write_all(input).and_then(|()| encoder.finish().map(|_| ()));
    written.map_err(|error| CompressError { codec: Codec::Gzip, detail: error.to_string() })
}

pub(super) struct Decoder<'a> {
    inflater: MultiGzDecoder<&'a [u8]>,
    window: Buffer,
    filled: usize,
}

impl<'a> Decoder<'a> {
    pub(super) fn new(input: &'a [u8]) -> Self {
        Decoder { inflater: MultiGzDecoder::new(input), window: Buffer::take(), filled: 0 }
    }

    pub(super) fn advance(&mut self) -> Result<bool, DecompressError> {
        let window = &mut self.window.at_least(WINDOW_SIZE)[..WINDOW_SIZE];
        let read = self.inflater.read(window);
        self.filled =
            read.map_err(|error| DecompressError::Corrupt { codec: Codec::Gzip, detail: error.to_string() })?;
        Ok(self.filled > 0)
    }

    pub(super) fn chunk(&self) -> &[u8] {
        &self.window.bytes()[..self.filled]
    }
}
