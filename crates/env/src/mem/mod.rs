//! An in-memory file system that can crash and fail on demand.
//!
//! Every file keeps two contents: what readers see, and what a power cut would leave; between them lies the list of
//! changes that were not synced. Every directory does the same with its names. The rules are the worst that POSIX
//! allows: syncing a file says nothing about its name, and changes that were not synced survive in any combination.
//!
//! One lock covers the tree and all contents: this is for tests, where order matters more than speed.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mainstem_types::TimestampMs;
use parking_lot::Mutex;

use crate::{Clock, DirEntry, File, Fs, ManualClock, Metadata, OpenDir, OpenOptions, is_out_of_descriptors};

mod contents;
mod crash;
mod fault;
mod file;
mod tree;

#[cfg(test)]
mod crash_tests;
#[cfg(test)]
mod model_tests;

pub use crash::CrashPolicy;
pub use fault::{Fault, FaultAction, OpKind, is_stopped};

use contents::Contents;
use fault::Plan;
use file::MemFile;
use tree::{Directory, Node, Tree};

/// A file system in memory. Clones share their files.
#[derive(Debug, Clone)]
pub struct MemFs {
    shared: Arc<MemFsState>,
}

#[derive(Debug)]
struct MemFsState {
    tree: Mutex<Tree>,
    plan: Mutex<Plan>,
    clock: Arc<dyn Clock>,
    free_space: Mutex<u64>,
}

/// What [`MemFs::free_space`] says until a test says otherwise.
const FREE_SPACE_BYTES: u64 = 1 << 40;
/// What [`MemFs::total_space`] says.
const TOTAL_SPACE_BYTES: u64 = 1 << 41;

impl MemFs {
    /// An empty file system, whose files are all modified at time zero.
    pub fn new() -> Self {
        MemFs::with_clock(Arc::new(ManualClock::default()))
    }

    /// An empty file system that stamps modifications by `clock`.
    pub fn with_clock(clock: Arc<dyn Clock>) -> Self {
        MemFs::from_tree(Tree::default(), clock)
    }

    fn from_tree(tree: Tree, clock: Arc<dyn Clock>) -> Self {
        let shared = MemFsState {
            tree: Mutex::new(tree),
            plan: Mutex::default(),
            clock,
            free_space: Mutex::new(FREE_SPACE_BYTES),
        };
        MemFs { shared: Arc::new(shared) }
    }

    /// The disk as a power cut at this moment could leave it, as a file system of its own: everything in it is durable,
    /// no file is open or locked, no fault is planned. This one goes on unchanged.
    #[must_use]
    pub fn crash(&self, policy: CrashPolicy) -> MemFs {
        let tree = crash::image(&self.shared.tree.lock(), policy);
        MemFs::from_tree(tree, Arc::clone(&self.shared.clock))
    }

    /// How many calls were made so far that change or sync something: writes, syncs, cuts, creations, renames,
    /// removals.
    pub fn mutations(&self) -> u64 {
        self.shared.plan.lock().mutations
    }

    /// How many calls of any kind were made so far.
    pub fn calls(&self) -> u64 {
        self.shared.plan.lock().calls
    }

    /// Lets `mutations` more mutations happen; from the next one on, every call of any kind fails ([`is_stopped`]) and
    /// changes nothing. With [`MemFs::crash`] this is a power cut between any two writes or syncs.
    pub fn stop_after(&self, mutations: u64) {
        let mut plan = self.shared.plan.lock();
        plan.stop_at = Some(plan.mutations + mutations);
    }

    /// Whether the stop was reached.
    pub fn stopped(&self) -> bool {
        self.shared.plan.lock().stopped
    }

    /// Plans a fault. Several may be planned; the first that matches a call decides.
    pub fn plan_fault(&self, fault: Fault) {
        self.shared.plan.lock().add(fault);
    }

    /// Forgets all planned faults.
    pub fn clear_faults(&self) {
        self.shared.plan.lock().faults.clear();
    }

    /// How many calls a fault has met.
    pub fn faults_met(&self) -> u64 {
        self.shared.plan.lock().faults_met
    }

    /// What [`Fs::free_space`] answers. Writes are not held to it; [`FaultAction::NoSpace`] refuses them.
    pub fn set_free_space(&self, bytes: u64) {
        *self.shared.free_space.lock() = bytes;
    }

    fn sync_everything(&self) {
        let root = Arc::clone(&self.shared.tree.lock().root);
        tree::sync_below(&root);
    }

    fn gate(&self, kind: OpKind, mutates: bool, path: &Path) -> io::Result<Option<usize>> {
        self.shared.plan.lock().gate(kind, mutates, path)
    }
}

impl Default for MemFs {
    fn default() -> Self {
        MemFs::new()
    }
}

impl MemFsState {
    fn now(&self) -> TimestampMs {
        self.clock.wall_ms()
    }
}

/// An open directory; a fault of its syncs is one of [`OpKind::Sync`].
#[derive(Debug)]
struct MemDir {
    fs: MemFs,
    path: PathBuf,
}

impl OpenDir for MemDir {
    fn sync(&self) -> io::Result<()> {
        self.fs.sync_directory(OpKind::Sync, &self.path)
    }
}

impl MemFs {
    fn sync_directory(&self, kind: OpKind, path: &Path) -> io::Result<()> {
        let gate = self.gate(kind, true, path);
        let directory: Arc<Mutex<Directory>> = self.shared.tree.lock().directory(path)?;
        let mut directory = directory.lock();
        match gate {
            Ok(_) => directory.sync(),
            // As with a file: what a failed sync did not write is never written, unless the directory was not opened.
            Err(error) if !is_stopped(&error) && !is_out_of_descriptors(&error) => {
                directory.pending.clear();
                return Err(error);
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

impl Fs for MemFs {
    fn open(&self, path: &Path, options: &OpenOptions) -> io::Result<Arc<dyn File>> {
        let mut tree = self.shared.tree.lock();
        let existing = match tree.find(path)? {
            Some(Node::Dir(_)) => return Err(io::ErrorKind::IsADirectory.into()),
            Some(Node::File(contents)) => Some(contents),
            None => None,
        };
        let creates = options.write && (options.create || options.create_new);
        let mutates = (existing.is_none() && creates) || (existing.is_some() && options.truncate);
        self.gate(OpKind::Open, mutates, path)?;
        let contents = match existing {
            Some(_) if options.create_new => return Err(io::ErrorKind::AlreadyExists.into()),
            Some(contents) => {
                if options.truncate {
                    contents.lock().set_len(0, self.shared.now());
                }
                contents
            }
            None if creates => {
                let contents = Arc::new(Mutex::new(Contents::new(self.shared.now())));
                tree.link(path, Node::File(Arc::clone(&contents)))?;
                contents
            }
            None => return Err(io::ErrorKind::NotFound.into()),
        };
        Ok(Arc::new(MemFile::new(self.clone(), path, contents, options)))
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        self.gate(OpKind::CreateDir, true, path)?;
        let mut tree = self.shared.tree.lock();
        for directory in tree::ancestors(path) {
            match tree.find(&directory)? {
                Some(Node::Dir(_)) => {}
                Some(Node::File(_)) => return Err(io::ErrorKind::AlreadyExists.into()),
                None => tree.link(&directory, Node::Dir(Arc::default()))?,
            }
        }
        Ok(())
    }

    fn read_dir(&self, path: &Path) -> io::Result<Vec<DirEntry>> {
        self.gate(OpKind::ReadDir, false, path)?;
        let directory = self.shared.tree.lock().directory(path)?;
        let directory = directory.lock();
        let entry = |(name, node): (&std::ffi::OsString, &Node)| DirEntry {
            name: name.clone(),
            is_dir: matches!(node, Node::Dir(_)),
        };
        Ok(directory.live.iter().map(entry).collect())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.gate(OpKind::Rename, true, from)?;
        self.shared.tree.lock().rename(from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.gate(OpKind::Remove, true, path)?;
        let mut tree = self.shared.tree.lock();
        match tree.find(path)? {
            Some(Node::File(_)) => tree.unlink(path),
            Some(Node::Dir(_)) => Err(io::ErrorKind::IsADirectory.into()),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn remove_dir_all(&self, path: &Path) -> io::Result<()> {
        self.gate(OpKind::Remove, true, path)?;
        let mut tree = self.shared.tree.lock();
        match tree.find(path)? {
            Some(Node::Dir(_)) => tree.unlink(path),
            Some(Node::File(_)) => Err(io::ErrorKind::NotADirectory.into()),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.sync_directory(OpKind::SyncDir, path)
    }

    fn open_dir(&self, path: &Path) -> io::Result<Box<dyn OpenDir>> {
        self.shared.tree.lock().directory(path)?;
        self.gate(OpKind::Open, false, path)?;
        Ok(Box::new(MemDir { fs: self.clone(), path: path.to_owned() }))
    }

    fn metadata(&self, path: &Path) -> io::Result<Option<Metadata>> {
        self.gate(OpKind::Metadata, false, path)?;
        let found = match self.shared.tree.lock().find(path) {
            // What lies below a file is absent, as it is for an operating system that is asked for the path.
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            found => found?,
        };
        Ok(found.map(|node| match node {
            Node::Dir(_) => Metadata { len: 0, is_dir: true, modified_ms: TimestampMs(0) },
            Node::File(contents) => {
                let contents = contents.lock();
                Metadata { len: contents.live.len() as u64, is_dir: false, modified_ms: contents.modified_ms }
            }
        }))
    }

    fn free_space(&self, path: &Path) -> io::Result<u64> {
        self.gate(OpKind::Metadata, false, path)?;
        Ok(*self.shared.free_space.lock())
    }

    fn total_space(&self, path: &Path) -> io::Result<u64> {
        self.gate(OpKind::Metadata, false, path)?;
        Ok(TOTAL_SPACE_BYTES)
    }
}

/// The names of a directory, in order.
type Names = BTreeMap<std::ffi::OsString, Node>;
