//! The disk after a power cut.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::Names;
use super::contents::{Change, Contents};
use super::tree::{Directory, Node, Tree};
use crate::SeededRng;

/// What a power cut leaves of the changes that were not synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CrashPolicy {
    /// Nothing.
    Nothing,
    /// Everything: a killed process, not a power cut.
    Everything,
    /// Each change by itself: wholly, not at all, or torn at any byte, as the seed chooses. Renames are whole or
    /// nothing.
    Torn(u64),
}

/// The tree that `policy` leaves of `tree`, with everything in it durable.
pub(super) fn image(tree: &Tree, policy: CrashPolicy) -> Tree {
    let mut image = Image { policy, rng: SeededRng::new(seed_of(policy)), files: HashMap::new() };
    let root = image.directory(&tree.root.lock());
    Tree::of(root)
}

fn seed_of(policy: CrashPolicy) -> u64 {
    match policy {
        CrashPolicy::Torn(seed) => seed,
        CrashPolicy::Nothing | CrashPolicy::Everything => 0,
    }
}

struct Image {
    policy: CrashPolicy,
    rng: SeededRng,
    /// A file that two names lead to stays one file.
    files: HashMap<*const Mutex<Contents>, Arc<Mutex<Contents>>>,
}

impl Image {
    fn directory(&mut self, from: &Directory) -> Arc<Mutex<Directory>> {
        let mut names = from.durable.clone();
        for change in from.pending.iter().filter(|change| self.name_survives(change.number)) {
            change.apply(&mut names);
        }
        let names: Names = names.into_iter().map(|(name, node)| (name, self.node(&node))).collect();
        Arc::new(Mutex::new(Directory { live: names.clone(), durable: names, pending: Vec::new() }))
    }

    fn node(&mut self, node: &Node) -> Node {
        match node {
            Node::Dir(directory) => Node::Dir(self.directory(&directory.lock())),
            Node::File(contents) => {
                if let Some(file) = self.files.get(&Arc::as_ptr(contents)) {
                    return Node::File(Arc::clone(file));
                }
                let file = Arc::new(Mutex::new(self.contents(&contents.lock())));
                self.files.insert(Arc::as_ptr(contents), Arc::clone(&file));
                Node::File(file)
            }
        }
    }

    fn contents(&self, from: &Contents) -> Contents {
        let mut bytes = from.durable.clone();
        for change in &from.pending {
            match self.policy {
                CrashPolicy::Nothing => {}
                CrashPolicy::Everything => change.apply(&mut bytes),
                CrashPolicy::Torn(_) => self.tear(change, &mut bytes),
            }
        }
        Contents::settled(bytes, from.modified_ms)
    }

    /// By the number of the change and not by the next random number: both halves of a rename decide alike.
    fn name_survives(&self, number: u64) -> bool {
        match self.policy {
            CrashPolicy::Nothing => false,
            CrashPolicy::Everything => true,
            CrashPolicy::Torn(seed) => SeededRng::new(seed ^ number.rotate_left(32)).number() & 1 == 0,
        }
    }

    fn tear(&self, change: &Change, bytes: &mut Vec<u8>) {
        let (choice, change) = (self.rng.below(5), change.clone());
        match change {
            Change::Write { position, bytes: mut written } if choice >= 2 => {
                let at = self.rng.below(written.len() as u64 + 1) as usize;
                match choice {
                    // The start reached the disk.
                    2 => written.truncate(at),
                    // The end did: the disk writes sectors in any order. Before it is what was there, or zeros.
                    3 => {
                        written.drain(..at);
                        return Change::Write { position: position + at, bytes: written }.apply(bytes);
                    }
                    // The length did, and the start of the bytes.
                    _ => written[at..].fill(0),
                }
                Change::Write { position, bytes: written }.apply(bytes);
            }
            // Half of the rest: not at all.
            _ if choice & 1 == 0 => {}
            change => change.apply(bytes),
        }
    }
}
