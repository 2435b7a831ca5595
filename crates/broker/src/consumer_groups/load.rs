//! Reading a partition of the offsets topic when this node becomes its leader.
//!
//! A log that is damaged is not served until the next election. After any other error (too many open files, a failed
//! read) the log is read again: 1 s later, then after twice the time, at most 60 s.

use std::collections::VecDeque;
use std::sync::Arc;

use mainstem_coordinator::{GroupConfig, GroupShard, Now};
use mainstem_record::{BatchView, ControlKind};
use mainstem_store::TopicLog;
use mainstem_types::{Offset, ProducerId};
use parking_lot::Mutex;

use super::ConsumerGroupsState;
use super::shard::Shard;
use super::timer::Waker;
use crate::log_reader::{RECORDS_SIZE_MAX, ReplayError, for_each_batch};

/// Loads shards one after the other on a thread that lives while there are any to load.
///
/// The thread `group-load` is no `Worker`. It ends by itself when the queue is empty, and it only reads: nothing on the
/// disk depends on its end. An owner would wait for a whole log to be read before the broker can stop.
#[derive(Clone)]
pub(super) struct Loader {
    shared: Arc<ConsumerGroupsState>,
    timer: Waker,
    queue: Arc<Mutex<Queue>>,
}

#[derive(Default)]
struct Queue {
    shards: VecDeque<Arc<Shard>>,
    is_running: bool,
}

impl Loader {
    pub fn new(shared: Arc<ConsumerGroupsState>, timer: Waker) -> Loader {
        Loader { shared, timer, queue: Arc::default() }
    }

    /// An empty log is loaded at once: there is nothing to wait for.
    pub fn load(&self, shard: Arc<Shard>) {
        if shard.is_empty_log() {
            shard.loaded(self.shared.now());
            self.timer.look();
            return;
        }
        let mut queue = self.queue.lock();
        queue.shards.push_back(shard);
        if queue.is_running {
            return;
        }
        queue.is_running = true;
        let (shared, timer, own) = (Arc::clone(&self.shared), self.timer.clone(), Arc::clone(&self.queue));
        let spawned =
            std::thread::Builder::new().name("group-load".to_owned()).spawn(move || run(&shared, &timer, &own));
        if let Err(error) = spawned {
            queue.is_running = false;
            let now = self.shared.now();
            queue.shards.drain(..).for_each(|shard| try_later(&shard, now, &error));
            drop(queue);
            self.timer.look();
        }
    }
}

fn run(shared: &ConsumerGroupsState, timer: &Waker, queue: &Mutex<Queue>) {
    loop {
        let shard = {
            let mut queue = queue.lock();
            let Some(shard) = queue.shards.pop_front() else {
                queue.is_running = false;
                return;
            };
            shard
        };
        match replay(&shard) {
            Ok(()) => shard.loaded(shared.now()),
            Err(error) if error.is_damage() => {
                tracing::error!("cannot serve the groups of {}: {error}", shard.partition().log().partition());
                shard.unreadable();
            }
            Err(error) => try_later(&shard, shared.now(), &error),
        }
        timer.look();
    }
}

fn try_later(shard: &Shard, now: Now, error: &dyn std::error::Error) {
    let Some(wait) = shard.load_failed(now) else { return };
    let partition = shard.partition().log().partition();
    tracing::error!("cannot serve the groups of {partition}, trying again in {} s: {error}", wait.as_secs());
}

pub(super) fn replay(shard: &Shard) -> Result<(), ReplayError> {
    let log = shard.partition().log();
    let committed = shard.partition().high_watermark();
    shard.with(|machine| machine.committed(committed));
    // A batch at a time: a request in between is told that the coordinator loads, and does not wait.
    for_each_batch(log, log.log_start(), log.log_end(), |batch| {
        // Once the shard has ended, the result is not needed.
        shard.with(|machine| replay_batch(log, machine, batch)).unwrap_or(Ok(()))
    })
}

/// The state that the whole log gives.
pub(super) fn replayed(log: &TopicLog, config: GroupConfig) -> Result<GroupShard, ReplayError> {
    let mut machine = GroupShard::new(config);
    machine.committed(log.log_end());
    for_each_batch(log, log.log_start(), log.log_end(), |batch| replay_batch(log, &mut machine, batch))?;
    Ok(machine)
}

fn replay_batch(log: &TopicLog, machine: &mut GroupShard, batch: &BatchView<'_>) -> Result<(), ReplayError> {
    let partition = log.partition();
    let header = batch.header();
    let failed = |offset, reason: String| ReplayError::Record { partition: partition.clone(), offset, reason };
    let producer = header.attributes.is_transactional().then_some(header.producer_id);
    let mut scratch = Vec::new();
    let records =
        batch.records(&mut scratch, RECORDS_SIZE_MAX).map_err(|error| failed(header.base_offset, error.to_string()))?;
    for record in records {
        let record = record.map_err(|error| failed(header.base_offset, error.to_string()))?;
        let key = record.key.unwrap_or_default();
        if header.attributes.is_control() {
            end_transaction(machine, record.offset, header.producer_id, key);
            continue;
        }
        let replayed = machine.replay(record.offset, producer, key, record.value);
        // One record that cannot be read must not take the offsets of all other groups with it.
        if let Err(error) = replayed {
            tracing::error!("{partition}: skipping the record at offset {}: {error}", record.offset);
        }
    }
    Ok(())
}

fn end_transaction(machine: &mut GroupShard, offset: Offset, producer: ProducerId, key: &[u8]) {
    let committed = match ControlKind::of_key(key) {
        Ok(Some(ControlKind::Commit)) => true,
        Ok(Some(ControlKind::Abort)) => false,
        _ => return,
    };
    machine.replay_end_transaction(offset, producer, committed);
}
