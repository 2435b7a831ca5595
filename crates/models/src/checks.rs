//! The models. Each panics when it finds an interleaving that breaks its rule.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use mainstem_types::Offset;
use shuttle::scheduler::RandomScheduler;
use shuttle::{Config, Runner, thread};

use crate::commit_wait::{Commit, CommitFailed, CommitWaiters};
use crate::fetch_wait::{FetchWait, FetchWaiters};
use crate::flush_status::FlushStatus;
use crate::log_number::LogNumber;
use crate::sync::{AtomicI64, AtomicU64, Mutex, Ordering};

/// Interleavings that are tried: several times as many as the rarest fault of the variants needs.
const SCHEDULES: usize = 20_000;
/// The interleavings follow from it, so that each run tries the same ones.
const SEED: u64 = 1;

/// Whether the file is used as its users do, or with the fault that the model must find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    Right,
    Faulty,
}

fn explore(model: impl Fn() + Send + Sync + 'static) {
    let scheduler = RandomScheduler::new_from_seed(SEED, SCHEDULES);
    Runner::new(scheduler, Config::default()).run(model);
}

/// Goes on with the panic of a thread that found a fault.
fn join<T>(thread: thread::JoinHandle<T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

fn is_released(commit: Commit) -> Option<Result<(), CommitFailed>> {
    match commit {
        Commit::Done => Some(Ok(())),
        Commit::Waiting(mut receiver) => receiver.try_recv().ok(),
    }
}

/// Two producers wait for their records while another thread advances the high watermark over both. At the end nobody
/// waits. The fault: the high watermark is read before the waiter is counted.
pub fn commits_release_their_waiters(how: Use) {
    let model = move || {
        let (waiters, high_watermark) = (Arc::new(CommitWaiters::default()), Arc::new(AtomicI64::new(0)));
        let producers: Vec<_> = [1, 2]
            .into_iter()
            .map(|end| {
                let (waiters, high_watermark) = (Arc::clone(&waiters), Arc::clone(&high_watermark));
                thread::spawn(move || {
                    let read = || Offset(high_watermark.load(Ordering::SeqCst));
                    match how {
                        Use::Right => waiters.wait(Offset(end), read, || true),
                        Use::Faulty => {
                            let early = read();
                            waiters.wait(Offset(end), || early, || true)
                        }
                    }
                })
            })
            .collect();
        for end in [1, 2] {
            high_watermark.store(end, Ordering::SeqCst);
            waiters.advance(Offset(end));
        }
        for producer in producers {
            let commit = join(producer);
            assert_eq!(is_released(commit), Some(Ok(())), "a waiter was not released");
        }
    };
    explore(model);
}

/// A producer waits while the partition stops being led. It is told, or had been committed. The fault: whether the
/// node leads is asked before the waiter is counted.
pub fn an_end_of_leadership_releases_its_waiters(how: Use) {
    let model = move || {
        let (waiters, epoch) = (Arc::new(CommitWaiters::default()), Arc::new(AtomicU64::new(1)));
        let producer = {
            let (waiters, epoch) = (Arc::clone(&waiters), Arc::clone(&epoch));
            thread::spawn(move || {
                let leads = || epoch.load(Ordering::SeqCst) == 1;
                match how {
                    Use::Right => waiters.wait(Offset(1), || Offset(0), leads),
                    Use::Faulty => {
                        let early = leads();
                        waiters.wait(Offset(1), || Offset(0), || early)
                    }
                }
            })
        };
        epoch.store(2, Ordering::SeqCst);
        waiters.fail(CommitFailed::NotLeader);
        // A node that leads again takes waiters again; what waited under the old epoch is not among them.
        waiters.reopen();
        let commit = join(producer);
        assert_eq!(is_released(commit), Some(Err(CommitFailed::NotLeader)), "a waiter was not released");
    };
    explore(model);
}

/// A fetch registers, says what it waits for, looks, counts what it found, and waits; an append adds to the partition
/// and wakes. Either the look finds the record or the wait ends. The fault: it looks before it says what it waits for.
pub fn a_fetch_misses_no_append(how: Use) {
    let model = move || {
        let (waiters, log_end) = (Arc::new(FetchWaiters::default()), Arc::new(AtomicI64::new(0)));
        let fetch = {
            let (waiters, log_end) = (Arc::clone(&waiters), Arc::clone(&log_end));
            thread::spawn(move || {
                let wait = FetchWait::register(vec![waiters]);
                let found = match how {
                    Use::Right => {
                        wait.expect_bytes(10);
                        log_end.load(Ordering::SeqCst)
                    }
                    Use::Faulty => {
                        let found = log_end.load(Ordering::SeqCst);
                        wait.expect_bytes(10);
                        found
                    }
                };
                wait.credit(found);
                wait
            })
        };
        log_end.fetch_add(10, Ordering::SeqCst);
        waiters.wake(10);
        let wait = join(fetch);
        let mut waiting = std::pin::pin!(wait.wait());
        let state = waiting.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert_eq!(state, Poll::Ready(()), "the fetch waits for what is there");
    };
    explore(model);
}

/// Two threads append and ask for a sync, two flusher threads take journals from the queue. At the end all that was
/// asked for is durable, and never did two syncs of the journal run at once. The fault: a flusher forgets requests that
/// came while it synced.
pub fn every_request_is_synced(how: Use) {
    let model = move || {
        let journal = Arc::new(ModelJournal::default());
        let requesters: Vec<_> = (0..2)
            .map(|_| {
                let journal = Arc::clone(&journal);
                thread::spawn(move || {
                    journal.appended.fetch_add(1, Ordering::SeqCst);
                    journal.request();
                })
            })
            .collect();
        let flushers: Vec<_> = (0..2)
            .map(|_| {
                let journal = Arc::clone(&journal);
                thread::spawn(move || (0..2).for_each(|_| journal.run_queued(how)))
            })
            .collect();
        for thread in requesters.into_iter().chain(flushers) {
            join(thread);
        }
        journal.run_queued(how);
        assert_eq!(journal.durable.load(Ordering::SeqCst), 2, "a request was forgotten");
    };
    explore(model);
}

#[derive(Default)]
struct ModelJournal {
    status: FlushStatus,
    queue: Mutex<VecDeque<()>>,
    appended: AtomicU64,
    durable: AtomicU64,
    syncs: AtomicU64,
}

impl ModelJournal {
    fn request(&self) {
        if self.status.request() {
            self.queue.lock().push_back(());
        }
    }

    fn run_queued(&self, how: Use) {
        loop {
            if self.queue.lock().pop_front().is_none() {
                return;
            }
            self.status.begin();
            assert_eq!(self.syncs.fetch_add(1, Ordering::SeqCst), 0, "two syncs at once");
            let end = self.appended.load(Ordering::SeqCst);
            self.durable.fetch_max(end, Ordering::SeqCst);
            self.syncs.fetch_sub(1, Ordering::SeqCst);
            if self.status.done() && how == Use::Right {
                self.queue.lock().push_back(());
            }
        }
    }
}

/// One thread changes two places, first under the lock that looks take; another one looks at both without holding the
/// lock in between. What it finds is both old or both new. The fault: the number is renewed after the change.
pub fn a_look_is_not_mixed(how: Use) {
    let model = move || {
        let log = Arc::new(ModelLog { number: LogNumber::new(1), memory: Mutex::new(0), file: AtomicU64::new(0) });
        let changer = {
            let log = Arc::clone(&log);
            thread::spawn(move || log.change(how))
        };
        let (memory, file) = log.number.unmixed(|| {
            let memory = *log.memory.lock();
            (memory, log.file.load(Ordering::SeqCst))
        });
        assert_eq!(memory, file, "half old, half new");
        join(changer);
    };
    explore(model);
}

struct ModelLog {
    number: LogNumber,
    /// The state, and its lock.
    memory: Mutex<u64>,
    file: AtomicU64,
}

impl ModelLog {
    fn change(&self, how: Use) {
        let mut memory = self.memory.lock();
        if how == Use::Right {
            self.number.renew(2);
        }
        self.file.store(1, Ordering::SeqCst);
        *memory = 1;
        drop(memory);
        if how == Use::Faulty {
            self.number.renew(2);
        }
    }
}
