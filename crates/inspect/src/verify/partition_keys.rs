//! The key index of a partition with its own files: its chains against its slots, and the records against its entries.
//!
//! It may always be behind, and may lead to records that were cut: a look-up reads on, and compares. But what it says
//! that it has must be there, or look-ups would not find it.

use std::collections::BTreeMap;
use std::io;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use mainstem_env::OpenOptions;
use mainstem_record::BatchView;
use mainstem_store::formats::group_checkpoint::IndexFact;
use mainstem_store::formats::key_index_state::{self, KeyIndexState};
use mainstem_store::rebuild;
use mainstem_types::{Offset, TopicPartition};

use super::keys::{KeyFile, path_of};
use super::report::About;
use super::{Check, load};
use crate::key_index_file::Size;
use crate::kind::KEY_INDEX;
use crate::scan::{Batches, Scan, ScanStep};

/// A file of the index, with the base offsets that its entries have.
struct Indexed {
    file: KeyFile,
    size: Size,
    count: u32,
    bases: RangeInclusive<u64>,
    /// Base offset and hash of each entry, while batches are compared with it.
    entries: Option<Vec<(u64, u32)>>,
}

impl Indexed {
    /// `Err`: the first fault of the file.
    fn read(check: &Check<'_, '_, '_>, path: &Path, fact: IndexFact) -> io::Result<Result<Indexed, String>> {
        let file = KeyFile::open(check, path, Some(fact))?;
        let (header, size) = match file.header()? {
            Ok(read) => read,
            Err(wrong) => return Ok(Err(wrong)),
        };
        if header.count < fact.count {
            return Ok(Err(format!("the next entry is {}, the state says {}", header.count, fact.count)));
        }
        // A start takes it back to what the state says; until then slots lead to what came later.
        if header.count == fact.count
            && let Some(wrong) = file.check_slots(size, fact.count, &header)?
        {
            return Ok(Err(wrong));
        }
        let (mut least, mut most) = (u64::MAX, 0);
        file.each_entry(size, fact.count, |_, entry| {
            (least, most) = (least.min(entry.position), most.max(entry.position));
            None
        })?;
        Ok(Ok(Indexed { file, size, count: fact.count, bases: least..=most, entries: None }))
    }

    fn has(&mut self, base: u64, hash: u32) -> io::Result<bool> {
        if !self.bases.contains(&base) {
            return Ok(false);
        }
        if self.entries.is_none() {
            let mut entries = Vec::with_capacity(self.count as usize);
            self.file.each_entry(self.size, self.count, |_, entry| {
                entries.push((entry.position, entry.hash));
                None
            })?;
            entries.sort_unstable();
            self.entries = Some(entries);
        }
        Ok(self.entries.as_ref().is_some_and(|entries| entries.binary_search(&(base, hash)).is_ok()))
    }
}

/// `start`: the records below are not served.
pub(super) fn check(
    check: &mut Check<'_, '_, '_>,
    folder: &Path,
    partition: &TopicPartition,
    segments: &BTreeMap<Offset, PathBuf>,
    start: Offset,
) {
    let folder = folder.join(KEY_INDEX);
    let path = folder.join(key_index_state::FILE_NAME);
    if !matches!(check.fs.exists(&path), Ok(true)) {
        // Nobody believes the files beside it: the index is made again.
        return;
    }
    let state = load(check.fs, &path, About::partition(partition), check.report, key_index_state::decode);
    let Some(state) = state else { return };
    let mut files = Vec::with_capacity(state.files.len());
    for fact in &state.files {
        let path = path_of(&folder, fact.name);
        let about = About::partition(partition).at(&path);
        match Indexed::read(check, &path, *fact) {
            Ok(Ok(file)) => files.push(file),
            Ok(Err(wrong)) => return check.report.finding("index-wrong", about, wrong),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let detail = "the state of the index names the file; the next look-up rebuilds the whole index";
                return check.report.finding("index-missing", about, detail);
            }
            Err(error) => {
                return check.report.finding("file-unreadable", about, format!("cannot be read: {error}"));
            }
        }
        check.report.summary.files += 1;
    }
    match first_missing(check, partition, segments, start, &state, &mut files) {
        Ok(None) => {}
        Ok(Some(base)) => {
            let about = About::partition(partition).at(&folder).offsets(base.0, base.0);
            let detail = "the index lacks a key of the batch at this offset: look-ups do not find it";
            check.report.finding("index-short", about, detail);
        }
        Err(error) => {
            let about = About::partition(partition).at(&folder);
            check.report.finding("file-unreadable", about, format!("cannot be compared with the log: {error}"));
        }
    }
}

/// The first batch that has a key which is not in the index.
fn first_missing(
    check: &Check<'_, '_, '_>,
    partition: &TopicPartition,
    segments: &BTreeMap<Offset, PathBuf>,
    start: Offset,
    state: &KeyIndexState,
    files: &mut [Indexed],
) -> io::Result<Option<Offset>> {
    let mut missing = None;
    for (segment, path) in segments.range(..state.applied) {
        let mut scan = Scan::new(check.fs.open(path, &OpenOptions::read())?, Batches::from(*segment))?;
        loop {
            let header = match scan.next() {
                ScanStep::End => break,
                // Told with the log itself.
                ScanStep::Damage(_) => continue,
                ScanStep::Entry { head, .. } => head.batch,
            };
            let Some(header) = header else { continue };
            let base = header.base_offset;
            if base == state.last_batch.0 && header.crc != state.last_batch.1 {
                // Of another log, or compacted since: it is made again.
                return Ok(None);
            }
            if missing.is_some() || base < start || header.next_offset() > state.applied {
                continue;
            }
            let Ok(view) = BatchView::parse(scan.bytes()?) else { continue };
            for hash in rebuild::keys_and_tags(&view, &partition.topic).keys {
                let mut found = false;
                for file in files.iter_mut() {
                    found = found || file.has(base.0.unsigned_abs(), hash)?;
                }
                missing = missing.or((!found).then_some(base));
            }
            for file in files.iter_mut().filter(|file| *file.bases.end() < base.0.unsigned_abs()) {
                file.entries = None;
            }
        }
    }
    Ok(missing)
}
