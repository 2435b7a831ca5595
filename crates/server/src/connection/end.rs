//! Why a connection ended.

use std::io;

use mainstem_door::Close;

use super::sending::SendError;

#[derive(Debug, thiserror::Error)]
pub(super) enum End {
    #[error("the client closed it")]
    PeerClosed,
    #[error("it made no progress for connections.max.idle.ms")]
    Idle,
    #[error("its client does not read its replies, and the replies of all connections take too much memory")]
    Crowded,
    #[error("the broker stops")]
    Stopped,
    #[error("receiving failed: {0}")]
    Receive(io::Error),
    #[error("sending failed: {0}")]
    Send(#[from] SendError),
    #[error("it sent {HEAD_BYTES_MAX} bytes without the beginning of a frame")]
    NoFrame,
    #[error("{0}")]
    Protocol(Close),
}

/// Within so many bytes a protocol knows where the frame that they begin ends.
pub(super) const HEAD_BYTES_MAX: usize = 64 << 10;
