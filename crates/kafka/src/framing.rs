//! Kafka's frames: four bytes of length, then so many bytes.
//!
//! A length is checked before anything is allocated for it: 8 bytes at least, `socket.request.max.bytes` (100 MiB) at
//! most.

use bytes::{BufMut, Bytes, BytesMut};
use mainstem_door::{Close, Frame};

use crate::stranger::Stranger;

/// The four bytes of length in front of a frame.
pub const LENGTH_BYTES: usize = 4;
/// The shortest request: api key, version, correlation id.
pub const FRAME_BYTES_MIN: usize = 8;

/// Why the bytes of a connection are no frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    #[error("it sent a frame of {length} bytes, which is less than a request header of {FRAME_BYTES_MIN}")]
    TooShort { length: i32 },
    #[error("it sent a frame of {length} bytes, more than socket.request.max.bytes={limit}")]
    TooLong { length: i32, limit: usize },
    #[error("it sent {0}, and this listener speaks Kafka's protocol without TLS")]
    Stranger(Stranger),
    #[error("a response of {0} bytes does not fit into a frame")]
    ResponseTooLong(u64),
}

impl FrameError {
    pub(crate) fn close(self) -> Close {
        let answer = match self {
            FrameError::Stranger(stranger) => stranger.answer(),
            _ => b"",
        };
        Close::with_last_words(self, Bytes::from_static(answer))
    }
}

/// Where the frame lies that `received` begins with, once its length is known.
pub fn next_frame(received: &[u8], frame_bytes_max: usize) -> Result<Option<Frame>, FrameError> {
    let Some(prefix) = received.first_chunk::<LENGTH_BYTES>() else { return Ok(None) };
    let length = i32::from_be_bytes(*prefix);
    match usize::try_from(length) {
        Ok(body) if body > frame_bytes_max => {
            let too_long = FrameError::TooLong { length, limit: frame_bytes_max };
            Err(Stranger::of(*prefix).map_or(too_long, FrameError::Stranger))
        }
        Ok(body) if body >= FRAME_BYTES_MIN => Ok(Some(Frame { head: LENGTH_BYTES, body })),
        _ => Err(FrameError::TooShort { length }),
    }
}

/// The length of a response, in front of it.
pub fn put_length(response_bytes: u64, head: &mut BytesMut) -> Result<(), FrameError> {
    let length = i32::try_from(response_bytes).map_err(|_| FrameError::ResponseTooLong(response_bytes))?;
    head.put_i32(length);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_is_refused_before_its_frame_is_there() {
        let next = |length: i32| next_frame(&length.to_be_bytes(), 1000);
        assert_eq!(next(1000), Ok(Some(Frame { head: 4, body: 1000 })));
        assert_eq!(next(1001), Err(FrameError::TooLong { length: 1001, limit: 1000 }));
        for length in [7, 0, -1, i32::MIN] {
            assert_eq!(next(length), Err(FrameError::TooShort { length }));
        }
        assert_eq!(next_frame(b"GET", 1000), Ok(None));
        assert_eq!(next_frame(b"GET /", 1000), Err(FrameError::Stranger(Stranger::Http)));
        assert!(FrameError::Stranger(Stranger::Http).close().last_words().starts_with(b"HTTP/1.1 400"));
    }

    #[test]
    fn a_response_that_is_too_long_for_a_length_is_refused() {
        let mut head = BytesMut::new();
        assert_eq!(put_length(i32::MAX as u64, &mut head), Ok(()));
        assert_eq!(put_length(1 << 31, &mut head), Err(FrameError::ResponseTooLong(1 << 31)));
        assert_eq!(head[..], i32::MAX.to_be_bytes());
    }
}
