//! A `.checkpoint` file of the metadata folder: it is taken whole or passed over, as it is and with its checksums made
//! right.

use std::path::Path;
use std::sync::Arc;

use mainstem_env::{Fs, MemFs};
use mainstem_store::MetadataFiles;

use super::batches::repair;

const FOLDER: &str = "/data/__cluster_metadata-0";

pub fn run(data: &[u8]) {
    check(data);
    let mut repaired = data.to_vec();
    repair(&mut repaired);
    check(&repaired);
}

fn check(bytes: &[u8]) {
    let fs = MemFs::new();
    let path = Path::new(FOLDER).join("00000000000000000007-0000000001.checkpoint");
    // reason: nothing stands against writing to a new file system.
    fs.create_dir_all(Path::new(FOLDER)).and_then(|()| fs.atomic_write(&path, bytes)).expect("a file in memory");
    let files = MetadataFiles::new(Arc::new(fs), Path::new(FOLDER));
    // reason: the target exists to find this.
    if let Some((_, found)) = files.newest_valid_snapshot().expect("a file in memory can be read") {
        assert_eq!(found, bytes);
    }
}
