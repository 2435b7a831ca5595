//! What a handled request leads to: a reply now, a reply later, nothing, or the end of the connection.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use mainstem_broker::Broker;
use mainstem_env::FileSlice;

/// A piece of a response, in the order of the wire.
#[derive(Debug, Clone)]
pub enum Chunk {
    Bytes(Bytes),
    /// A range of a log file, to be sent without a copy into user space.
    File(FileSlice),
}

impl Chunk {
    pub fn len(&self) -> u64 {
        match self {
            Chunk::Bytes(bytes) => bytes.len() as u64,
            Chunk::File(slice) => slice.len,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A whole response frame without its four bytes of length, which the server puts in front.
#[derive(Debug, Clone, Default)]
pub struct Response {
    pub chunks: Vec<Chunk>,
}

impl Response {
    pub fn from_bytes(bytes: Bytes) -> Self {
        Response { chunks: vec![Chunk::Bytes(bytes)] }
    }

    pub fn len(&self) -> u64 {
        self.chunks.iter().map(Chunk::len).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Why the door wants a connection closed. Kafka closes where a client cannot be answered in a form that it would
/// understand.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CloseReason {
    #[error("malformed request: {0}")]
    Malformed(String),
    #[error("api key {0} is unknown")]
    UnknownApi(i16),
    #[error("{api} version {version} is not supported")]
    UnsupportedVersion { api: &'static str, version: i16 },
    #[error("a produce request with acks=0 failed: {0}")]
    FireAndForgetFailed(String),
    #[error("{0}")]
    Stopping(String),
    #[error("a response could not be encoded: {0}")]
    Encoding(String),
}

/// The end of a handled request.
#[derive(Debug)]
pub enum Reply {
    /// The protocol wants no answer (Produce with acks=0).
    Nothing,
    Send(Response),
    Close(CloseReason),
}

/// A reply that is ready, or the promise of one.
///
/// A waiting reply owns what it waits for: dropping the future (the client went away) frees the waiter.
pub enum Handled {
    Ready(Reply),
    Waiting(Pin<Box<dyn Future<Output = Reply> + Send>>),
    /// A request that is still being worked at: until its reply is there no further request of the connection may be handled, and it
    /// goes on when the client leaves.
    Working(Pin<Box<dyn Future<Output = Reply> + Send>>),
}

impl Handled {
    pub fn working(future: impl Future<Output = Reply> + Send + 'static) -> Self {
        Handled::Working(Box::pin(future))
    }

    pub fn waiting(future: impl Future<Output = Reply> + Send + 'static) -> Self {
        Handled::Waiting(Box::pin(future))
    }

    /// Answers on a thread of the broker that may wait for the disk, which a reactor may not.
    pub(crate) fn on_pool(
        broker: &Arc<Broker>,
        answer: impl FnOnce(&Broker) -> Result<Reply, CloseReason> + Send + 'static,
    ) -> Handled {
        let broker = Arc::clone(broker);
        Handled::waiting(async move {
            let pool = Arc::clone(broker.blocking());
            let answered = pool.run(move || answer(&broker)).await;
            let answered = answered.unwrap_or_else(|stopped| Err(CloseReason::Stopping(stopped.to_string())));
            answered.unwrap_or_else(Reply::Close)
        })
    }
}
