//! Records, one after the other, borrowed from the batch or from its decompressed bytes.

use std::borrow::Cow;

use mainstem_types::{Offset, TimestampMs};

use crate::header::{BatchHeader, TimestampType};
use crate::walk::{Fault, RecordError, SliceSource, Source};

/// A message as it lies in a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record<'a> {
    pub offset: Offset,
    /// The producer's time, or for LogAppendTime the time of the batch. −1 is none.
    pub timestamp: TimestampMs,
    pub key: Option<&'a [u8]>,
    /// `None` is a tombstone.
    pub value: Option<&'a [u8]>,
    pub headers: RecordHeaders<'a>,
}

/// A header of a record: a name, which may occur more than once, and a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordHeader<'a> {
    /// UTF-8 by contract; not checked.
    pub key: &'a [u8],
    pub value: Option<&'a [u8]>,
}

impl<'a> RecordHeader<'a> {
    pub fn new(key: &'a str, value: Option<&'a [u8]>) -> Self {
        RecordHeader { key: key.as_bytes(), value }
    }

    /// The name as text; bytes that are no UTF-8 are replaced.
    pub fn key_text(&self) -> Cow<'a, str> {
        String::from_utf8_lossy(self.key)
    }
}

/// The headers of a record. They were checked when the record was read, so that iterating cannot fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RecordHeaders<'a> {
    bytes: &'a [u8],
    count: i32,
}

impl<'a> RecordHeaders<'a> {
    pub fn len(&self) -> usize {
        self.count.max(0) as usize
    }

    pub fn is_empty(&self) -> bool {
        self.count <= 0
    }

    /// The headers as they are encoded, without their count.
    pub(crate) fn encoded(&self) -> &'a [u8] {
        self.bytes
    }

    pub fn iter(&self) -> impl Iterator<Item = RecordHeader<'a>> + use<'a> {
        let mut source = SliceSource::new(self.bytes);
        (0..self.count).map_while(move |_| read_header(&mut source).ok())
    }

    /// The last header of that name, which is the one that counts where a name is expected once.
    pub fn last(&self, key: &str) -> Option<RecordHeader<'a>> {
        self.iter().filter(|header| header.key == key.as_bytes()).last()
    }
}

/// Iterates over records; ends after the last or after one error. See [`crate::BatchView::records`].
#[derive(Debug, Clone)]
pub struct RecordIter<'a> {
    source: SliceSource<'a>,
    base_offset: Offset,
    base_timestamp: TimestampMs,
    /// Every record's time, if the broker's counts.
    append_time: Option<TimestampMs>,
    index: i32,
    count: i32,
    done: bool,
}

impl<'a> RecordIter<'a> {
    pub(crate) fn new(header: &BatchHeader, records: &'a [u8]) -> Self {
        RecordIter {
            source: SliceSource::new(records),
            base_offset: header.base_offset,
            base_timestamp: header.base_timestamp,
            append_time: (header.timestamp_type() == TimestampType::LogAppendTime).then_some(header.max_timestamp),
            index: 0,
            count: header.record_count,
            done: false,
        }
    }

    fn read(&mut self) -> Result<Record<'a>, Fault> {
        let declared = self.source.varint()?;
        if declared < 0 {
            return Err(Fault::NegativeSize(declared));
        }
        let start = self.source.consumed();
        self.source.skip(1)?;
        let timestamp_delta = self.source.varlong()?;
        let offset_delta = self.source.varint()?;
        let key = self.source.take_nullable()?;
        let value = self.source.take_nullable()?;
        let headers = read_headers(&mut self.source)?;
        let actual = self.source.consumed() - start;
        if actual != declared as u64 {
            return Err(Fault::SizeMismatch { declared, actual });
        }
        let create_time = TimestampMs(self.base_timestamp.0.wrapping_add(timestamp_delta));
        Ok(Record {
            offset: Offset(self.base_offset.0.wrapping_add(i64::from(offset_delta))),
            timestamp: self.append_time.unwrap_or(create_time),
            key,
            value,
            headers,
        })
    }
}

impl<'a> Iterator for RecordIter<'a> {
    type Item = Result<Record<'a>, RecordError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        if self.index >= self.count {
            self.done = true;
            let at_end = self.source.at_end().unwrap_or(false);
            return (!at_end).then_some(Err(RecordError::TrailingBytes { count: self.count }));
        }
        let record = self.read().map_err(|fault| fault.of_record(self.index));
        self.done = record.is_err();
        self.index += 1;
        Some(record)
    }
}

/// Reads the count and steps over the headers, which are thereby known to be whole.
fn read_headers<'a>(source: &mut SliceSource<'a>) -> Result<RecordHeaders<'a>, Fault> {
    let count = source.varint()?;
    if count < 0 {
        return Err(Fault::NegativeHeaderCount(count));
    }
    let mut ahead = *source;
    for _ in 0..count {
        read_header(&mut ahead)?;
    }
    let bytes = source.take((ahead.consumed() - source.consumed()) as usize)?;
    Ok(RecordHeaders { bytes, count })
}

fn read_header<'a>(source: &mut SliceSource<'a>) -> Result<RecordHeader<'a>, Fault> {
    let key_length = source.varint()?;
    let key = source.take(usize::try_from(key_length).map_err(|_| Fault::NegativeHeaderKeySize(key_length))?)?;
    Ok(RecordHeader { key, value: source.take_nullable()? })
}
