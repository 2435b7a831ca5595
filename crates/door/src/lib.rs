//! What every protocol and the server agree on: frames in, replies out, pushes.
//!
//! A door is a [`Protocol`]: it cuts frames, handles them, and puts heads in front of what it sends. The server owns
//! sockets, memory and limits, and knows no protocol.
//!
//! - Replies leave in the order of the requests or as they are ready: [`Order`], the protocol's choice.
//! - A request is answered at once, or with a promise whose kind says what a stop and a leaving client do to it:
//!   [`Handled`].
//! - A frame that is not a reply goes through the [`Outbox`] of its connection: 256 frames and 4 MiB unless the
//!   protocol says otherwise. A full outbox refuses a push, and the protocol decides what that means.
//! - Nothing here waits on a reactor: what may wait runs on a pool ([`Handled::on_pool`], [`handle_elsewhere`]).

mod elsewhere;
mod outbox;
mod protocol;
mod reply;

pub use elsewhere::handle_elsewhere;
pub use outbox::{Outbox, OutboxLimits, OutboxReader, PushError, outbox};
pub use protocol::{ConnectionInfo, Frame, Order, Protocol};
pub use reply::{Chunk, Close, Handled, Promise, Reply, Response};
