//! Threads that a part of the program owns: each has a name, can be woken, and can be told to stop.
//!
//! A thread that panics ends the process ([`abort_on_panic`]; release builds abort by themselves). In tests, where the
//! harness needs unwinding, the panic continues in the thread that joins, so that no test misses it.

use std::any::Any;
use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

/// What a thread is asked for.
#[derive(Debug, Default)]
pub struct Signal {
    asked: Mutex<Asked>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Asked {
    stop: bool,
    wake: bool,
}

impl Signal {
    /// Whether the thread should end as soon as it can.
    pub fn is_stopped(&self) -> bool {
        self.asked.lock().stop
    }

    /// Sleeps until another thread wakes this one or asks it to stop, at most for `limit`. A wake that came before
    /// counts. Says whether to stop.
    pub fn wait(&self, limit: Duration) -> bool {
        let mut asked = self.asked.lock();
        if !asked.stop && !asked.wake {
            self.changed.wait_for(&mut asked, limit);
        }
        asked.wake = false;
        asked.stop
    }

    /// Ends the present wait, or the next one.
    pub fn wake(&self) {
        self.asked.lock().wake = true;
        self.changed.notify_all();
    }

    /// Asks the thread to end. Does not wait for it.
    pub fn stop(&self) {
        self.asked.lock().stop = true;
        self.changed.notify_all();
    }
}

/// A thread of its own. Dropping it asks it to stop and waits for its end.
#[derive(Debug)]
pub struct Worker {
    name: String,
    signal: Arc<Signal>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Worker {
    /// Starts a thread of this name (Linux shows 15 characters of it). `run` looks at the signal and returns when that
    /// says stop; a thread that sleeps on something of its own is woken by its owner before the join.
    pub fn start(name: impl Into<String>, run: impl FnOnce(&Signal) + Send + 'static) -> io::Result<Worker> {
        Worker::start_with(name, Arc::default(), run)
    }

    /// As [`Worker::start`], with a signal that several threads share: stopping one of them stops all.
    pub fn start_with(
        name: impl Into<String>,
        signal: Arc<Signal>,
        run: impl FnOnce(&Signal) + Send + 'static,
    ) -> io::Result<Worker> {
        let name = name.into();
        let own = Arc::clone(&signal);
        let thread = thread::Builder::new().name(name.clone()).spawn(move || run(&own))?;
        Ok(Worker { name, signal, thread: Mutex::new(Some(thread)) })
    }

    pub fn signal(&self) -> &Arc<Signal> {
        &self.signal
    }

    /// Asks the thread to end, and waits until it has.
    pub fn stop(&self) {
        self.signal.stop();
        self.join();
    }

    /// Waits for the end of the thread. Returns at once on the thread itself, which may hold the last reference to its
    /// owner, and when somebody else has waited already. A panic of the thread goes on here.
    pub fn join(&self) {
        let Some(thread) = self.thread.lock().take() else { return };
        if thread.thread().id() == thread::current().id() {
            return;
        }
        if let Err(panic) = thread.join()
            && !thread::panicking()
        {
            let reason = format!("thread {} panicked: {}", self.name, reason(&*panic));
            std::panic::resume_unwind(Box::new(reason));
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.stop();
    }
}

fn reason(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no reason given")
}

/// From now on a panic of any thread ends the process, after its message: what that thread left half done, others must
/// not go on with. The next start recovers as after a kill.
pub fn abort_on_panic() {
    let tell = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        tell(panic);
        std::process::abort();
    }));
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    const LONG: Duration = Duration::from_secs(3600);

    #[test]
    fn it_is_woken_and_ends_when_it_is_told() {
        let (sender, receiver) = channel();
        let worker = Worker::start("waiter", move |signal| {
            while !signal.wait(LONG) {
                let name = thread::current().name().map(str::to_owned);
                sender.send(name).unwrap();
            }
        })
        .unwrap();
        for _ in 0..2 {
            worker.signal().wake();
            assert_eq!(receiver.recv_timeout(LONG).unwrap().as_deref(), Some("waiter"));
        }
        worker.stop();
        assert!(receiver.recv().is_err(), "its end was waited for");
    }

    #[test]
    fn a_wake_and_a_stop_that_came_before_the_wait_count() {
        let signal = Signal::default();
        signal.wake();
        assert!(!signal.wait(LONG));
        assert!(!signal.wait(Duration::ZERO), "a wake counts once");
        signal.stop();
        assert!(signal.wait(LONG) && signal.is_stopped());
    }

    #[test]
    fn a_panic_goes_on_in_the_owner_with_its_reason() {
        let worker = Worker::start("unlucky", |_| std::panic::resume_unwind(Box::new("nothing left"))).unwrap();
        let joined = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| worker.stop())).unwrap_err();
        assert_eq!(joined.downcast_ref::<String>().unwrap(), "thread unlucky panicked: nothing left");
        worker.stop();
    }

    #[test]
    fn the_thread_itself_does_not_wait_for_its_own_end() {
        let (sender, receiver) = channel::<Arc<Worker>>();
        let worker = Arc::new(Worker::start("last owner", move |_| drop(receiver.recv())).unwrap());
        sender.send(worker).unwrap();
    }
}
