//! Cuts the bytes of a socket into frames.
//!
//! Guarantees: a length is checked before anything is allocated for it; memory grows with what was received (at most 1 MiB, or twice
//! what is there, ahead of it); a frame is read straight into the buffer that is handed on, without a copy when its length is
//! known or was guessed from the frames before it; an idle connection holds no buffer.

use std::io;
use std::pin::pin;
use std::task::{Context, Poll};

use bytes::buf::Limit;
use bytes::{Buf, BufMut, Bytes, BytesMut};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

use super::stranger::Stranger;

/// The four bytes of length in front of a frame.
pub const LENGTH_BYTES: usize = 4;
/// The shortest request: api key, version, correlation id.
pub const FRAME_BYTES_MIN: usize = 8;
/// What is allocated ahead of the received bytes of one frame at most, until as much has arrived.
const STEP_BYTES: usize = 1 << 20;
/// The least and the greatest size of a read whose frame is not known yet. Above the middle one, only frames that were really that long
/// make the reads longer.
const READ_BYTES_MIN: usize = 4 << 10;
const READ_BYTES_PLAIN_MAX: usize = 64 << 10;

/// Why the bytes of a connection are no frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    #[error("a frame of {length} bytes, which is less than a request header of {FRAME_BYTES_MIN}")]
    TooShort { length: i32 },
    #[error("a frame of {length} bytes, more than socket.request.max.bytes={limit}")]
    TooLong { length: i32, limit: usize },
    #[error("{0}, and this listener speaks Kafka's protocol without TLS")]
    Stranger(Stranger),
}

/// The receiving half of a connection.
#[derive(Debug)]
pub struct Inbound {
    buffer: BytesMut,
    frame_bytes_max: usize,
    read_bytes: usize,
}

impl Inbound {
    pub fn new(frame_bytes_max: usize) -> Self {
        Inbound { buffer: BytesMut::new(), frame_bytes_max, read_bytes: READ_BYTES_MIN }
    }

    /// Bytes received and not handed on.
    pub fn len(&self) -> usize {
        self.buffer.len()
    }

    pub fn is_empty(&self) -> bool {
        self.buffer.is_empty()
    }

    /// Memory held for receiving.
    pub fn held_bytes(&self) -> usize {
        self.buffer.capacity()
    }

    /// The length of the next frame (without the four bytes), once it is known.
    pub fn frame_len(&self) -> Result<Option<usize>, FrameError> {
        let Some(prefix) = self.buffer.first_chunk::<LENGTH_BYTES>() else {
            return Ok(None);
        };
        let length = i32::from_be_bytes(*prefix);
        match usize::try_from(length) {
            Ok(len) if len > self.frame_bytes_max => {
                let too_long = FrameError::TooLong { length, limit: self.frame_bytes_max };
                Err(Stranger::of(*prefix).map_or(too_long, FrameError::Stranger))
            }
            Ok(len) if len >= FRAME_BYTES_MIN => Ok(Some(len)),
            _ => Err(FrameError::TooShort { length }),
        }
    }

    /// What is there of the next frame.
    pub fn frame_so_far(&self) -> &[u8] {
        self.buffer.get(LENGTH_BYTES..).unwrap_or_default()
    }

    /// Whether the next frame, of `frame_len` bytes, is complete.
    pub fn has_frame(&self, frame_len: usize) -> bool {
        self.buffer.len() >= LENGTH_BYTES + frame_len
    }

    /// Takes the next frame, which must be complete.
    pub fn take_frame(&mut self, frame_len: usize) -> Bytes {
        self.buffer.advance(LENGTH_BYTES);
        self.buffer.split_to(frame_len).freeze()
    }

    /// Gives the buffer back when nothing is in it.
    pub fn release_if_empty(&mut self) {
        if self.buffer.is_empty() {
            self.buffer = BytesMut::new();
        }
    }

    /// Forgets what was received.
    pub fn clear(&mut self) {
        self.buffer = BytesMut::new();
    }

    /// Reads once, so that at most `limit` bytes are in the buffer. `Ok(0)` is the end of the stream. `guess_long` allows a
    /// read of more than 64 KiB when the length of the next frame is not known.
    pub fn poll_fill(
        &mut self,
        stream: &mut TcpStream,
        limit: usize,
        guess_long: bool,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        std::task::ready!(stream.poll_read_ready(cx))?;
        self.fill(limit, guess_long, |target| pin!(stream.read_buf(target)).poll(cx))
    }

    /// Takes from the front of `bytes` what one read takes; says how much. For what does not come from a socket.
    pub fn take_from(&mut self, bytes: &mut &[u8], limit: usize, guess_long: bool) -> usize {
        let mut taken = 0;
        let _: Poll<io::Result<usize>> = self.fill(limit, guess_long, |target| {
            taken = target.remaining_mut().min(bytes.len());
            target.put_slice(&bytes[..taken]);
            *bytes = &bytes[taken..];
            Poll::Ready(Ok(taken))
        });
        taken
    }

    fn fill(
        &mut self,
        limit: usize,
        guess_long: bool,
        read: impl FnOnce(&mut Limit<&mut BytesMut>) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        debug_assert!(limit > self.buffer.len(), "nothing may be read: {limit} <= {}", self.buffer.len());
        let fresh = self.buffer.is_empty();
        self.make_room(limit, guess_long);
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
    fn make_room(&mut self, limit: usize, guess_long: bool) {
        let have = self.buffer.len();
        let (wanted, spare_min) = match self.frame_len() {
            Ok(Some(len)) if !self.has_frame(len) => {
                let total = LENGTH_BYTES + len;
                if total > READ_BYTES_PLAIN_MAX {
                    self.read_bytes = total.min(STEP_BYTES);
                }
                let wanted = total.min(STEP_BYTES.max(2 * have));
                (wanted, wanted - have)
            }
            // What is left of a buffer of small frames serves while it is not too little for one read.
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
