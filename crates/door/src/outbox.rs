//! What a protocol sends to a client that did not ask for it: a bounded queue for each connection.
//!
//! - A push never waits. A push that does not fit is refused ([`PushError::Full`]), and nothing of it stays. Accepted
//!   pushes stay. The protocol decides what to do: drop the message, send it later, or close the connection.
//! - The server takes pushes in order, between replies, while it holds less than 64 KiB of unsent bytes for the client.
//!   A client that reads slowly therefore fills only its own outbox.
//! - Bytes in an outbox count as replies in memory: a client that reads nothing loses its connection when memory is
//!   short.
//! - At a stop nothing more is accepted ([`PushError::Closed`]). Accepted responses are sent within the grace.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Waker;

use parking_lot::Mutex;

use crate::reply::Response;

/// What one outbox holds at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutboxLimits {
    pub frames: usize,
    /// In memory. A frame that alone has more is accepted when nothing else is in the outbox.
    pub bytes: usize,
}

impl Default for OutboxLimits {
    fn default() -> Self {
        OutboxLimits { frames: 256, bytes: 4 << 20 }
    }
}

/// Why a push was not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PushError {
    #[error("the outbox is full: the client does not take what it is sent")]
    Full,
    #[error("the connection is at its end")]
    Closed,
}

/// The protocol's end of the queue. Clones push into the same one, from any thread.
#[derive(Debug, Clone)]
pub struct Outbox(Arc<OutboxState>);

/// The server's end of it. Dropping it closes the outbox.
#[derive(Debug)]
pub struct OutboxReader(Arc<OutboxState>);

#[derive(Debug)]
struct OutboxState {
    limits: OutboxLimits,
    /// Frames in the queue, to be read without its lock.
    frames: AtomicUsize,
    bytes: AtomicUsize,
    queue: Mutex<Queue>,
}

#[derive(Debug, Default)]
struct Queue {
    responses: VecDeque<Response>,
    closed: bool,
    reader: Option<Waker>,
}

/// A new queue.
pub fn outbox(limits: OutboxLimits) -> (Outbox, OutboxReader) {
    let (frames, bytes) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let shared = Arc::new(OutboxState { limits, frames, bytes, queue: Mutex::default() });
    (Outbox(Arc::clone(&shared)), OutboxReader(shared))
}

impl Outbox {
    /// Queues a response, which the protocol's head goes in front of.
    pub fn push(&self, response: Response) -> Result<(), PushError> {
        let bytes = response.memory_bytes();
        let mut queue = self.0.queue.lock();
        if queue.closed {
            return Err(PushError::Closed);
        }
        let held = self.0.bytes.load(Ordering::Relaxed);
        let fits = held == 0 || held.saturating_add(bytes) <= self.0.limits.bytes;
        if queue.responses.len() >= self.0.limits.frames || !fits {
            return Err(PushError::Full);
        }
        queue.responses.push_back(response);
        self.0.bytes.store(held + bytes, Ordering::Relaxed);
        self.0.frames.store(queue.responses.len(), Ordering::Release);
        let reader = queue.reader.clone();
        drop(queue);
        if let Some(reader) = reader {
            reader.wake();
        }
        Ok(())
    }
}

impl OutboxReader {
    /// Sets the waker that a push wakes.
    pub fn watch(&self, reader: &Waker) {
        self.0.queue.lock().reader = Some(reader.clone());
    }

    /// The response that was pushed first. Costs one load when there is none.
    pub fn take(&self) -> Option<Response> {
        if self.0.frames.load(Ordering::Acquire) == 0 {
            return None;
        }
        let mut queue = self.0.queue.lock();
        let response = queue.responses.pop_front()?;
        self.0.bytes.fetch_sub(response.memory_bytes(), Ordering::Relaxed);
        self.0.frames.store(queue.responses.len(), Ordering::Release);
        Some(response)
    }

    pub fn is_empty(&self) -> bool {
        self.0.frames.load(Ordering::Acquire) == 0
    }

    /// Bytes in memory that wait here.
    pub fn held_bytes(&self) -> usize {
        self.0.bytes.load(Ordering::Relaxed)
    }

    /// Accepts nothing more. Responses that are there can still be taken.
    pub fn close(&self) {
        self.0.queue.lock().closed = true;
    }
}

impl Drop for OutboxReader {
    fn drop(&mut self) {
        let mut queue = self.0.queue.lock();
        queue.closed = true;
        let gone = std::mem::take(&mut queue.responses);
        queue.reader = None;
        drop(queue);
        drop(gone);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use std::sync::atomic::AtomicUsize;
    use std::task::Wake;

    fn of(bytes: usize) -> Response {
        Response::from_bytes(Bytes::from(vec![7; bytes]))
    }

    #[test]
    fn what_does_not_fit_is_refused_and_what_was_accepted_comes_in_order() {
        let (outbox, reader) = outbox(OutboxLimits { frames: 3, bytes: 100 });
        assert_eq!(outbox.push(of(60)), Ok(()));
        assert_eq!(outbox.push(of(41)), Err(PushError::Full), "too many bytes");
        assert_eq!(outbox.push(of(40)), Ok(()));
        assert_eq!(reader.held_bytes(), 100);
        assert_eq!(outbox.push(of(0)), Ok(()));
        assert_eq!(outbox.push(of(0)), Err(PushError::Full), "too many frames");
        assert_eq!([60, 40, 0].map(|_| reader.take().unwrap().len()), [60, 40, 0]);
        assert!(reader.take().is_none() && reader.is_empty() && reader.held_bytes() == 0);
        assert_eq!(outbox.push(of(1000)), Ok(()), "alone it is accepted");
        assert_eq!(outbox.push(of(1)), Err(PushError::Full));
    }

    #[test]
    fn a_closed_outbox_gives_what_it_has_and_accepts_nothing() {
        let (outbox, reader) = outbox(OutboxLimits::default());
        assert_eq!(outbox.push(of(1)), Ok(()));
        reader.close();
        assert_eq!(outbox.push(of(1)), Err(PushError::Closed));
        assert!(reader.take().is_some());
        drop(reader);
        assert_eq!(outbox.push(of(1)), Err(PushError::Closed));
    }

    #[test]
    fn a_push_wakes_the_reader() {
        struct Count(AtomicUsize);
        impl Wake for Count {
            fn wake(self: Arc<Self>) {
                self.0.fetch_add(1, Ordering::SeqCst);
            }
        }
        let count = Arc::new(Count(AtomicUsize::new(0)));
        let (outbox, reader) = outbox(OutboxLimits { frames: 1, bytes: 1 });
        reader.watch(&Waker::from(Arc::clone(&count)));
        let _ = (outbox.push(of(1)), outbox.push(of(1)));
        assert_eq!(count.0.load(Ordering::SeqCst), 1, "who is refused wakes nobody");
    }
}
