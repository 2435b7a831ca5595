//! Going over the headers of a segment file, without its payloads.

use std::cell::Cell;
use std::io;

use mainstem_env::File;
use mainstem_record::{BatchHeader, HEADER_SIZE, peek};

/// One read gets the headers of all batches between two index entries, when batches are small.
const WALK_BYTES: usize = 4096;

/// What a visitor of headers wants next.
pub(crate) enum Step {
    Next,
    Stop,
}

/// How a walk ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Walked {
    /// At the end of the span, or where the visitor stopped it.
    Whole,
    /// Before bytes that are no batch, or one that reaches over the end of the span.
    Corrupt { position: u64 },
}

/// Shows the header and the position of each batch that begins in `start..end`.
pub(crate) fn walk(
    file: &dyn File,
    start: u64,
    end: u64,
    visit: impl FnMut(u64, &BatchHeader) -> Step,
) -> io::Result<Walked> {
    walk_with(|buffer, position| file.read_full_at(buffer, position), start, end, visit)
}

/// As [`walk`], over bytes that `read` gives: as many as asked for, or at least a whole header while there is one.
pub(crate) fn walk_with(
    read: impl Fn(&mut [u8], u64) -> io::Result<usize>,
    start: u64,
    end: u64,
    mut visit: impl FnMut(u64, &BatchHeader) -> Step,
) -> io::Result<Walked> {
    let mut kept = KeptBuffer::take();
    let buffer = &mut kept.0;
    let (mut buffer_at, mut filled) = (start, 0);
    let mut position = start;
    while position < end {
        if position + HEADER_SIZE as u64 > buffer_at + filled as u64 {
            buffer_at = position;
            let want = (end - position).min(WALK_BYTES as u64) as usize;
            filled = read(&mut buffer[..want], position)?;
        }
        let at = (position - buffer_at) as usize;
        let header = buffer.get(at..filled).and_then(plausible);
        let next = header.map(|header| (header, position + header.size_in_bytes() as u64));
        let Some((header, next)) = next.filter(|(_, next)| *next <= end) else {
            return Ok(Walked::Corrupt { position });
        };
        if let Step::Stop = visit(position, &header) {
            break;
        }
        position = next;
    }
    Ok(Walked::Whole)
}

thread_local! {
    static KEPT: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// A buffer that a thread keeps from one walk to the next: most walks look at a few headers, and clearing a new one
/// takes longer than that.
struct KeptBuffer(Vec<u8>);

impl KeptBuffer {
    /// A walk within a walk gets a new one.
    fn take() -> KeptBuffer {
        let mut buffer = KEPT.take();
        buffer.resize(WALK_BYTES, 0);
        KeptBuffer(buffer)
    }
}

impl Drop for KeptBuffer {
    fn drop(&mut self) {
        KEPT.set(std::mem::take(&mut self.0));
    }
}

/// The header at a position, if there is a plausible one.
pub(crate) fn header_at(file: &dyn File, position: u64) -> io::Result<Option<BatchHeader>> {
    let mut bytes = [0; HEADER_SIZE];
    let count = file.read_full_at(&mut bytes, position)?;
    Ok(plausible(&bytes[..count]))
}

/// The header that these bytes begin with, if they may be one.
pub(crate) fn plausible(bytes: &[u8]) -> Option<BatchHeader> {
    let bytes = bytes.first_chunk::<HEADER_SIZE>()?;
    peek(bytes).is_ok().then(|| BatchHeader::read(bytes))
}
