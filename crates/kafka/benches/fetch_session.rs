//! What a fetch of a session costs before a record is read, by the number of partitions that have nothing to tell:
//! `cargo bench -p mainstem-kafka`.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use mainstem_broker::{FetchWaiters, Isolation};
use mainstem_kafka::fetch::session::{
    Answered, INITIAL_EPOCH, NO_SESSION, PartitionKey, Seen, SessionCache, SessionRequest, TopicReference, Wanted,
};
use mainstem_types::{LeaderEpoch, Offset, PartitionIndex};

struct Partitions {
    cache: SessionCache,
    session: i32,
    epoch: i32,
    logs: Vec<Arc<FetchWaiters>>,
    end: i64,
}

impl Partitions {
    /// A session of `count` partitions that were all read to their end.
    fn new(count: usize) -> Partitions {
        let logs = (0..count).map(|_| Arc::default()).collect();
        let cache = SessionCache::new(1);
        let mut partitions = Partitions { cache, session: NO_SESSION, epoch: INITIAL_EPOCH, logs, end: 0 };
        partitions.fetch((0..count).map(|place| partitions.wants(place)).collect());
        partitions
    }

    fn wants(&self, place: usize) -> (PartitionKey, Wanted) {
        let topic = TopicReference::Name("a topic of ours".into());
        let wanted = Wanted {
            fetch_offset: Offset(self.end),
            current_leader_epoch: LeaderEpoch::NONE,
            last_fetched_epoch: LeaderEpoch::NONE,
            max_bytes: 1 << 20,
        };
        (PartitionKey { topic, partition: PartitionIndex(place as i32) }, wanted)
    }

    fn fetch(&mut self, partitions: Vec<(PartitionKey, Wanted)>) -> usize {
        let (session_id, session_epoch) = (self.session, self.epoch);
        let isolation = Isolation::ReadUncommitted;
        let request = SessionRequest {
            session_id,
            session_epoch,
            by_id: false,
            isolation,
            min_bytes: 1,
            partitions,
            forgotten: Vec::new(),
        };
        let plan = self.cache.begin(request, Duration::ZERO).expect("the session is there");
        let answered = |(key, _): &(PartitionKey, Wanted)| {
            let partition = Arc::clone(&self.logs[key.partition.0 as usize]);
            Answered {
                is_error: false,
                has_records: false,
                has_notice: false,
                high_watermark: Offset(self.end),
                log_start: Offset::ZERO,
                seen: Some(Seen { changes: partition.changes(), partition, is_all: true }),
            }
        };
        let answers: Vec<_> = plan.partitions.iter().map(answered).collect();
        self.session = self.cache.finish(&plan, &plan.partitions, &answers, Duration::ZERO).session_id;
        self.epoch += 1;
        answers.len()
    }

    /// A record came to one partition.
    fn one_changes(&mut self) -> usize {
        self.end += 1;
        self.logs[0].changed();
        let wanted = self.wants(0);
        self.fetch(vec![wanted])
    }
}

fn sessions(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("one of so many partitions changed");
    for count in [1, 100, 1_000, 10_000] {
        let mut partitions = Partitions::new(count);
        assert_eq!(partitions.one_changes(), 1);
        group.bench_function(BenchmarkId::from_parameter(count), |bench| {
            bench.iter(|| black_box(partitions.one_changes()));
        });
    }
    group.finish();
}

criterion_group!(benches, sessions);
criterion_main!(benches);
