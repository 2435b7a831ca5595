//! The five codecs, in every dialect that Kafka clients speak.
//!
//! Guarantees: decompression stops at the caller's limit; memory grows with the bytes that really come out (a claimed
//! length reserves at most what the input could yield at the codec's best ratio); no input panics. What is written is
//! what Kafka's Java client writes: gzip; snappy in xerial framing; lz4 frames of independent 64 KiB blocks; zstd.
//! Contexts and windows are kept for each thread: at most 1 MiB of windows and 8 MiB of zstd state stay.

use std::fmt;
use std::str::FromStr;

mod gzip;
mod lz4;
mod pool;
mod snappy;
mod zstandard;

/// How the records of a batch are compressed. The number is the value of the attribute bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Codec {
    #[default]
    None = 0,
    Gzip = 1,
    Snappy = 2,
    Lz4 = 3,
    Zstd = 4,
}

impl Codec {
    pub const ALL: [Codec; 5] = [Codec::None, Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd];

    pub fn from_id(id: i8) -> Option<Codec> {
        Codec::ALL.into_iter().find(|codec| codec.id() == id)
    }

    pub fn id(self) -> i8 {
        self as i8
    }

    /// Kafka's name of it, as in `compression.type`.
    pub fn name(self) -> &'static str {
        match self {
            Codec::None => "none",
            Codec::Gzip => "gzip",
            Codec::Snappy => "snappy",
            Codec::Lz4 => "lz4",
            Codec::Zstd => "zstd",
        }
    }
}

impl fmt::Display for Codec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name that is no codec's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no codec {name:?}; choose none, gzip, snappy, lz4 or zstd")]
pub struct UnknownCodecName {
    pub name: String,
}

impl FromStr for Codec {
    type Err = UnknownCodecName;

    fn from_str(name: &str) -> Result<Self, UnknownCodecName> {
        let known = Codec::ALL.into_iter().find(|codec| codec.name() == name);
        known.ok_or_else(|| UnknownCodecName { name: name.to_owned() })
    }
}

/// Why bytes could not be decompressed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecompressError {
    #[error("the {codec} data holds more than the {limit} bytes allowed")]
    Limit { codec: Codec, limit: usize },
    #[error("the {codec} data is damaged: {detail}")]
    Corrupt { codec: Codec, detail: String },
}

/// Why bytes could not be compressed. Happens with more than 4 GiB of snappy, or a level that the library refuses.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{codec} cannot compress this: {detail}")]
pub struct CompressError {
    pub codec: Codec,
    pub detail: String,
}

/// Appends `input`, compressed, to `out`.
///
/// `level` is that of `compression.gzip.level` (1–9, −1 is the default 6) or `compression.zstd.level` (default 3);
/// values beyond the codec's range mean its nearest. The others have no levels here: lz4 is always the fast one.
pub fn compress(codec: Codec, level: Option<i32>, input: &[u8], out: &mut Vec<u8>) -> Result<(), CompressError> {
    match codec {
        Codec::None => {
            out.extend_from_slice(input);
            Ok(())
        }
        Codec::Gzip => gzip::compress(level, input, out),
        Codec::Snappy => snappy::compress(input, out),
        Codec::Lz4 => lz4::compress(input, out),
        Codec::Zstd => zstandard::compress(level, input, out),
    }
}

/// Appends `input`, decompressed, to `out`: at most `limit` bytes. On an error `out` may have grown by a part.
pub fn decompress(codec: Codec, input: &[u8], limit: usize, out: &mut Vec<u8>) -> Result<(), DecompressError> {
    let mut decoder = Decoder::new(codec, input, limit);
    while decoder.advance()? {
        out.extend_from_slice(decoder.chunk());
    }
    Ok(())
}

/// Gives the decompressed bytes chunk by chunk, in memory that does not grow with their total.
pub(crate) struct Decoder<'a> {
    codec: Codec,
    limit: usize,
    total: usize,
    stream: Stream<'a>,
}

enum Stream<'a> {
    Plain { input: &'a [u8], given: bool },
    Gzip(gzip::Decoder<'a>),
    Snappy(snappy::Decoder<'a>),
    Lz4(lz4::Decoder<'a>),
    Zstd(zstandard::Decoder<'a>),
}

impl<'a> Decoder<'a> {
    pub(crate) fn new(codec: Codec, input: &'a [u8], limit: usize) -> Self {
        let stream = match codec {
            Codec::None => Stream::Plain { input, given: false },
            Codec::Gzip => Stream::Gzip(gzip::Decoder::new(input)),
            Codec::Snappy => Stream::Snappy(snappy::Decoder::new(input)),
            Codec::Lz4 => Stream::Lz4(lz4::Decoder::new(input)),
            Codec::Zstd => Stream::Zstd(zstandard::Decoder::new(input)),
        };
        Decoder { codec, limit, total: 0, stream }
    }

    /// Makes the next chunk, which is not empty; `false` is the end.
    pub(crate) fn advance(&mut self) -> Result<bool, DecompressError> {
        let room = self.limit - self.total;
        let more = match &mut self.stream {
            Stream::Plain { input, given } => !std::mem::replace(given, true) && !input.is_empty(),
            Stream::Gzip(stream) => stream.advance()?,
            Stream::Snappy(stream) => stream.advance(room)?,
            Stream::Lz4(stream) => stream.advance(room)?,
            Stream::Zstd(stream) => stream.advance()?,
        };
        if !more {
            return Ok(false);
        }
        if self.chunk().len() > room {
            return Err(DecompressError::Limit { codec: self.codec, limit: self.limit });
        }
        self.total += self.chunk().len();
        Ok(true)
    }

    pub(crate) fn chunk(&self) -> &[u8] {
        match &self.stream {
            Stream::Plain { input, .. } => input,
            Stream::Gzip(stream) => stream.chunk(),
            Stream::Snappy(stream) => stream.chunk(),
            Stream::Lz4(stream) => stream.chunk(),
            Stream::Zstd(stream) => stream.chunk(),
        }
    }
}

#[cfg(test)]
mod tests;
