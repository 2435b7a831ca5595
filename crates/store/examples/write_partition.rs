//! Writes a data folder with one partition, for a look at the files:
//! `cargo run -p mainstem-store --example write_partition -- DIR`.
//!
//! The partition has batches of all codecs, an idempotent producer, an aborted and a committed transaction, four leader
//! epochs and several segments. Kafka's dump tool reads all of it.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use mainstem_env::{Clock, RealClock, RealFs, RealRng};
use mainstem_record::{BatchBuilder, Codec, ControlRecord};
use mainstem_store::{AppendContext, DataFolder, LogConfig, Origin, StoreEnv};
use mainstem_types::{LeaderEpoch, PartitionIndex, ProducerEpoch, ProducerId, TimestampMs, TopicId, TopicPartition};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn batch(mut builder: BatchBuilder, count: i64, now: TimestampMs) -> Result<Bytes> {
    for n in 0..count {
        let value = format!("record {n}, long enough to be compressed, compressed, compressed");
        builder.append(TimestampMs(now.0 + n), Some(b"key"), Some(value.as_bytes()), &[]);
    }
    Ok(Bytes::from(builder.build()?))
}

fn main() -> Result<()> {
    let path = std::env::args().nth(1).ok_or("give the folder to write")?;
    let clock = Arc::new(RealClock::new());
    let now = clock.wall_ms();
    let env = StoreEnv::new(Arc::new(RealFs), clock, Arc::new(RealRng), 1 << 20, 1)?;
    let (folder, report) = DataFolder::open(&env, Path::new(&path))?;
    println!("{report:?}");
    let config = LogConfig { segment_bytes: 16 << 10, index_interval_bytes: 1024, ..LogConfig::default() };
    let config = Arc::new(config);
    let partition = TopicPartition::new("orders", PartitionIndex(0));
    let log = match report.partitions.first() {
        Some(entry) => folder.open_log(entry, config)?.0,
        None => folder.create_log(&partition, TopicId([7; 16]), config)?,
    };
    let producer = |sequence| BatchBuilder::new().producer(ProducerId(1000), ProducerEpoch(0), sequence);
    let transactional = |id| BatchBuilder::new().producer(ProducerId(id), ProducerEpoch(0), 0).transactional();
    for epoch in 0..4 {
        let mut context = AppendContext {
            origin: Origin::Client,
            leader_epoch: LeaderEpoch(epoch),
            now,
            zstd_allowed: true,
            unpacked_bytes_max: usize::MAX,
        };
        for codec in [Codec::None, Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd] {
            for _ in 0..10 {
                log.append(&batch(BatchBuilder::new().codec(codec), 20, now)?, &context)?;
            }
        }
        log.append(&batch(producer(epoch * 5), 5, now)?, &context)?;
        for (id, committed) in [(i64::from(epoch) * 2, false), (i64::from(epoch) * 2 + 1, true)] {
            context.origin = Origin::Client;
            log.append(&batch(transactional(id), 3, now)?, &context)?;
            let mut marker = BatchBuilder::new().producer(ProducerId(id), ProducerEpoch(0), -1).transactional();
            marker.append_control(now, &ControlRecord::EndTransaction { committed, coordinator_epoch: 1 });
            context.origin = Origin::Coordinator;
            log.append(&Bytes::from(marker.build()?), &context)?;
        }
    }
    let end = log.log_end();
    println!("{} segments, {} bytes, {end} records", log.segment_count(), log.size_bytes());
    folder.close(&[(log, end)], 0)?;
    Ok(())
}
