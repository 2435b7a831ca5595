//! lz4 in its frame format. Blocks are compressed by `lz4_flex`; the frame around them is read here, so that memory
//! follows the real output, a cut frame is an error, and no frame of any shape can panic.
//!
//! ```text
//! ┌─────────────────┬─────┬────┬──────────────────┬──────────────┬────┐ ┌────────┬───────┬───────────┐ ┌───────┬─────────────┐
//! │ 04 22 4d 18 (LE)│ FLG │ BD │ [content size 8] │ [dict id 4]  │ HC │ │ size 4 │ block │ [check 4] │…│ end 4 │ [check 4]   │
//! └─────────────────┴─────┴────┴──────────────────┴──────────────┴────┘ └────────┴───────┴───────────┘ └───────┴─────────────┘
//! ```
//! Written: independent blocks of 64 KiB, no content size, no block or content checks: what Java's decoder takes.
//! Read: linked blocks, every block size, checks, content size, frames in a row.

use std::hash::Hasher;
use std::io::Write;

use lz4_flex::block::decompress_into_with_dict;
use lz4_flex::frame::{BlockMode, BlockSize, FrameEncoder, FrameInfo};
use twox_hash::XxHash32;

use super::pool::Buffer;
use super::{Codec, CompressError, DecompressError};

const MAGIC: [u8; 4] = 0x184d_2204_u32.to_le_bytes();
const VERSION_MASK: u8 = 0xc0;
const VERSION_01: u8 = 0x40;
const FLAG_INDEPENDENT: u8 = 0x20;
const FLAG_BLOCK_CHECK: u8 = 0x10;
const FLAG_CONTENT_SIZE: u8 = 0x08;
const FLAG_CONTENT_CHECK: u8 = 0x04;
const FLAG_DICTIONARY: u8 = 0x01;
const BLOCK_IS_PLAIN: u32 = 0x8000_0000;
const END_MARK: u32 = 0;
/// How far back a linked block may refer.
const HISTORY_SIZE: usize = 64 * 1024;
/// A block yields at most 255 bytes for each of its own, and a few for its last literals.
const RATIO_MAX: usize = 255;

pub(super) fn compress(input: &[u8], out: &mut Vec<u8>) -> Result<(), CompressError> {
    let info = FrameInfo::new().block_size(BlockSize::Max64KB).block_mode(BlockMode::Independent);
    let mut encoder = FrameEncoder::with_frame_info(info, out);
    let failed = |detail: String| CompressError { codec: Codec::Lz4, detail };
    // The encoder writes the frame header with its first block, so that nothing at all would become nothing at all.
    encoder.write_all(input).map_err(|error| failed(error.to_string()))?;
    encoder.finish().map(|_| ()).map_err(|error| failed(error.to_string()))
}

pub(super) struct Decoder<'a> {
    input: &'a [u8],
    frame: Option<Frame>,
    /// History of linked blocks, then the block at hand.
    window: Buffer,
    history: usize,
    filled: usize,
}

struct Frame {
    flags: u8,
    block_size_max: usize,
    content: XxHash32,
    content_size: Option<u64>,
    seen: u64,
}

impl<'a> Decoder<'a> {
    pub(super) fn new(input: &'a [u8]) -> Self {
        Decoder { input, frame: None, window: Buffer::take(), history: 0, filled: 0 }
    }

    pub(super) fn chunk(&self) -> &[u8] {
        &self.window.bytes()[self.history..self.history + self.filled]
    }

    pub(super) fn advance(&mut self, room: usize) -> Result<bool, DecompressError> {
        loop {
            let mut frame = match self.frame.take() {
                Some(frame) => frame,
                None if self.input.is_empty() => return Ok(false),
                None => self.read_frame_header()?,
            };
            let size = u32::from_le_bytes(self.take::<4>("a block size is cut")?);
            if size == END_MARK {
                self.end_frame(&frame)?;
                continue;
            }
            self.read_block(&mut frame, size, room)?;
            self.frame = Some(frame);
            if self.filled > 0 {
                return Ok(true);
            }
        }
    }

    fn read_frame_header(&mut self) -> Result<Frame, DecompressError> {
        let magic = self.take::<4>("the frame header is cut")?;
        if magic != MAGIC {
            return Err(corrupt("no lz4 frame begins here"));
        }
        let described = self.input;
        let [flags, block] = self.take::<2>("the frame header is cut")?;
        if flags & VERSION_MASK != VERSION_01 {
            return Err(corrupt("the frame has an unknown version"));
        }
        if flags & FLAG_DICTIONARY != 0 {
            return Err(corrupt("the frame needs a dictionary"));
        }
        let block_size_max = match block >> 4 & 7 {
            4 => 64 * 1024,
            5 => 256 * 1024,
            6 => 1024 * 1024,
            7 => 4 * 1024 * 1024,
            _ => return Err(corrupt("the frame has an unknown block size")),
        };
        let content_size = match flags & FLAG_CONTENT_SIZE {
            0 => None,
            _ => Some(u64::from_le_bytes(self.take::<8>("the frame header is cut")?)),
        };
        let described = &described[..described.len() - self.input.len()];
        let [check] = self.take::<1>("the frame header is cut")?;
        if (hash(described) >> 8) as u8 != check {
            return Err(corrupt("the checksum of the frame header is wrong"));
        }
        (self.history, self.filled) = (0, 0);
        Ok(Frame { flags, block_size_max, content: XxHash32::with_seed(0), content_size, seen: 0 })
    }

    fn end_frame(&mut self, frame: &Frame) -> Result<(), DecompressError> {
        self.filled = 0;
        if frame.flags & FLAG_CONTENT_CHECK != 0 {
            let check = u32::from_le_bytes(self.take::<4>("the content checksum is cut")?);
            if check != frame.content.finish() as u32 {
                return Err(corrupt("the checksum of the content is wrong"));
            }
        }
        match frame.content_size {
            Some(size) if size != frame.seen => Err(corrupt("the content has not the size that the frame says")),
            _ => Ok(()),
        }
    }

    fn read_block(&mut self, frame: &mut Frame, size: u32, room: usize) -> Result<(), DecompressError> {
        let length = (size & !BLOCK_IS_PLAIN) as usize;
        if length > frame.block_size_max {
            return Err(corrupt("a block is larger than the frame allows"));
        }
        let (block, rest) = self.input.split_at_checked(length).ok_or_else(|| corrupt("a block is cut"))?;
        self.input = rest;
        if frame.flags & FLAG_BLOCK_CHECK != 0 {
            let check = u32::from_le_bytes(self.take::<4>("a block checksum is cut")?);
            if check != hash(block) {
                return Err(corrupt("the checksum of a block is wrong"));
            }
        }
        self.keep_history(frame.flags & FLAG_INDEPENDENT == 0);
        // One byte above the limit is enough for the caller to see that it is passed.
        let most = frame.block_size_max.min(room.saturating_add(1));
        if size & BLOCK_IS_PLAIN != 0 {
            let taken = length.min(most);
            self.window.at_least(self.history + taken)[self.history..][..taken].copy_from_slice(&block[..taken]);
            self.filled = taken;
        } else {
            self.decode_block(block, most, frame.block_size_max)?;
        }
        frame.seen += self.filled as u64;
        if frame.flags & FLAG_CONTENT_CHECK != 0 {
            frame.content.write(&self.window.bytes()[self.history..self.history + self.filled]);
        }
        Ok(())
    }

    /// `most` bytes are of interest. A block that holds more (up to `block_size_max`) gives `most` when that is less.
    fn decode_block(&mut self, block: &[u8], most: usize, block_size_max: usize) -> Result<(), DecompressError> {
        let could_be = block.len().saturating_mul(RATIO_MAX).saturating_add(64).min(block_size_max);
        let history = self.history;
        let window = &mut self.window.at_least(history + could_be)[..history + could_be];
        let (past, target) = window.split_at_mut(history);
        let size = decompress_into_with_dict(block, target, past).map_err(|error| corrupt(&error.to_string()))?;
        self.filled = size.min(most);
        Ok(())
    }

    /// Moves the end of what came out to the front, for linked blocks to refer to.
    fn keep_history(&mut self, linked: bool) {
        let end = self.history + self.filled;
        self.history = 0;
        if linked && end > 0 {
            let kept = end.min(HISTORY_SIZE);
            self.window.at_least(end).copy_within(end - kept..end, 0);
            self.history = kept;
        }
        self.filled = 0;
    }

    fn take<const N: usize>(&mut self, missing: &str) -> Result<[u8; N], DecompressError> {
        let (taken, rest) = self.input.split_first_chunk::<N>().ok_or_else(|| corrupt(missing))?;
        self.input = rest;
        Ok(*taken)
    }
}

fn hash(bytes: &[u8]) -> u32 {
    let mut hasher = XxHash32::with_seed(0);
    hasher.write(bytes);
    hasher.finish() as u32
}

fn corrupt(detail: &str) -> DecompressError {
    DecompressError::Corrupt { codec: Codec::Lz4, detail: detail.to_owned() }
}
