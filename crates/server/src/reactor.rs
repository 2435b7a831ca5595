//! Reactors: threads that each run a single-threaded tokio runtime and own the connections handed to them.
//!
//! A reactor starts threads of its own for reads that would wait for the disk: at most 4, ended after 10 s without
//! work.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use mainstem_env::Worker;
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

use crate::stop::ReactorState;

/// Threads of one reactor for reads of cold file slices.
const BLOCKING_THREADS_MAX: usize = 4;
const BLOCKING_THREAD_KEEP: Duration = Duration::from_secs(10);

/// One running reactor.
#[derive(Debug)]
pub(crate) struct Reactor {
    pub handle: Handle,
    pub state: Arc<ReactorState>,
    quit: Option<oneshot::Sender<()>>,
    thread: Worker,
}

impl Reactor {
    pub fn start(number: usize) -> io::Result<Reactor> {
        let runtime = Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .max_blocking_threads(BLOCKING_THREADS_MAX)
            .thread_keep_alive(BLOCKING_THREAD_KEEP)
            .thread_name(format!("cold-read-{number}"))
            .build()?;
        let handle = runtime.handle().clone();
        let (quit, quitted) = oneshot::channel::<()>();
        let thread = Worker::start(format!("reactor-{number}"), move |_| {
            // The sender is dropped, or sends: both end the reactor.
            let _ = runtime.block_on(quitted);
            // A read that hangs in the kernel does not hold up the end.
            runtime.shutdown_background();
        })?;
        Ok(Reactor { handle, state: Arc::new(ReactorState::new()), quit: Some(quit), thread })
    }
}

impl Drop for Reactor {
    fn drop(&mut self) {
        self.quit.take();
        self.thread.join();
    }
}
