//! snappy: written in the framing of xerial's Java library, as Kafka's Java client does; read in that or raw.
//!
//! ```text
//! ┌──────────────────────────┬───────────┬──────────────┬──┐ ┌──────────┬──────────────┬ …
//! │ 82 'S' 'N' 'A' 'P' 'P' 'Y' 00 │ version 4 │ compatible 4 │  │ │ length 4 │ raw snappy    │ next block
//! └──────────────────────────┴───────────┴──────────────┴──┘ └──────────┴──────────────┴ …
//! ```
//! The integers are big-endian; some clients write the two versions, or everything, little-endian, and both are read.

use super::pool::Buffer;
use super::{Codec, CompressError, DecompressError};

const MAGIC: [u8; 8] = [0x82, b'S', b'N', b'A', b'P', b'P', b'Y', 0];
const VERSION: u32 = 1;
const FRAME_HEADER_SIZE: usize = MAGIC.len() + 4 + 4;
/// Plain bytes of a block: the Java library's default.
const BLOCK_SIZE: usize = 32 * 1024;
/// A raw block yields less than 22 bytes for each of its own: its densest element, 3 bytes, stands for 64.
const RATIO_MAX: usize = 22;

pub(super) fn compress(input: &[u8], out: &mut Vec<u8>) -> Result<(), CompressError> {
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&VERSION.to_be_bytes());
    out.extend_from_slice(&VERSION.to_be_bytes());
    let mut encoder = snap::raw::Encoder::new();
    for block in input.chunks(BLOCK_SIZE) {
        let length_at = out.len();
        let block_at = length_at + 4;
        out.resize(block_at + snap::raw::max_compress_len(block.len()), 0);
        let size = encoder
            .compress(block, &mut out[block_at..])
            .map_err(|error| CompressError { codec: Codec::Snappy, detail: error.to_string() })?;
        out[length_at..block_at].copy_from_slice(&(size as u32).to_be_bytes());
        out.truncate(block_at + size);
    }
    Ok(())
}

pub(super) struct Decoder<'a> {
    input: &'a [u8],
    framing: Framing,
    window: Buffer,
    filled: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Framing {
    /// Nothing was read yet.
    Start,
    /// xerial; block lengths may be little-endian when the header was.
    Blocks { header_is_little_endian: bool },
    /// The one raw block was given.
    RawDone,
}

impl<'a> Decoder<'a> {
    pub(super) fn new(input: &'a [u8]) -> Self {
        Decoder { input, framing: Framing::Start, window: Buffer::take(), filled: 0 }
    }

    pub(super) fn advance(&mut self, room: usize) -> Result<bool, DecompressError> {
        loop {
            self.read_frame_header()?;
            let header_is_little_endian = match self.framing {
                Framing::RawDone => return Ok(false),
                Framing::Start => {
                    self.framing = Framing::RawDone;
                    let block = self.input;
                    return self.decode_block(block, room).map(|()| self.filled > 0);
                }
                Framing::Blocks { header_is_little_endian } => header_is_little_endian,
            };
            if self.input.is_empty() {
                return Ok(false);
            }
            let block = self.next_block(header_is_little_endian)?;
            self.decode_block(block, room)?;
            if self.filled > 0 {
                return Ok(true);
            }
        }
    }

    pub(super) fn chunk(&self) -> &[u8] {
        &self.window.bytes()[..self.filled]
    }

    /// Steps over a xerial header, at the start or where another stream was glued on.
    fn read_frame_header(&mut self) -> Result<(), DecompressError> {
        if !self.input.starts_with(&MAGIC) {
            return Ok(());
        }
        let Some((header, rest)) = self.input.split_at_checked(FRAME_HEADER_SIZE) else {
            return Err(corrupt("the xerial header is cut"));
        };
        let compatible = &header[FRAME_HEADER_SIZE - 4..];
        self.framing = Framing::Blocks { header_is_little_endian: compatible == VERSION.to_le_bytes() };
        self.input = rest;
        Ok(())
    }

    fn next_block(&mut self, header_is_little_endian: bool) -> Result<&'a [u8], DecompressError> {
        let (length, rest) = self.input.split_first_chunk::<4>().ok_or_else(|| corrupt("a block length is cut"))?;
        let mut size = u32::from_be_bytes(*length) as usize;
        if size > rest.len() && header_is_little_endian {
            size = u32::from_le_bytes(*length) as usize;
        }
        let (block, rest) = rest.split_at_checked(size).ok_or_else(|| corrupt("a block is longer than the data"))?;
        self.input = rest;
        Ok(block)
    }

    fn decode_block(&mut self, block: &[u8], room: usize) -> Result<(), DecompressError> {
        let size = snap::raw::decompress_len(block).map_err(|error| corrupt(&error.to_string()))?;
        if size > block.len().saturating_mul(RATIO_MAX) {
            return Err(corrupt("a block claims more bytes than it can hold"));
        }
        // One byte above the limit is enough for the caller to see that it is passed.
        if size > room {
            self.filled = room + 1;
            self.window.at_least(self.filled);
            return Ok(());
        }
        let window = &mut self.window.at_least(size)[..size];
        self.filled =
            snap::raw::Decoder::new().decompress(block, window).map_err(|error| corrupt(&error.to_string()))?;
        Ok(())
    }
}

fn corrupt(detail: &str) -> DecompressError {
    DecompressError::Corrupt { codec: Codec::Snappy, detail: detail.to_owned() }
}
