//! The writer: primitives, lengths and tags of Kafka's protocol into one buffer, and the holes left for file slices.

use bytes::{BufMut, BytesMut};
use mainstem_types::TopicId;

use crate::error::EncodeError;
use crate::reader::STRING_LIMIT;
use crate::records_value::Records;

/// Grows one buffer; see the module.
#[derive(Debug, Default)]
pub struct Writer {
    buffer: BytesMut,
    holes: Vec<(usize, u32)>,
}

impl Writer {
    pub fn new() -> Self {
        Writer::default()
    }

    pub fn with_capacity(bytes: usize) -> Self {
        Writer { buffer: BytesMut::with_capacity(bytes), holes: Vec::new() }
    }

    /// Appends to what the buffer holds; positions of holes count from its start.
    pub fn from_buffer(buffer: BytesMut) -> Self {
        Writer { buffer, holes: Vec::new() }
    }

    /// Where bytes from elsewhere belong: (position in [`as_bytes`](Self::as_bytes) before which they go, number of
    /// bytes). Ascending. The bytes to send are: bytes up to the first position, the first slice, bytes up to the
    /// next position, and so on.
    pub fn holes(&self) -> &[(usize, u32)] {
        &self.holes
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.buffer
    }

    /// Bytes written, holes not counted.
    pub fn written(&self) -> usize {
        self.buffer.len()
    }

    /// Bytes written and bytes of holes.
    pub fn total_len(&self) -> usize {
        self.buffer.len() + self.holes.iter().map(|(_, length)| *length as usize).sum::<usize>()
    }

    pub fn into_parts(self) -> (BytesMut, Vec<(usize, u32)>) {
        (self.buffer, self.holes)
    }

    /// Overwrites the four bytes at `position`, which must be written already.
    pub fn patch_i32(&mut self, position: usize, value: i32) {
        self.buffer[position..position + 4].copy_from_slice(&value.to_be_bytes());
    }

    pub fn bool(&mut self, value: bool) {
        self.buffer.put_u8(u8::from(value));
    }

    pub fn i8(&mut self, value: i8) {
        self.buffer.put_i8(value);
    }

    pub fn i16(&mut self, value: i16) {
        self.buffer.put_i16(value);
    }

    pub fn u16(&mut self, value: u16) {
        self.buffer.put_u16(value);
    }

    pub fn i32(&mut self, value: i32) {
        self.buffer.put_i32(value);
    }

    pub fn u32(&mut self, value: u32) {
        self.buffer.put_u32(value);
    }

    pub fn i64(&mut self, value: i64) {
        self.buffer.put_i64(value);
    }

    pub fn f64(&mut self, value: f64) {
        self.buffer.put_f64(value);
    }

    pub fn uuid(&mut self, value: TopicId) {
        self.buffer.put_slice(&value.0);
    }

    /// Bytes as they are, without a length.
    pub fn raw(&mut self, bytes: &[u8]) {
        self.buffer.put_slice(bytes);
    }

    pub fn uvarint(&mut self, value: u32) {
        let (bytes, length) = varint_bytes(value);
        self.buffer.put_slice(&bytes[..length]);
    }

    pub fn string(&mut self, field: &'static str, value: &str, compact: bool) -> Result<(), EncodeError> {
        self.nullable_string(field, Some(value), compact)
    }

    pub fn nullable_string(
        &mut self,
        field: &'static str,
        value: Option<&str>,
        compact: bool,
    ) -> Result<(), EncodeError> {
        let length = value.map(str::len);
        if let Some(length) = length.filter(|length| *length > STRING_LIMIT) {
            return Err(EncodeError::TooLong { field, length });
        }
        if compact {
            self.uvarint(length.map_or(0, |length| length as u32 + 1));
        } else {
            self.i16(length.map_or(-1, |length| length as i16));
        }
        self.raw(value.unwrap_or_default().as_bytes());
        Ok(())
    }

    pub fn bytes(&mut self, field: &'static str, value: &[u8], compact: bool) -> Result<(), EncodeError> {
        self.nullable_bytes(field, Some(value), compact)
    }

    pub fn nullable_bytes(
        &mut self,
        field: &'static str,
        value: Option<&[u8]>,
        compact: bool,
    ) -> Result<(), EncodeError> {
        self.array_length(field, value.map(<[u8]>::len), compact)?;
        self.raw(value.unwrap_or_default());
        Ok(())
    }

    pub(crate) fn records(
        &mut self,
        field: &'static str,
        value: &Records<'_>,
        compact: bool,
    ) -> Result<(), EncodeError> {
        match value {
            Records::Null => self.array_length(field, None, compact),
            Records::Bytes(bytes) => self.bytes(field, bytes, compact),
            Records::Hole(length) => {
                self.array_length(field, Some(*length as usize), compact)?;
                if *length > 0 {
                    self.holes.push((self.buffer.len(), *length));
                }
                Ok(())
            }
        }
    }

    /// The length in front of arrays, bytes and records.
    pub(crate) fn array_length(
        &mut self,
        field: &'static str,
        length: Option<usize>,
        compact: bool,
    ) -> Result<(), EncodeError> {
        let known = length.unwrap_or_default();
        // One less than the type could hold, because compact lengths count one more.
        let Ok(known) = i32::try_from(known).map_err(|_| ()).and_then(|known| known.checked_add(1).ok_or(())) else {
            return Err(EncodeError::TooLong { field, length: known });
        };
        match (length.is_some(), compact) {
            (true, true) => self.uvarint(known as u32),
            (true, false) => self.i32(known - 1),
            (false, true) => self.uvarint(0),
            (false, false) => self.i32(-1),
        }
        Ok(())
    }

    /// Writes the tag and returns where its value starts; [`end_tag`](Self::end_tag) puts the size in front of it.
    pub(crate) fn begin_tag(&mut self, tag: u32) -> usize {
        self.uvarint(tag);
        self.buffer.len()
    }

    pub(crate) fn end_tag(&mut self, start: usize) {
        debug_assert!(self.holes.last().is_none_or(|(position, _)| *position <= start), "a hole inside a tagged field");
        let size = self.buffer.len() - start;
        let (bytes, length) = varint_bytes(size as u32);
        self.buffer.put_slice(&bytes[..length]);
        self.buffer[start..].rotate_right(length);
    }
}

fn varint_bytes(mut value: u32) -> ([u8; 5], usize) {
    let mut bytes = [0; 5];
    let mut length = 0;
    loop {
        bytes[length] = (value & 0x7f) as u8;
        value >>= 7;
        length += 1;
        if value == 0 {
            return (bytes, length);
        }
        bytes[length - 1] |= 0x80;
    }
}
