//! The index by key: files with hash chains, newest record first.
//!
//! New keys wait in memory and are written together; a look-up writes them first, so it never misses one. What an index
//! says is only a hint: whoever looks up reads the record and compares. So entries of records that were cut, deleted or
//! indexed twice do no harm.
//!
//! Slots are read and written page by page, the keys that wait sorted by them: the more wait, the less each costs.
//!
//! While the disk is full, keys wait; when too many do, those that follow are left out, and the index is behind:
//! [`KeyIndex::missing_from`] says from where on, and whoever has the log adds them later. Until then nobody is told
//! that there is nothing.
//!
//! Numbers: 5,000,000 slots and 20,000,000 entries a file unless configured otherwise, 420,000,040 bytes, sparse;
//! 65,536 keys wait, 1.5 MiB, before an append writes them itself; with so many, a key costs a quarter of a system
//! call. At most 262,144 wait after a failed write, 6 MiB, and 1,048,576 for another thread that writes or creates a
//! file, 24 MiB; and those of one batch each thread. A look-up goes through 1,048,576 entries at most.

mod missing;
mod waiting;
mod write;

use std::collections::HashSet;
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mainstem_env::{File, Fs, OpenOptions, is_disk_full, is_out_of_descriptors};
use parking_lot::Mutex;

use super::civil_time;
use crate::formats::group_checkpoint::IndexFact;
use crate::formats::key_index::{ENTRY_SIZE, HEADER_SIZE, IndexEntry, IndexHeader, SLOT_SIZE};
pub(crate) use missing::CatchUp;
use waiting::Waiting;

const DIGITS: usize = 17;
/// Entries that one look-up goes through: about a second, if none of them is in memory.
const STEPS_MAX: usize = 1 << 20;

/// A key on its way into the index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NewKey {
    pub(crate) hash: u32,
    pub(crate) position: u64,
    pub(crate) time_ms: i64,
}

/// How large the files are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) slots: u32,
    /// Entry 0 is not used.
    pub(crate) entries: u32,
}

impl Size {
    fn slot_at(&self, slot: u32) -> u64 {
        HEADER_SIZE as u64 + u64::from(slot) * SLOT_SIZE as u64
    }

    fn entry_at(&self, number: u32) -> u64 {
        self.slot_at(self.slots) + u64::from(number) * ENTRY_SIZE as u64
    }
}

#[derive(Debug)]
pub(crate) struct KeyIndex {
    dir: PathBuf,
    size: Size,
    state: Mutex<Files>,
    /// Taken after `state`, for moments.
    waiting: Mutex<Waiting>,
    /// Held while missing keys are added; taken before `state`.
    catching_up: Mutex<()>,
}

#[derive(Debug, Default)]
struct Files {
    /// Ascending by name; the last one is written.
    files: Vec<IndexFile>,
    names_unsynced: bool,
}

#[derive(Debug)]
struct IndexFile {
    name: u64,
    header: IndexHeader,
    file: Option<Arc<dyn File>>,
    unsynced: bool,
}

impl KeyIndex {
    /// Takes the files over that a checkpoint names. `None`: some of them are not what it says, and the index is to be
    /// made anew.
    pub(crate) fn open(
        fs: &dyn Fs,
        dir: &Path,
        size: Size,
        known: &[IndexFact],
        clean: bool,
    ) -> io::Result<Option<KeyIndex>> {
        let index = KeyIndex::empty(dir, size);
        let found = index.list(fs)?;
        // Made after the checkpoint: their keys will be indexed again.
        for name in found.iter().filter(|name| known.iter().all(|fact| fact.name != **name)) {
            fs.remove_file(&index.path(*name))?;
        }
        let mut files = Vec::with_capacity(known.len());
        for (place, fact) in known.iter().enumerate() {
            let Some(mut file) = index.open_file(fs, fact.name)?.filter(|file| file.header.count >= fact.count) else {
                return Ok(None);
            };
            let last = place + 1 == known.len();
            if last && (!clean || file.header.count != fact.count) {
                index.restore(&mut file, fact.count)?;
            }
            files.push(file);
        }
        index.state.lock().files = files;
        Ok(Some(index))
    }

    /// An index without files; those that are there are removed.
    pub(crate) fn create(fs: &dyn Fs, dir: &Path, size: Size) -> io::Result<KeyIndex> {
        let index = KeyIndex::empty(dir, size);
        for name in index.list(fs)? {
            fs.remove_file(&index.path(name))?;
        }
        Ok(index)
    }

    fn empty(dir: &Path, size: Size) -> KeyIndex {
        let dir = dir.to_owned();
        KeyIndex { dir, size, state: Mutex::default(), waiting: Mutex::default(), catching_up: Mutex::default() }
    }

    fn list(&self, fs: &dyn Fs) -> io::Result<Vec<u64>> {
        let entries = match fs.read_dir(&self.dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let name = |name: &str| name.parse().ok().filter(|_| name.len() == DIGITS);
        let mut names: Vec<u64> = entries.iter().filter_map(|entry| entry.name.to_str()).filter_map(name).collect();
        names.sort_unstable();
        Ok(names)
    }

    fn path(&self, name: u64) -> PathBuf {
        self.dir.join(format!("{name:017}"))
    }

    fn open_file(&self, fs: &dyn Fs, name: u64) -> io::Result<Option<IndexFile>> {
        let file = match fs.open(&self.path(name), &OpenOptions::read_write()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file?,
        };
        if file.len()? != self.size.entry_at(self.size.entries) {
            return Ok(None);
        }
        let mut bytes = [0; HEADER_SIZE];
        file.read_exact_at(&mut bytes, 0)?;
        let header = IndexHeader::decode(&bytes).ok().filter(|header| header.count <= self.size.entries);
        Ok(header.map(|header| IndexFile { name, header, file: Some(file), unsynced: false }))
    }

    /// Takes a file back to its first `count` entries: slots may point to later ones, of which a power cut may have
    /// taken any part.
    fn restore(&self, file: &mut IndexFile, count: u32) -> io::Result<()> {
        let Some(handle) = file.file.clone() else { return Ok(()) };
        let mut slots = vec![0u8; self.size.slots as usize * SLOT_SIZE];
        let mut used_slots = 0;
        let mut entries = vec![0; 4096 * ENTRY_SIZE];
        let mut number = 1;
        while number < count {
            let now = (count - number).min(4096) as usize;
            let bytes = &mut entries[..now * ENTRY_SIZE];
            handle.read_exact_at(bytes, self.size.entry_at(number))?;
            for entry in bytes.chunks_exact(ENTRY_SIZE).filter_map(IndexEntry::decode) {
                let at = (entry.hash % self.size.slots) as usize * SLOT_SIZE;
                used_slots += u32::from(slots[at..at + SLOT_SIZE] == [0; SLOT_SIZE]);
                slots[at..at + SLOT_SIZE].copy_from_slice(&number.to_be_bytes());
                number += 1;
            }
        }
        handle.write_all_at(&slots, self.size.slot_at(0))?;
        file.header = IndexHeader { count, used_slots, ..file.header };
        handle.write_all_at(&file.header.encode(), 0)?;
        file.unsynced = true;
        Ok(())
    }

    /// Takes keys in. `true`: so many wait that [`KeyIndex::write`] should be called.
    pub(crate) fn add(&self, hashes: &[u32], position: u64, time_ms: i64) -> bool {
        !hashes.is_empty() && self.waiting.lock().add(hashes, position, time_ms)
    }

    /// Writes the keys that wait. After an error those that were not written wait again.
    pub(crate) fn write(&self, fs: &dyn Fs) -> io::Result<()> {
        let mut state = self.state.lock();
        let keys = self.waiting.lock().take();
        match self.write_all(fs, &mut state, &keys) {
            Ok(()) => {
                self.waiting.lock().written();
                Ok(())
            }
            Err((written, error)) => {
                self.waiting.lock().put_back(&keys[written..]);
                Err(error)
            }
        }
    }

    /// Writes these keys. An error says how many of them were written before it.
    fn write_all(&self, fs: &dyn Fs, state: &mut Files, keys: &[NewKey]) -> Result<(), (usize, io::Error)> {
        let mut written = 0;
        while let Some(first) = keys.get(written) {
            let room = self.room(state);
            if room == 0 {
                self.begin_file(fs, state, first).map_err(|error| (written, error))?;
                continue;
            }
            // Not all at once: what fails is sorted for nothing.
            let now = room.min(keys.len() - written).min(waiting::DUE);
            let Some(file) = state.files.last_mut() else { break };
            self.write_keys(fs, file, &keys[written..written + now]).map_err(|error| (written, error))?;
            written += now;
        }
        Ok(())
    }

    fn begin_file(&self, fs: &dyn Fs, state: &mut Files, first: &NewKey) -> io::Result<()> {
        if state.files.is_empty() {
            fs.create_dir_all(&self.dir)?;
        }
        let wanted = civil_time::digits(first.time_ms);
        let name = state.files.last().map_or(wanted, |last| wanted.max(last.name + 1));
        let file = fs.open(&self.path(name), &OpenOptions::create_empty())?;
        file.set_len(self.size.entry_at(self.size.entries))?;
        let header = IndexHeader {
            begin_ms: first.time_ms,
            end_ms: first.time_ms,
            begin_position: first.position,
            end_position: first.position,
            used_slots: 0,
            count: 1,
        };
        file.write_all_at(&header.encode(), 0)?;
        state.files.push(IndexFile { name, header, file: Some(file), unsynced: true });
        state.names_unsynced = true;
        Ok(())
    }

    /// Shows the positions of records that may have a key, newest first, each once, until `visit` has enough. `false`:
    /// there may be more, the look-up went through too many entries.
    ///
    /// Keys that wait are written before; where the disk is full they are looked at in memory. If keys are missing,
    /// that is an error.
    pub(crate) fn find(
        &self,
        fs: &dyn Fs,
        hash: u32,
        mut visit: impl FnMut(u64) -> ControlFlow<()>,
    ) -> io::Result<bool> {
        unless_full(self.write(fs))?;
        let mut seen = HashSet::new();
        let (waiting, files) = self.snapshot(fs, hash)?;
        for position in waiting {
            if seen.insert(position) && visit(position).is_break() {
                return Ok(true);
            }
        }
        let mut steps = STEPS_MAX;
        for (file, count) in files {
            let mut number = self.newest(file.as_ref(), hash % self.size.slots, count)?;
            while number != 0 {
                if steps == 0 {
                    return Ok(false);
                }
                steps -= 1;
                let mut bytes = [0; ENTRY_SIZE];
                file.read_exact_at(&mut bytes, self.size.entry_at(number))?;
                let Some(entry) = IndexEntry::decode(&bytes) else { break };
                if entry.hash == hash && seen.insert(entry.position) && visit(entry.position).is_break() {
                    return Ok(true);
                }
                // A chain leads to older entries only; anything else is damage.
                number = if entry.previous < number { entry.previous } else { 0 };
            }
        }
        Ok(true)
    }

    /// What is looked through without a lock: keys that wait and have the hash, newest first, and the files with the
    /// number of their entries.
    #[allow(clippy::type_complexity)] // reason: two lists that are of one moment.
    fn snapshot(&self, fs: &dyn Fs, hash: u32) -> io::Result<(Vec<u64>, Vec<(Arc<dyn File>, u32)>)> {
        let mut state = self.state.lock();
        let waiting = {
            let waiting = self.waiting.lock();
            if let Some(from) = waiting.missing_from() {
                let reason = format!("the index is behind from position {from} on: the disk was full; make room on it");
                return Err(io::Error::new(io::ErrorKind::StorageFull, reason));
            }
            waiting.newest_first(hash)
        };
        let files = state.files.iter_mut().rev();
        let files = files.map(|file| Ok((file.handle(fs, self.path(file.name))?, file.header.count)));
        Ok((waiting, files.collect::<io::Result<_>>()?))
    }

    /// The newest entry of a slot among the first `count`; 0 for none.
    fn newest(&self, file: &dyn File, slot: u32, count: u32) -> io::Result<u32> {
        let mut bytes = [0; SLOT_SIZE];
        file.read_exact_at(&mut bytes, self.size.slot_at(slot))?;
        // Meanwhile there may be newer ones.
        self.before(file, u32::from_be_bytes(bytes), count)
    }

    /// Makes what was written durable; gives what a checkpoint is to say of the files. An error is final, unless no
    /// file descriptor was left: the next call then syncs everything again.
    pub(crate) fn sync(&self, fs: &dyn Fs) -> io::Result<Vec<IndexFact>> {
        let (unsynced, names, facts) = {
            let mut state = self.state.lock();
            let names = std::mem::take(&mut state.names_unsynced);
            let facts =
                state.files.iter().map(|file| IndexFact { name: file.name, count: file.header.count }).collect();
            let unsynced: Vec<_> = state
                .files
                .iter_mut()
                .filter(|file| file.unsynced)
                .map(|file| {
                    file.unsynced = false;
                    (file.name, file.file.clone())
                })
                .collect();
            (unsynced, names, facts)
        };
        if let Err(error) = self.sync_files(fs, &unsynced, names) {
            if is_out_of_descriptors(&error) {
                let mut state = self.state.lock();
                state.names_unsynced |= names;
                let was_unsynced = |name: u64| unsynced.iter().any(|(known, _)| *known == name);
                state.files.iter_mut().for_each(|file| file.unsynced |= was_unsynced(file.name));
            }
            return Err(error);
        }
        Ok(facts)
    }

    fn sync_files(&self, fs: &dyn Fs, unsynced: &[(u64, Option<Arc<dyn File>>)], names: bool) -> io::Result<()> {
        for (name, file) in unsynced {
            let file = file.clone().map_or_else(|| fs.open(&self.path(*name), &OpenOptions::read_write()), Ok)?;
            file.sync_data()?;
        }
        if names {
            fs.sync_dir(&self.dir)?;
            if let Some(parent) = self.dir.parent() {
                fs.sync_dir(parent)?;
            }
        }
        Ok(())
    }

    /// Takes the files out of the index whose records all lie before a position, never the one that is written. Their
    /// files are to be removed once a checkpoint no longer names them.
    pub(crate) fn take_before(&self, position: u64) -> Vec<PathBuf> {
        let mut state = self.state.lock();
        let gone = state.files.partition_point(|file| file.header.end_position < position);
        let gone = gone.min(state.files.len().saturating_sub(1));
        state.files.drain(..gone).map(|file| self.path(file.name)).collect()
    }

    /// Closes the files until they are needed.
    pub(crate) fn release(&self) {
        self.state.lock().files.iter_mut().for_each(|file| file.file = None);
    }
}

/// Where there is no room, keys wait, or are missing until there is: no reason for a log not to be opened.
pub(crate) fn unless_full(written: io::Result<()>) -> io::Result<()> {
    written.or_else(|error| if is_disk_full(&error) { Ok(()) } else { Err(error) })
}

impl IndexFile {
    fn handle(&mut self, fs: &dyn Fs, path: PathBuf) -> io::Result<Arc<dyn File>> {
        if let Some(file) = &self.file {
            return Ok(Arc::clone(file));
        }
        let file = fs.open(&path, &OpenOptions::read_write())?;
        self.file = Some(Arc::clone(&file));
        Ok(file)
    }
}
