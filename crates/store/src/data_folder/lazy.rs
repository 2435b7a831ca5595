//! Partitions that get their folders with their first append.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::{DataFolder, NewLog};
use crate::error::io_error;
use crate::error::{AppendError, OpenError};
use crate::formats::names::Parting;
use crate::lazy_log::{LazyLog, Remains};
use crate::parallel;
use crate::topic_log::TopicLog;
use mainstem_types::{Offset, TopicPartition};

impl DataFolder {
    /// The logs of new partitions, without folders: each is created by its first append. No file system call for a
    /// partition; the checkpoint files are written if they still speak of earlier partitions of these names.
    pub fn lazy_logs(&self, partitions: &[NewLog]) -> Result<Vec<Arc<LazyLog>>, OpenError> {
        self.forget_in_checkpoints(partitions.iter().map(|(partition, ..)| partition))?;
        let log = |(partition, topic_id, config): &NewLog| {
            Arc::new(LazyLog::new(&self.parent, partition.clone(), *topic_id, Arc::clone(config)))
        };
        Ok(partitions.iter().map(log).collect())
    }

    /// Creates the folders of many partitions, with one sync for all of them. One result a partition, in their order.
    /// Waits for the disk.
    pub fn create_folders(&self, logs: &[&Arc<LazyLog>]) -> Vec<Result<(), AppendError>> {
        let created = parallel::map(logs, |log| log.create_files());
        let names = self.parent.names_created();
        let finish = |(log, created): (&&Arc<LazyLog>, Result<(), AppendError>)| {
            created?;
            log.finish(names).map(|_| ())
        };
        logs.iter().zip(created).map(finish).collect()
    }

    /// No folder is created any more; waits for creations under way. A stop calls it before it collects the logs.
    pub fn end_creations(&self) {
        self.parent.close();
    }

    /// Where a partition ended that has no folder any more, as the checkpoint files say. `None`: they know of no
    /// record.
    pub fn lost_end(&self, partition: &TopicPartition) -> Option<Offset> {
        self.checkpoints.lock().largest_offset(partition).filter(|end| *end > Offset::ZERO)
    }

    /// Whether the folder of a deleted partition lies where the folder of a new one would.
    pub fn is_in_the_way(&self, partition: &TopicPartition) -> bool {
        self.in_the_way.lock().contains(partition)
    }

    /// As [`DataFolder::delete_logs`], for logs of layout `partition` with and without folders.
    pub fn delete_own_logs(&self, logs: &[(&TopicLog, Duration)]) -> Vec<Result<(), OpenError>> {
        let rename = |(log, delay): &(&TopicLog, Duration)| {
            let renamed =
                self.rename_deleted(log).inspect_err(|_| _ = self.in_the_way.lock().insert(log.partition().clone()))?;
            Ok(renamed.map(|path| (path, *delay)))
        };
        let renamed = logs.iter().map(rename).collect();
        self.settle_deletions(renamed)
    }

    /// Gives the new name of its folder, if there is one.
    fn rename_deleted(&self, log: &TopicLog) -> Result<Option<PathBuf>, OpenError> {
        let own = match log {
            TopicLog::Partition(log) => Remains::Log(Arc::clone(log)),
            TopicLog::Lazy(lazy) => lazy.delete(),
            TopicLog::Group(_) => Remains::Nothing,
        };
        match own {
            Remains::Nothing => Ok(None),
            Remains::Log(log) => {
                log.close_for_deletion();
                self.rename_away(&log.folder(), log.partition(), Parting::Delete).map(Some)
            }
            Remains::Files => {
                let folder = log.folder();
                match self.env.fs.exists(&folder).map_err(io_error(&folder))? {
                    true => self.rename_away(&folder, log.partition(), Parting::Delete).map(Some),
                    false => Ok(None),
                }
            }
        }
    }
}
