//! zstd, with contexts that each thread keeps.
//!
//! The library reserves the window that a frame announces, at most 128 MiB (with level 22), before data arrives. It
//! touches the window's pages only as data arrives. The thread does not keep a context that grew so large.

use std::cell::RefCell;
use std::io::Cursor;

use zstd::zstd_safe::{CCtx, DCtx, InBuffer, OutBuffer, ResetDirective, compress_bound, get_error_name};

use super::pool::Buffer;
use super::{Codec, CompressError, DecompressError};

const LEVEL_DEFAULT: i32 = 3;
const WINDOW_SIZE: usize = 128 * 1024;
/// Contexts larger than this (high levels, large windows) are not kept.
const KEPT_CONTEXT_BYTES_MAX: usize = 4 * 1024 * 1024;

thread_local! {
    static COMPRESSOR: RefCell<Option<CCtx<'static>>> = const { RefCell::new(None) };
    static DECOMPRESSOR: RefCell<Option<DCtx<'static>>> = const { RefCell::new(None) };
}

pub(super) fn compress(level: Option<i32>, input: &[u8], out: &mut Vec<u8>) -> Result<(), CompressError> {
    let failed = |detail: &str| CompressError { codec: Codec::Zstd, detail: detail.to_owned() };
    let kept = COMPRESSOR.with_borrow_mut(Option::take);
    let mut context = kept.or_else(CCtx::try_create).ok_or_else(|| failed("no memory for a context"))?;
    let (low, high) = (zstd::zstd_safe::min_c_level(), zstd::zstd_safe::max_c_level());
    out.reserve(compress_bound(input.len()));
    let end = out.len() as u64;
    let mut target = Cursor::new(out);
    target.set_position(end);
    let result = context.compress(&mut target, input, level.unwrap_or(LEVEL_DEFAULT).clamp(low, high));
    if context.sizeof() <= KEPT_CONTEXT_BYTES_MAX {
        COMPRESSOR.set(Some(context));
    }
    result.map(|_| ()).map_err(|code| failed(get_error_name(code)))
}

pub(super) struct Decoder<'a> {
    /// `None` when there is no memory for one.
    context: Option<DCtx<'static>>,
    input: InBuffer<'a>,
    window: Buffer,
    filled: usize,
    /// Whether a frame has begun and not ended.
    within_frame: bool,
}

impl<'a> Decoder<'a> {
    pub(super) fn new(input: &'a [u8]) -> Self {
        Decoder {
            context: DECOMPRESSOR.with_borrow_mut(Option::take).or_else(DCtx::try_create),
            input: InBuffer::around(input),
            window: Buffer::take(),
            filled: 0,
            within_frame: false,
        }
    }

    pub(super) fn advance(&mut self) -> Result<bool, DecompressError> {
        let context = self.context.as_mut().ok_or_else(|| corrupt("no memory for a context"))?;
        loop {
            if self.input.pos() == self.input.src.len() && !self.within_frame {
                self.filled = 0;
                return Ok(false);
            }
            let before = self.input.pos();
            let mut target = OutBuffer::around(&mut self.window.at_least(WINDOW_SIZE)[..WINDOW_SIZE]);
            let result = context.decompress_stream(&mut target, &mut self.input);
            self.filled = target.pos();
            let hint = result.map_err(|code| corrupt(get_error_name(code)))?;
            self.within_frame = hint != 0;
            if self.filled > 0 {
                return Ok(true);
            }
            if self.within_frame && self.input.pos() == before {
                return Err(corrupt("the data is cut"));
            }
        }
    }

    pub(super) fn chunk(&self) -> &[u8] {
        &self.window.bytes()[..self.filled]
    }
}

impl Drop for Decoder<'_> {
    fn drop(&mut self) {
        let Some(mut context) = self.context.take() else { return };
        let reusable = context.reset(ResetDirective::SessionOnly).is_ok();
        if reusable && context.sizeof() <= KEPT_CONTEXT_BYTES_MAX {
            // Fails only while the thread ends; then the context just goes.
            let _ = DECOMPRESSOR.try_with(|kept| kept.replace(Some(context)));
        }
    }
}

fn corrupt(detail: &str) -> DecompressError {
    DecompressError::Corrupt { codec: Codec::Zstd, detail: detail.to_owned() }
}
