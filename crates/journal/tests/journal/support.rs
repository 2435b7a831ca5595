//! Entries that can be recognised, a scanner for them, and a journal with an oracle beside it.

use std::io::IoSlice;
use std::path::Path;
use std::sync::Arc;

use mainstem_env::{CrashPolicy, Fs, ManualClock, MemFs};
use mainstem_journal::{
    AppendError, EntryScanner, Journal, JournalHost, JournalOptions, Location, OpenError, RecoverFrom, RecoveryReport,
    Scan, SegmentBase,
};

pub const DIR: &str = "/data/journal";
const CHECKPOINT: &str = "/data/checkpoint";
const HEADER_BYTES: usize = 20;

/// An entry: its number, which incarnation of the journal's end wrote it, and its payload's length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    pub number: u64,
    pub epoch: u32,
    pub payload_len: u32,
}

impl Entry {
    /// `payload length 4 | number 8 | epoch 4 | checksum 4 | payload`
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend(self.payload_len.to_be_bytes());
        bytes.extend(self.number.to_be_bytes());
        bytes.extend(self.epoch.to_be_bytes());
        bytes.extend([0; 4]);
        bytes.extend((0..self.payload_len).map(|i| (i as u8).wrapping_mul(31).wrapping_add(self.number as u8)));
        let sum = checksum(&bytes);
        bytes[16..20].copy_from_slice(&sum.to_be_bytes());
        bytes
    }

    pub fn len(&self) -> u64 {
        HEADER_BYTES as u64 + u64::from(self.payload_len)
    }
}

/// FNV-1a over all but the checksum itself.
fn checksum(bytes: &[u8]) -> u32 {
    let covered = bytes[..16].iter().chain(&bytes[20..]);
    covered.fold(0x811c_9dc5, |sum, byte| (sum ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

/// Finds [`Entry`]s and checks that their numbers are dense. A segment is named by the number of its first entry.
#[derive(Debug, Default)]
pub struct Entries {
    /// The number of the next entry, where it is known.
    pub expected: Option<u64>,
    /// Takes every whole entry, whatever its number.
    pub trusting: bool,
    pub begun: bool,
    pub seen: Vec<(Location, Entry)>,
}

impl Entries {
    pub fn expecting(number: u64) -> Self {
        Entries { expected: Some(number), ..Entries::default() }
    }
}

impl EntryScanner for Entries {
    fn begin_segment(&mut self, start: Location) -> bool {
        let first = !std::mem::replace(&mut self.begun, true);
        if start.position > 0 || self.trusting {
            return true;
        }
        let follows = self.expected.is_none_or(|expected| expected == start.segment.0);
        if first {
            self.expected = Some(start.segment.0);
        }
        follows
    }

    fn scan(&mut self, location: Location, bytes: &[u8]) -> Scan {
        if bytes.len() < HEADER_BYTES {
            return Scan::Incomplete { needed: HEADER_BYTES };
        }
        let payload_len = u32::from_be_bytes(bytes[..4].try_into().unwrap());
        let len = HEADER_BYTES + payload_len as usize;
        if payload_len > 1 << 24 {
            return Scan::Corrupt { reason: "absurd length" };
        }
        if bytes.len() < len {
            return Scan::Incomplete { needed: len };
        }
        if checksum(&bytes[..len]) != u32::from_be_bytes(bytes[16..20].try_into().unwrap()) {
            return Scan::Corrupt { reason: "checksum" };
        }
        let number = u64::from_be_bytes(bytes[4..12].try_into().unwrap());
        if !self.trusting && self.expected.is_some_and(|expected| expected != number) {
            return Scan::Corrupt { reason: "number" };
        }
        self.expected = Some(number + 1);
        let epoch = u32::from_be_bytes(bytes[12..16].try_into().unwrap());
        self.seen.push((location, Entry { number, epoch, payload_len }));
        Scan::Entry { len }
    }
}

/// What must be on the disk, whatever happens.
#[derive(Debug, Clone, Default)]
pub struct Oracle {
    /// All entries ever appended and not cut, by number; also those that were deleted since.
    pub current: Vec<Entry>,
    /// What may be found instead, until the next flush: entries that were not acknowledged, cuts that did not end.
    pub others: Vec<Vec<Entry>>,
    /// Entries below this number are durable.
    pub durable: usize,
    /// Entries below this number are in the page cache: a killed process does not take them.
    pub written: usize,
    /// What the number of the first entry may be.
    pub first_min: u64,
    pub first_max: u64,
}

impl Oracle {
    /// Checks what was found after a restart and takes it for the truth.
    pub fn adopt(&mut self, first: Option<u64>, found: &[Entry]) -> Result<(), String> {
        let Some(first) = first else {
            self.current.truncate(self.durable);
            self.written = self.durable;
            return if self.durable == 0 { Ok(()) } else { Err("the journal is gone".to_owned()) };
        };
        let end = first as usize + found.len();
        // Before the first flush the name of the first segment can get lost, and that of the second stay.
        if self.durable > 0 && !(self.first_min..=self.first_max).contains(&first) {
            return Err(format!("starts at {first}, not within {}..={}", self.first_min, self.first_max));
        }
        if end < self.durable {
            return Err(format!("ends at {end}, but {} were durable", self.durable));
        }
        let holds = |history: &&Vec<Entry>| history.get(first as usize..end) == Some(found);
        let Some(history) = std::iter::once(&self.current).chain(&self.others).find(holds) else {
            return Err(format!("found {found:?} from {first} on, expected a prefix of {:?}", self.current));
        };
        self.current = history[..end].to_vec();
        self.others.clear();
        (self.durable, self.written) = (end, end);
        (self.first_min, self.first_max) = (first, first);
        Ok(())
    }
}

#[derive(Debug, Clone)]
pub enum Step {
    Append {
        payload_len: u32,
    },
    AppendInMemory {
        payload_len: u32,
    },
    /// As the thread does that writes out.
    WriteOut,
    Roll,
    Flush,
    Checkpoint,
    /// Deletes so many segments at the front.
    Delete {
        segments: usize,
    },
    RemoveDeleted,
    /// Cuts so many entries at the end.
    Truncate {
        entries: usize,
    },
    ReleaseIdle,
    CloseAndReopen,
    /// A killed process: what was written is in the page cache still, but no more durable than before. What was in
    /// memory is gone.
    KillAndReopen,
    CrashAndReopen {
        policy: CrashPolicy,
    },
}

/// A journal, the owner that a store would be, and the oracle.
pub struct Rig {
    pub fs: MemFs,
    pub host: Arc<JournalHost>,
    pub journal: Arc<Journal>,
    pub oracle: Oracle,
    pub epoch: u32,
    /// Everything before was durable at the last flush: location and number of the next entry.
    flushed: Option<(Location, u64)>,
}

pub fn options() -> JournalOptions {
    JournalOptions { segment_bytes: 300, tail_cache_bytes: 256, max_entry_bytes: 1 << 20, ..JournalOptions::default() }
}

pub fn host(fs: &MemFs, tail_bytes: usize) -> Arc<JournalHost> {
    Arc::new(JournalHost::new(Arc::new(fs.clone()), Arc::new(ManualClock::default()), tail_bytes))
}

fn checkpoint(fs: &MemFs) -> std::io::Result<Option<(Location, u64)>> {
    let Some(bytes) = fs.read_if_present(Path::new(CHECKPOINT))? else { return Ok(None) };
    let numbers: Vec<u64> = String::from_utf8(bytes).unwrap().split(' ').map(|n| n.parse().unwrap()).collect();
    Ok(Some((Location::new(SegmentBase(numbers[0]), numbers[1]), numbers[2])))
}

/// Opens the journal as an owner does after a crash.
pub fn open(fs: &MemFs) -> Result<(Journal, RecoveryReport), OpenError> {
    let host = host(fs, 1 << 20);
    let checkpoint = checkpoint(fs).map_err(|source| OpenError::Directory { dir: CHECKPOINT.into(), source })?;
    let (from, mut entries) = match checkpoint {
        Some((location, number)) => (RecoverFrom::Checkpoint(location), Entries::expecting(number)),
        None => (RecoverFrom::Start, Entries::default()),
    };
    Journal::open(&host, Path::new(DIR), options(), from, &mut entries)
}

/// The number of the first entry, and all entries; an error if what is there is not readable to its end.
pub fn contents(journal: &Journal) -> Result<(Option<u64>, Vec<Entry>), String> {
    let Some(first) = journal.first_segment() else { return Ok((None, Vec::new())) };
    let mut entries = Entries::default();
    let outcome = journal.scan(Location::new(first, 0), &mut entries).map_err(|error| error.to_string())?;
    if Some(outcome.end) != journal.end() {
        return Err(format!("readable to {}, but the end is {:?}: {outcome:?}", outcome.end, journal.end()));
    }
    Ok((Some(first.0), entries.seen.into_iter().map(|(_, entry)| entry).collect()))
}

impl Rig {
    pub fn new() -> Result<Rig, String> {
        Rig::on(MemFs::new(), Oracle::default(), 0)
    }

    /// Opens what is on `fs` and checks it.
    pub fn on(fs: MemFs, oracle: Oracle, epoch: u32) -> Result<Rig, String> {
        let (journal, _) = open(&fs).map_err(|error| error.to_string())?;
        let mut rig =
            Rig { host: host(&fs, 1 << 20), fs, journal: Arc::new(journal), oracle, epoch: epoch + 1, flushed: None };
        rig.adopt()?;
        Ok(rig)
    }

    fn adopt(&mut self) -> Result<(), String> {
        let (first, found) = contents(&self.journal)?;
        self.oracle.adopt(first, &found)?;
        self.flushed = self.journal.durable().map(|location| (location, self.next()));
        Ok(())
    }

    pub fn next(&self) -> u64 {
        self.oracle.current.len() as u64
    }

    /// Takes a step as an owner would; an error leaves the oracle knowing what may have happened.
    pub fn run(&mut self, step: &Step) -> Result<(), String> {
        match step {
            Step::Append { payload_len } => self.append(*payload_len, false),
            Step::AppendInMemory { payload_len } => self.append(*payload_len, true),
            Step::WriteOut => {
                self.journal.write_out().map_err(|error| error.to_string())?;
                self.oracle.written = self.oracle.current.len();
                Ok(())
            }
            Step::Roll => self.roll(),
            Step::Flush => self.flush(),
            Step::Checkpoint => match self.flushed {
                Some(flushed) => self.write_checkpoint(flushed),
                None => Ok(()),
            },
            Step::Delete { segments } => self.delete(*segments),
            Step::RemoveDeleted => self.journal.remove_deleted().map(|_| ()).map_err(|error| error.to_string()),
            Step::Truncate { entries } => self.truncate(*entries),
            Step::ReleaseIdle => {
                self.journal.release_idle();
                Ok(())
            }
            Step::CloseAndReopen => self.reopen_cleanly(),
            Step::KillAndReopen => {
                let rig = Rig::on(self.fs.clone(), self.oracle.clone(), self.epoch)?;
                let written = self.oracle.written;
                *self = rig;
                if self.oracle.current.len() < written {
                    return Err(format!("{written} entries were written, {} are there", self.oracle.current.len()));
                }
                Ok(())
            }
            Step::CrashAndReopen { policy } => {
                let rig = Rig::on(self.fs.crash(*policy), self.oracle.clone(), self.epoch)?;
                *self = rig;
                Ok(())
            }
        }
    }

    fn append(&mut self, payload_len: u32, in_memory: bool) -> Result<(), String> {
        let entry = Entry { number: self.next(), epoch: self.epoch, payload_len };
        if self.journal.needs_roll(entry.len()) {
            self.roll()?;
        }
        let bytes = entry.encode();
        let mut with_entry = self.oracle.current.clone();
        with_entry.push(entry);
        self.oracle.others.push(with_entry);
        let (head, tail) = bytes.split_at(7);
        let parts = [IoSlice::new(head), IoSlice::new(tail)];
        let appended = if in_memory { self.journal.append_in_memory(&parts) } else { self.journal.append(&parts) };
        match appended {
            Ok(_) => {
                self.oracle.others.pop();
                self.oracle.current.push(entry);
                if !in_memory {
                    self.oracle.written = self.oracle.current.len();
                }
                Ok(())
            }
            Err(error) => {
                if matches!(error, AppendError::DiskFull { .. }) {
                    self.epoch += 1;
                }
                Err(error.to_string())
            }
        }
    }

    fn roll(&mut self) -> Result<(), String> {
        let first = self.oracle.current.is_empty() && self.journal.end().is_none();
        self.journal.roll(SegmentBase(self.next())).map_err(|error| error.to_string())?;
        self.oracle.written = self.oracle.current.len();
        if first {
            (self.oracle.first_min, self.oracle.first_max) = (0, 0);
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), String> {
        let target = self.next();
        let durable = self.journal.flush().map_err(|error| error.to_string())?;
        if durable != self.journal.end() {
            return Err(format!("the disk is full: durable up to {durable:?} only"));
        }
        (self.oracle.durable, self.oracle.written) = (target as usize, target as usize);
        self.oracle.others.clear();
        self.flushed = durable.map(|location| (location, target));
        Ok(())
    }

    fn write_checkpoint(&self, (location, number): (Location, u64)) -> Result<(), String> {
        let text = format!("{} {} {number}", location.segment.0, location.position);
        self.fs.atomic_write(Path::new(CHECKPOINT), text.as_bytes()).map_err(|error| error.to_string())
    }

    fn delete(&mut self, segments: usize) -> Result<(), String> {
        let bases = self.journal.segment_bases();
        let Some(keep) = bases.get(segments.min(bases.len().saturating_sub(1))).copied() else { return Ok(()) };
        self.oracle.first_max = keep.0;
        self.journal.delete_before(keep).map_err(|error| error.to_string())?;
        self.oracle.first_min = keep.0;
        assert_eq!(self.journal.first_segment(), Some(keep));
        Ok(())
    }

    fn truncate(&mut self, entries: usize) -> Result<(), String> {
        let Some(first) = self.journal.first_segment() else { return Ok(()) };
        let mut scanner = Entries::default();
        self.journal.scan(Location::new(first, 0), &mut scanner).map_err(|error| error.to_string())?;
        let Some((to, entry)) = scanner.seen.iter().rev().nth(entries.saturating_sub(1)).copied() else {
            return Ok(());
        };
        if entries == 0 {
            return Ok(());
        }
        if checkpoint(&self.fs).map_err(|error| error.to_string())?.is_some_and(|(_, number)| number > entry.number) {
            self.write_checkpoint((to, entry.number))?;
        }
        let (before, flushed) = (self.oracle.clone(), self.flushed);
        self.oracle.durable = before.durable.min(entry.number as usize);
        self.oracle.written = self.oracle.durable;
        self.oracle.others.push(before.current.clone());
        self.oracle.current.truncate(entry.number as usize);
        self.flushed = self.flushed.map(|was| if was.1 > entry.number { (to, entry.number) } else { was });
        if let Err(error) = self.journal.truncate_to(to) {
            if self.journal.failure().is_none() {
                // Refused: nothing has changed.
                (self.oracle, self.flushed) = (before, flushed);
            }
            return Err(error.to_string());
        }
        self.epoch += 1;
        // What the cut removed never comes back; what was not acknowledged before it went with it.
        self.oracle.others.clear();
        Ok(())
    }

    fn reopen_cleanly(&mut self) -> Result<(), String> {
        let end = self.journal.close().map_err(|error| error.to_string())?;
        self.oracle.durable = self.oracle.current.len();
        self.oracle.written = self.oracle.durable;
        self.oracle.others.clear();
        let mut entries = Entries::default();
        let dir = Path::new(DIR);
        let (journal, report) = Journal::open(&self.host, dir, options(), RecoverFrom::Clean, &mut entries)
            .map_err(|error| error.to_string())?;
        assert_eq!((journal.end(), report.bytes_scanned, report.cut), (end, 0, None));
        self.journal = Arc::new(journal);
        self.epoch += 1;
        self.adopt()
    }

    /// Compares everything that can be read with the oracle.
    pub fn check(&self) -> Result<(), String> {
        let (first, found) = contents(&self.journal)?;
        let first = first.unwrap_or(0) as usize;
        if self.oracle.current.get(first..) != Some(&found[..]) {
            return Err(format!("reads {found:?} from {first} on instead of {:?}", self.oracle.current));
        }
        let segments = self.journal.segments().map_err(|error| error.to_string())?;
        let bytes: u64 = segments.iter().map(|segment| segment.len).sum();
        if bytes != found.iter().map(Entry::len).sum::<u64>() {
            return Err(format!("{bytes} bytes in {segments:?}"));
        }
        if self.journal.durable() > self.journal.end() {
            return Err(format!("durable {:?} is past the end {:?}", self.journal.durable(), self.journal.end()));
        }
        Ok(())
    }
}
