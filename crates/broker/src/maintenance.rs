//! Regular tasks: checking the disk, due flushes, retention, checkpoints, removing files, expiring producers.
//!
//! Each task has its own thread, so no task waits for another one: a disk that deletes files slowly delays only
//! deletions. Readers and appenders never wait for a task, because a task holds a log's locks only for moments. A task
//! that works on many logs or files checks its signal between two of them. When the broker stops, it leaves the rest to
//! the next start.

use std::io;
use std::sync::{Arc, Weak};
use std::time::Duration;

use mainstem_env::{Signal, Worker};
use mainstem_metadata::config::BrokerConfig;
use mainstem_store::Removal;

use crate::commit_logs;
use crate::node_state::NodeState;
use crate::partition::Partition;
use crate::retention::{retention_of_groups, retention_where};
use crate::space::suggested_reserve;

/// How often each thread looks at the clock.
const TICK: Duration = Duration::from_secs(1);
/// A file that was not used for this long (at the most twice as long) is closed.
const IDLE: Duration = Duration::from_secs(60);

/// Something that is done now and then.
struct Task {
    /// Of the thread.
    name: &'static str,
    /// How long after the start it is done first.
    first: fn(&BrokerConfig) -> Duration,
    /// How long after it began it is done again, at the earliest with the next tick.
    every: fn(&BrokerConfig) -> Duration,
    run: fn(&NodeState, &Signal),
}

static TASKS: [Task; 9] = [
    Task { name: "disk-watch", first: at_once, every: at_once, run: |state, _| look_at_disk(state) },
    Task { name: "flush-due", first: at_once, every: at_once, run: flush_due },
    Task { name: "views", first: at_once, every: at_once, run: |state, _| state.folder.write_views_of_groups() },
    Task { name: "deletion", first: at_once, every: at_once, run: remove_waiting },
    Task {
        name: "make-room",
        first: initial_delay,
        every: |_| commit_logs::LOOK,
        run: |state, signal| commit_logs::make_room(state, &|| !signal.is_stopped()),
    },
    Task {
        name: "retention",
        first: initial_delay,
        every: |config| millis(config.log.retention_check_interval_ms),
        run: |state, signal| retention(state, &|| !signal.is_stopped()),
    },
    Task {
        name: "checkpoints",
        first: initial_delay,
        every: |config| millis(i64::from(config.log.flush_checkpoint_interval_ms)),
        run: |state, signal| write_checkpoints(state, &|| !signal.is_stopped()),
    },
    // As in Kafka, without `log.initial.task.delay.ms`.
    Task { name: "producers", first: producers_interval, every: producers_interval, run: expire_producers },
    Task { name: "idle-files", first: |_| IDLE, every: |_| IDLE, run: release_idle },
];

fn at_once(_: &BrokerConfig) -> Duration {
    Duration::ZERO
}

fn initial_delay(config: &BrokerConfig) -> Duration {
    millis(config.log.initial_task_delay_ms)
}

fn producers_interval(config: &BrokerConfig) -> Duration {
    millis(i64::from(config.producer_state.expiration_check_interval_ms))
}

fn millis(milliseconds: i64) -> Duration {
    Duration::from_millis(milliseconds.max(1) as u64)
}

/// The threads.
pub(crate) struct Maintenance {
    workers: Vec<Worker>,
}

impl Maintenance {
    pub fn start(state: &Arc<NodeState>) -> io::Result<Maintenance> {
        let began = state.env.clock.monotonic();
        let start = |task: &'static Task| {
            let state = Arc::downgrade(state);
            Worker::start(task.name, move |signal| run(task, began, signal, &state))
        };
        Ok(Maintenance { workers: TASKS.iter().map(start).collect::<io::Result<_>>()? })
    }

    /// Asks all tasks to end where they are. Does not wait for them.
    pub fn ask_to_stop(&self) {
        self.workers.iter().for_each(|worker| worker.signal().stop());
    }

    pub fn stop(&self) {
        self.ask_to_stop();
        self.workers.iter().for_each(Worker::stop);
    }
}

fn run(task: &Task, began: Duration, signal: &Signal, state: &Weak<NodeState>) {
    let mut due = None;
    while !signal.wait(TICK) {
        let Some(state) = state.upgrade() else { return };
        let now = state.env.clock.monotonic();
        if now >= *due.get_or_insert_with(|| began + (task.first)(&state.config.load())) {
            due = Some(now + (task.every)(&state.config.load()));
            (task.run)(&state, signal);
        }
    }
}

pub(crate) fn look_at_disk(state: &NodeState) {
    let reserve = match u64::try_from(state.config.load().log.disk_reserve_bytes) {
        Ok(bytes) => Ok(bytes),
        Err(_) => state.folder.total_space().map(suggested_reserve),
    };
    if let Err(error) = reserve.and_then(|reserve| state.space.look(reserve)) {
        tracing::debug!("the free space of the disk is not known: {error}");
    }
}

fn flush_due(state: &NodeState, signal: &Signal) {
    for_each_partition(state, signal, |partition| partition.log().flush_if_due());
}

/// Ends between two partitions when the signal says stop.
fn for_each_partition(state: &NodeState, signal: &Signal, work: impl Fn(&Partition)) {
    for topic in state.topics.load().iter() {
        for partition in topic.partitions.iter().take_while(|_| !signal.is_stopped()) {
            work(partition);
        }
    }
}

/// Deletes what waits for it: where the disk is short of space, also files whose delay is not over.
fn remove_waiting(state: &NodeState, signal: &Signal) {
    remove_files(state, &Removal { everything: state.space.is_wanted(), go_on: &|| !signal.is_stopped() });
}

pub(crate) fn remove_files(state: &NodeState, removal: &Removal<'_>) {
    state.folder.remove(removal);
    for topic in state.topics.load().iter() {
        topic.partitions.iter().for_each(|partition| _ = partition.log().remove_files(removal));
    }
}

/// Applies retention to every partition: to those in commit logs when that is due.
/// Stops between two logs when `go_on` says so.
pub(crate) fn retention(state: &NodeState, go_on: &dyn Fn() -> bool) {
    let mut removed = retention_where(state, go_on, |log| log.as_partition_log().is_some());
    if go_on() && commit_logs::are_due(state) {
        removed |= retention_of_groups(state, go_on);
    }
    if removed {
        write_checkpoints(state, go_on);
    }
}

fn expire_producers(state: &NodeState, signal: &Signal) {
    let now = state.env.clock.wall_ms();
    for_each_partition(state, signal, |partition| {
        partition.log().expire_producers(now);
        // Forgets transactions that ended below the log start.
        partition.log().first_unstable_offset(partition.high_watermark());
    });
}

/// Gives back files and memory of idle logs.
fn release_idle(state: &NodeState, signal: &Signal) {
    state.env.release_idle_files();
    state.folder.release_idle_groups();
    for_each_partition(state, signal, |partition| partition.log().release_if_idle());
}

fn write_checkpoints(state: &NodeState, go_on: &dyn Fn() -> bool) {
    if let Err(error) = state.folder.write_checkpoints(&state.all_logs(), go_on) {
        tracing::error!("cannot write the checkpoints: {error}");
    }
    // A start's own reserve may have been taken with them.
    look_at_disk(state);
}

#[cfg(test)]
#[path = "maintenance_tests.rs"]
mod tests;
