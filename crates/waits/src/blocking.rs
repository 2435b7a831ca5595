//! A few threads for work that may wait for the disk, so that no reactor does.
//!
//! The number of threads is fixed and the queue is bounded by what the connections may have in flight: each connection
//! waits for its reply before it sends more work.

use std::collections::VecDeque;
use std::sync::Arc;

use mainstem_env::Worker;
use parking_lot::{Condvar, Mutex};
use tokio::sync::oneshot;

type Job = Box<dyn FnOnce() + Send>;

/// The broker stopped before the work was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the broker is stopping")]
pub struct Stopped;

/// Threads for blocking work. A thread is started when work comes and none is idle, up to the limit.
pub struct BlockingPool {
    name: &'static str,
    threads_max: usize,
    shared: Arc<PoolState>,
}

struct PoolState {
    queue: Mutex<Queue>,
    changed: Condvar,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    idle: usize,
    stopped: bool,
    threads: Vec<Worker>,
}

impl BlockingPool {
    /// At most `threads_max` threads (at least one); none is started yet.
    pub fn new(threads_max: usize) -> BlockingPool {
        BlockingPool::named("io", threads_max)
    }

    /// As [`new`](Self::new); the threads are called by this name and a number.
    pub fn named(name: &'static str, threads_max: usize) -> BlockingPool {
        let shared = PoolState { queue: Mutex::new(Queue::default()), changed: Condvar::new() };
        BlockingPool { name, threads_max: threads_max.max(1), shared: Arc::new(shared) }
    }

    /// Runs `job` on one of the threads.
    pub async fn run<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> Result<T, Stopped> {
        let (sender, receiver) = oneshot::channel();
        self.submit(Box::new(move || {
            // Nobody listens any more when the client went away.
            let _ = sender.send(job());
        }))?;
        receiver.await.map_err(|_| Stopped)
    }

    fn submit(&self, job: Job) -> Result<(), Stopped> {
        let mut queue = self.shared.queue.lock();
        if queue.stopped {
            return Err(Stopped);
        }
        queue.jobs.push_back(job);
        if queue.idle < queue.jobs.len() && queue.threads.len() < self.threads_max {
            let shared = Arc::clone(&self.shared);
            let name = format!("{}-{}", self.name, queue.threads.len());
            match Worker::start(name, move |_| work(&shared)) {
                Ok(thread) => queue.threads.push(thread),
                Err(error) if queue.threads.is_empty() => {
                    tracing::error!("no thread for blocking work: {error}");
                    queue.jobs.pop_back();
                    return Err(Stopped);
                }
                // The threads that there are will come to it.
                Err(_) => {}
            }
        }
        self.shared.changed.notify_one();
        Ok(())
    }

    /// Ends the threads after the work that is queued.
    pub fn stop(&self) {
        let threads = {
            let mut queue = self.shared.queue.lock();
            queue.stopped = true;
            std::mem::take(&mut queue.threads)
        };
        self.shared.changed.notify_all();
        threads.iter().for_each(Worker::join);
    }
}

fn work(shared: &PoolState) {
    let mut queue = shared.queue.lock();
    loop {
        if let Some(job) = queue.jobs.pop_front() {
            drop(queue);
            job();
            queue = shared.queue.lock();
        } else if queue.stopped {
            return;
        } else {
            queue.idle += 1;
            shared.changed.wait(&mut queue);
            queue.idle -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_done_and_refused_after_the_stop() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let pool = BlockingPool::new(2);
        assert_eq!(runtime.block_on(pool.run(|| 6 * 7)), Ok(42));
        pool.stop();
        assert_eq!(runtime.block_on(pool.run(|| 1)), Err(Stopped));
    }
}
