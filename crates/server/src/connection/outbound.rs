//! Sends replies: gathered writes for bytes, sendfile for slices of log files.
//!
//! Guarantees: the reactor never waits for the disk: a slice of at most 32 KiB is read without waiting or on a thread
//! of the pool, a longer one is sent only after its pages were seen in the page cache or read by such a thread; at most
//! one such read of a connection is under way; one call writes about 1 MiB at most. Pages that were read for a
//! connection do not stay in memory for long ([`ReadBehind`]).

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes, BytesMut};
use mainstem_door::{Chunk, Close, Response};
use mainstem_env::{FileSlice, Residency};
use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

use super::cold::{ReadBehind, Warmed, warm};
use super::sending::{PIECE_BYTES, READ_SLICE_BYTES_MAX, SendError};
use super::socket::write_gathered;
use crate::counters::{Counters, count};

/// Bytes shorter than this are copied together instead of taking a place of their own in a gathered write.
const COPY_BYTES_MAX: usize = 1024;
/// Parts of one gathered write.
const PARTS_MAX: usize = 64;

#[derive(Debug)]
enum Segment {
    Bytes(Bytes),
    File {
        slice: FileSlice,
        /// Bytes from the slice's position on that were seen in memory.
        resident: u64,
    },
}

type WarmResult = Result<Warmed, SendError>;

/// The sending half of a connection.
#[derive(Debug, Default)]
pub(crate) struct Outbound {
    segments: VecDeque<Segment>,
    /// Small pieces that are not cut off yet; they follow after all segments.
    tail: BytesMut,
    /// Bytes in memory that wait in `segments` and `tail`.
    held_bytes: usize,
    warming: Option<JoinHandle<WarmResult>>,
    behind: ReadBehind,
}

/// What one call of [`Outbound::poll_send`] led to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sent {
    /// Everything left.
    All,
    /// The quota is used up, and the socket may take more.
    Quota,
}

impl Outbound {
    pub fn is_empty(&self) -> bool {
        self.segments.is_empty() && self.tail.is_empty()
    }

    /// Memory held for sending.
    pub fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// Whether a thread of the pool reads what comes next.
    pub fn waits_for_disk(&self) -> bool {
        self.warming.is_some()
    }

    /// Queues a response behind the others. `put_head` puts the head in front of it.
    pub fn push(
        &mut self,
        response: Response,
        put_head: impl FnOnce(&mut BytesMut) -> Result<(), Close>,
    ) -> Result<(), Close> {
        let before = self.tail.len();
        put_head(&mut self.tail)?;
        self.held_bytes += self.tail.len() - before;
        for chunk in response.chunks {
            match chunk {
                Chunk::Bytes(bytes) => self.push_bytes(bytes),
                Chunk::File(slice) if slice.is_empty() => {}
                Chunk::File(slice) => {
                    self.cut_tail();
                    self.segments.push_back(Segment::File { slice, resident: 0 });
                }
            }
        }
        Ok(())
    }

    fn push_bytes(&mut self, bytes: Bytes) {
        self.held_bytes += bytes.len();
        if bytes.len() < COPY_BYTES_MAX {
            self.tail.extend_from_slice(&bytes);
        } else {
            self.cut_tail();
            self.segments.push_back(Segment::Bytes(bytes));
        }
    }

    fn cut_tail(&mut self) {
        if !self.tail.is_empty() {
            let bytes = self.tail.split().freeze();
            self.segments.push_back(Segment::Bytes(bytes));
        }
    }

    /// Sends until everything left, the socket takes no more (`Pending`), or `quota` (bytes) is used up.
    pub fn poll_send(
        &mut self,
        stream: &TcpStream,
        quota: &mut u64,
        counters: &Counters,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Sent, SendError>> {
        self.cut_tail();
        loop {
            if *quota == 0 && !self.segments.is_empty() {
                return Poll::Ready(Ok(Sent::Quota));
            }
            let Some(first) = self.segments.front() else {
                self.tail = BytesMut::new();
                return Poll::Ready(Ok(Sent::All));
            };
            let sent = match first {
                Segment::Bytes(_) => ready!(self.poll_send_bytes(stream, counters, cx))?,
                Segment::File { .. } => {
                    // First the socket, then the pages: so pages in memory are sent before they can be evicted.
                    ready!(stream.poll_write_ready(cx)).map_err(SendError::Socket)?;
                    ready!(self.poll_make_ready(counters, cx))?;
                    match self.send_file(stream)? {
                        Some(sent) => sent,
                        None => continue,
                    }
                }
            };
            *quota = quota.saturating_sub(sent);
            count(&counters.sent_bytes, sent);
        }
    }

    /// One gathered write of the bytes up to the first slice that cannot be turned into bytes.
    fn poll_send_bytes(
        &mut self,
        stream: &TcpStream,
        counters: &Counters,
        cx: &mut Context<'_>,
    ) -> Poll<Result<u64, SendError>> {
        self.read_short_slices(counters)?;
        loop {
            ready!(stream.poll_write_ready(cx)).map_err(SendError::Socket)?;
            let mut parts = [IoSlice::new(&[]); PARTS_MAX];
            let mut used = 0;
            for segment in self.segments.iter().take(PARTS_MAX) {
                let Segment::Bytes(bytes) = segment else { break };
                parts[used] = IoSlice::new(bytes);
                used += 1;
            }
            match write_gathered(stream, &parts[..used], used < self.segments.len()) {
                Ok(written) => {
                    self.drop_sent_bytes(written);
                    return Poll::Ready(Ok(written as u64));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(SendError::Socket(error))),
            }
        }
    }

    fn drop_sent_bytes(&mut self, mut written: usize) {
        self.held_bytes -= written;
        while written > 0 {
            let Some(Segment::Bytes(bytes)) = self.segments.front_mut() else { return };
            let taken = written.min(bytes.len());
            bytes.advance(taken);
            written -= taken;
            if bytes.is_empty() {
                self.segments.pop_front();
            }
        }
    }

    /// Turns short slices whose pages are in memory into bytes, as far as one gathered write reaches.
    fn read_short_slices(&mut self, counters: &Counters) -> Result<(), SendError> {
        for segment in self.segments.iter_mut().take(PARTS_MAX) {
            if let Segment::File { slice, .. } = segment {
                let Some(bytes) = read_if_short(slice)? else { return Ok(()) };
                count(&counters.quick_reads, 1);
                self.held_bytes += bytes.len();
                *segment = Segment::Bytes(bytes);
            }
        }
        Ok(())
    }

    /// Sees to it that the slice in front can be sent without waiting for the disk.
    fn poll_make_ready(&mut self, counters: &Counters, cx: &mut Context<'_>) -> Poll<Result<(), SendError>> {
        loop {
            if let Some(task) = &mut self.warming {
                let result = ready!(Pin::new(task).poll(cx));
                self.warming = None;
                return Poll::Ready(self.apply_warmed(result));
            }
            let Some(Segment::File { slice, resident }) = self.segments.front_mut() else { return Poll::Ready(Ok(())) };
            if *resident > 0 {
                return Poll::Ready(Ok(()));
            }
            if let Some(bytes) = read_if_short(slice)? {
                count(&counters.quick_reads, 1);
                self.held_bytes += bytes.len();
                self.segments[0] = Segment::Bytes(bytes);
                return Poll::Ready(Ok(()));
            }
            let piece = slice.len.min(PIECE_BYTES);
            if slice.len > READ_SLICE_BYTES_MAX && is_resident(slice, piece) {
                count(&counters.quick_reads, 1);
                *resident = piece;
                return Poll::Ready(Ok(()));
            }
            count(&counters.slow_reads, 1);
            let slice = slice.clone();
            let left_behind = self.behind.read_on(&slice);
            self.warming = Some(tokio::task::spawn_blocking(move || warm(&slice, left_behind)));
        }
    }

    fn apply_warmed(&mut self, result: Result<WarmResult, tokio::task::JoinError>) -> Result<(), SendError> {
        let warmed = result.map_err(|error| SendError::File { position: 0, error: error.into() })??;
        match (warmed, self.segments.front_mut()) {
            (Warmed::Pages(bytes), Some(Segment::File { resident, .. })) => *resident = bytes,
            (Warmed::Bytes(bytes), Some(segment)) => {
                self.held_bytes += bytes.len();
                *segment = Segment::Bytes(bytes);
            }
            (_, _) => debug_assert!(false, "the slice that was read is no longer in front"),
        }
        Ok(())
    }

    /// Sends from the slice in front what is in memory. `None`: the socket takes nothing now, or the slice became
    /// bytes.
    fn send_file(&mut self, stream: &TcpStream) -> Result<Option<u64>, SendError> {
        use std::os::fd::AsFd;
        let Some(Segment::File { slice, resident }) = self.segments.front_mut() else { return Ok(None) };
        let length = *resident as usize;
        match stream.try_io(Interest::WRITABLE, || slice.send_to(stream.as_fd(), length)) {
            Ok(0) => Err(SendError::FileTooShort { position: slice.position }),
            Ok(sent) => {
                *resident -= sent as u64;
                if slice.is_empty() {
                    self.segments.pop_front();
                }
                Ok(Some(sent as u64))
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                // The socket may stay full for long: the pages are looked at again before the next try.
                *resident = 0;
                Ok(None)
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(None),
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error()) => {
                Err(SendError::File { position: slice.position, error })
            }
            Err(error) => Err(SendError::Socket(error)),
        }
    }
}

/// The bytes of a short slice whose pages are in memory.
fn read_if_short(slice: &FileSlice) -> Result<Option<Bytes>, SendError> {
    if slice.len > READ_SLICE_BYTES_MAX {
        return Ok(None);
    }
    let mut bytes = vec![0; slice.len as usize];
    match slice.file.try_read_at_nowait(&mut bytes, slice.position) {
        Ok(Some(read)) if read == bytes.len() => Ok(Some(bytes.into())),
        // In part, at the end of the file, or not in memory: a thread of the pool tells these apart.
        Ok(_) => Ok(None),
        Err(error) => Err(SendError::File { position: slice.position, error }),
    }
}

fn is_resident(slice: &FileSlice, length: u64) -> bool {
    // An error here is met again, and reported, by the read itself.
    matches!(slice.file.residency(slice.position, length), Ok(Residency::Resident))
}
