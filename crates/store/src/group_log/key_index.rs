//! The index by key: files with hash chains, newest record first.
//!
//! New keys wait in memory and are written together; a look-up writes them first, so it never misses one. What an index says is only a
//! hint: whoever looks up reads the record and compares. So entries of records that were cut, deleted or indexed twice do no harm.
//!
//! Slots are read and written page by page, the keys that wait sorted by them: the more wait, the less each costs.
//!
//! Numbers: 5,000,000 slots and 20,000,000 entries a file unless configured otherwise, 420,000,040 bytes, sparse; 65,536 keys wait, 1.5 MiB,
//! before an append writes them itself; with so many, a key costs a quarter of a system call.

mod write;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mainstem_env::{File, Fs, OpenOptions};
use parking_lot::Mutex;

use super::civil_time;
use crate::formats::group_checkpoint::IndexFact;
use crate::formats::key_index::{ENTRY_SIZE, HEADER_SIZE, IndexEntry, IndexHeader, SLOT_SIZE};

const WAITING_MAX: usize = 65_536;
const DIGITS: usize = 17;

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
    waiting: Mutex<Vec<NewKey>>,
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
    /// Takes the files over that a checkpoint names. `None`: some of them are not what it says, and the index is to be made anew.
    pub(crate) fn open(
        fs: &dyn Fs,
        dir: &Path,
        size: Size,
        known: &[IndexFact],
        clean: bool,
    ) -> io::Result<Option<KeyIndex>> {
        let index = KeyIndex { dir: dir.to_owned(), size, state: Mutex::default(), waiting: Mutex::default() };
        let found = index.list(fs)?;
        // Made after the checkpoint: what is in them will be indexed again.
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
        let index = KeyIndex { dir: dir.to_owned(), size, state: Mutex::default(), waiting: Mutex::default() };
        for name in index.list(fs)? {
            fs.remove_file(&index.path(name))?;
        }
        Ok(index)
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

    /// Takes a file back to its first `count` entries: slots may point to later ones, of which a power cut may have taken any part.
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
        if hashes.is_empty() {
            return false;
        }
        let mut waiting = self.waiting.lock();
        waiting.extend(hashes.iter().map(|hash| NewKey { hash: *hash, position, time_ms }));
        waiting.len() >= WAITING_MAX
    }

    /// Writes the keys that wait.
    pub(crate) fn write(&self, fs: &dyn Fs) -> io::Result<()> {
        let mut state = self.state.lock();
        let keys = std::mem::take(&mut *self.waiting.lock());
        let mut rest = keys.as_slice();
        while !rest.is_empty() {
            let room = state.files.last().map_or(0, |file| self.size.entries - file.header.count) as usize;
            if room == 0 {
                if let Err(error) = self.begin_file(fs, &mut state, &rest[0]) {
                    self.put_back(rest);
                    return Err(error);
                }
                continue;
            }
            let (now, later) = rest.split_at(room.min(rest.len()));
            let Some(file) = state.files.last_mut() else { break };
            if let Err(error) = self.write_keys(fs, file, now) {
                self.put_back(rest);
                return Err(error);
            }
            rest = later;
        }
        Ok(())
    }

    fn put_back(&self, keys: &[NewKey]) {
        let mut waiting = self.waiting.lock();
        waiting.splice(0..0, keys.iter().copied());
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

    /// The newest entry of a slot; 0 for none.
    fn newest(&self, file: &dyn File, slot: u32, count: u32) -> io::Result<u32> {
        let mut bytes = [0; SLOT_SIZE];
        file.read_exact_at(&mut bytes, self.size.slot_at(slot))?;
        let number = u32::from_be_bytes(bytes);
        Ok(if number < count { number } else { 0 })
    }

    /// Positions of records that may have a key, newest first, at most `max` of them, each once.
    pub(crate) fn find(&self, fs: &dyn Fs, hash: u32, max: usize) -> io::Result<Vec<u64>> {
        self.write(fs)?;
        let mut state = self.state.lock();
        let mut found: Vec<u64> = Vec::new();
        for file in state.files.iter_mut().rev() {
            let handle = file.handle(fs, self.path(file.name))?;
            let mut number = self.newest(handle.as_ref(), hash % self.size.slots, file.header.count)?;
            while number != 0 && found.len() < max {
                let mut bytes = [0; ENTRY_SIZE];
                handle.read_exact_at(&mut bytes, self.size.entry_at(number))?;
                let Some(entry) = IndexEntry::decode(&bytes) else { break };
                if entry.hash == hash && !found.contains(&entry.position) {
                    found.push(entry.position);
                }
                // A chain leads to older entries only; anything else is damage.
                number = if entry.previous < number { entry.previous } else { 0 };
            }
        }
        Ok(found)
    }

    /// Makes what was written durable; gives what a checkpoint is to say of the files. An error is final.
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
        for (name, file) in unsynced {
            let file = file.map_or_else(|| fs.open(&self.path(name), &OpenOptions::read_write()), Ok)?;
            file.sync_data()?;
        }
        if names {
            fs.sync_dir(&self.dir)?;
            if let Some(parent) = self.dir.parent() {
                fs.sync_dir(parent)?;
            }
        }
        Ok(facts)
    }

    /// Takes the files out of the index whose records all lie before a position, never the one that is written. Their files are
    /// to be removed once a checkpoint no longer names them.
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
