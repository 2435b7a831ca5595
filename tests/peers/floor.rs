//! The least work that any broker must do, without a protocol: the floor of `cargo xtask bench`.
//!
//! ```text
//! floor produce FILE             a server: receive a frame, checksum it, write it to FILE, acknowledge it
//! floor consume FILE             a server: receive a request, send the next piece of FILE with sendfile
//! floor send ADDRESS FRAME COUNT the client of `produce`: COUNT frames of FRAME bytes, up to five in flight
//! floor read ADDRESS PIECE COUNT the client of `consume`: COUNT pieces of PIECE bytes
//! ```
//!
//! A server prints its address and serves one connection at a time. `xtask` compiles this file with `rustc -O`; it uses
//! only the standard library and the system's `sendfile`. Linux only.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

/// Bytes of an acknowledgement, about as many as a Produce response has.
const ACK_BYTES: usize = 64;
/// Bytes of a request for a piece, about as many as a Fetch request has.
const REQUEST_BYTES: usize = 96;
/// Bytes before each piece, about as many as a Fetch response has before the records.
const HEAD_BYTES: usize = 96;
/// Frames that a producer may have in flight, as Kafka's producers do by default.
const IN_FLIGHT_MAX: u64 = 5;
/// A frame that the server takes is at most this large.
const FRAME_BYTES_MAX: usize = 4 << 20;

unsafe extern "C" {
    fn sendfile(out: i32, input: i32, offset: *mut i64, count: usize) -> isize;
}

fn main() -> io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["produce", path] => {
            let file = OpenOptions::new().create(true).truncate(true).write(true).open(path)?;
            let mut end = 0;
            serve(|stream| take_frames(stream, &file, &mut end))
        }
        ["consume", path] => {
            let file = File::open(path)?;
            serve(|stream| give_pieces(stream, &file))
        }
        ["send", address, frame, count] => send_frames(address, number(frame)?, number(count)?),
        ["read", address, piece, count] => read_pieces(address, number(piece)?, number(count)?),
        _ => Err(io::Error::other(
            "usage: floor produce FILE | consume FILE | send ADDRESS FRAME COUNT | read ADDRESS PIECE COUNT",
        )),
    }
}

fn number(text: &str) -> io::Result<u64> {
    text.parse().map_err(io::Error::other)
}

/// Serves one connection after the other until the process is ended.
fn serve(mut connection: impl FnMut(TcpStream) -> io::Result<()>) -> io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    println!("{}", listener.local_addr()?);
    loop {
        let (stream, _) = listener.accept()?;
        stream.set_nodelay(true)?;
        match connection(stream) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {}
            other => other?,
        }
    }
}

/// Receives frames (a length of 4 bytes, then the bytes), and acknowledges each when it is in the page cache.
fn take_frames(mut stream: TcpStream, file: &File, end: &mut u64) -> io::Result<()> {
    let mut frame = vec![0; FRAME_BYTES_MAX];
    let mut length = [0; 4];
    loop {
        stream.read_exact(&mut length)?;
        let size = u32::from_be_bytes(length) as usize;
        let bytes = frame.get_mut(..size).ok_or_else(|| io::Error::other("the frame is too long"))?;
        stream.read_exact(bytes)?;
        let mut ack = [0; ACK_BYTES];
        ack[..4].copy_from_slice(&crc32c(bytes).to_be_bytes());
        file.write_all_at(bytes, *end)?;
        *end += size as u64;
        stream.write_all(&ack)?;
    }
}

/// Answers each request with the next piece of the file, from the beginning again after the last one.
fn give_pieces(mut stream: TcpStream, file: &File) -> io::Result<()> {
    let size = file.metadata()?.len();
    let mut request = [0; REQUEST_BYTES];
    let mut offset: i64 = 0;
    loop {
        stream.read_exact(&mut request)?;
        let [a, b, c, d, ..] = request;
        let piece = u64::from(u32::from_be_bytes([a, b, c, d]));
        if offset as u64 + piece > size {
            offset = 0;
        }
        stream.write_all(&[0; HEAD_BYTES])?;
        let mut left = piece as usize;
        while left > 0 {
            // SAFETY: both descriptors are open for the whole call, and `offset` is a valid pointer to an i64.
            let sent = unsafe { sendfile(stream.as_raw_fd(), file.as_raw_fd(), &raw mut offset, left) };
            match sent {
                ..0 => return Err(io::Error::last_os_error()),
                0 => return Err(io::Error::other("the file is shorter than a piece")),
                _ => left -= sent as usize,
            }
        }
    }
}

fn send_frames(address: &str, frame: u64, count: u64) -> io::Result<()> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    let mut bytes: Vec<u8> = (frame as u32).to_be_bytes().to_vec();
    bytes.extend((0..frame).map(|index| (index * 31 % 251) as u8));
    let mut ack = [0; ACK_BYTES];
    for sent in 0..count {
        stream.write_all(&bytes)?;
        if sent + 1 >= IN_FLIGHT_MAX {
            stream.read_exact(&mut ack)?;
        }
    }
    for _ in 0..count.min(IN_FLIGHT_MAX - 1) {
        stream.read_exact(&mut ack)?;
    }
    Ok(())
}

fn read_pieces(address: &str, piece: u64, count: u64) -> io::Result<()> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    let mut request = [0; REQUEST_BYTES];
    request[..4].copy_from_slice(&(piece as u32).to_be_bytes());
    let mut answer = vec![0; HEAD_BYTES + piece as usize];
    for _ in 0..count {
        stream.write_all(&request)?;
        stream.read_exact(&mut answer)?;
    }
    Ok(())
}

/// CRC-32C, the checksum of record batches; with the processor's instruction where there is one.
fn crc32c(bytes: &[u8]) -> u32 {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("sse4.2") {
        // SAFETY: the processor has the instruction.
        return unsafe { crc32c_sse(bytes) };
    }
    let step = |crc: u32, byte: &u8| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ (0x82f6_3b78 & (crc & 1).wrapping_neg()))
    };
    !bytes.iter().fold(!0, step)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "sse4.2")]
fn crc32c_sse(bytes: &[u8]) -> u32 {
    use std::arch::x86_64::{_mm_crc32_u8, _mm_crc32_u64};
    let (words, rest) = bytes.as_chunks::<8>();
    let crc = words.iter().fold(u64::from(!0u32), |crc, word| _mm_crc32_u64(crc, u64::from_le_bytes(*word)));
    !rest.iter().fold(crc as u32, |crc, byte| _mm_crc32_u8(crc, *byte))
}
