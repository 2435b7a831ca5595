//! Runs requests that need much CPU time away from the reactor: each of their steps runs on a thread for heavy work.

use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use mainstem_waits::{BlockingPool, Stopped};
use tokio::sync::Notify;

use crate::reply::{Handled, Promise, Reply};

/// Wakes the task that has the steps taken.
struct StepWaker(Notify);

impl Wake for StepWaker {
    fn wake(self: Arc<Self>) {
        self.0.notify_one();
    }
}

/// Runs `handle` on a thread of `pool`, and then each step of its promise.
pub fn handle_elsewhere(pool: Arc<BlockingPool>, handle: impl FnOnce() -> Handled + Send + 'static) -> Handled {
    Handled::working_towards(async move {
        match pool.run(handle).await {
            Ok(handled) => continue_elsewhere(pool, handled),
            Err(stopped) => Handled::close(stopped),
        }
    })
}

/// The same promise, each step of which is taken on a thread of `pool`.
fn continue_elsewhere(pool: Arc<BlockingPool>, handled: Handled) -> Handled {
    let reply = |promise| {
        let pool = Arc::clone(&pool);
        async move { take_steps(&pool, promise).await.unwrap_or_else(Reply::close) }
    };
    match handled {
        Handled::Ready(reply) => Handled::Ready(reply),
        Handled::Polling(promise) => Handled::polling(reply(promise)),
        Handled::Confirming(promise) => Handled::confirming(reply(promise)),
        Handled::Working(promise) => Handled::working_towards(async move {
            match take_steps(&pool, promise).await {
                Ok(handled) => continue_elsewhere(pool, handled),
                Err(stopped) => Handled::close(stopped),
            }
        }),
    }
}

async fn take_steps<T: Send + 'static>(pool: &BlockingPool, mut promise: Promise<T>) -> Result<T, Stopped> {
    let steps = Arc::new(StepWaker(Notify::new()));
    // The promise may set timers, which belong to the runtime of the reactor.
    let runtime = tokio::runtime::Handle::current();
    loop {
        let (waker, runtime) = (Waker::from(Arc::clone(&steps)), runtime.clone());
        let step = move || {
            let _entered = runtime.enter();
            match promise.as_mut().poll(&mut Context::from_waker(&waker)) {
                Poll::Ready(outcome) => Ok(outcome),
                Poll::Pending => Err(promise),
            }
        };
        match pool.run(step).await? {
            Ok(outcome) => return Ok(outcome),
            Err(unfinished) => promise = unfinished,
        }
        steps.0.notified().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap()
    }

    fn check_thread() {
        assert_eq!(std::thread::current().name(), Some("heavy-0"));
    }

    async fn few_steps() -> Reply {
        for _ in 0..3 {
            tokio::time::sleep(Duration::from_millis(1)).await;
            check_thread();
        }
        Reply::Nothing
    }

    #[test]
    fn every_step_is_taken_on_a_thread_of_the_pool() {
        let (runtime, pool) = (runtime(), Arc::new(BlockingPool::named("heavy", 1)));
        for handled in [
            || Handled::polling(few_steps()),
            || Handled::confirming(few_steps()),
            || {
                Handled::working_towards(async {
                    check_thread();
                    Handled::polling(few_steps())
                })
            },
        ] {
            let handle = move || {
                check_thread();
                handled()
            };
            let handled = handle_elsewhere(Arc::clone(&pool), handle);
            assert!(matches!(runtime.block_on(handled.reply()), Reply::Nothing));
        }
        pool.stop();
        let handled = handle_elsewhere(pool, || Handled::Ready(Reply::Nothing));
        assert!(matches!(runtime.block_on(handled.reply()), Reply::Close(close) if close.reason().is::<Stopped>()));
    }

    #[test]
    fn what_work_elsewhere_leads_to_keeps_its_kind() {
        let (runtime, pool) = (runtime(), Arc::new(BlockingPool::named("heavy", 1)));
        let lead_to = |handled: fn() -> Handled| match handle_elsewhere(Arc::clone(&pool), handled) {
            Handled::Working(promise) => runtime.block_on(promise),
            _ => panic!("it is work at first"),
        };
        assert!(matches!(lead_to(|| Handled::polling(std::future::pending())), Handled::Polling(_)));
        assert!(matches!(lead_to(|| Handled::confirming(std::future::pending())), Handled::Confirming(_)));
        assert!(matches!(lead_to(|| Handled::Ready(Reply::Nothing)), Handled::Ready(Reply::Nothing)));
        pool.stop();
    }
}
