//! Slices whose pages are not in memory: a thread of the pool reads them a little ahead of the socket, and gives back
//! the pages behind the reader. A reader of old records therefore does not push out of memory what other readers use.
//!
//! For each connection, the server remembers at most 8 runs of pages, of about 6 MiB each. No file stays open for that.
//! It never gives back pages that were in memory before, except in gaps of up to 2 MiB between pages that were not.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Weak};

use bytes::Bytes;
use mainstem_env::{Advice, File, FileSlice};

use super::sending::{PIECE_BYTES, READ_SLICE_BYTES_MAX, SendError};

/// A thread of the pool reads a cold piece in parts of this size.
const READ_BYTES: usize = 128 << 10;
/// The disk is asked for this much at once: systems cut longer wishes short.
const ASK_BYTES: u64 = 512 << 10;
/// How far the disk reads ahead of the piece that is waited for.
const AHEAD_BYTES: u64 = 1 << 20;
/// What stays in memory behind a reader: the socket may still send from it, and others may follow closely.
const KEEP_BYTES: u64 = 2 << 20;
/// A connection that reads more files in turns than this forgets the oldest.
const RUNS_MAX: usize = 8;
/// Pages are given back as whole ones; a larger page of the system is one that stays.
const PAGE_BYTES: u64 = 4096;

/// The result of a read on the pool.
#[derive(Debug)]
pub(super) enum Warmed {
    /// The pages of the next piece were read.
    Pages(u64),
    /// The whole slice as bytes.
    Bytes(Bytes),
}

/// Pages of a file that are in memory because this connection asked for them.
#[derive(Debug, Clone)]
pub(super) struct Run {
    /// A file that was deleted meanwhile has to leave the disk, however long its reader stays.
    file: Weak<dyn File>,
    from: u64,
    to: u64,
}

/// The runs of one connection, the one that was read last at the end.
#[derive(Debug, Default)]
pub(super) struct ReadBehind {
    runs: VecDeque<Run>,
}

impl ReadBehind {
    /// The next piece of `slice` is about to be read from the disk. Gives the run of pages that is left behind, if
    /// there is one.
    pub fn read_on(&mut self, slice: &FileSlice) -> Option<Run> {
        let position = slice.position - slice.position % PAGE_BYTES;
        let to = slice.position + PIECE_BYTES + AHEAD_BYTES;
        let file = Arc::downgrade(&slice.file);
        let continues = |run: &Run| run.file.ptr_eq(&file) && (run.from..=run.to + KEEP_BYTES).contains(&position);
        let Some(place) = self.runs.iter().position(continues) else {
            self.runs.push_back(Run { file, from: position, to });
            return if self.runs.len() > RUNS_MAX { self.runs.pop_front() } else { None };
        };
        let mut run = self.runs.remove(place)?;
        run.to = run.to.max(to);
        let keep_from = position.saturating_sub(KEEP_BYTES);
        let left_behind = (keep_from >= run.from + PIECE_BYTES).then(|| Run { to: keep_from, ..run.clone() });
        if left_behind.is_some() {
            run.from = keep_from;
        }
        self.runs.push_back(run);
        left_behind
    }
}

/// Runs on a thread of the pool: reads the next piece of a slice, so that its pages are in memory, or all of a short
/// one.
pub(super) fn warm(slice: &FileSlice, left_behind: Option<Run>) -> Result<Warmed, SendError> {
    if let Some(run) = left_behind
        && let Some(file) = run.file.upgrade()
    {
        // A wish like those below: where it has no effect, the system finds out by itself what nobody needs.
        let _ = file.advise(run.from, run.to - run.from, Advice::DontNeed);
    }
    let file_error = |error: io::Error| match error.kind() {
        io::ErrorKind::UnexpectedEof => SendError::FileTooShort { position: slice.position },
        _ => SendError::File { position: slice.position, error },
    };
    if slice.len <= READ_SLICE_BYTES_MAX {
        return slice.read().map(|bytes| Warmed::Bytes(bytes.into())).map_err(file_error);
    }
    let piece = slice.len.min(PIECE_BYTES);
    for ahead in (0..piece + AHEAD_BYTES).step_by(ASK_BYTES as usize) {
        // Only a hint: the reads below do the work in any case.
        let _ = slice.file.advise(slice.position + ahead, ASK_BYTES, Advice::WillNeed);
    }
    let mut scratch = vec![0; READ_BYTES.min(piece as usize)];
    let mut done = 0;
    while done < piece {
        let part = scratch.len().min((piece - done) as usize);
        slice.file.read_exact_at(&mut scratch[..part], slice.position + done).map_err(file_error)?;
        done += part as u64;
    }
    Ok(Warmed::Pages(piece))
}

#[cfg(test)]
mod tests {
    use super::*;
    use mainstem_env::{Fs, MemFs, OpenOptions};

    fn file(name: &str) -> Arc<dyn File> {
        MemFs::new().open(name.as_ref(), &OpenOptions::create_new()).unwrap()
    }

    fn read_on(behind: &mut ReadBehind, file: &Arc<dyn File>, position: u64) -> Option<(u64, u64)> {
        behind.read_on(&FileSlice::new(Arc::clone(file), position, 8 << 20)).map(|run| (run.from, run.to))
    }

    #[test]
    fn what_lies_well_behind_a_reader_is_given_back_once() {
        let (old, mut behind) = (file("/old"), ReadBehind::default());
        let mut given = Vec::new();
        for piece in 0..64 {
            given.extend(read_on(&mut behind, &old, 100 + piece * PIECE_BYTES));
        }
        assert_eq!(given.first().unwrap().0, 0);
        assert!(given.windows(2).all(|two| two[0].1 == two[1].0), "without holes or repetitions: {given:?}");
        let end = given.last().unwrap().1;
        assert!((60 * PIECE_BYTES..=61 * PIECE_BYTES).contains(&end), "{end}");
        assert!(given.iter().all(|(from, to)| from % PAGE_BYTES == 0 && to % PAGE_BYTES == 0));
    }

    #[test]
    fn what_was_in_memory_is_not_given_back() {
        let (old, mut behind) = (file("/old"), ReadBehind::default());
        read_on(&mut behind, &old, 0);
        assert_eq!(read_on(&mut behind, &old, 100 << 20), None, "nobody read what lies between");
        let given: Vec<_> = (0..8).filter_map(|piece| read_on(&mut behind, &old, (101 + piece) << 20)).collect();
        assert_eq!(given.first().unwrap().0, 100 << 20);
    }

    #[test]
    fn a_file_that_was_read_stays_open_for_nobody() {
        let (old, mut behind) = (file("/old"), ReadBehind::default());
        read_on(&mut behind, &old, 0);
        assert_eq!(Arc::strong_count(&old), 1);
        drop(old);
        let slice = FileSlice::new(file("/new"), 0, 0);
        let gone = behind.runs.pop_front();
        assert!(matches!(warm(&slice, gone), Ok(Warmed::Bytes(_))));
    }

    #[test]
    fn files_that_are_read_in_turns_are_told_apart_up_to_a_number() {
        let files: Vec<_> = (0..=RUNS_MAX).map(|n| file(&format!("/{n}"))).collect();
        let mut behind = ReadBehind::default();
        for file in &files[..RUNS_MAX] {
            assert_eq!(read_on(&mut behind, file, 0), None);
        }
        assert_eq!(read_on(&mut behind, &files[0], 3 << 20), Some((0, 1 << 20)));
        assert_eq!(read_on(&mut behind, &files[RUNS_MAX], 0), Some((0, 2 << 20)), "all of the one read longest ago");
        assert_eq!(behind.runs.len(), RUNS_MAX);
    }
}
