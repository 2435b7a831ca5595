//! Cuts the bytes of a socket into frames, as the protocol says.
//!
//! Guarantees: memory grows with what was received (at most 1 MiB, or twice what is there, ahead of it); a frame is
//! read straight into the buffer that is handed on, without a copy when its length is known or was guessed from the
//! frames before it; an idle connection holds no buffer.

use std::io;
use std::pin::pin;
use std::task::{Context, Poll};

use bytes::buf::Limit;
use bytes::{Buf, BufMut, Bytes, BytesMut};
use mainstem_door::Frame;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

/// The most bytes that are allocated ahead of the received bytes of a frame, until as many have arrived.
const STEP_BYTES: usize = 1 << 20;
/// The least and the greatest size of a read whose frame is not known yet. Above the middle one, only frames that were
/// really that long make the reads longer.
const READ_BYTES_MIN: usize = 4 << 10;
const READ_BYTES_PLAIN_MAX: usize = 64 << 10;

/// The receiving half of a connection.
#[derive(Debug)]
pub struct Inbound {
    buffer: BytesMut,
    read_bytes: usize,
}

impl Default for Inbound {
    fn default() -> Self {
        Inbound { buffer: BytesMut::new(), read_bytes: READ_BYTES_MIN }
    }
}

impl Inbound {
    /// Bytes that were received and not handed on. A frame begins at the front.
    pub fn received(&self) -> &[u8] {
        &self.buffer
    }

    /// Memory held for receiving.
    pub fn held_bytes(&self) -> usize {
        self.buffer.capacity()
    }

    /// Whether `frame`, which lies at the front, is complete.
    pub fn has(&self, frame: Frame) -> bool {
        self.buffer.len() >= frame.total()
    }

    /// Takes the body of `frame`, which lies at the front and must be complete.
    pub fn take(&mut self, frame: Frame) -> Bytes {
        self.buffer.advance(frame.head);
        self.buffer.split_to(frame.body).freeze()
    }

    /// Gives the buffer back when nothing is in it.
    pub fn release_if_empty(&mut self) {
        if self.buffer.is_empty() {
            self.buffer = BytesMut::new();
        }
    }

    /// Forgets the received bytes.
    pub fn clear(&mut self) {
        self.buffer = BytesMut::new();
    }

    /// Reads once, so that at most `limit` bytes are in the buffer. `Ok(0)` is the end of the stream. `next` is the
    /// frame at the front, if it is known; while it is not, `guess_long` allows a read of more than 64 KiB.
    pub fn poll_fill(
        &mut self,
        stream: &mut TcpStream,
        next: Option<Frame>,
        (limit, guess_long): (usize, bool),
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        std::task::ready!(stream.poll_read_ready(cx))?;
        self.fill(next, (limit, guess_long), |target| pin!(stream.read_buf(target)).poll(cx))
    }

    /// Takes from the front of `bytes` what one read takes; says how much. For what does not come from a socket.
    pub fn take_from(&mut self, bytes: &mut &[u8], next: Option<Frame>, (limit, guess_long): (usize, bool)) -> usize {
        let mut taken = 0;
        let _: Poll<io::Result<usize>> = self.fill(next, (limit, guess_long), |target| {
            taken = target.remaining_mut().min(bytes.len());
            target.put_slice(&bytes[..taken]);
            *bytes = &bytes[taken..];
            Poll::Ready(Ok(taken))
        });
        taken
    }

    fn fill(
        &mut self,
        next: Option<Frame>,
        (limit, guess_long): (usize, bool),
        read: impl FnOnce(&mut Limit<&mut BytesMut>) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        debug_assert!(limit > self.buffer.len(), "nothing may be read: {limit} <= {}", self.buffer.len());
        let fresh = self.buffer.is_empty();
        self.make_room(next, limit, guess_long);
        let room = (limit - self.buffer.len()).min(self.buffer.capacity() - self.buffer.len());
        let received = std::task::ready!(read(&mut (&mut self.buffer).limit(room)))?;
        if fresh {
            self.adapt_read_size(received, room);
        }
        Poll::Ready(Ok(received))
    }

    /// Longer reads after one that was filled, shorter ones after one that stayed nearly empty.
    fn adapt_read_size(&mut self, received: usize, room: usize) {
        if received == room && self.read_bytes < READ_BYTES_PLAIN_MAX {
            self.read_bytes *= 2;
        } else if received < room / 4 {
            self.read_bytes = (self.read_bytes / 2).max(READ_BYTES_MIN);
        }
    }

    /// Makes sure that the buffer has spare capacity, as much as the next frame asks for within the step.
    fn make_room(&mut self, next: Option<Frame>, limit: usize, guess_long: bool) {
        let have = self.buffer.len();
        let (wanted, spare_min) = match next {
            Some(frame) if !self.has(frame) => {
                let total = frame.total();
                if total > READ_BYTES_PLAIN_MAX {
                    self.read_bytes = total.min(STEP_BYTES);
                }
                let wanted = total.min(STEP_BYTES.max(2 * have));
                (wanted, wanted - have)
            }
            // The rest of a buffer of small frames serves while it is large enough for one read.
            _ => (
                have + if guess_long { self.read_bytes } else { self.read_bytes.min(READ_BYTES_PLAIN_MAX) },
                READ_BYTES_MIN / 4,
            ),
        };
        let (wanted, spare_min) = (wanted.min(limit), spare_min.min(limit - have));
        if self.buffer.capacity() - have < spare_min && !self.buffer.try_reclaim(spare_min) {
            let mut larger = BytesMut::with_capacity(wanted);
            larger.extend_from_slice(&self.buffer);
            self.buffer = larger;
        }
    }
}
