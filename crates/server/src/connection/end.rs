//! Why a connection ended.

use std::io;

use super::inbound::FrameError;
use super::outbound::SendError;
use crate::protocol::CloseReason;

#[derive(Debug, thiserror::Error)]
pub(super) enum End {
    #[error("the client closed it")]
    PeerClosed,
    #[error("it made no progress for connections.max.idle.ms")]
    Idle,
    #[error("its client does not take its replies, and those of all connections together take too much memory")]
    Crowded,
    #[error("the broker stops")]
    Stopped,
    #[error("receiving failed: {0}")]
    Receive(io::Error),
    #[error("sending failed: {0}")]
    Send(#[from] SendError),
    #[error("it sent {0}")]
    Frame(#[from] FrameError),
    #[error("{0}")]
    Door(CloseReason),
}
