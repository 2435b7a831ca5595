//! What has to be done now and then: retention, flushes that are due, checkpoints, files to remove, producers to forget.
//!
//! One thread, one log after the other. Readers and appenders never wait for it: a log's own locks are held for moments.

use std::io;
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use mainstem_store::TopicLog;
use parking_lot::{Condvar, Mutex};

use crate::commit_logs;
use crate::state::State;

/// How often the thread looks at the clock.
const TICK: Duration = Duration::from_secs(1);
/// A file that was not used for this long (at the most twice as long) is closed.
const IDLE: Duration = Duration::from_secs(60);

pub(crate) struct Maintenance {
    stop: Arc<(Mutex<bool>, Condvar)>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Maintenance {
    pub fn start(state: &Arc<State>) -> io::Result<Maintenance> {
        let stop = Arc::new((Mutex::new(false), Condvar::new()));
        let (own, state) = (Arc::clone(&stop), Arc::downgrade(state));
        let thread = std::thread::Builder::new().name("maintenance".to_owned()).spawn(move || run(&own, &state))?;
        Ok(Maintenance { stop, thread: Mutex::new(Some(thread)) })
    }

    pub fn stop(&self) {
        *self.stop.0.lock() = true;
        self.stop.1.notify_one();
        if let Some(thread) = self.thread.lock().take() {
            // A thread that panicked has nothing more to do.
            let _ = thread.join();
        }
    }
}

fn run(stop: &(Mutex<bool>, Condvar), state: &Weak<State>) {
    let mut schedule: Option<Schedule> = None;
    loop {
        {
            let mut stopped = stop.0.lock();
            if !*stopped {
                stop.1.wait_for(&mut stopped, TICK);
            }
            if *stopped {
                return;
            }
        }
        let Some(state) = state.upgrade() else { return };
        let now = state.env.clock.monotonic();
        schedule.get_or_insert_with(|| Schedule::new(&state, now)).run_due(&state, now);
    }
}

/// When each task is due next, on the monotonic clock.
struct Schedule {
    retention: Duration,
    commit_logs: Duration,
    checkpoints: Duration,
    producers: Duration,
    idle: Duration,
}

impl Schedule {
    fn new(state: &State, now: Duration) -> Schedule {
        let config = state.config.load();
        let initial = millis(config.log.initial_task_delay_ms);
        Schedule {
            retention: now + initial,
            commit_logs: now + initial,
            checkpoints: now + initial,
            producers: now + initial,
            idle: now + IDLE,
        }
    }

    fn run_due(&mut self, state: &State, now: Duration) {
        let config = state.config.load_full();
        look_at_disk(state);
        flush_due(state);
        state.folder.write_views_of_groups();
        remove_due(state);
        if now >= self.retention {
            self.retention = now + millis(config.log.retention_check_interval_ms);
            retention(state);
        }
        if now >= self.commit_logs {
            self.commit_logs = now + commit_logs::LOOK;
            commit_logs::make_room(state);
        }
        if now >= self.producers {
            self.producers = now + millis(i64::from(config.producer_state.expiration_check_interval_ms));
            expire_producers(state);
        }
        if now >= self.idle {
            self.idle = now + IDLE;
            release_idle(state);
        }
        if now >= self.checkpoints {
            self.checkpoints = now + millis(i64::from(config.log.flush_checkpoint_interval_ms));
            write_checkpoints(state);
        }
    }
}

fn millis(milliseconds: i64) -> Duration {
    Duration::from_millis(milliseconds.max(1) as u64)
}

pub(crate) fn look_at_disk(state: &State) {
    if let Err(error) = crate::space::look(state) {
        tracing::debug!("the free space of the disk is not known: {error}");
    }
}

fn flush_due(state: &State) {
    for topic in state.topics.load().iter() {
        for partition in &topic.partitions {
            partition.log().flush_if_due();
        }
    }
}

pub(crate) fn remove_due(state: &State) {
    state.folder.remove_due();
    for topic in state.topics.load().iter() {
        for partition in &topic.partitions {
            partition.log().remove_due_files();
        }
    }
}

/// Applies retention to every partition: to those in commit logs when that is due.
pub(crate) fn retention(state: &State) {
    let mut removed = retention_where(state, |log| log.as_partition_log().is_some());
    if commit_logs::are_due(state) {
        removed |= retention_of_groups(state);
    }
    if removed {
        write_checkpoints(state);
    }
}

/// Applies retention to the partitions in commit logs, and deletes the files that none needs, those of deleted topics among them. Whether
/// anything was removed.
pub(crate) fn retention_of_groups(state: &State) -> bool {
    let removed = retention_where(state, |log| log.as_group_partition().is_some());
    let kept_ms = state.config.load().log.topic_defaults.retention_ms.unwrap_or(-1);
    if let Err(error) = state.folder.expire_unknown(state.env.clock.wall_ms(), kept_ms) {
        tracing::error!("how old records of unknown topics are cannot be told, they stay: {error}");
    }
    match state.folder.remove_unneeded() {
        Ok(0) => {}
        Ok(files) => tracing::info!("{files} commit log files removed that no partition needs"),
        Err(error) => tracing::error!("commit log files are not removed: {error}"),
    }
    removed
}

/// Applies retention to some logs. One whose disk fails is reported; the others go on.
fn retention_where(state: &State, chosen: impl Fn(&TopicLog) -> bool) -> bool {
    let now = state.env.clock.wall_ms();
    let mut removed = false;
    for topic in state.topics.load().iter() {
        for partition in topic.partitions.iter().filter(|partition| chosen(partition.log())) {
            match partition.log().retention_pass(now, partition.high_watermark()) {
                Ok(outcome) if outcome.segments_removed > 0 => {
                    removed = true;
                    partition.log_start_moved();
                    let (name, count) = (partition.log().partition(), outcome.segments_removed);
                    tracing::info!(
                        "{name}: {count} old segments removed, {} bytes; it begins at {}",
                        outcome.bytes_removed,
                        outcome.log_start
                    );
                }
                Ok(_) => {}
                Err(error) => tracing::error!("{}: retention failed: {error}", partition.log().partition()),
            }
        }
    }
    removed
}

fn expire_producers(state: &State) {
    let now = state.env.clock.wall_ms();
    for topic in state.topics.load().iter() {
        for partition in &topic.partitions {
            partition.log().expire_producers(now);
            // Lets go of what is remembered of transactions that ended below it.
            partition.log().first_unstable_offset(partition.high_watermark());
        }
    }
}

/// Gives back files and memory of logs that nobody reads or writes.
fn release_idle(state: &State) {
    state.env.release_idle_files();
    state.folder.release_idle_groups();
    for topic in state.topics.load().iter() {
        topic.partitions.iter().for_each(|partition| partition.log().release_if_idle());
    }
}

pub(crate) fn write_checkpoints(state: &State) {
    if let Err(error) = state.folder.write_checkpoints(&state.all_logs()) {
        tracing::error!("the checkpoints are not written: {error}");
    }
}
