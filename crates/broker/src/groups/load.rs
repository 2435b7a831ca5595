//! Reading the offsets topic after a start.

use std::sync::Arc;

use mainstem_coordinator::Now;
use mainstem_record::{BatchView, ControlKind};
use mainstem_types::ProducerId;

use super::shard::Shard;
use crate::log_reader::{RECORDS_SIZE_MAX, ReplayError, for_each_batch};

/// Replays each partition into its shard, one after the other, and opens it for requests. A partition that cannot be read
/// stays closed, and says so: clients are told that it loads, nothing is answered from half of the truth.
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
    for_each_batch(log, log.log_start(), log.log_end(), |batch| replay_batch(shard, batch))
}

fn replay_batch(shard: &Shard, batch: &BatchView<'_>) -> Result<(), ReplayError> {
    let partition = shard.partition().log().partition();
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
            end_transaction(shard, record.offset, header.producer_id, key);
            continue;
        }
        let replayed = shard.with(|machine| machine.replay(record.offset, producer, key, record.value));
        // One record that cannot be read must not take the offsets of all other groups with it.
        if let Err(error) = replayed {
            tracing::error!("{partition}: the record at offset {} is passed over: {error}", record.offset);
        }
    }
    Ok(())
}

fn end_transaction(shard: &Shard, offset: mainstem_types::Offset, producer: ProducerId, key: &[u8]) {
    let committed = match ControlKind::of_key(key) {
        Ok(Some(ControlKind::Commit)) => true,
        Ok(Some(ControlKind::Abort)) => false,
        _ => return,
    };
    shard.with(|machine| machine.replay_end_transaction(offset, producer, committed));
}
