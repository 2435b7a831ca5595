//! What validating costs in memory, counted by the allocator. One test, so that nothing else counts along.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use mainstem_record::{BatchBuilder, Codec, RecordHeader, ValidationRules, validate_produced};
use mainstem_types::TimestampMs;

struct Counting;

static CALLS: AtomicUsize = AtomicUsize::new(0);
static NOW: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

// SAFETY: everything is handed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        CALLS.fetch_add(1, Ordering::Relaxed);
        let now = NOW.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        PEAK.fetch_max(now, Ordering::Relaxed);
        // SAFETY: the caller's contract is the system's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's contract is the system's.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Allocator calls and the most bytes at once, above what was there.
fn cost(work: impl FnOnce()) -> (usize, usize) {
    let (calls, before) = (CALLS.load(Ordering::Relaxed), NOW.load(Ordering::Relaxed));
    PEAK.store(before, Ordering::Relaxed);
    work();
    (CALLS.load(Ordering::Relaxed) - calls, PEAK.load(Ordering::Relaxed) - before)
}

fn batch(codec: Codec, records: u8) -> Vec<u8> {
    let mut builder = BatchBuilder::new().codec(codec);
    for i in 0..records {
        let content = [i; 10];
        let header = RecordHeader::new("name", Some(&content));
        builder.append(TimestampMs(0), Some(&[i; 20]), Some(&[i; 300]), &[header]);
    }
    builder.build().unwrap()
}

#[test]
fn validation_allocates_nothing_uncompressed_and_little_compressed_and_never_what_a_length_claims() {
    let rules = ValidationRules::new(TimestampMs(0));
    for codec in Codec::ALL {
        let bytes = batch(codec, 200);
        // The first time fills what the thread keeps.
        validate_produced(&bytes, &rules).unwrap();
        let (calls, peak) = cost(|| assert!(validate_produced(&bytes, &rules).is_ok()));
        match codec {
            Codec::None => assert_eq!((calls, peak), (0, 0)),
            // A gzip stream has a state of its own.
            Codec::Gzip => assert!(peak < 128 * 1024, "{peak}"),
            _ => assert!(calls <= 2 && peak < 64 * 1024, "{codec}: {calls} calls, {peak} bytes"),
        }
    }
    for codec in Codec::ALL {
        let bytes = batch(codec, 3);
        for at in 0..bytes.len() - 8 {
            let mut lying = bytes.clone();
            lying[at..at + 8].copy_from_slice(&[0xff, 0xff, 0xff, 0xff, 0x7f, 0xff, 0xff, 0xff]);
            let Ok(view) = mainstem_record::BatchView::parse(&lying) else { continue };
            let header = view.header().with_crc_over(view.payload()).write();
            lying[..61].copy_from_slice(&header);
            let (_, peak) = cost(|| drop(validate_produced(&lying, &rules)));
            assert!(peak < 1 << 20, "{codec}: byte {at} costs {peak} bytes");
        }
    }
}
