//! Records of `__consumer_offsets` in a row, each as two lengths (two bytes each) with key and value behind them: replayed,
//! served for a while, and what is said of the groups stays sensible. A length above 32,767 is an absent value.

use mainstem_coordinator::{GroupConfig, GroupShard, Now};
use mainstem_types::{Offset, ProducerId, TimestampMs};

const TIMERS_MAX: usize = 1_000;
const MONTH_MS: u64 = 31 * 24 * 3_600_000;

pub fn run(data: &[u8]) {
    let mut shard = GroupShard::new(GroupConfig::default());
    let mut next = Offset::ZERO;
    for (key, value) in records(data) {
        let producer = (key.len() % 8 == 7).then_some(ProducerId(1));
        // What cannot be read is passed over; nothing of it stays.
        let _ = shard.replay(next, producer, key, value);
        next = next.plus(1);
    }
    shard.replay_end_transaction(next, ProducerId(1), data.len().is_multiple_of(2));
    let outcome = shard.loaded(at(0));
    shard.appended(&outcome.records, next.plus(1));
    look(&mut shard);
    for _ in 0..TIMERS_MAX {
        let Some(outcome) = shard.poll_timer(at(MONTH_MS)) else { break };
        shard.appended(&outcome.records, next.plus(2));
    }
    look(&mut shard);
}

fn at(monotonic_ms: u64) -> Now {
    Now { wall: TimestampMs(1_790_000_000_000 + monotonic_ms as i64), monotonic_ms }
}

fn look(shard: &mut GroupShard) {
    // reason: the target exists to find this.
    for group in shard.list_groups(&[], &[]).expect("the groups are loaded") {
        let _ = shard.describe_group(&group.group_id);
    }
}

fn records(mut data: &[u8]) -> Vec<(&[u8], Option<&[u8]>)> {
    let mut records = Vec::new();
    while let Some((lengths, rest)) = data.split_first_chunk::<4>() {
        let key = usize::from(u16::from_be_bytes([lengths[0], lengths[1]]));
        let value = i16::from_be_bytes([lengths[2], lengths[3]]);
        let (key, rest) = rest.split_at(key.min(rest.len()));
        let (bytes, rest) = rest.split_at(usize::try_from(value).unwrap_or(0).min(rest.len()));
        records.push((key, (value >= 0).then_some(bytes)));
        data = rest;
    }
    records
}
