//! What requests hold while they wait for their replies.

use crate::limits::Claim;

/// Bytes of the requests of one connection that may wait for their replies at once. Beyond it, the connection handles
/// no further request.
pub(super) const WAITING_BYTES_MAX: usize = 8 << 20;

/// What a request holds until its reply is sent.
#[derive(Debug)]
pub(super) struct Held {
    pub bytes: usize,
    /// Given back with the reply.
    pub _claim: Option<Claim>,
}

impl Held {
    pub const NOTHING: Held = Held { bytes: 0, _claim: None };
}
