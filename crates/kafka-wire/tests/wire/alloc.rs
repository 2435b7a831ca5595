//! An allocator that counts, for each thread, how many bytes are allocated at most at one time.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static CURRENT: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn count(bytes: isize) {
    // The thread may be ending: then nobody measures any more.
    let _ = CURRENT.try_with(|current| {
        current.set(current.get() + bytes);
        let _ = PEAK.try_with(|peak| peak.set(peak.get().max(current.get())));
    });
}

// Safety: all calls go to the system allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// Runs `work` and returns the most bytes that it held at one time.
pub fn peak_of<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let before = CURRENT.with(Cell::get);
    PEAK.with(|peak| peak.set(before));
    let result = work();
    let peak = PEAK.with(Cell::get);
    (result, (peak - before).max(0) as usize)
}

#[test]
fn the_allocator_counts() {
    let (_, peak) = peak_of(|| drop(std::hint::black_box(vec![0u8; 3 << 20])));
    assert!(peak >= 3 << 20, "{peak}");
    let (_, peak) = peak_of(|| std::hint::black_box(1 + 1));
    assert!(peak < 1024, "{peak}");
}
