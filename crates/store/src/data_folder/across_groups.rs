//! What is found in whichever group has it: the end of a partition to cut, records by their keys, deleted files.

use std::path::Path;

use mainstem_types::{Offset, TopicId};

use super::DataFolder;
use crate::error::ReadError;
use crate::group_log::OldFile;
use crate::key_query::{FindByKeyError, KeyMatches, KeyQuery};
use crate::topic_log::TopicLog;

impl DataFolder {
    /// Removes everything at and above `offset` from a partition, durably; a batch that holds `offset` goes as a whole. Gives the log
    /// end. Of a group, what was written later to its other partitions goes too: a group is one log to those who replicate it.
    pub fn truncate_to(&self, log: &TopicLog, offset: Offset) -> Result<Offset, ReadError> {
        let partition = match log {
            TopicLog::Partition(log) => return Ok(log.truncate_to(offset)?),
            TopicLog::Group(partition) => partition,
        };
        let key = (partition.topic_id(), partition.partition().partition);
        let group = self.groups().into_iter().find(|group| group.partition(key.0, key.1).is_some());
        if let (Some(group), Some(position)) = (group, partition.position_of(offset)?) {
            group.truncate_to(position)?;
        }
        Ok(partition.log_end())
    }

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

    /// Frees the space of the deleted files of the group in a folder alone: it does not wait for what else is to be removed.
    pub fn remove_deleted_of(&self, group: &Path) -> usize {
        let group = self.groups().into_iter().find(|one| one.folder() == group);
        group.map_or(0, |group| group.remove_due_files())
    }
}
