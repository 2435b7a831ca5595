//! The key index of a group: its chains against its slots, and its entries against the records.
//!
//! The setting that selects keys may have changed, so the check cannot distinguish a missing entry from an unwanted
//! one. It finds files that lack what the checkpoint says of them.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mainstem_env::{File, OpenOptions};
use mainstem_record::BatchView;
use mainstem_store::formats::group_checkpoint::IndexFact;
use mainstem_store::formats::key_index::{ENTRY_SIZE, HEADER_SIZE, IndexEntry, IndexHeader, SLOT_SIZE};
use mainstem_store::rebuild;

use super::group::Group;
use super::report::About;
use super::{Check, list};
use crate::key_index_file::{Size, slots_of};

/// Of a file's name.
const DIGITS: usize = 17;
const ENTRIES_AT_ONCE: u32 = 4096;

pub(super) fn check(check: &mut Check<'_, '_, '_>, group: &Group<'_>) {
    let folder = group.folder.join("index");
    let facts = group.known.as_ref().map(|known| known.indexes.clone()).unwrap_or_default();
    let mut names = Vec::new();
    if matches!(check.fs.exists(&folder), Ok(true)) {
        for entry in list(check.fs, &folder, check.report) {
            let name = entry.name.to_string_lossy().into_owned();
            match name.parse::<u64>() {
                Ok(name) if entry.name.len() == DIGITS => names.push(name),
                _ => {
                    let path = folder.join(entry.name);
                    check.report.note("unknown", About::file(&path), "Mainstem gives no such name");
                }
            }
        }
    }
    for fact in facts.iter().filter(|fact| !names.contains(&fact.name)) {
        let path = path_of(&folder, fact.name);
        let detail = "the checkpoint names the file; the next start rebuilds the whole index";
        check.report.finding("index-missing", About::file(&path), detail);
    }
    for name in names {
        let path = path_of(&folder, name);
        let fact = facts.iter().find(|fact| fact.name == name).copied();
        check.report.summary.files += 1;
        match KeyFile::open(check, &path, fact).and_then(|file| file.check(check, group)) {
            Ok(None) => {}
            Ok(Some(detail)) => check.report.finding("index-wrong", About::file(&path), detail),
            Err(error) => {
                check.report.finding("file-unreadable", About::file(&path), format!("cannot be read: {error}"))
            }
        }
    }
}

pub(super) fn path_of(folder: &Path, name: u64) -> PathBuf {
    folder.join(format!("{name:017}"))
}

pub(super) struct KeyFile {
    file: Arc<dyn File>,
    len: u64,
    fact: Option<IndexFact>,
}

impl KeyFile {
    pub(super) fn open(check: &Check<'_, '_, '_>, path: &Path, fact: Option<IndexFact>) -> io::Result<KeyFile> {
        let file = check.fs.open(path, &OpenOptions::read())?;
        let len = file.len()?;
        Ok(KeyFile { file, len, fact })
    }

    /// The first fault of the file.
    fn check(&self, check: &mut Check<'_, '_, '_>, group: &Group<'_>) -> io::Result<Option<String>> {
        let (header, size) = match self.header()? {
            Ok(read) => read,
            Err(wrong) => return Ok(Some(wrong)),
        };
        let Some(fact) = self.fact else {
            // Made after the checkpoint: the next start rebuilds it.
            return Ok(None);
        };
        if header.count < fact.count || (check.facts.clean && header.count != fact.count) {
            return Ok(Some(format!("the next entry is {}, the checkpoint says {}", header.count, fact.count)));
        }
        let count = fact.count.min(header.count);
        match self.check_entries(check, group, size, count)? {
            None if check.facts.clean => self.check_slots(size, count, &header),
            wrong => Ok(wrong),
        }
    }

    /// `Err`: the fault of the file.
    pub(super) fn header(&self) -> io::Result<Result<(IndexHeader, Size), String>> {
        let mut head = [0; HEADER_SIZE];
        let count = self.file.read_full_at(&mut head, 0)?;
        let header = match IndexHeader::decode(&head[..count]) {
            Ok(header) => header,
            Err(error) => return Ok(Err(error.to_string())),
        };
        let Some(size) = slots_of(self.len) else {
            return Ok(Err(format!("no index file has {} bytes", self.len)));
        };
        Ok(match header.count > size.entries {
            true => Err(format!("the header counts {} entries of {}", header.count, size.entries)),
            false => Ok((header, size)),
        })
    }

    pub(super) fn each_entry(
        &self,
        size: Size,
        count: u32,
        mut each: impl FnMut(u32, IndexEntry) -> Option<String>,
    ) -> io::Result<Option<String>> {
        let mut bytes = vec![0; ENTRIES_AT_ONCE as usize * ENTRY_SIZE];
        let mut number = 1;
        while number < count {
            let now = (count - number).min(ENTRIES_AT_ONCE);
            let part = &mut bytes[..now as usize * ENTRY_SIZE];
            self.file.read_exact_at(part, size.entry_at(number))?;
            for piece in part.chunks_exact(ENTRY_SIZE) {
                let wrong = IndexEntry::decode(piece).and_then(|entry| each(number, entry));
                if wrong.is_some() {
                    return Ok(wrong);
                }
                number += 1;
            }
        }
        Ok(None)
    }

    /// Every entry is of a record that has such a key. Neighbours are of one batch, which is read once.
    fn check_entries(
        &self,
        check: &mut Check<'_, '_, '_>,
        group: &Group<'_>,
        size: Size,
        count: u32,
    ) -> io::Result<Option<String>> {
        let first = group.files.keys().next().copied().unwrap_or(0);
        let mut seen: Option<(u64, Option<HashSet<u32>>)> = None;
        self.each_entry(size, count, |number, entry| {
            // Retention removes files of the log before it removes those of the index.
            if entry.position < first {
                return None;
            }
            if seen.as_ref().is_none_or(|(position, _)| *position != entry.position) {
                let Some(hashes) = hashes_at(check, group, entry.position) else {
                    // Of a damaged log it is known already.
                    let nothing = || format!("entry {number}: nothing begins at byte {} of the log", entry.position);
                    return (!group.damaged).then(nothing);
                };
                seen = Some((entry.position, hashes));
            }
            let known = seen.as_ref().and_then(|(_, hashes)| hashes.as_ref())?;
            (!known.contains(&entry.hash)).then(|| {
                format!(
                    "entry {number}: no record at byte {} of the log has a key of hash {}",
                    entry.position, entry.hash
                )
            })
        })
    }

    /// Slots lead to the newest entry of theirs, entries to the one before.
    pub(super) fn check_slots(&self, size: Size, count: u32, header: &IndexHeader) -> io::Result<Option<String>> {
        let mut newest = vec![0u32; size.slots as usize];
        let mut used = 0;
        let wrong = self.each_entry(size, count, |number, entry| {
            let slot = &mut newest[(entry.hash % size.slots) as usize];
            let due = std::mem::replace(slot, number);
            used += u32::from(due == 0);
            (entry.previous != due).then(|| format!("entry {number} leads to entry {}, not to {due}", entry.previous))
        })?;
        if wrong.is_some() {
            return Ok(wrong);
        }
        if used != header.used_slots {
            return Ok(Some(format!("the header counts {} used slots; {used} slots are in use", header.used_slots)));
        }
        let mut bytes = vec![0; 65_536 * SLOT_SIZE];
        for (part, due) in newest.chunks(65_536).enumerate() {
            let bytes = &mut bytes[..due.len() * SLOT_SIZE];
            self.file.read_exact_at(bytes, size.slot_at(part as u32 * 65_536))?;
            let same = |(bytes, due): (&[u8], &u32)| *bytes == due.to_be_bytes();
            if let Some(slot) = bytes.chunks_exact(SLOT_SIZE).zip(due).position(|pair| !same(pair)) {
                return Ok(Some(format!("slot {} does not lead to its newest entry", part * 65_536 + slot)));
            }
        }
        Ok(None)
    }
}

/// The hashes of all keys of the batch at a position. Outer `None`: no whole entry begins there; inner `None`: of a
/// topic that nobody knows.
fn hashes_at(check: &Check<'_, '_, '_>, group: &Group<'_>, position: u64) -> Option<Option<HashSet<u32>>> {
    let (key, bytes) = group.read_batch(check, mainstem_types::Position(position))?;
    let name = group.tracked.get(&key).and_then(|tracked| tracked.name.as_ref());
    let Some(name) = name else { return Some(None) };
    let view = BatchView::parse(&bytes).ok()?;
    Some(Some(rebuild::keys_and_tags(&view, &name.topic).keys.into_iter().collect()))
}
