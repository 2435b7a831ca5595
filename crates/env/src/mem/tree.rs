//! The names, and what a power cut would leave of them.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use super::Names;
use super::contents::Contents;

#[derive(Debug, Clone)]
pub(super) enum Node {
    File(Arc<Mutex<Contents>>),
    Dir(Arc<Mutex<Directory>>),
}

#[derive(Debug, Default)]
pub(super) struct Directory {
    pub(super) live: Names,
    pub(super) durable: Names,
    pub(super) pending: Vec<NameChange>,
}

/// A creation, a removal, or a rename: one of the two sides, or both, is there. Survives as a whole or not at all.
#[derive(Debug, Clone)]
pub(super) struct NameChange {
    /// The two halves of a rename between directories share their number, and so their fate.
    pub(super) number: u64,
    pub(super) unlink: Option<OsString>,
    pub(super) link: Option<(OsString, Node)>,
}

#[derive(Debug, Default)]
pub(super) struct Tree {
    pub(super) root: Arc<Mutex<Directory>>,
    changes: u64,
}

impl Directory {
    fn change(&mut self, change: NameChange) {
        change.apply(&mut self.live);
        self.pending.push(change);
    }

    pub(super) fn sync(&mut self) {
        for change in self.pending.drain(..) {
            change.apply(&mut self.durable);
        }
    }
}

/// Makes a directory, and everything in it, durable as it is.
pub(super) fn sync_below(directory: &Mutex<Directory>) {
    let mut directory = directory.lock();
    directory.sync();
    for node in directory.live.values() {
        match node {
            Node::File(contents) => contents.lock().sync(),
            Node::Dir(below) => sync_below(below),
        }
    }
}

impl NameChange {
    pub(super) fn apply(&self, names: &mut Names) {
        if let Some(name) = &self.unlink {
            names.remove(name);
        }
        if let Some((name, node)) = &self.link {
            names.insert(name.clone(), node.clone());
        }
    }
}

impl Tree {
    pub(super) fn of(root: Arc<Mutex<Directory>>) -> Self {
        Tree { root, changes: 0 }
    }

    pub(super) fn find(&self, path: &Path) -> io::Result<Option<Node>> {
        let mut node = Node::Dir(Arc::clone(&self.root));
        for name in names(path) {
            let Node::Dir(directory) = node else { return Err(io::ErrorKind::NotADirectory.into()) };
            let next = directory.lock().live.get(&name).cloned();
            let Some(next) = next else { return Ok(None) };
            node = next;
        }
        Ok(Some(node))
    }

    pub(super) fn directory(&self, path: &Path) -> io::Result<Arc<Mutex<Directory>>> {
        match self.find(path)? {
            Some(Node::Dir(directory)) => Ok(directory),
            Some(Node::File(_)) => Err(io::ErrorKind::NotADirectory.into()),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn parent(&self, path: &Path) -> io::Result<(Arc<Mutex<Directory>>, OsString)> {
        let mut parts = names(path);
        let Some(name) = parts.pop() else { return Err(io::ErrorKind::InvalidInput.into()) };
        Ok((self.directory(&parts.iter().collect::<PathBuf>())?, name))
    }

    pub(super) fn link(&mut self, path: &Path, node: Node) -> io::Result<()> {
        let (parent, name) = self.parent(path)?;
        let number = self.next_number();
        parent.lock().change(NameChange { number, unlink: None, link: Some((name, node)) });
        Ok(())
    }

    pub(super) fn unlink(&mut self, path: &Path) -> io::Result<()> {
        let (parent, name) = self.parent(path)?;
        let number = self.next_number();
        parent.lock().change(NameChange { number, unlink: Some(name), link: None });
        Ok(())
    }

    pub(super) fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let node = self.find(from)?.ok_or(io::ErrorKind::NotFound)?;
        let (from_parent, from_name) = self.parent(from)?;
        let (to_parent, to_name) = self.parent(to)?;
        match (&node, self.find(to)?) {
            (Node::File(_), Some(Node::Dir(_))) => return Err(io::ErrorKind::IsADirectory.into()),
            (Node::Dir(_), Some(Node::File(_))) => return Err(io::ErrorKind::NotADirectory.into()),
            (Node::Dir(moved), Some(Node::Dir(present)))
                if !Arc::ptr_eq(moved, &present) && !present.lock().live.is_empty() =>
            {
                return Err(io::ErrorKind::DirectoryNotEmpty.into());
            }
            _ => {}
        }
        let (from_names, to_names) = (names(from), names(to));
        if from_names == to_names {
            return Ok(());
        }
        if to_names.starts_with(&from_names) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let number = self.next_number();
        let link = Some((to_name, node));
        if Arc::ptr_eq(&from_parent, &to_parent) {
            to_parent.lock().change(NameChange { number, unlink: Some(from_name), link });
        } else {
            to_parent.lock().change(NameChange { number, unlink: None, link });
            from_parent.lock().change(NameChange { number, unlink: Some(from_name), link: None });
        }
        Ok(())
    }

    fn next_number(&mut self) -> u64 {
        self.changes += 1;
        self.changes
    }
}

/// The path, part by part. There is no working directory: a relative path starts at the root.
fn names(path: &Path) -> Vec<OsString> {
    let mut names: Vec<&OsStr> = Vec::new();
    for component in path.components() {
        match component {
            Component::Normal(name) => names.push(name),
            Component::ParentDir => {
                names.pop();
            }
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
    }
    names.into_iter().map(OsStr::to_owned).collect()
}

/// The path and all that is above it, from the top down, without the root.
pub(super) fn ancestors(path: &Path) -> Vec<PathBuf> {
    let names = names(path);
    (1..=names.len()).map(|count| names[..count].iter().collect()).collect()
}
