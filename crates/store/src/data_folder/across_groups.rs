//! What is found in whichever group has it: records by their keys, deleted files.

use std::path::Path;

use mainstem_types::TopicId;

use super::DataFolder;
use crate::group_log::OldFile;
use crate::key_query::{FindByKeyError, KeyMatches, KeyQuery};

impl DataFolder {
    /// Records of a topic in layout `topic` or `shared` that have a key, of all groups. See [`GroupLog::find_by_key`].
    pub fn find_by_key(&self, topic_id: TopicId, query: &KeyQuery<'_>) -> Result<Vec<KeyMatches>, FindByKeyError> {
        self.groups().iter().map(|group| group.find_by_key(topic_id, query)).collect()
    }

    /// Lets go of records of partitions that the metadata does not know, in a commit log file and in all before it.
    pub fn hide_unknown(&self, file: &OldFile) {
        self.groups()
            .iter()
            .filter(|group| group.folder() == file.group)
            .for_each(|group| group.hide_strays_before(file.end));
    }

    /// Frees the space of the deleted files of the group in a folder alone: it does not wait for what else is to be
    /// removed.
    pub fn remove_deleted_of(&self, group: &Path) -> usize {
        let group = self.groups().into_iter().find(|one| one.folder() == group);
        group.map_or(0, |group| group.remove_due_files())
    }
}
