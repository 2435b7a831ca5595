//! What every declared message can do.

use std::ops::RangeInclusive;

use crate::{AsFieldValue, DecodeError, EncodeError, Reader, Writer};

/// A message of the schema: its names, its versions, its two directions, and what its fields say.
pub trait Message<'a>: AsFieldValue + Sized {
    /// Kafka's name, for example `ProduceRequest`.
    const NAME: &'static str;
    /// API key, record kind or metadata record number, where the message has one.
    const API_KEY: Option<i16>;
    /// Versions that Kafka 4.4 knows.
    const VERSIONS: RangeInclusive<i16>;
    /// The first version with compact lengths and tagged fields.
    const FLEXIBLE_FROM: Option<i16>;

    /// Reads one message. Bytes behind it stay in the reader; who must refuse them asks [`Reader::finish`].
    fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError>;

    /// Appends the message. After an error, what the writer holds is incomplete and of no use.
    fn encode(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError>;
}
