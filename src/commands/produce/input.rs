//! Lines, read by a thread: a read of a terminal or a pipe may last for ever and cannot be given up otherwise.

use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader, IsTerminal, Read};
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, anyhow};
use tokio::sync::mpsc;

/// A line has at most this many bytes.
const LINE_SIZE_MAX: u64 = 16 << 20;
/// Lines that were read and not asked for yet.
const LINES_AHEAD_MAX: usize = 1_000;
const BUFFER_SIZE: usize = 256 * 1024;

type Sink = mpsc::Sender<anyhow::Result<Line>>;

/// Where a line stands.
#[derive(Debug, Clone)]
pub struct Place {
    /// The file, where there are several.
    file: Option<Arc<str>>,
    /// From 1; `None` for a whole file.
    number: Option<u64>,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.file, self.number) {
            (None, Some(number)) => write!(f, "line {number}"),
            (Some(file), Some(number)) => write!(f, "line {number} of {file}"),
            (Some(file), None) => write!(f, "{file}"),
            (None, None) => write!(f, "the input"),
        }
    }
}

/// A line without its end, or a whole file.
pub struct Line {
    pub place: Place,
    pub bytes: Vec<u8>,
}

pub struct Lines {
    receiver: mpsc::Receiver<anyhow::Result<Line>>,
    typed: bool,
}

impl Lines {
    /// Of files one after the other, or of standard input. `whole`: each file is one.
    pub fn open(paths: &[PathBuf], whole: bool) -> anyhow::Result<Lines> {
        if paths.is_empty() {
            let stdin = io::stdin();
            return Lines::read(stdin.is_terminal(), move |send| {
                send_lines(BufReader::with_capacity(BUFFER_SIZE, stdin), None, send);
            });
        }
        // What is missing is said before anything is sent.
        let open = |path: &PathBuf| {
            let file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
            Ok((Arc::<str>::from(path.display().to_string()), file))
        };
        let files = paths.iter().map(open).collect::<anyhow::Result<Vec<_>>>()?;
        let several = files.len() > 1;
        Lines::read(false, move |send| {
            for (name, file) in files {
                let reader = BufReader::with_capacity(BUFFER_SIZE, file);
                let goes_on = if whole {
                    send_whole(reader, name, send)
                } else {
                    send_lines(reader, several.then_some(name), send)
                };
                if !goes_on {
                    return;
                }
            }
        })
    }

    /// The thread is no `Worker`. It may be blocked in a read of a terminal or pipe, and no other thread can wake it
    /// there: waiting for its end would keep the command running after Ctrl-C. The thread ends at the end of the input,
    /// when the lines have no receiver any more, or with the process.
    fn read(typed: bool, run: impl FnOnce(&Sink) + Send + 'static) -> anyhow::Result<Lines> {
        let (sender, receiver) = mpsc::channel(LINES_AHEAD_MAX);
        let run = move || run(&sender);
        std::thread::Builder::new()
            .name("input".to_owned())
            .spawn(run)
            .context("cannot start a thread for the input")?;
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

/// Sends every line; `false` when nobody wants more, or after an error.
fn send_lines(mut reader: impl BufRead, file: Option<Arc<str>>, send: &Sink) -> bool {
    for number in 1.. {
        let place = Place { file: file.clone(), number: Some(number) };
        let line = match next_line(&mut reader, LINE_SIZE_MAX) {
            Ok(Some(bytes)) => Ok(Line { place, bytes }),
            Ok(None) => break,
            Err(error) => Err(error.context(place.to_string())),
        };
        let failed = line.is_err();
        if send.blocking_send(line).is_err() || failed {
            return false;
        }
    }
    true
}

fn send_whole(reader: impl BufRead, file: Arc<str>, send: &Sink) -> bool {
    let mut bytes = Vec::new();
    let read = match reader.take(LINE_SIZE_MAX + 1).read_to_end(&mut bytes) {
        Ok(size) if size as u64 > LINE_SIZE_MAX => Err(anyhow!("{file} is larger than {LINE_SIZE_MAX} bytes")),
        Ok(_) => Ok(Line { place: Place { file: Some(file), number: None }, bytes }),
        Err(error) => Err(anyhow::Error::new(error).context(file.to_string())),
    };
    let failed = read.is_err();
    send.blocking_send(read).is_ok() && !failed
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
        return Err(anyhow!("it is longer than {size_max} bytes"));
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
