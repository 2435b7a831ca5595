//! Where bytes are.

use std::fmt;

/// The number that names a segment: larger for later segments. Kafka's base offset, or a byte position.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct SegmentBase(pub u64);

/// A place in a journal. Ordered as the bytes of the journal are: by segment, then by position in its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Location {
    pub segment: SegmentBase,
    /// Bytes from the start of the segment's file.
    pub position: u64,
}

impl Location {
    pub fn new(segment: SegmentBase, position: u64) -> Self {
        Location { segment, position }
    }

    /// The place `bytes` bytes later in the same segment.
    #[must_use]
    pub fn plus(self, bytes: u64) -> Self {
        Location { segment: self.segment, position: self.position + bytes }
    }
}

impl fmt::Display for SegmentBase {
    /// 20 digits, as in the file's name.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:020}", self.0)
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}+{}", self.segment, self.position)
    }
}
