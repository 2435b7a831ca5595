//! Reading the offsets topic after a start.

use std::sync::Arc;

use mainstem_coordinator::{GroupConfig, GroupShard, Now};
use mainstem_record::{BatchView, ControlKind};
use mainstem_store::TopicLog;
use mainstem_types::{Offset, ProducerId};

use super::shard::Shard;
use crate::log_reader::{RECORDS_SIZE_MAX, ReplayError, for_each_batch};

/// Replays each partition into its shard, one after the other, and opens it for requests. A partition that cannot be
/// read stays closed, and says so: clients are told that it loads, nothing is answered from half of the truth.
pub(super) fn load(shards: &[Arc<Shard>], now: impl Fn() -> Now) {
    for shard in shards {
        match replay(shard) {
            Ok(()) => shard.loaded(now()),
            Err(error) => tracing::error!("groups of {} are not served: {error}", shard.partition().log().partition()),
        }
    }
}

fn replay(shard: &Shard) -> Result<(), ReplayError> {
    let log = shard.partition().log();
    // A batch at a time: who asks meanwhile is told that it loads, and does not wait.
    for_each_batch(log, log.log_start(), log.log_end(), |batch| shard.with(|machine| replay_batch(log, machine, batch)))
}

/// The state that the whole log gives.
pub(super) fn replayed(log: &TopicLog, config: GroupConfig) -> Result<GroupShard, ReplayError> {
    let mut machine = GroupShard::new(config);
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
            tracing::error!("{partition}: the record at offset {} is passed over: {error}", record.offset);
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
