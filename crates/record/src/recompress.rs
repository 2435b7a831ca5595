//! Changing the codec of a batch on the broker, as `compression.type` other than `producer` asks for.

use crate::build::assemble;
use crate::codec::{Codec, CompressError, decompress};
use crate::view::BatchView;
use crate::walk::RecordError;

/// Why a batch cannot be recompressed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecompressError {
    #[error(transparent)]
    Record(#[from] RecordError),
    #[error(transparent)]
    Compress(#[from] CompressError),
}

/// The same batch with its records compressed by `target`: a new batch, with the right length and checksum.
///
/// The records stay as they are, and so does every header field that does not tell their size. The caller checks the
/// size afterwards (it may have grown), and first whether the codec differs at all. Validate before this.
pub fn recompress(
    view: &BatchView<'_>,
    target: Codec,
    level: Option<i32>,
    decompressed_size_max: usize,
) -> Result<Vec<u8>, RecompressError> {
    let mut header = *view.header();
    let id = header.attributes.codec_id();
    let source = view.codec().ok_or(RecordError::UnknownCodec { id })?;
    header.attributes = header.attributes.with_codec(target);
    if source == Codec::None {
        return Ok(assemble(header, target, level, view.payload())?);
    }
    let mut records = Vec::new();
    decompress(source, view.payload(), decompressed_size_max, &mut records).map_err(RecordError::from)?;
    Ok(assemble(header, target, level, &records)?)
}
