//! Looking records up by key in layout `partition`, with `mainstem.key.index=all`: the index of the shared layouts, one
//! for the partition.
//!
//! ```text
//! key-index/<17 digits>   slots and entries; an entry's position is the base offset of the record's batch
//! key-index/applied       up to where the log is in them
//! ```
//! A view that appends have nothing to do with: look-ups and checkpoints bring it up to date from the batches. Lost,
//! damaged, or of another log, it is made again from the first record. What it says is a hint: a look-up reads the
//! batch and compares.
//!
//! The lock `keys` is held while batches are read, by look-ups, checkpoints and the stop alone; who has it takes no
//! other than `state`.
//!
//! Numbers: 131,072 slots and 524,288 entries a file, 11 MB, sparse; one read of 1 MiB (or one batch) at a time; a
//! checkpoint reads at most 64 MiB.

use std::ops::ControlFlow;
use std::path::PathBuf;

use mainstem_record::{BatchView, Batches};
use mainstem_types::{Offset, TimestampMs};

use super::PartitionLog;
use crate::config::KeyIndexing;
use crate::error::{ReadError, StorageError};
use crate::formats::key_index::{continue_hash, stored_hash};
use crate::formats::key_index_state::{self, KeyIndexState};
use crate::key_query::{COMPARED_MAX, Candidate, FindByKeyError, FoundByKey, KeyMatches, KeyQuery};
use crate::log_types::{ReadChunk, ReadRequest, Reading};
use crate::views::inspect::{inspect, topic_hash};
use crate::views::key_index::{KeyIndex, Size};

const FOLDER: &str = "key-index";
/// Tests go through several files with little data.
const SIZE: Size = if cfg!(test) { Size { slots: 16, entries: 32 } } else { Size { slots: 1 << 17, entries: 1 << 19 } };
const READ_BYTES: u32 = 1 << 20;
/// What a checkpoint reads at most of one log: others wait for it. A look-up reads the rest.
const CHECKPOINT_BYTES: u64 = 64 << 20;

/// The index, once somebody needed it.
#[derive(Debug, Default)]
pub(crate) struct Keys {
    open: Option<Box<OpenKeys>>,
    /// No index is wanted, and its files are gone.
    removed: bool,
}

impl Keys {
    /// After an error what was not written is not kept, so that it does not grow: the next one who asks begins with
    /// what is on the disk.
    fn forget_after<T>(&mut self, result: &Result<T, ReadError>) {
        if result.is_err() {
            self.open = None;
        }
    }
}

#[derive(Debug)]
struct OpenKeys {
    index: KeyIndex,
    applied: Offset,
    last_batch: (Offset, u32),
    /// The content of the file.
    saved: Offset,
}

impl PartitionLog {
    /// Records that have a key. None unless `mainstem.key.index` is `all`. Waits for the disk.
    ///
    /// Reads what was appended since the last look-up or checkpoint, and all of a log that had no index; but no more
    /// than `bytes_left`, which it takes from: then [`FindByKeyError::Behind`].
    pub fn find_by_key(&self, query: &KeyQuery<'_>, bytes_left: &mut u64) -> Result<KeyMatches, FindByKeyError> {
        if !self.keys_wanted() {
            return Ok(KeyMatches { records: Vec::new(), complete: true });
        }
        let hash = stored_hash(continue_hash(topic_hash(&self.partition.topic), query.key));
        let (batches, walked) = self.batches_of_hash(hash, bytes_left)?;
        let mut records = Vec::new();
        for base in &batches {
            if records.len() >= query.max {
                break;
            }
            self.compare(Offset(*base as i64), query, &mut records)?;
        }
        let complete = records.len() >= query.max || (walked && batches.len() < COMPARED_MAX);
        records.truncate(query.max);
        Ok(KeyMatches { records, complete })
    }

    /// The batches that may have a key, newest first; `false`: there may be more.
    fn batches_of_hash(&self, hash: u32, bytes_left: &mut u64) -> Result<(Vec<u64>, bool), FindByKeyError> {
        let mut keys = self.keys.lock();
        let mut batches = Vec::new();
        let walked = self.open_keys(&mut keys).and_then(|open| {
            let log_end = self.log_end();
            self.index_up_to(open, log_end, bytes_left)?;
            if open.applied < log_end {
                return Ok(Err(self.keys_behind(open.applied, log_end)));
            }
            let walked = open.index.find(self.fs(), hash, |base| {
                batches.push(base);
                if batches.len() < COMPARED_MAX { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            });
            walked.map(Ok).map_err(|error| self.keys_failed("look keys up in", error))
        });
        keys.forget_after(&walked);
        Ok((batches, walked??))
    }

    fn keys_behind(&self, applied: Offset, log_end: Offset) -> FindByKeyError {
        let offset = |offset: Offset| offset.0.unsigned_abs();
        FindByKeyError::Behind { log: self.partition.to_string(), done: offset(applied), end: offset(log_end) }
    }

    fn keys_wanted(&self) -> bool {
        self.config.load().key_indexing == KeyIndexing::All
    }

    fn keys_failed(&self, action: &'static str, error: std::io::Error) -> ReadError {
        StorageError { action, path: self.keys_folder(), error: error.into() }.into()
    }

    fn keys_folder(&self) -> PathBuf {
        self.folder.join(FOLDER)
    }

    fn open_keys<'k>(&self, keys: &'k mut Keys) -> Result<&'k mut OpenKeys, ReadError> {
        if keys.open.is_none() {
            let open = match self.found_keys()? {
                Some(found) => found,
                None => OpenKeys {
                    index: KeyIndex::create(self.fs(), &self.keys_folder(), SIZE)
                        .map_err(|error| self.keys_failed("create", error))?,
                    applied: Offset::ZERO,
                    last_batch: (Offset::NONE, 0),
                    saved: Offset::ZERO,
                },
            };
            *keys = Keys { open: Some(Box::new(open)), removed: false };
        }
        keys.open.as_deref_mut().ok_or_else(|| ReadError::Closed { partition: self.partition.clone() })
    }

    /// The index on the disk, if it belongs to this log.
    fn found_keys(&self) -> Result<Option<OpenKeys>, ReadError> {
        let folder = self.keys_folder();
        let bytes = self
            .fs()
            .read_if_present(&folder.join(key_index_state::FILE_NAME))
            .map_err(|error| self.keys_failed("read", error))?;
        let Some(KeyIndexState { applied, last_batch, files }) =
            bytes.and_then(|bytes| key_index_state::decode(&bytes).ok())
        else {
            return Ok(None);
        };
        if last_batch.0 >= self.log_start() {
            let there = match self.batch_at(last_batch.0) {
                Err(ReadError::Corrupt { .. }) => None,
                batch => batch?.map(|(_, crc)| crc),
            };
            if there != Some(last_batch.1) {
                // Damaged, or cut and written anew, by a power cut or by a Kafka that had the folder meanwhile.
                return Ok(None);
            }
        }
        let index = KeyIndex::open(self.fs(), &folder, SIZE, &files, false);
        let index = index.map_err(|error| self.keys_failed("open", error))?;
        Ok(index.map(|index| OpenKeys { index, applied, last_batch, saved: applied }))
    }

    /// The batch that begins at `base`, with its checksum.
    fn batch_at(&self, base: Offset) -> Result<Option<(Vec<u8>, u32)>, ReadError> {
        let request = ReadRequest { from: base, max_bytes: 1, upper: self.log_end(), min_one_batch: true };
        let reading = match self.read(&request) {
            Err(ReadError::OutOfRange { .. }) => return Ok(None),
            reading => self.bytes_of(&reading?)?,
        };
        let view = BatchView::parse(&reading).ok().filter(|view| view.header().base_offset == base);
        let crc = view.map(|view| view.header().crc);
        Ok(crc.map(|crc| (reading, crc)))
    }

    fn bytes_of(&self, reading: &Reading) -> Result<Vec<u8>, ReadError> {
        let mut bytes = Vec::with_capacity(reading.bytes);
        for chunk in &reading.chunks {
            match chunk {
                ReadChunk::Bytes(part) => bytes.extend_from_slice(part),
                ReadChunk::Slice(slice) => {
                    let from = bytes.len();
                    bytes.resize(from + slice.len as usize, 0);
                    let read = slice.file.read_exact_at(&mut bytes[from..], slice.position);
                    read.map_err(|_| ReadError::Gone { partition: self.partition.clone() })?;
                }
            }
        }
        Ok(bytes)
    }

    /// Takes the batches before `upper` into the index that are not in it yet, about `bytes_left` bytes of them.
    fn index_up_to(&self, open: &mut OpenKeys, upper: Offset, bytes_left: &mut u64) -> Result<(), ReadError> {
        let topic = topic_hash(&self.partition.topic);
        loop {
            let (log_start, cut) = {
                let mut state = self.state.lock();
                (state.log_start, std::mem::replace(&mut state.keys_cut, Offset(i64::MAX)))
            };
            // What was cut is indexed again when there is something else; its old entries are hints that lead nowhere.
            open.applied = open.applied.min(cut).max(log_start);
            if open.applied >= upper || *bytes_left == 0 {
                return Ok(());
            }
            let request = ReadRequest { from: open.applied, max_bytes: READ_BYTES, upper, min_one_batch: true };
            let bytes = match self.read(&request) {
                Err(ReadError::Corrupt { .. }) => {
                    // The records in damage cannot be found; those behind it can.
                    let behind = self.offset_behind_damage(open.applied)?;
                    if behind <= open.applied {
                        return Err(self.corrupt(open.applied, 0));
                    }
                    open.applied = behind;
                    continue;
                }
                reading => self.bytes_of(&reading?)?,
            };
            *bytes_left = bytes_left.saturating_sub(bytes.len() as u64);
            let before = open.applied;
            for view in Batches::new(&bytes).map_while(Result::ok) {
                self.index_batch(open, &view, topic)?;
            }
            if open.applied == before {
                return Ok(());
            }
        }
    }

    fn index_batch(&self, open: &mut OpenKeys, view: &BatchView<'_>, topic: i32) -> Result<(), ReadError> {
        let header = view.header();
        if header.next_offset() <= open.applied {
            return Ok(());
        }
        if !view.crc_is_valid() {
            open.applied = header.next_offset();
            return Ok(());
        }
        let mut hashes = inspect(view, topic, KeyIndexing::All).keys;
        hashes.sort_unstable();
        hashes.dedup();
        let now: TimestampMs = self.env.clock.wall_ms();
        if open.index.add(&hashes, header.base_offset.0 as u64, now.0) {
            open.index.write(self.fs()).map_err(|error| self.keys_failed("write", error))?;
        }
        open.last_batch = (header.base_offset, header.crc);
        open.applied = header.next_offset();
        Ok(())
    }

    /// Adds the records of a batch that are asked for, the last one first.
    fn compare(&self, base: Offset, query: &KeyQuery<'_>, found: &mut Vec<FoundByKey>) -> Result<(), ReadError> {
        let bytes = match self.batch_at(base) {
            // Damaged batches cannot be read; the other records can.
            Err(ReadError::Corrupt { .. }) => return Ok(()),
            batch => batch?,
        };
        let Some((bytes, _)) = bytes else { return Ok(()) };
        let Some(view) = BatchView::parse(&bytes).ok().filter(BatchView::crc_is_valid) else { return Ok(()) };
        let (partition, position, log_start) = (self.partition.partition, base.0 as u64, self.log_start());
        let batch = Candidate { view: &view, partition, position, log_start };
        let aborted = |producer, offset: Offset| {
            let overlapping = self.aborted_transactions(offset, offset.plus(1))?;
            Ok(overlapping.iter().any(|aborted| aborted.producer_id == producer))
        };
        query.take(&batch, aborted, found)
    }

    /// Brings the index up to what is durable and writes down how far it is; removes it where it is not wanted. An
    /// error costs the next look-up time, nothing else. While a look-up is at it, which may read all of the log, it is
    /// left to the next checkpoint.
    pub(super) fn checkpoint_keys(&self) {
        let Some(mut keys) = self.keys.try_lock() else { return };
        let done = if self.keys_wanted() { self.save_keys(&mut keys) } else { self.remove_keys(&mut keys) };
        keys.forget_after(&done);
        if let Err(error) = done {
            tracing::warn!(partition = %self.partition, "cannot update the key index: {error}");
        }
    }

    fn save_keys(&self, keys: &mut Keys) -> Result<(), ReadError> {
        let closed = self.is_closed();
        if closed && keys.open.is_none() {
            return Ok(());
        }
        let open = self.open_keys(keys)?;
        if !closed {
            self.index_up_to(open, self.durable_end(), &mut CHECKPOINT_BYTES.clone())?;
        }
        // A look-up may have been ahead: then the next checkpoint writes it down.
        if open.applied == open.saved || open.applied > self.durable_end() {
            return Ok(());
        }
        let failed = |action| move |error| self.keys_failed(action, error);
        open.index.write(self.fs()).map_err(failed("write"))?;
        let gone = open.index.take_before(self.log_start().0 as u64);
        let files = match open.index.sync(self.fs()) {
            Ok(files) => files,
            Err(error) => {
                // Nobody knows what of it is on the disk: it is made again.
                self.remove_keys(keys)?;
                keys.removed = false;
                return Err(self.keys_failed("sync", error));
            }
        };
        let state = KeyIndexState { applied: open.applied, last_batch: open.last_batch, files };
        let folder = self.keys_folder();
        self.fs().create_dir_all_synced(&folder).map_err(failed("create"))?;
        self.fs()
            .atomic_write(&folder.join(key_index_state::FILE_NAME), &key_index_state::encode(&state))
            .map_err(failed("write"))?;
        open.saved = open.applied;
        for path in gone {
            super::listing::remove_if_present(self.fs(), &path).map_err(failed("remove"))?;
        }
        open.index.release();
        Ok(())
    }

    fn remove_keys(&self, keys: &mut Keys) -> Result<(), ReadError> {
        if std::mem::replace(&mut keys.removed, true) {
            return Ok(());
        }
        keys.open = None;
        match self.fs().remove_dir_all(&self.keys_folder()) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                keys.removed = false;
                Err(self.keys_failed("remove", error))
            }
            _ => Ok(()),
        }
    }
}
