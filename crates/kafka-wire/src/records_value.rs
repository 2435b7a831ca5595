//! The value of a field of type `records`.

use std::borrow::Cow;

/// Record batches inside a message, never parsed or copied by this crate.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Records<'a> {
    #[default]
    Null,
    /// The batches as they stand in the frame.
    Bytes(Cow<'a, [u8]>),
    /// So many bytes that the sender fills in behind the encoder's back (a file slice); see [`crate::Writer::holes`].
    Hole(u32),
}

impl<'a> Records<'a> {
    pub fn borrowed(bytes: &'a [u8]) -> Self {
        Records::Bytes(Cow::Borrowed(bytes))
    }

    pub fn is_null(&self) -> bool {
        matches!(self, Records::Null)
    }

    /// The bytes, when they are here: nothing for null and for a hole.
    pub fn as_bytes(&self) -> Option<&[u8]> {
        match self {
            Records::Bytes(bytes) => Some(bytes),
            Records::Null | Records::Hole(_) => None,
        }
    }

    /// Number of bytes on the wire, without the length in front of them.
    pub fn len(&self) -> usize {
        match self {
            Records::Null => 0,
            Records::Bytes(bytes) => bytes.len(),
            Records::Hole(length) => *length as usize,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn into_owned(self) -> Records<'static> {
        match self {
            Records::Null => Records::Null,
            Records::Bytes(bytes) => Records::Bytes(Cow::Owned(bytes.into_owned())),
            Records::Hole(length) => Records::Hole(length),
        }
    }
}
