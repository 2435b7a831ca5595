//! Parts of a segment, in bytes from its start.

use mainstem_types::Offset;

/// A part of a segment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Span {
    pub(crate) base: Offset,
    pub(crate) start: u64,
    pub(crate) end: u64,
}

/// A part of a segment without damage.
#[derive(Debug, Clone, Copy)]
pub(super) struct Region {
    pub(super) start: u64,
    pub(super) end: u64,
    /// Offsets below lie in it, or before.
    pub(super) next: Offset,
}
