//! Why bytes could not be decoded, or a value not encoded.

use std::ops::RangeInclusive;

/// The bytes are not what the schema says. Says which field, and at which byte of the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{kind} (field {field}, at byte {position})")]
pub struct DecodeError {
    pub kind: DecodeErrorKind,
    /// `Struct.Field` as in the schema, or the message.
    pub field: &'static str,
    /// Counted from the first byte given to the reader.
    pub position: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DecodeErrorKind {
    #[error("{needed} bytes are needed, {remaining} are left")]
    Truncated { needed: usize, remaining: usize },
    #[error("length or count {0} is negative")]
    NegativeLength(i64),
    #[error("null is not allowed in this version")]
    UnexpectedNull,
    #[error("a string of {0} bytes is longer than 32767")]
    StringTooLong(usize),
    #[error("the string is not UTF-8")]
    NotUtf8,
    #[error("{count} elements of at least {element_size} bytes cannot fit into the {remaining} bytes left")]
    CountTooLarge { count: usize, element_size: usize, remaining: usize },
    #[error("the arrays of this message need more than {limit} bytes of memory")]
    MemoryLimit { limit: usize },
    #[error("a varint is longer than its type allows")]
    VarintTooLong,
    #[error("a tagged field ends at byte {actual}, its size says {expected}")]
    TagSizeMismatch { expected: usize, actual: usize },
    #[error("version {0} is not supported")]
    UnsupportedVersion(i16),
    #[error("{0} bytes follow the end")]
    TrailingBytes(usize),
    #[error("record kind {0} is unknown")]
    UnknownRecord(i16),
    #[error("frame version {0} is unknown")]
    UnknownFrameVersion(u32),
}

/// The value cannot be written in this version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    #[error("{message}: version {version} is not supported")]
    UnsupportedVersion { message: &'static str, version: i16 },
    #[error("{field}: version {version} does not carry this field, and it does not hold its default")]
    FieldNotInVersion { field: &'static str, version: i16 },
    #[error("{field}: version {version} does not allow null")]
    NullNotAllowed { field: &'static str, version: i16 },
    #[error("{field}: {length} bytes or elements are more than the format can express")]
    TooLong { field: &'static str, length: usize },
    #[error("{message}: this message has no number to write in front of it")]
    NoKey { message: &'static str },
}

impl EncodeError {
    pub(crate) fn absent(field: &'static str, version: i16) -> Self {
        EncodeError::FieldNotInVersion { field, version }
    }

    pub(crate) fn null(field: &'static str, version: i16) -> Self {
        EncodeError::NullNotAllowed { field, version }
    }
}

pub(crate) fn check_encode_version(
    message: &'static str,
    versions: RangeInclusive<i16>,
    version: i16,
) -> Result<(), EncodeError> {
    if versions.contains(&version) { Ok(()) } else { Err(EncodeError::UnsupportedVersion { message, version }) }
}
