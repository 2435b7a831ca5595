//! A file system whose syncs, or whose beginnings of write-back, wait until the test lets them go.

use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};

use mainstem_env::{Advice, DirEntry, File, Fs, MemFs, Metadata, OpenDir, OpenOptions, Residency};

#[derive(Debug, Default)]
struct GateState {
    closed: bool,
    waiting: usize,
    syncs: usize,
    writeback_closed: bool,
    /// Position and length of what was to be written back.
    written_back: Vec<(u64, u64)>,
}

#[derive(Debug, Default)]
pub struct Gate {
    state: Mutex<GateState>,
    changed: Condvar,
}

impl Gate {
    pub fn close(&self) {
        self.state.lock().unwrap().closed = true;
    }

    pub fn open(&self) {
        self.state.lock().unwrap().closed = false;
        self.changed.notify_all();
    }

    /// Waits until a sync stands before the gate.
    pub fn wait_for_sync(&self) {
        let state = self.state.lock().unwrap();
        drop(self.changed.wait_while(state, |state| state.waiting == 0).unwrap());
    }

    /// How many syncs of files passed.
    pub fn syncs(&self) -> usize {
        self.state.lock().unwrap().syncs
    }

    /// Lets write-back begin, or holds it up.
    pub fn let_write_back(&self, open: bool) {
        self.state.lock().unwrap().writeback_closed = !open;
        self.changed.notify_all();
    }

    /// Waits until so many calls for write-back have come; gives their positions and lengths.
    pub fn wait_for_write_back(&self, calls: usize) -> Vec<(u64, u64)> {
        let state = self.state.lock().unwrap();
        self.changed.wait_while(state, |state| state.written_back.len() < calls).unwrap().written_back.clone()
    }

    fn write_back(&self, position: u64, len: u64) {
        let mut state = self.state.lock().unwrap();
        state.written_back.push((position, len));
        self.changed.notify_all();
        drop(self.changed.wait_while(state, |state| state.writeback_closed).unwrap());
    }

    fn pass(&self) {
        let mut state = self.state.lock().unwrap();
        state.waiting += 1;
        self.changed.notify_all();
        state = self.changed.wait_while(state, |state| state.closed).unwrap();
        state.waiting -= 1;
        state.syncs += 1;
    }
}

#[derive(Debug)]
pub struct GatedFs {
    pub fs: MemFs,
    pub gate: Arc<Gate>,
}

#[derive(Debug)]
struct GatedFile {
    file: Arc<dyn File>,
    gate: Arc<Gate>,
}

impl Fs for GatedFs {
    fn open(&self, path: &Path, options: &OpenOptions) -> io::Result<Arc<dyn File>> {
        let file = self.fs.open(path, options)?;
        Ok(Arc::new(GatedFile { file, gate: Arc::clone(&self.gate) }))
    }
    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        self.fs.create_dir_all(path)
    }
    fn read_dir(&self, path: &Path) -> io::Result<Vec<DirEntry>> {
        self.fs.read_dir(path)
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.fs.rename(from, to)
    }
    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.fs.remove_file(path)
    }
    fn remove_dir_all(&self, path: &Path) -> io::Result<()> {
        self.fs.remove_dir_all(path)
    }
    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.fs.sync_dir(path)
    }
    fn open_dir(&self, path: &Path) -> io::Result<Box<dyn OpenDir>> {
        self.fs.open_dir(path)
    }
    fn metadata(&self, path: &Path) -> io::Result<Option<Metadata>> {
        self.fs.metadata(path)
    }
    fn free_space(&self, path: &Path) -> io::Result<u64> {
        self.fs.free_space(path)
    }
}

impl File for GatedFile {
    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        self.file.read_at(buffer, position)
    }
    fn write_vectored_at(&self, parts: &[IoSlice<'_>], position: u64) -> io::Result<usize> {
        self.file.write_vectored_at(parts, position)
    }
    fn sync_data(&self) -> io::Result<()> {
        self.gate.pass();
        self.file.sync_data()
    }
    fn sync_all(&self) -> io::Result<()> {
        self.sync_data()
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }
    fn allocate_keep_size(&self, position: u64, len: u64) -> io::Result<()> {
        self.file.allocate_keep_size(position, len)
    }
    fn advise(&self, position: u64, len: u64, advice: Advice) -> io::Result<()> {
        self.file.advise(position, len, advice)
    }
    fn try_read_at_nowait(&self, buffer: &mut [u8], position: u64) -> io::Result<Option<usize>> {
        self.file.try_read_at_nowait(buffer, position)
    }
    fn start_writeback(&self, position: u64, len: u64) -> io::Result<()> {
        self.gate.write_back(position, len);
        self.file.start_writeback(position, len)
    }
    fn residency(&self, position: u64, len: u64) -> io::Result<Residency> {
        self.file.residency(position, len)
    }
    fn send_to(&self, socket: BorrowedFd<'_>, position: u64, len: usize) -> io::Result<usize> {
        self.file.send_to(socket, position, len)
    }
    fn try_lock(&self) -> io::Result<bool> {
        self.file.try_lock()
    }
    fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}
