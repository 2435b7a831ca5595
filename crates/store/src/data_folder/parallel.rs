//! Work that waits for syncs, on several threads: a file system commits the syncs that come at the same time together.

use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

/// More threads than this gain nothing: they all wait for the same disk.
const THREADS_MAX: usize = 16;
/// With fewer pieces of work for each, a thread costs more than it saves.
const PIECES_A_THREAD: usize = 8;

/// `work` on each item, in any order; the results in the order of the items. Few items are worked on by the caller alone, one after
/// the other.
pub(super) fn map<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let threads = (items.len() / PIECES_A_THREAD).min(THREADS_MAX);
    if threads <= 1 {
        return items.iter().map(work).collect();
    }
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<(usize, R)>> = Mutex::new(Vec::with_capacity(items.len()));
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some((place, item)) = {
                    let place = next.fetch_add(1, Ordering::Relaxed);
                    items.get(place).map(|item| (place, item))
                } {
                    let result = work(item);
                    done.lock().push((place, result));
                }
            });
        }
    });
    let mut done = done.into_inner();
    done.sort_unstable_by_key(|(place, _)| *place);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn results_come_in_order_whatever_the_number() {
        for count in [0, 1, 7, 16, 500] {
            let items: Vec<usize> = (0..count).collect();
            assert_eq!(super::map(&items, |item| item * 2), items.iter().map(|item| item * 2).collect::<Vec<_>>());
        }
    }
}
