//! Going over the records of a batch without keeping them.
//!
//! ```text
//! ┌──────────────┬──────────────┬─────────────────────┬─────────────────────┬───────────────────┬ …
//! │ length       │ attributes 1 │ timestamp_delta     │ offset_delta        │ key_length, key   │
//! │ varint       │ (unused)     │ varlong             │ varint              │ −1 is null        │
//! └──────────────┴──────────────┴─────────────────────┴─────────────────────┴───────────────────┴ …
//! … ┬──────────────────────┬──────────────┬──────────────────────────────────────────────┐
//!   │ value_length, value  │ header_count │ each: key_length, key, value_length, value   │
//! … ┴──────────────────────┴──────────────┴──────────────────────────────────────────────┘
//! ```

use crate::codec::{Decoder, DecompressError};
use crate::varint::{VARINT_SIZE_MAX, VARLONG_SIZE_MAX, VarintError, read_varint, read_varlong};

/// The fault of the records of a batch. `index` counts from the batch's first record, 0.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    #[error("the batch names codec {id}, which does not exist")]
    UnknownCodec { id: i8 },
    #[error(transparent)]
    Decompress(#[from] DecompressError),
    #[error("the bytes end within record {index}")]
    Truncated { index: i32 },
    #[error("record {index} has a number of more bytes than its type can have")]
    NumberTooLong { index: i32 },
    #[error("record {index} says it has {length} bytes")]
    NegativeSize { index: i32, length: i32 },
    #[error("record {index} says it has {declared} bytes but its fields take {actual}")]
    SizeMismatch { index: i32, declared: i32, actual: u64 },
    #[error("record {index} says it has {count} headers")]
    NegativeHeaderCount { index: i32, count: i32 },
    #[error("record {index} has a header key of {length} bytes")]
    NegativeHeaderKeySize { index: i32, length: i32 },
    #[error("bytes follow the last of {count} records")]
    TrailingBytes { count: i32 },
}

/// What a record is, without its contents.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) timestamp_delta: i64,
    pub(crate) offset_delta: i32,
    pub(crate) has_key: bool,
    pub(crate) has_headers: bool,
}

/// Where record bytes come from. Errors carry no index yet.
pub(crate) trait Source {
    fn varint(&mut self) -> Result<i32, Fault>;
    fn varlong(&mut self) -> Result<i64, Fault>;
    fn skip(&mut self, count: usize) -> Result<(), Fault>;
    /// Bytes read and skipped so far.
    fn consumed(&self) -> u64;
    fn at_end(&mut self) -> Result<bool, Fault>;
}

#[derive(Debug)]
pub(crate) enum Fault {
    Varint(VarintError),
    Truncated,
    NegativeSize(i32),
    SizeMismatch { declared: i32, actual: u64 },
    NegativeHeaderCount(i32),
    NegativeHeaderKeySize(i32),
    Decompress(DecompressError),
}

impl From<VarintError> for Fault {
    fn from(error: VarintError) -> Self {
        Fault::Varint(error)
    }
}

impl Fault {
    pub(crate) fn of_record(self, index: i32) -> RecordError {
        match self {
            Fault::Varint(VarintError::Truncated) | Fault::Truncated => RecordError::Truncated { index },
            Fault::Varint(VarintError::TooLong) => RecordError::NumberTooLong { index },
            Fault::NegativeSize(length) => RecordError::NegativeSize { index, length },
            Fault::SizeMismatch { declared, actual } => RecordError::SizeMismatch { index, declared, actual },
            Fault::NegativeHeaderCount(count) => RecordError::NegativeHeaderCount { index, count },
            Fault::NegativeHeaderKeySize(length) => RecordError::NegativeHeaderKeySize { index, length },
            Fault::Decompress(error) => RecordError::Decompress(error),
        }
    }
}

/// Shows each of `count` records to `visit`, and makes sure that nothing follows the last. Gives the bytes they took.
pub(crate) fn walk<S: Source>(
    source: &mut S,
    count: i32,
    mut visit: impl FnMut(i32, Shape),
) -> Result<u64, RecordError> {
    for index in 0..count {
        visit(index, walk_record(source).map_err(|fault| fault.of_record(index))?);
    }
    if !source.at_end().map_err(|fault| fault.of_record(count))? {
        return Err(RecordError::TrailingBytes { count });
    }
    Ok(source.consumed())
}

fn walk_record<S: Source>(source: &mut S) -> Result<Shape, Fault> {
    let declared = source.varint()?;
    if declared < 0 {
        return Err(Fault::NegativeSize(declared));
    }
    let start = source.consumed();
    source.skip(1)?;
    let timestamp_delta = source.varlong()?;
    let offset_delta = source.varint()?;
    let has_key = skip_nullable(source)?;
    skip_nullable(source)?;
    let header_count = source.varint()?;
    if header_count < 0 {
        return Err(Fault::NegativeHeaderCount(header_count));
    }
    for _ in 0..header_count {
        let key_length = source.varint()?;
        source.skip(usize::try_from(key_length).map_err(|_| Fault::NegativeHeaderKeySize(key_length))?)?;
        skip_nullable(source)?;
    }
    let actual = source.consumed() - start;
    if actual != declared as u64 {
        return Err(Fault::SizeMismatch { declared, actual });
    }
    Ok(Shape { timestamp_delta, offset_delta, has_key, has_headers: header_count > 0 })
}

/// Skips a length and its bytes; any negative length is null, as in Kafka. Says whether it was not null.
fn skip_nullable<S: Source>(source: &mut S) -> Result<bool, Fault> {
    match usize::try_from(source.varint()?) {
        Ok(length) => source.skip(length).map(|()| true),
        Err(_) => Ok(false),
    }
}

/// Records that lie in memory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SliceSource<'a> {
    bytes: &'a [u8],
    position: usize,
}

impl<'a> SliceSource<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        SliceSource { bytes, position: 0 }
    }

    fn rest(&self) -> &'a [u8] {
        &self.bytes[self.position..]
    }

    /// The next `count` bytes.
    pub(crate) fn take(&mut self, count: usize) -> Result<&'a [u8], Fault> {
        let taken = self.rest().get(..count).ok_or(Fault::Truncated)?;
        self.position += count;
        Ok(taken)
    }

    /// A length and its bytes; `None` for a negative length.
    pub(crate) fn take_nullable(&mut self) -> Result<Option<&'a [u8]>, Fault> {
        match usize::try_from(self.varint()?) {
            Ok(length) => self.take(length).map(Some),
            Err(_) => Ok(None),
        }
    }
}

impl Source for SliceSource<'_> {
    #[inline]
    fn varint(&mut self) -> Result<i32, Fault> {
        let (value, size) = read_varint(self.rest())?;
        self.position += size;
        Ok(value)
    }

    #[inline]
    fn varlong(&mut self) -> Result<i64, Fault> {
        let (value, size) = read_varlong(self.rest())?;
        self.position += size;
        Ok(value)
    }

    #[inline]
    fn skip(&mut self, count: usize) -> Result<(), Fault> {
        self.take(count).map(|_| ())
    }

    fn consumed(&self) -> u64 {
        self.position as u64
    }

    fn at_end(&mut self) -> Result<bool, Fault> {
        Ok(self.rest().is_empty())
    }
}

/// Records that come out of a codec, chunk by chunk.
pub(crate) struct StreamSource<'a> {
    decoder: Decoder<'a>,
    /// Where in the chunk at hand.
    position: usize,
    chunk_size: usize,
    consumed: u64,
}

impl<'a> StreamSource<'a> {
    pub(crate) fn new(decoder: Decoder<'a>) -> Self {
        StreamSource { decoder, position: 0, chunk_size: 0, consumed: 0 }
    }

    /// Makes sure that a byte is at hand; `false` is the end.
    fn fill(&mut self) -> Result<bool, Fault> {
        if self.position < self.chunk_size {
            return Ok(true);
        }
        let more = self.decoder.advance().map_err(Fault::Decompress)?;
        self.position = 0;
        self.chunk_size = if more { self.decoder.chunk().len() } else { 0 };
        Ok(more)
    }

    fn byte(&mut self) -> Result<u8, Fault> {
        if !self.fill()? {
            return Err(Fault::Truncated);
        }
        let byte = self.decoder.chunk()[self.position];
        self.position += 1;
        self.consumed += 1;
        Ok(byte)
    }

    /// Collects the bytes of a number that may lie across two chunks.
    fn number<const N: usize>(&mut self) -> Result<([u8; N], usize), Fault> {
        let mut bytes = [0; N];
        for (i, slot) in bytes.iter_mut().enumerate() {
            *slot = self.byte()?;
            if *slot < 0x80 {
                return Ok((bytes, i + 1));
            }
        }
        Ok((bytes, N))
    }
}

impl Source for StreamSource<'_> {
    fn varint(&mut self) -> Result<i32, Fault> {
        let (bytes, size) = self.number::<VARINT_SIZE_MAX>()?;
        Ok(read_varint(&bytes[..size])?.0)
    }

    fn varlong(&mut self) -> Result<i64, Fault> {
        let (bytes, size) = self.number::<VARLONG_SIZE_MAX>()?;
        Ok(read_varlong(&bytes[..size])?.0)
    }

    fn skip(&mut self, mut count: usize) -> Result<(), Fault> {
        while count > 0 {
            if !self.fill()? {
                return Err(Fault::Truncated);
            }
            let step = count.min(self.chunk_size - self.position);
            self.position += step;
            self.consumed += step as u64;
            count -= step;
        }
        Ok(())
    }

    fn consumed(&self) -> u64 {
        self.consumed
    }

    fn at_end(&mut self) -> Result<bool, Fault> {
        Ok(!self.fill()?)
    }
}
