//! Requests that need much of a processor, away from the reactor: each step of them is taken on a thread for heavy work.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use mainstem_broker::{BlockingPool, Stopped};
use tokio::sync::Notify;

use crate::reply::{CloseReason, Handled, Reply};

/// Wakes the task that has the steps taken.
struct StepWaker(Notify);

impl Wake for StepWaker {
    fn wake(self: Arc<Self>) {
        self.0.notify_one();
    }
}

/// Has `handle` run on a thread of `pool`, and after it each step of what it promised.
pub(crate) fn handle_elsewhere(pool: Arc<BlockingPool>, handle: impl FnOnce() -> Handled + Send + 'static) -> Handled {
    Handled::waiting(async move {
        match pool.run(handle).await {
            Ok(Handled::Ready(reply)) => reply,
            Ok(Handled::Waiting(promise) | Handled::Working(promise)) => {
                keep(&pool, promise).await.unwrap_or_else(stopping)
            }
            Err(stopped) => stopping(stopped),
        }
    })
}

async fn keep(pool: &BlockingPool, mut promise: Pin<Box<dyn Future<Output = Reply> + Send>>) -> Result<Reply, Stopped> {
    let steps = Arc::new(StepWaker(Notify::new()));
    // The promise may set timers, which belong to the runtime of the reactor.
    let runtime = tokio::runtime::Handle::current();
    loop {
        let (waker, runtime) = (Waker::from(Arc::clone(&steps)), runtime.clone());
        let step = move || {
            let _entered = runtime.enter();
            match promise.as_mut().poll(&mut Context::from_waker(&waker)) {
                Poll::Ready(reply) => Ok(reply),
                Poll::Pending => Err(promise),
            }
        };
        match pool.run(step).await? {
            Ok(reply) => return Ok(reply),
            Err(unfinished) => promise = unfinished,
        }
        steps.0.notified().await;
    }
}

fn stopping(stopped: Stopped) -> Reply {
    Reply::Close(CloseReason::Stopping(stopped.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn every_step_is_taken_on_a_thread_of_the_pool() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let pool = Arc::new(BlockingPool::named("heavy", 1));
        let name = || std::thread::current().name().unwrap_or_default().to_owned();
        let handle = move || {
            assert_eq!(name(), "heavy-0");
            Handled::waiting(async move {
                for _ in 0..3 {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                    assert_eq!(name(), "heavy-0");
                }
                Reply::Nothing
            })
        };
        let Handled::Waiting(promise) = handle_elsewhere(Arc::clone(&pool), handle) else { panic!("it waits") };
        assert!(matches!(runtime.block_on(promise), Reply::Nothing));
        pool.stop();
        let Handled::Waiting(promise) = handle_elsewhere(pool, || Handled::Ready(Reply::Nothing)) else { panic!() };
        assert!(matches!(runtime.block_on(promise), Reply::Close(CloseReason::Stopping(_))));
    }
}
