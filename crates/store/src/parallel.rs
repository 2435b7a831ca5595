//! Work on several threads: because it waits for syncs, which a file system commits together when they come at the same
//! time, or because each piece of it is large.

use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

/// More threads than this gain nothing: they all wait for the same disk.
const THREADS_MAX: usize = 16;
/// With fewer pieces of work for each, a thread costs more than it saves.
const PIECES_A_THREAD: usize = 8;

/// `work` on each item, in any order; the results in the order of the items. Few items are worked on by the caller
/// alone, one after the other.
pub(crate) fn map<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    map_on((items.len() / PIECES_A_THREAD).min(THREADS_MAX), items, work)
}

/// As [`map`], for a few large pieces of work: one thread for each, up to the number of cores.
pub(crate) fn map_large<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    map_on(items.len().min(cores), items, work)
}

fn map_on<T: Sync, R: Send>(threads: usize, items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
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
            let doubled: Vec<_> = items.iter().map(|item| item * 2).collect();
            assert_eq!(super::map(&items, |item| item * 2), doubled);
            assert_eq!(super::map_large(&items, |item| item * 2), doubled);
        }
    }
}
