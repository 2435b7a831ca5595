//! Records of `__consumer_offsets` in a row, each as two lengths (two bytes each) with key and value behind them:
//! replayed, served for a while, and what is said of the groups stays sensible. A length above 32,767 is an absent
//! value.

use std::time::Duration;

use mainstem_coordinator::{GroupConfig, GroupShard, Now};
use mainstem_types::{Offset, ProducerId, TimestampMs};

const TIMERS_MAX: usize = 1_000;
const MONTH: Duration = Duration::from_secs(31 * 24 * 3_600);

pub fn run(data: &[u8]) {
    let records = records(data);
    let half = records.len() / 2;
    // Read by a node for which half of it is committed: it knows the same, and shows what one knows that has read half.
    let mut shard = replayed(data, &records, half);
    let all = replayed(data, &records, records.len());
    let first = replayed(data, &records[..half], half);
    // reason: the target exists to find this.
    assert_eq!(shard.difference(&all), None);
    assert_eq!(shard.committed_difference(&first), None);
    let mut next = Offset(records.len() as i64);
    shard.replay_end_transaction(next, ProducerId(1), data.len().is_multiple_of(2));
    next = next.plus(1);
    let mut outcome = Some(shard.loaded(at(Duration::ZERO)));
    for _ in 0..TIMERS_MAX {
        let Some(due) = outcome.take() else { break };
        let count = due.records.len();
        shard.appended(due.records, next);
        next = next.plus(count as i64);
        look(&mut shard);
        outcome = shard.poll_timer(at(MONTH));
    }
    shard.committed(next);
    look(&mut shard);
}

/// A shard that has read these records, of which so many are committed.
fn replayed(data: &[u8], records: &[(&[u8], Option<&[u8]>)], committed: usize) -> GroupShard {
    let mut shard = GroupShard::new(GroupConfig::default());
    shard.committed(Offset(committed as i64));
    for (offset, (key, value)) in (0..).zip(records) {
        let producer = (key.len() % 8 == 7).then_some(ProducerId(data.len() as i64 % 3));
        // What cannot be read is passed over; nothing of it stays.
        let _ = shard.replay(Offset(offset), producer, key, *value);
    }
    shard
}

fn at(monotonic: Duration) -> Now {
    Now { wall: TimestampMs(1_790_000_000_000 + monotonic.as_millis() as i64), monotonic }
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
