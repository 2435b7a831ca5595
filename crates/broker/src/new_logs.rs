//! Logs of partitions that have no folder.
//!
//! A partition gets its folder with its first append. At once are created: the folders of the broker's own topics,
//! because coordinators append on threads that must not wait; and those that something may be in the way of, so that
//! the creator of the topic is told.

use std::sync::Arc;

use mainstem_store::{AppendError, LazyLog, NewLog, OpenError, TopicLog};
use mainstem_types::{TopicPartition, is_internal_topic};

use crate::node_state::NodeState;

impl NodeState {
    /// One result a partition, in their order: a folder that is to be created at once may fail to be.
    pub(crate) fn new_logs(
        &self,
        wanted: &[NewLog],
        at_once: impl Fn(&TopicPartition) -> bool,
    ) -> Result<Vec<Result<TopicLog, AppendError>>, OpenError> {
        if wanted.is_empty() {
            return Ok(Vec::new());
        }
        let logs = self.folder.lazy_logs(wanted)?;
        let is_at_once = |log: &Arc<LazyLog>| {
            let name = log.partition();
            is_internal_topic(&name.topic) || self.folder.is_in_the_way(name) || at_once(name)
        };
        let mut created =
            self.folder.create_folders(&logs.iter().filter(|log| is_at_once(log)).collect::<Vec<_>>()).into_iter();
        let settle = |log: Arc<LazyLog>| {
            if is_at_once(&log) {
                created.next().unwrap_or(Ok(()))?;
            }
            Ok(TopicLog::from(log))
        };
        Ok(logs.into_iter().map(settle).collect())
    }
}
