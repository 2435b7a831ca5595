//! Compaction has its own threads, so that neither retention nor checkpoints wait for a long pass.
//!
//! A thread takes the due log with the largest dirty share, as Kafka does. If no log is due, it sleeps for
//! `log.cleaner.backoff.ms`. At most `log.cleaner.threads` logs are compacted at the same time, one for each thread.
//! The settings apply while the broker runs. A log with a failed compaction waits for a minute, then twice as long each
//! time, at most an hour. After a full disk it waits no longer than until the broker accepts records again. Other logs
//! are not affected.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Weak};
use std::time::Duration;

use mainstem_env::{Signal, Worker, is_disk_full};
use mainstem_metadata::config::CleanerConfig;
use mainstem_store::{Cleanable, CleanerLimits, CleaningControl, CompactError, Compaction, OpenError, TopicLog};
use mainstem_types::{PartitionIndex, TopicId};
use parking_lot::Mutex;

use crate::node_state::NodeState;
use crate::partition::Partition;
use crate::space::Space;

const REST_MIN: Duration = Duration::from_secs(60);
const REST_MAX: Duration = Duration::from_secs(3600);
/// A pause for the sake of `log.cleaner.io.max.bytes.per.second` is not worth less than this.
const PAUSE_MIN: Duration = Duration::from_millis(10);

/// Why a log was not compacted.
#[derive(Debug, thiserror::Error)]
enum CleanError {
    #[error(transparent)]
    Compact(#[from] CompactError),
    #[error("cannot write its checkpoint: {0}")]
    Checkpoint(#[from] OpenError),
    #[error(transparent)]
    Storage(#[from] mainstem_store::StorageError),
}

impl CleanError {
    fn is_disk_full(&self) -> bool {
        match self {
            CleanError::Compact(CompactError::Io { error, .. }) => is_disk_full(error),
            CleanError::Checkpoint(OpenError::Io { error, .. }) => is_disk_full(error),
            _ => false,
        }
    }
}

type Key = (TopicId, PartitionIndex);

/// The threads.
pub(crate) struct Cleaner {
    shared: Arc<CleanerState>,
}

#[derive(Default)]
struct CleanerState {
    /// Of all threads.
    signal: Arc<Signal>,
    threads: Mutex<Vec<Worker>>,
    logs: Mutex<HashMap<Key, Standing>>,
}

/// The state of a log that is being compacted, or could not be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    Busy {
        rest: Duration,
    },
    /// Not before `until`, on the monotonic clock.
    Resting {
        until: Duration,
        rest: Duration,
        /// The disk was full: the log rests while [`Space::recoveries`] are so many.
        disk_full: Option<u64>,
    },
}

/// How a pass ended.
enum PassEnd {
    Done,
    Failed,
    DiskFull,
}

impl Cleaner {
    /// No thread if `log.cleaner.enable` is off.
    pub fn start(state: &Arc<NodeState>) -> io::Result<Cleaner> {
        let shared = Arc::new(CleanerState::default());
        if state.config.load().cleaner.enable {
            start_thread(&shared, &Arc::downgrade(state), 0)?;
        }
        Ok(Cleaner { shared })
    }

    /// Asks running passes to end; the logs stay as they are. Does not wait for the end.
    pub fn ask_to_stop(&self) {
        self.shared.signal.stop();
    }

    /// Stops running passes; the logs stay as they are.
    pub fn stop(&self) {
        self.ask_to_stop();
        loop {
            // A thread may have started another one.
            let Some(thread) = self.shared.threads.lock().pop() else { return };
            thread.join();
        }
    }

    /// Compacts everything that is due now, at full speed, on this thread. Gives the number of passes.
    pub fn run_due(&self, state: &NodeState) -> usize {
        let limits = limits(&state.config.load().cleaner);
        let mut passes = 0;
        while let Some(partition) = self.shared.take_due(state) {
            passes += 1;
            clean_and_tell(&self.shared, state, &partition, &limits, &mut Pace::unlimited(&self.shared, &state.space));
        }
        passes
    }
}

fn start_thread(shared: &Arc<CleanerState>, state: &Weak<NodeState>, number: usize) -> io::Result<()> {
    let mut threads = shared.threads.lock();
    if threads.len() > number {
        return Ok(());
    }
    let (own, state) = (Arc::clone(shared), state.clone());
    let signal = Arc::clone(&shared.signal);
    threads.push(Worker::start_with(format!("cleaner-{number}"), signal, move |_| run(&own, &state, number))?);
    Ok(())
}

fn run(shared: &Arc<CleanerState>, state: &Weak<NodeState>, number: usize) {
    let mut backoff = match state.upgrade() {
        Some(state) => backoff(&state.config.load().cleaner),
        None => return,
    };
    loop {
        if shared.signal.wait(backoff) {
            return;
        }
        let Some(state) = state.upgrade() else { return };
        loop {
            let config = state.config.load().cleaner.clone();
            backoff = self::backoff(&config);
            // One that is not wanted any more waits: the setting may change again.
            let wanted = config.threads.max(0) as usize;
            if number >= wanted || shared.signal.is_stopped() {
                break;
            }
            if number == 0 {
                start_others(shared, &state, wanted);
            }
            let Some(partition) = shared.take_due(&state) else { break };
            let mut pace = Pace::new(shared, &state.space, &config);
            clean_and_tell(shared, &state, &partition, &limits(&config), &mut pace);
        }
    }
}

fn start_others(shared: &Arc<CleanerState>, state: &Arc<NodeState>, wanted: usize) {
    for number in 1..wanted {
        if let Err(error) = start_thread(shared, &Arc::downgrade(state), number) {
            return tracing::warn!("compaction runs with fewer threads than log.cleaner.threads: {error}");
        }
    }
}

fn backoff(config: &CleanerConfig) -> Duration {
    Duration::from_millis(config.backoff_ms.max(1) as u64)
}

/// What one thread may take of what all may.
fn limits(config: &CleanerConfig) -> CleanerLimits {
    let threads = config.threads.max(1) as usize;
    CleanerLimits {
        dedupe_bytes: usize::try_from(config.dedupe_buffer_bytes.max(0)).unwrap_or(usize::MAX) / threads,
        load_factor: config.load_factor,
        io_buffer_bytes: config.io_buffer_bytes.max(0) as usize / threads,
    }
}

impl CleanerState {
    /// The due log with the largest dirty share that no thread compacts; it is the caller's until
    /// [`CleanerState::give_back`].
    fn take_due(&self, state: &NodeState) -> Option<Arc<Partition>> {
        loop {
            let partition = self.most_due(state)?;
            let mut logs = self.logs.lock();
            let rest = match logs.get(&key(&partition)) {
                // Another thread was faster.
                Some(Standing::Busy { .. }) => continue,
                Some(Standing::Resting { rest, .. }) => *rest,
                None => Duration::ZERO,
            };
            logs.insert(key(&partition), Standing::Busy { rest });
            return Some(partition);
        }
    }

    fn most_due(&self, state: &NodeState) -> Option<Arc<Partition>> {
        let (now, recoveries) = (state.env.clock.monotonic(), state.space.recoveries());
        let mut best: Option<(f64, Arc<Partition>)> = None;
        for topic in state.topics.load().iter().filter(|topic| topic.config.cleanup_compact) {
            for partition in topic.partitions.iter().filter(|partition| self.is_free(&key(partition), now, recoveries))
            {
                let Some(work) = self.due_work(state, partition) else { continue };
                if best.as_ref().is_none_or(|(ratio, _)| work.ratio() > *ratio) {
                    best = Some((work.ratio(), Arc::clone(partition)));
                }
            }
        }
        best.map(|(_, partition)| partition)
    }

    fn is_free(&self, key: &Key, now: Duration, recoveries: u64) -> bool {
        match self.logs.lock().get(key) {
            None => true,
            Some(Standing::Busy { .. }) => false,
            Some(Standing::Resting { until, disk_full, .. }) => {
                *until <= now || disk_full.is_some_and(|before| recoveries > before)
            }
        }
    }

    fn due_work(&self, state: &NodeState, partition: &Partition) -> Option<Cleanable> {
        let now = state.env.clock.wall_ms();
        // Compaction exists in this layout only.
        let log = partition.log().as_partition_log()?;
        match log.cleanable(now, partition.high_watermark()) {
            Ok(work) => work.filter(Cleanable::is_due),
            // A log that has ended said so when it did.
            Err(CompactError::Storage(_)) => None,
            Err(error) => {
                tracing::warn!("{}: cannot find out whether it needs compaction: {error}", partition.log().partition());
                self.rest(&key(partition), state.env.clock.monotonic(), Duration::ZERO, None);
                None
            }
        }
    }

    /// The log rests because it could not be compacted, after a rest of `before`.
    fn rest(&self, key: &Key, now: Duration, before: Duration, disk_full: Option<u64>) {
        let rest = (before * 2).clamp(REST_MIN, REST_MAX);
        self.logs.lock().insert(*key, Standing::Resting { until: now + rest, rest, disk_full });
    }

    /// `recoveries`: those before the pass.
    fn give_back(&self, key: &Key, now: Duration, end: PassEnd, recoveries: u64) {
        let standing = self.logs.lock().remove(key);
        let before = match standing {
            Some(Standing::Busy { rest }) => rest,
            _ => Duration::ZERO,
        };
        match end {
            PassEnd::Done => {}
            PassEnd::Failed => self.rest(key, now, before, None),
            PassEnd::DiskFull => self.rest(key, now, before, Some(recoveries)),
        }
    }
}

fn key(partition: &Partition) -> Key {
    (partition.topic_id, partition.index)
}

fn clean_and_tell(
    shared: &CleanerState,
    state: &NodeState,
    partition: &Partition,
    limits: &CleanerLimits,
    pace: &mut Pace<'_>,
) {
    let name = partition.log().partition();
    let recoveries = state.space.recoveries();
    let end = match clean(shared, state, partition, limits, pace) {
        Ok(Some(done)) => {
            tell(partition.log(), &done);
            if done.to > done.from { PassEnd::Done } else { PassEnd::Failed }
        }
        // Nothing is due any more.
        Ok(None) => PassEnd::Done,
        // The broker stops, or the log changed meanwhile: it looks different now.
        Err(CleanError::Compact(CompactError::Stopped { .. } | CompactError::Superseded { .. })) => PassEnd::Done,
        Err(CleanError::Compact(CompactError::Closed { .. } | CompactError::Busy { .. })) => PassEnd::Failed,
        Err(error) => {
            tracing::error!("{name} is not compacted: {error}");
            if error.is_disk_full() { PassEnd::DiskFull } else { PassEnd::Failed }
        }
    };
    shared.give_back(&key(partition), state.env.clock.monotonic(), end, recoveries);
}

fn clean(
    shared: &CleanerState,
    state: &NodeState,
    partition: &Partition,
    limits: &CleanerLimits,
    pace: &mut Pace<'_>,
) -> Result<Option<Compaction>, CleanError> {
    let Some(log) = partition.log().as_partition_log() else { return Ok(None) };
    let Some(work) = shared.due_work(state, partition) else { return Ok(None) };
    if log.checkpointed_end() < work.end {
        log.flush_blocking()?;
        state.folder.write_checkpoint_of(log, partition.high_watermark())?;
    }
    let done = log.compact(&work, limits, state.env.clock.wall_ms(), pace)?;
    state.folder.write_checkpoint_of(log, partition.high_watermark())?;
    Ok(Some(done))
}

fn tell(log: &TopicLog, done: &Compaction) {
    tracing::info!(
        "{}: compacted from {} to {}, {} keys; {} segments with {} bytes became {} with {}, {} of {} records remain",
        log.partition(),
        done.from,
        done.to,
        done.keys,
        done.segments_before,
        done.bytes_before,
        done.segments_after,
        done.bytes_after,
        done.records_kept,
        done.records_read
    );
    if done.segments_damaged > 0 {
        tracing::warn!(
            "{}: {} segments with damage were left as they are, and tombstones behind them stay; repair or delete them",
            log.partition(),
            done.segments_damaged
        );
    }
    if done.records_without_key > 0 {
        tracing::warn!("{}: {} records without a key were dropped", log.partition(), done.records_without_key);
    }
}

/// Keeps a thread to its part of `log.cleaner.io.max.bytes.per.second`.
struct Pace<'s> {
    shared: &'s CleanerState,
    space: &'s Space,
    bytes_per_second: f64,
    /// The wait that has come together so far.
    owed: Duration,
}

impl<'s> Pace<'s> {
    fn new(shared: &'s CleanerState, space: &'s Space, config: &CleanerConfig) -> Self {
        let bytes_per_second = config.io_max_bytes_per_second / f64::from(config.threads.max(1));
        Pace { shared, space, bytes_per_second, owed: Duration::ZERO }
    }

    fn unlimited(shared: &'s CleanerState, space: &'s Space) -> Self {
        Pace { shared, space, bytes_per_second: f64::MAX, owed: Duration::ZERO }
    }
}

impl CleaningControl for Pace<'_> {
    fn proceed(&mut self, bytes: u64) -> bool {
        // The bytes that a pass reads count, too: so appends look at the disk sooner than they must.
        drop(self.space.count(usize::try_from(bytes).unwrap_or(usize::MAX)));
        let seconds = bytes as f64 / self.bytes_per_second.max(1.0);
        self.owed += Duration::try_from_secs_f64(seconds).unwrap_or(REST_MAX);
        if self.owed < PAUSE_MIN {
            return !self.shared.signal.is_stopped();
        }
        !self.shared.signal.wait(std::mem::take(&mut self.owed))
    }
}

#[cfg(test)]
#[path = "cleaner_tests.rs"]
mod tests;
