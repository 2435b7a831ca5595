//! Names of files and folders.

use mainstem_store::formats::names::{self, FolderName};

pub fn run(data: &[u8]) {
    let Ok(name) = std::str::from_utf8(data) else { return };
    if let Some(base) = names::parse_segment_file(name, names::LOG) {
        assert_eq!(names::segment_file(base, names::LOG), name);
    }
    if let Some((end, epoch)) = names::parse_snapshot_file(name) {
        assert_eq!(names::snapshot_file(end, epoch), name);
    }
    if let FolderName::Partition(partition) = names::parse_folder(name) {
        assert_eq!(names::parse_folder(&partition.to_string()), FolderName::Partition(partition));
    }
}
