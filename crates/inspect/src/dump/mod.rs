//! Shows the content of a file, piece by piece.

mod entries;
mod log;
mod small;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mainstem_env::{File, Fs, OpenOptions};

use crate::kind::{Content, FileKind};
use crate::line::Line;

/// The parts that are shown beside the structure.
#[derive(Debug, Clone, Copy, Default)]
pub struct DumpOptions {
    /// The records of batches.
    pub records: bool,
    /// The content of records of `__consumer_offsets`.
    pub offsets: bool,
    /// The content of records of `__transaction_state`.
    pub transactions: bool,
}

/// What a dump found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Dumped {
    /// Damaged places of the file.
    pub damaged: u64,
    /// The reader wanted no more.
    pub stopped: bool,
}

/// Why a file cannot be shown at all.
#[derive(Debug, thiserror::Error)]
pub enum DumpError {
    #[error("{path}: no file of a data folder has such a name; dump recognizes files by Kafka's names", path = path.display())]
    UnknownKind { path: PathBuf },
    #[error("{path} cannot be read: {error}", path = path.display())]
    Io { path: PathBuf, error: io::Error },
}

/// Takes the lines; `false`: no more are wanted.
pub type Sink<'a> = dyn FnMut(&Line) -> bool + 'a;

/// Shows a file. Its first line says what it is; lines of kind `damage` say where it is not what it should be. What
/// comes after the damage is shown too, as far as it can be told.
pub fn dump(fs: &dyn Fs, path: &Path, options: DumpOptions, sink: &mut Sink<'_>) -> Result<Dumped, DumpError> {
    let kind = FileKind::of(path).ok_or_else(|| DumpError::UnknownKind { path: path.to_owned() })?;
    let failed = |error| DumpError::Io { path: path.to_owned(), error };
    let file = fs.open(path, &OpenOptions::read()).map_err(failed)?;
    let len = file.len().map_err(failed)?;
    let mut dumper = Dumper { file, len, options, sink, dumped: Dumped::default() };
    dumper
        .say(Line::new("file").with("path", path.display().to_string()).with("is", kind.describe()).with("bytes", len));
    let outcome = match kind {
        FileKind::Log(base) => log::batches(&mut dumper, base, Content::of(path)),
        FileKind::MetadataSnapshot => log::batches(&mut dumper, mainstem_types::Offset::ZERO, Content::Metadata),
        FileKind::CommitLog(position) => log::commit_log(&mut dumper, position),
        FileKind::OffsetIndex(base) => entries::offset_index(&mut dumper, base),
        FileKind::TimeIndex(base) => entries::time_index(&mut dumper, base),
        FileKind::TransactionIndex => entries::transaction_index(&mut dumper),
        FileKind::ConsumeQueue(first) => entries::consume_queue(&mut dumper, first),
        FileKind::KeyIndex => entries::key_index(&mut dumper),
        // Whatever is in it says nothing.
        FileKind::Reserve => Ok(()),
        small => small::show(&mut dumper, small),
    };
    match outcome {
        Ok(()) | Err(Ended::Stopped) => Ok(dumper.dumped),
        Err(Ended::Io(error)) => Err(failed(error)),
    }
}

/// Why showing ended before the end of the file.
#[derive(Debug)]
enum Ended {
    Stopped,
    Io(io::Error),
}

impl From<io::Error> for Ended {
    fn from(error: io::Error) -> Self {
        Ended::Io(error)
    }
}

type DumpResult = Result<(), Ended>;

struct Dumper<'a, 'b> {
    file: Arc<dyn File>,
    len: u64,
    options: DumpOptions,
    sink: &'a mut Sink<'b>,
    dumped: Dumped,
}

impl Dumper<'_, '_> {
    fn say(&mut self, line: Line) {
        if !self.dumped.stopped {
            self.dumped.stopped = !(self.sink)(&line);
        }
    }

    /// Says it, and ends the dump if nobody listens.
    fn show(&mut self, line: Line) -> DumpResult {
        self.say(line);
        if self.dumped.stopped { Err(Ended::Stopped) } else { Ok(()) }
    }

    fn damage(&mut self, from: u64, to: u64, reason: impl Into<String>) -> DumpResult {
        self.dumped.damaged += 1;
        self.show(Line::new("damage").with("position", from).with("end", to).with("reason", reason.into()))
    }

    /// The whole of a small file.
    fn read_small(&mut self) -> Result<Option<Vec<u8>>, Ended> {
        if self.len > small::BYTES_MAX {
            self.damage(0, self.len, format!("such a file has at most {} bytes", small::BYTES_MAX))?;
            return Ok(None);
        }
        let mut bytes = vec![0; self.len as usize];
        let count = self.file.read_full_at(&mut bytes, 0)?;
        bytes.truncate(count);
        Ok(Some(bytes))
    }

    /// Shows pieces of one size from a position on, and gives where half a piece is left.
    fn pieces(
        &mut self,
        from: u64,
        to: u64,
        size: usize,
        mut each: impl FnMut(&mut Self, u64, &[u8]) -> DumpResult,
    ) -> Result<u64, Ended> {
        let mut buffer = vec![0; 65_536 / size * size];
        let mut at = from;
        while at < to {
            let wanted = buffer.len().min((to - at) as usize);
            let count = self.file.read_full_at(&mut buffer[..wanted], at)?;
            let whole = count / size * size;
            if whole == 0 {
                break;
            }
            for (index, piece) in buffer[..whole].chunks_exact(size).enumerate() {
                each(self, at + (index * size) as u64, piece)?;
            }
            at += whole as u64;
        }
        Ok(at)
    }
}
