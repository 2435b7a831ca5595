//! One gathered write to a socket.

use std::io::{self, IoSlice};

use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg};
use tokio::io::Interest;
use tokio::net::TcpStream;

/// Tells the kernel that more follows at once, so that a header does not travel in a packet of its own. A hint that
/// only Linux takes.
#[cfg(target_os = "linux")]
const MORE: SendFlags = SendFlags::MORE;
#[cfg(not(target_os = "linux"))]
const MORE: SendFlags = SendFlags::empty();

/// A peer that is gone is an error here, never a signal.
#[cfg(not(target_vendor = "apple"))]
const NO_SIGNAL: SendFlags = SendFlags::NOSIGNAL;
#[cfg(target_vendor = "apple")]
const NO_SIGNAL: SendFlags = SendFlags::empty();

/// Writes a prefix of `parts` and says how much. `WouldBlock` when the socket takes nothing now.
pub(super) fn write_gathered(stream: &TcpStream, parts: &[IoSlice<'_>], more_follows: bool) -> io::Result<usize> {
    let flags = if more_follows { NO_SIGNAL | MORE } else { NO_SIGNAL };
    stream.try_io(Interest::WRITABLE, || Ok(sendmsg(stream, parts, &mut SendAncillaryBuffer::default(), flags)?))
}
