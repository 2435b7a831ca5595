//! The bounded reader: primitives, lengths, arrays and tags of Kafka's protocol over a borrowed frame.
//!
//! Every read is checked against the bytes left; an error names the field and the byte.

use std::ops::RangeInclusive;

use mainstem_types::TopicId;

use crate::error::{DecodeError, DecodeErrorKind};

/// Memory that the arrays of one message may take in all, unless the caller says otherwise.
pub const DEFAULT_MEMORY_LIMIT: usize = 128 << 20;
/// What an array reserves before its first element is read.
const RESERVE_LIMIT: usize = 64 << 10;
/// Kafka refuses longer strings, compact ones too.
pub(crate) const STRING_LIMIT: usize = i16::MAX as usize;

/// Reads a frame from its front; see the module.
#[derive(Debug, Clone)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    position: usize,
    memory_left: usize,
    memory_limit: usize,
}

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Reader::with_memory_limit(bytes, DEFAULT_MEMORY_LIMIT)
    }

    /// `limit` bounds the bytes that all arrays read with this reader take together (their elements' own size).
    pub fn with_memory_limit(bytes: &'a [u8], limit: usize) -> Self {
        Reader { bytes, position: 0, memory_left: limit, memory_limit: limit }
    }

    /// Bytes consumed so far.
    pub fn position(&self) -> usize {
        self.position
    }

    pub fn remaining(&self) -> usize {
        self.bytes.len() - self.position
    }

    /// The bytes not consumed yet.
    pub fn rest(&self) -> &'a [u8] {
        &self.bytes[self.position..]
    }

    /// An error unless every byte was consumed.
    pub fn finish(&self, message: &'static str) -> Result<(), DecodeError> {
        match self.remaining() {
            0 => Ok(()),
            left => Err(self.error(message, DecodeErrorKind::TrailingBytes(left))),
        }
    }

    pub fn bool(&mut self, field: &'static str) -> Result<bool, DecodeError> {
        Ok(self.i8(field)? != 0)
    }

    pub fn i8(&mut self, field: &'static str) -> Result<i8, DecodeError> {
        self.fixed(field).map(i8::from_be_bytes)
    }

    pub fn i16(&mut self, field: &'static str) -> Result<i16, DecodeError> {
        self.fixed(field).map(i16::from_be_bytes)
    }

    pub fn u16(&mut self, field: &'static str) -> Result<u16, DecodeError> {
        self.fixed(field).map(u16::from_be_bytes)
    }

    pub fn i32(&mut self, field: &'static str) -> Result<i32, DecodeError> {
        self.fixed(field).map(i32::from_be_bytes)
    }

    pub fn u32(&mut self, field: &'static str) -> Result<u32, DecodeError> {
        self.fixed(field).map(u32::from_be_bytes)
    }

    pub fn i64(&mut self, field: &'static str) -> Result<i64, DecodeError> {
        self.fixed(field).map(i64::from_be_bytes)
    }

    pub fn f64(&mut self, field: &'static str) -> Result<f64, DecodeError> {
        self.fixed(field).map(f64::from_be_bytes)
    }

    pub fn uuid(&mut self, field: &'static str) -> Result<TopicId, DecodeError> {
        self.fixed(field).map(TopicId)
    }

    /// An unsigned varint of at most 5 bytes and 32 bits.
    pub fn uvarint(&mut self, field: &'static str) -> Result<u32, DecodeError> {
        let mut value = 0u32;
        for shift in (0..35).step_by(7) {
            let [byte] = self.fixed::<1>(field)?;
            if shift == 28 && byte > 0x0f {
                break;
            }
            value |= u32::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(self.error(field, DecodeErrorKind::VarintTooLong))
    }

    pub fn string(&mut self, field: &'static str, compact: bool) -> Result<&'a str, DecodeError> {
        self.nullable_string(field, compact, false)?.ok_or_else(|| self.error(field, DecodeErrorKind::UnexpectedNull))
    }

    /// `nullable`: whether this version allows null; where it does not, null is an error.
    pub fn nullable_string(
        &mut self,
        field: &'static str,
        compact: bool,
        nullable: bool,
    ) -> Result<Option<&'a str>, DecodeError> {
        let length = if compact { self.compact_length(field)? } else { i64::from(self.i16(field)?) };
        let Some(length) = self.check_length(field, length, nullable)? else { return Ok(None) };
        if length > STRING_LIMIT {
            return Err(self.error(field, DecodeErrorKind::StringTooLong(length)));
        }
        let bytes = self.take(field, length)?;
        match std::str::from_utf8(bytes) {
            Ok(text) => Ok(Some(text)),
            Err(error) => {
                self.position = self.position - length + error.valid_up_to();
                Err(self.error(field, DecodeErrorKind::NotUtf8))
            }
        }
    }

    pub fn bytes(&mut self, field: &'static str, compact: bool) -> Result<&'a [u8], DecodeError> {
        self.nullable_bytes(field, compact, false)?.ok_or_else(|| self.error(field, DecodeErrorKind::UnexpectedNull))
    }

    /// See [`nullable_string`](Self::nullable_string).
    pub fn nullable_bytes(
        &mut self,
        field: &'static str,
        compact: bool,
        nullable: bool,
    ) -> Result<Option<&'a [u8]>, DecodeError> {
        let length = if compact { self.compact_length(field)? } else { i64::from(self.i32(field)?) };
        match self.check_length(field, length, nullable)? {
            None => Ok(None),
            Some(length) => self.take(field, length).map(Some),
        }
    }

    pub(crate) fn records(
        &mut self,
        field: &'static str,
        compact: bool,
        nullable: bool,
    ) -> Result<crate::Records<'a>, DecodeError> {
        let bytes = self.nullable_bytes(field, compact, nullable)?;
        Ok(bytes.map_or(crate::Records::Null, crate::Records::borrowed))
    }

    /// An array whose elements take at least `least` bytes each (never zero).
    pub(crate) fn array<T>(
        &mut self,
        field: &'static str,
        compact: bool,
        least: usize,
        element: impl FnMut(&mut Self) -> Result<T, DecodeError>,
    ) -> Result<Vec<T>, DecodeError> {
        let array = self.nullable_array(field, compact, false, least, element)?;
        array.ok_or_else(|| self.error(field, DecodeErrorKind::UnexpectedNull))
    }

    pub(crate) fn nullable_array<T>(
        &mut self,
        field: &'static str,
        compact: bool,
        nullable: bool,
        least: usize,
        mut element: impl FnMut(&mut Self) -> Result<T, DecodeError>,
    ) -> Result<Option<Vec<T>>, DecodeError> {
        let Some(count) = self.array_count(field, compact, nullable, least, size_of::<T>())? else { return Ok(None) };
        let mut items = Vec::with_capacity(count.min(RESERVE_LIMIT / size_of::<T>().max(1)));
        for _ in 0..count {
            items.push(element(self)?);
        }
        Ok(Some(items))
    }

    /// The count of an array, checked against the bytes left and charged to the memory limit.
    fn array_count(
        &mut self,
        field: &'static str,
        compact: bool,
        nullable: bool,
        least: usize,
        memory: usize,
    ) -> Result<Option<usize>, DecodeError> {
        let count = if compact { self.compact_length(field)? } else { i64::from(self.i32(field)?) };
        let Some(count) = self.check_length(field, count, nullable)? else { return Ok(None) };
        if count > self.remaining() / least {
            let kind = DecodeErrorKind::CountTooLarge { count, element_size: least, remaining: self.remaining() };
            return Err(self.error(field, kind));
        }
        match self.memory_left.checked_sub(count.saturating_mul(memory)) {
            Some(left) => self.memory_left = left,
            None => return Err(self.error(field, DecodeErrorKind::MemoryLimit { limit: self.memory_limit })),
        }
        Ok(Some(count))
    }

    /// The byte in front of a nullable struct: -1 for null, 1 for present.
    pub(crate) fn is_present(&mut self, field: &'static str) -> Result<bool, DecodeError> {
        Ok(self.i8(field)? >= 0)
    }

    /// The same inside a tagged field, where Kafka writes a varint: 0 for null, 1 for present.
    pub(crate) fn is_present_in_tag(&mut self, field: &'static str) -> Result<bool, DecodeError> {
        Ok(self.uvarint(field)? > 0)
    }

    pub(crate) fn tag_count(&mut self, field: &'static str) -> Result<u32, DecodeError> {
        self.uvarint(field)
    }

    /// Tag and the position behind its value, which lies within the frame.
    pub(crate) fn begin_tag(&mut self, field: &'static str) -> Result<(u32, usize), DecodeError> {
        let tag = self.uvarint(field)?;
        let size = self.uvarint(field)? as usize;
        if size > self.remaining() {
            return Err(self.truncated(field, size));
        }
        Ok((tag, self.position + size))
    }

    pub(crate) fn end_tag(&mut self, field: &'static str, end: usize) -> Result<(), DecodeError> {
        if self.position == end {
            return Ok(());
        }
        Err(self.error(field, DecodeErrorKind::TagSizeMismatch { expected: end, actual: self.position }))
    }

    pub(crate) fn skip_to(&mut self, end: usize) {
        debug_assert!(end >= self.position && end <= self.bytes.len(), "{end} outside {}", self.bytes.len());
        self.position = end;
    }

    pub(crate) fn skip_tags(&mut self, field: &'static str) -> Result<(), DecodeError> {
        for _ in 0..self.tag_count(field)? {
            let (_, end) = self.begin_tag(field)?;
            self.skip_to(end);
        }
        Ok(())
    }

    pub(crate) fn check_version(
        &self,
        message: &'static str,
        versions: RangeInclusive<i16>,
        version: i16,
    ) -> Result<(), DecodeError> {
        if versions.contains(&version) {
            return Ok(());
        }
        Err(self.error(message, DecodeErrorKind::UnsupportedVersion(version)))
    }

    pub(crate) fn unknown_record(&self, api_key: i16) -> DecodeError {
        self.error("MetadataRecord", DecodeErrorKind::UnknownRecord(api_key))
    }

    pub(crate) fn error(&self, field: &'static str, kind: DecodeErrorKind) -> DecodeError {
        DecodeError { kind, field, position: self.position }
    }

    /// Length + 1 as a varint; -1 is null.
    fn compact_length(&mut self, field: &'static str) -> Result<i64, DecodeError> {
        Ok(i64::from(self.uvarint(field)?) - 1)
    }

    fn check_length(&self, field: &'static str, length: i64, nullable: bool) -> Result<Option<usize>, DecodeError> {
        match length {
            -1 if nullable => Ok(None),
            -1 => Err(self.error(field, DecodeErrorKind::UnexpectedNull)),
            length => match usize::try_from(length) {
                Ok(length) => Ok(Some(length)),
                Err(_) => Err(self.error(field, DecodeErrorKind::NegativeLength(length))),
            },
        }
    }

    fn take(&mut self, field: &'static str, length: usize) -> Result<&'a [u8], DecodeError> {
        match self.rest().get(..length) {
            Some(bytes) => {
                self.position += length;
                Ok(bytes)
            }
            None => Err(self.truncated(field, length)),
        }
    }

    fn fixed<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], DecodeError> {
        match self.rest().first_chunk::<N>() {
            Some(bytes) => {
                self.position += N;
                Ok(*bytes)
            }
            None => Err(self.truncated(field, N)),
        }
    }

    fn truncated(&self, field: &'static str, needed: usize) -> DecodeError {
        self.error(field, DecodeErrorKind::Truncated { needed, remaining: self.remaining() })
    }
}
