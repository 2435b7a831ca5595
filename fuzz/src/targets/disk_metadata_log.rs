//! The log of `__cluster_metadata-0` under a whole node, checksums made right: the node starts on it or says why not,
//! and when it has started once it does so again.

use std::path::Path;

use mainstem_env::{Fs, MemFs};

use super::batches::repair;
use super::node::{DATA_DIR, Node};

pub fn run(data: &[u8]) {
    let mut bytes = data.to_vec();
    repair(&mut bytes);
    let fs = MemFs::new();
    let folder = Path::new(DATA_DIR).join("__cluster_metadata-0");
    let path = folder.join("00000000000000000000.log");
    // reason: nothing stands against writing to a new file system.
    fs.create_dir_all(&folder).and_then(|()| fs.atomic_write(&path, &bytes)).expect("a file in memory");
    if let Some(node) = Node::start(&fs) {
        node.stop();
        // reason: the target exists to find this.
        Node::start(&fs).expect("a broker starts on what it wrote").stop();
    }
}
