//! What validating and stamping a batch costs: `cargo bench -p mainstem-record`.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use mainstem_record::{BatchBuilder, Codec, Stamp, ValidationRules, stamped_header, validate_produced};
use mainstem_types::{LeaderEpoch, Offset, TimestampMs};

const NOW: TimestampMs = TimestampMs(1_700_000_000_000);

/// A batch of `count` records of `value_size` bytes, half of them easy to compress.
fn batch(codec: Codec, count: usize, value_size: usize) -> Vec<u8> {
    let mut state = 1u32;
    let mut builder = BatchBuilder::new().codec(codec);
    for i in 0..count {
        let value: Vec<u8> = (0..value_size)
            .map(|n| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                if n % 16 < 8 { b'a' } else { (state >> 24) as u8 }
            })
            .collect();
        builder.append(TimestampMs(NOW.0 + i as i64), Some(b"some-key"), Some(&value), &[]);
    }
    // reason: a bench builds what certainly fits
    builder.build().expect("the batch fits")
}

fn validation(c: &mut Criterion) {
    let rules = ValidationRules { batch_size_max: 16 << 20, ..ValidationRules::new(NOW) };
    for (name, count, value_size) in [("16 KiB of 100 B", 160, 100), ("128 KiB of 1 KiB", 128, 1024)] {
        let mut group = c.benchmark_group(name);
        group.throughput(Throughput::Bytes((count * value_size) as u64));
        for codec in Codec::ALL {
            let bytes = batch(codec, count, value_size);
            group.bench_function(codec.name(), |b| b.iter(|| validate_produced(black_box(&bytes), &rules)));
        }
        group.finish();
    }
}

fn stamping(c: &mut Criterion) {
    let bytes = batch(Codec::None, 128, 1024);
    let rules = ValidationRules { batch_size_max: 16 << 20, ..ValidationRules::new(NOW) };
    // reason: a bench builds what is certainly valid
    let (view, validated) = validate_produced(&bytes, &rules).expect("the batch is valid");
    let stamp = Stamp { base_offset: Offset(1), leader_epoch: LeaderEpoch(1), timestamp: validated.stamp_timestamp };
    c.bench_function("stamp the header", |b| b.iter(|| stamped_header(black_box(&view), &stamp)));
}

criterion_group!(benches, validation, stamping);
criterion_main!(benches);
