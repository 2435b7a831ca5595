//! The thread that fires the timers of all groups, and has logs read again that could not be read.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use mainstem_env::Worker;
use parking_lot::{Condvar, Mutex};

use super::ConsumerGroupsState;
use super::shard::Shard;

/// When the thread wakes next.
struct Plan {
    /// On the monotonic clock; `None` sleeps until a call.
    wake: Option<Duration>,
    stopped: bool,
}

struct SharedPlan {
    plan: Mutex<Plan>,
    changed: Condvar,
}

/// Wakes the thread.
#[derive(Clone)]
pub(super) struct Waker(Arc<SharedPlan>);

impl Waker {
    pub fn new() -> Waker {
        Waker(Arc::new(SharedPlan { plan: Mutex::new(Plan { wake: None, stopped: false }), changed: Condvar::new() }))
    }

    /// Makes the thread look at all shards now.
    pub fn look(&self) {
        self.0.plan.lock().wake = Some(Duration::ZERO);
        self.0.changed.notify_one();
    }
}

pub(super) struct TimerThread {
    inner: Arc<SharedPlan>,
    thread: Worker,
}

impl TimerThread {
    /// The thread that `waker` wakes. `load` reads the log of a shard, on another thread.
    pub fn start(
        waker: Waker,
        shared: Arc<ConsumerGroupsState>,
        load: impl Fn(Arc<Shard>) + Send + 'static,
    ) -> io::Result<TimerThread> {
        let inner = waker.0;
        let own = Arc::clone(&inner);
        let thread = Worker::start("group-timer", move |_| run(&own, &shared, &load))?;
        Ok(TimerThread { inner, thread })
    }

    /// A shard's earliest deadline may now be earlier than the moment until which the thread sleeps.
    pub fn look_at(&self, deadline: Option<Duration>) {
        let Some(deadline) = deadline else { return };
        let mut plan = self.inner.plan.lock();
        if plan.wake.is_none_or(|wake| deadline < wake) {
            plan.wake = Some(deadline);
            self.inner.changed.notify_one();
        }
    }

    pub fn stop(&self) {
        self.inner.plan.lock().stopped = true;
        self.inner.changed.notify_one();
        self.thread.join();
    }
}

impl Drop for TimerThread {
    fn drop(&mut self) {
        self.stop();
    }
}

fn run(inner: &SharedPlan, shared: &ConsumerGroupsState, load: &impl Fn(Arc<Shard>)) {
    loop {
        {
            let mut plan = inner.plan.lock();
            loop {
                if plan.stopped {
                    return;
                }
                let now = shared.now().monotonic;
                match plan.wake {
                    Some(wake) if wake <= now => break,
                    Some(wake) => {
                        inner.changed.wait_for(&mut plan, wake - now);
                    }
                    None => inner.changed.wait(&mut plan),
                }
            }
            plan.wake = None;
        }
        for shard in shared.shards.all() {
            if shard.begin_retry(shared.now()) {
                load(shard);
            }
        }
        let earliest = shared.shards.all().iter().filter_map(|shard| shard.poll(shared.now())).min();
        let mut plan = inner.plan.lock();
        // Somebody may have asked for an earlier look meanwhile.
        plan.wake = [plan.wake, earliest].into_iter().flatten().min();
    }
}
