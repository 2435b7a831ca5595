//! Lines, read by a thread: a read of a terminal or a pipe may last for ever and cannot be given up otherwise.

use std::fs::File;
use std::io::{self, BufRead, BufReader, IsTerminal, Read};
use std::path::Path;

use anyhow::{Context, anyhow};
use tokio::sync::mpsc;

/// A line has at most this many bytes.
const LINE_SIZE_MAX: u64 = 16 << 20;
/// Lines that were read and not asked for yet.
const LINES_AHEAD_MAX: usize = 1_000;
const BUFFER_SIZE: usize = 256 * 1024;

/// A line without its end.
pub struct Line {
    /// From 1.
    pub number: u64,
    pub bytes: Vec<u8>,
}

pub struct Lines {
    receiver: mpsc::Receiver<anyhow::Result<Line>>,
    typed: bool,
}

impl Lines {
    /// Of a file, or of standard input.
    pub fn open(path: Option<&Path>) -> anyhow::Result<Lines> {
        let Some(path) = path else {
            let stdin = io::stdin();
            return Lines::read(stdin.is_terminal(), BufReader::with_capacity(BUFFER_SIZE, stdin));
        };
        let file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
        Lines::read(false, BufReader::with_capacity(BUFFER_SIZE, file))
    }

    fn read(typed: bool, mut reader: impl BufRead + Send + 'static) -> anyhow::Result<Lines> {
        let (sender, receiver) = mpsc::channel(LINES_AHEAD_MAX);
        let run = move || {
            for number in 1.. {
                let line = match next_line(&mut reader, LINE_SIZE_MAX) {
                    Ok(Some(bytes)) => Ok(Line { number, bytes }),
                    Ok(None) => return,
                    Err(error) => Err(error.context(format!("line {number}"))),
                };
                let failed = line.is_err();
                if sender.blocking_send(line).is_err() || failed {
                    return;
                }
            }
        };
        std::thread::Builder::new().name("input".to_owned()).spawn(run).context("the input has no thread")?;
        Ok(Lines { receiver, typed })
    }

    /// Whether somebody types them.
    pub fn are_typed(&self) -> bool {
        self.typed
    }

    /// `None` at the end. May be dropped and called again.
    pub async fn next(&mut self) -> Option<anyhow::Result<Line>> {
        self.receiver.recv().await
    }
}

fn next_line(reader: &mut impl BufRead, size_max: u64) -> anyhow::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    // Room for the line end too.
    let read = reader.take(size_max + 2).read_until(b'\n', &mut line)?;
    if read == 0 {
        return Ok(None);
    }
    if line.last() == Some(&b'\n') {
        line.pop();
        line.pop_if(|last| *last == b'\r');
    }
    if line.len() as u64 > size_max {
        return Err(anyhow!("it has more than {size_max} bytes"));
    }
    Ok(Some(line))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(mut text: &[u8]) -> anyhow::Result<Vec<Vec<u8>>> {
        std::iter::from_fn(|| next_line(&mut text, 8).transpose()).collect()
    }

    #[test]
    fn lines_end_with_either_end_and_the_last_one_needs_none() {
        assert_eq!(lines(b"a\n\nb\r\nc\rd\n\xff").unwrap(), [&b"a"[..], b"", b"b", b"c\rd", b"\xff"]);
        assert!(lines(b"").unwrap().is_empty());
    }

    #[test]
    fn a_line_has_a_greatest_size_without_its_end() {
        assert_eq!(lines(b"12345678\r\n12345678").unwrap(), [b"12345678", b"12345678"]);
        assert!(lines(b"123456789\n").is_err());
        assert!(lines(b"1234567890123").is_err());
    }
}
