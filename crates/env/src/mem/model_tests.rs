//! The in-memory file system answers as the real one does.

use std::fmt::Debug;
use std::path::PathBuf;

use proptest::prelude::*;

use super::*;
use crate::RealFs;

#[derive(Debug, Clone)]
enum Step {
    Open { path: usize, options: OpenOptions },
    Write { handle: usize, position: u64, bytes: Vec<u8> },
    Read { handle: usize, position: u64, len: usize },
    SetLen { handle: usize, len: u64 },
    Len { handle: usize },
    CreateDir { path: usize },
    ReadDir { path: usize },
    Rename { from: usize, to: usize },
    RemoveFile { path: usize },
    RemoveDir { path: usize },
    Metadata { path: usize },
    ReadAll { path: usize },
    AtomicWrite { path: usize, bytes: Vec<u8> },
}

const PATHS: [&str; 7] = ["a", "b", "d", "d/a", "d/b", "d/e", "d/e/a"];

fn step() -> impl Strategy<Value = Step> {
    let path = || 0..PATHS.len();
    let handle = || 0..4usize;
    let bytes = || proptest::collection::vec(any::<u8>(), 0..20);
    let options =
        (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>()).prop_map(|(write, create, new, truncate)| {
            // The combinations that std accepts: creating and cutting need writing.
            OpenOptions {
                read: true,
                write,
                create: write && create,
                create_new: write && new,
                truncate: write && truncate,
            }
        });
    prop_oneof![
        4 => (path(), options).prop_map(|(path, options)| Step::Open { path, options }),
        3 => (handle(), 0..40u64, bytes()).prop_map(|(handle, position, bytes)| Step::Write { handle, position, bytes }),
        2 => (handle(), 0..40u64, 0..40usize).prop_map(|(handle, position, len)| Step::Read { handle, position, len }),
        1 => (handle(), 0..40u64).prop_map(|(handle, len)| Step::SetLen { handle, len }),
        1 => handle().prop_map(|handle| Step::Len { handle }),
        2 => path().prop_map(|path| Step::CreateDir { path }),
        1 => path().prop_map(|path| Step::ReadDir { path }),
        3 => (path(), path()).prop_map(|(from, to)| Step::Rename { from, to }),
        1 => path().prop_map(|path| Step::RemoveFile { path }),
        1 => path().prop_map(|path| Step::RemoveDir { path }),
        1 => path().prop_map(|path| Step::Metadata { path }),
        1 => path().prop_map(|path| Step::ReadAll { path }),
        1 => (path(), bytes()).prop_map(|(path, bytes)| Step::AtomicWrite { path, bytes }),
    ]
}

struct Side {
    fs: Arc<dyn Fs>,
    root: PathBuf,
    handles: Vec<Arc<dyn File>>,
}

impl Side {
    fn path(&self, index: usize) -> PathBuf {
        self.root.join(PATHS[index])
    }

    /// What the step answered, as text: values in full, errors as "error", because systems choose among several kinds.
    fn run(&mut self, step: &Step) -> String {
        let file = |handle: usize| self.handles.get(handle).cloned();
        match step {
            // A system may open a directory to read; the first read then fails. Nobody needs that to be alike.
            Step::Open { path, .. } if self.fs.read_dir(&self.path(*path)).is_ok() => "directory".to_owned(),
            Step::Open { path, options } => match self.fs.open(&self.path(*path), options) {
                Ok(file) => {
                    self.handles.insert(0, file);
                    self.handles.truncate(4);
                    "opened".to_owned()
                }
                Err(error) => text::<()>(Err(error)),
            },
            Step::Write { handle, position, bytes } => {
                file(*handle).map(|f| text(f.write_all_at(bytes, *position))).unwrap_or_default()
            }
            Step::Read { handle, position, len } => {
                let mut buffer = vec![0; *len];
                let count = file(*handle).map(|f| text(f.read_full_at(&mut buffer, *position))).unwrap_or_default();
                format!("{count} {buffer:?}")
            }
            Step::SetLen { handle, len } => file(*handle).map(|f| text(f.set_len(*len))).unwrap_or_default(),
            Step::Len { handle } => file(*handle).map(|f| text(f.len())).unwrap_or_default(),
            Step::CreateDir { path } => text(self.fs.create_dir_all(&self.path(*path))),
            Step::ReadDir { path } => text(self.fs.read_dir(&self.path(*path))),
            Step::Rename { from, to } => text(self.fs.rename(&self.path(*from), &self.path(*to))),
            Step::RemoveFile { path } => text(self.fs.remove_file(&self.path(*path))),
            Step::RemoveDir { path } => text(self.fs.remove_dir_all(&self.path(*path))),
            Step::Metadata { path } => {
                let found = self.fs.metadata(&self.path(*path));
                text(found.map(|found| found.map(|m| (m.is_dir, if m.is_dir { 0 } else { m.len }))))
            }
            Step::ReadAll { path } => text(self.fs.read_if_present(&self.path(*path))),
            Step::AtomicWrite { path, bytes } => text(self.fs.atomic_write(&self.path(*path), bytes)),
        }
    }
}

fn text<T: Debug>(result: io::Result<T>) -> String {
    match result {
        Ok(value) => format!("{value:?}"),
        Err(_) => "error".to_owned(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn both_file_systems_answer_alike(steps in proptest::collection::vec(step(), 1..40)) {
        let folder = tempfile::tempdir().unwrap();
        let mut real = Side { fs: Arc::new(RealFs), root: folder.path().to_path_buf(), handles: Vec::new() };
        let mut mem = Side { fs: Arc::new(MemFs::new()), root: PathBuf::from("/"), handles: Vec::new() };
        for step in &steps {
            prop_assert_eq!(real.run(step), mem.run(step), "{:?}", step);
        }
    }
}
