//! What a handled request leads to: a reply now, a reply later, nothing, or the end of the connection.

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use mainstem_env::FileSlice;
use mainstem_waits::BlockingPool;

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

/// What is sent to a client, without the head that its protocol puts in front
/// ([`put_head`](crate::Protocol::put_head)).
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

    /// Bytes of it that are in memory.
    pub fn memory_bytes(&self) -> usize {
        let in_memory = |chunk: &Chunk| match chunk {
            Chunk::Bytes(bytes) => bytes.len(),
            Chunk::File(_) => 0,
        };
        self.chunks.iter().map(in_memory).sum()
    }
}

/// A protocol wants its connection closed. The reason goes to the log.
pub struct Close(Box<Closing>);

struct Closing {
    reason: Box<dyn Error + Send + Sync>,
    last_words: Bytes,
}

impl Close {
    pub fn new(reason: impl Into<Box<dyn Error + Send + Sync>>) -> Close {
        Close::with_last_words(reason, Bytes::new())
    }

    /// The client is sent `last_words` as they are, behind earlier replies, if the socket takes them at once.
    pub fn with_last_words(reason: impl Into<Box<dyn Error + Send + Sync>>, last_words: Bytes) -> Close {
        Close(Box::new(Closing { reason: reason.into(), last_words }))
    }

    pub fn reason(&self) -> &(dyn Error + Send + Sync + 'static) {
        &*self.0.reason
    }

    pub fn last_words(&self) -> &Bytes {
        &self.0.last_words
    }
}

impl<E: Error + Send + Sync + 'static> From<E> for Close {
    fn from(reason: E) -> Close {
        Close::new(reason)
    }
}

impl fmt::Display for Close {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0.reason, formatter)
    }
}

impl fmt::Debug for Close {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0.reason, formatter)
    }
}

/// The end of a handled request.
#[derive(Debug)]
pub enum Reply {
    /// The protocol wants no answer.
    Nothing,
    Send(Response),
    Close(Close),
}

impl Reply {
    pub fn close(reason: impl Into<Close>) -> Reply {
        Reply::Close(reason.into())
    }
}

/// The reply that is owed.
pub type Promise<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// A reply that is ready, or the promise of one. What a promise waits for is freed when it is dropped.
///
/// | kind | its client leaves | the server stops | with [`Order::OfRequests`](crate::Order), later requests that may be pipelined |
/// | --- | --- | --- | --- |
/// | `Polling` | it is dropped at once | it is dropped after 1 s | are handled |
/// | `Confirming` | it goes on | it has the grace of the stop | are handled |
/// | `Working` | it goes on | it has the grace of the stop | wait for its end |
pub enum Handled {
    Ready(Reply),
    /// A long poll: waits for what others may do. Nothing but its reply depends on it.
    Polling(Promise<Reply>),
    /// The work is done. The reply waits until the work is safe, for example committed.
    Confirming(Promise<Reply>),
    /// Work under way, and its result.
    Working(Promise<Handled>),
}

impl Handled {
    pub fn close(reason: impl Into<Close>) -> Handled {
        Handled::Ready(Reply::close(reason))
    }

    pub fn polling(reply: impl Future<Output = Reply> + Send + 'static) -> Handled {
        Handled::Polling(Box::pin(reply))
    }

    pub fn confirming(reply: impl Future<Output = Reply> + Send + 'static) -> Handled {
        Handled::Confirming(Box::pin(reply))
    }

    /// Work that ends with a reply.
    pub fn working(reply: impl Future<Output = Reply> + Send + 'static) -> Handled {
        Handled::working_towards(async move { Handled::Ready(reply.await) })
    }

    /// Work that may end with another wait.
    pub fn working_towards(handled: impl Future<Output = Handled> + Send + 'static) -> Handled {
        Handled::Working(Box::pin(handled))
    }

    /// Answers on a thread of `pool`, which may wait for the disk. The connection is closed if the pool stops before.
    pub fn on_pool(pool: &Arc<BlockingPool>, answer: impl FnOnce() -> Reply + Send + 'static) -> Handled {
        let pool = Arc::clone(pool);
        Handled::working(async move { pool.run(answer).await.unwrap_or_else(Reply::close) })
    }

    /// Waits for the reply, through all that it takes.
    pub async fn reply(mut self) -> Reply {
        loop {
            match self {
                Handled::Ready(reply) => return reply,
                Handled::Polling(promise) | Handled::Confirming(promise) => return promise.await,
                Handled::Working(promise) => self = promise.await,
            }
        }
    }
}
