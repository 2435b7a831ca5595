//! When the broker deletes old commit log files. In the configured hours it deletes files that retention gives up.
//! Above a first use of the disk it does so at any hour. Above a second one it deletes the oldest file of all, even if
//! retention would keep it.

use std::time::Duration;

use mainstem_store::{OldFile, StorageError};
use mainstem_types::TimestampMs;

use crate::node_state::NodeState;
use crate::retention::retention_of_groups;

/// How often the use of the disk is looked at.
pub(crate) const LOOK: Duration = Duration::from_secs(10);
/// One look deletes at most so many files that retention would keep. Then the broker looks at the disk again.
const FORCED_FILES_MAX: usize = 10;
const HOUR_MS: i64 = 3_600_000;

/// Whether old files may be deleted now.
pub(crate) fn are_due(state: &NodeState) -> bool {
    let config = state.config.load();
    is_hour(&config.log.commit_log_delete_hours, state.env.clock.wall_ms()) || is_pressed(state)
}

/// Without any hour, all are meant.
fn is_hour(hours: &[u8], now: TimestampMs) -> bool {
    hours.is_empty() || hours.iter().any(|hour| i64::from(*hour) == now.0.div_euclid(HOUR_MS).rem_euclid(24))
}

/// Whether the disk is so full that old files go at any hour.
fn is_pressed(state: &NodeState) -> bool {
    let limit = state.config.load().log.commit_log_max_percent;
    state.space.is_short() || used_percent(state).is_some_and(|used| used > i64::from(limit))
}

/// Of the disk; `None` where that cannot be known.
fn used_percent(state: &NodeState) -> Option<i64> {
    let (total, free) = (state.folder.total_space().ok()?, state.folder.free_space().ok()?);
    // Rounded up: 100 is full.
    let used = u128::from(total.saturating_sub(free)) * 100;
    i64::try_from(used.div_ceil(u128::from(total.max(1)))).ok()
}

/// Makes room where the disk is too full for the hours to count.
pub(crate) fn make_room(state: &NodeState, go_on: &dyn Fn() -> bool) {
    if !state.config.load().log.commit_log_delete_hours.is_empty() && is_pressed(state) {
        retention_of_groups(state, go_on);
    }
    let force = i64::from(state.config.load().log.commit_log_force_percent);
    for _ in 0..FORCED_FILES_MAX {
        if !go_on() || force >= 100 || used_percent(state).is_none_or(|used| used <= force) {
            return;
        }
        match state.folder.oldest_commit_log_files() {
            // The oldest file that can go: uncommitted entries keep their own file, not the files of other groups.
            Ok(oldest) if oldest.iter().any(|file| delete(state, file)) => {}
            Ok(_) => return,
            Err(error) => return tracing::error!("cannot delete the oldest commit log file: {error}"),
        }
    }
}

/// Whether the file could go: uncommitted entries stay.
fn delete(state: &NodeState, oldest: &OldFile) -> bool {
    let deleted = hide(state, oldest).and_then(|()| state.folder.remove_unneeded_of(&oldest.group));
    // Before everything else that waits to be removed.
    state.folder.remove_deleted_of(&oldest.group);
    match deleted {
        Ok(0) => false,
        Ok(files) => {
            tracing::warn!(
                "{}: {files} files deleted before their time: the disk is fuller than \
                 mainstem.commitlog.disk.used.force.percent",
                oldest.group.display()
            );
            true
        }
        Err(error) => {
            tracing::error!("{}: cannot delete the oldest file: {error}", oldest.group.display());
            false
        }
    }
}

fn hide(state: &NodeState, oldest: &OldFile) -> Result<(), StorageError> {
    for topic in state.topics.load().iter() {
        for partition in &topic.partitions {
            let Some(log) = partition.log().as_group_partition() else { continue };
            if log.folder() == oldest.group
                && log.hide_before(oldest.end, partition.high_watermark())?.segments_removed > 0
            {
                partition.log_start_moved();
            }
        }
    }
    state.folder.hide_unknown(oldest);
    Ok(())
}

#[cfg(test)]
#[path = "commit_logs_tests.rs"]
mod tests;
