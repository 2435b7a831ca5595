//! One batch, borrowed from the bytes it came in.

use crate::codec::Codec;
use crate::header::{Attributes, BatchHeader, HEADER_SIZE, layout};
use crate::iter::RecordIter;
use crate::peek::{FramingError, peek};
use crate::walk::RecordError;

/// Whether bytes that may be a batch have the bit of a transactional one. Costs less than to parse them; whether they
/// are a batch is not looked at.
pub fn has_transactional_bit(bytes: &[u8]) -> bool {
    let attributes = bytes.get(layout::ATTRIBUTES..).and_then(|rest| rest.first_chunk());
    attributes.is_some_and(|attributes| Attributes(i16::from_be_bytes(*attributes)).is_transactional())
}

/// A batch whose framing was checked: the length is possible and all its bytes are there, the format is 2.
/// Nothing else was checked; see [`crate::validate`] and [`BatchView::crc_is_valid`].
#[derive(Debug, Clone, Copy)]
pub struct BatchView<'a> {
    bytes: &'a [u8],
    header: BatchHeader,
}

impl<'a> BatchView<'a> {
    /// The batch at the head of `bytes`; what follows it is left alone.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, FramingError> {
        let peek = peek(bytes)?;
        let available = bytes.len();
        let partial = FramingError::Partial { needed: peek.size_in_bytes, available };
        let bytes = bytes.get(..peek.size_in_bytes).ok_or(partial)?;
        let header = bytes.first_chunk::<HEADER_SIZE>().ok_or(partial)?;
        Ok(BatchView { bytes, header: BatchHeader::read(header) })
    }

    pub fn header(&self) -> &BatchHeader {
        &self.header
    }

    /// All bytes of the batch.
    pub fn as_bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The bytes after the header: records, or one compressed stream of them.
    pub fn payload(&self) -> &'a [u8] {
        &self.bytes[HEADER_SIZE..]
    }

    pub fn size_in_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// The codec of the payload, or `None` when the attributes name none that exists.
    pub fn codec(&self) -> Option<Codec> {
        self.header.attributes.codec()
    }

    /// The checksum that the bytes really have.
    pub fn computed_crc(&self) -> u32 {
        crc_fast::crc32_iscsi(&self.bytes[layout::ATTRIBUTES..])
    }

    /// Whether the checksum in the header matches the bytes.
    pub fn crc_is_valid(&self) -> bool {
        self.computed_crc() == self.header.crc
    }

    /// The records, one after the other.
    ///
    /// A compressed batch is decompressed into `scratch` (cleared before; keep it for the next batch), at most
    /// `decompressed_size_max` bytes. An uncompressed one touches neither.
    pub fn records<'b>(
        &self,
        scratch: &'b mut Vec<u8>,
        decompressed_size_max: usize,
    ) -> Result<RecordIter<'b>, RecordError>
    where
        'a: 'b,
    {
        if self.header.record_count == 0 && self.payload().is_empty() {
            return Ok(RecordIter::new(&self.header, &[]));
        }
        let id = self.header.attributes.codec_id();
        let codec = self.codec().ok_or(RecordError::UnknownCodec { id })?;
        if codec == Codec::None {
            return Ok(RecordIter::new(&self.header, self.payload()));
        }
        scratch.clear();
        crate::codec::decompress(codec, self.payload(), decompressed_size_max, scratch)?;
        Ok(RecordIter::new(&self.header, scratch))
    }

    /// The records, when the caller has them decompressed already ([`crate::codec::decompress`]), to keep what they
    /// borrow from. For an uncompressed batch that is [`BatchView::payload`].
    pub fn records_in<'b>(&self, decompressed: &'b [u8]) -> RecordIter<'b> {
        RecordIter::new(&self.header, decompressed)
    }
}
