//! Trying again, with growing pauses, until a time is up.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::config::ClientConfig;

const BACKOFF_MAX: Duration = Duration::from_secs(1);

pub(crate) struct Retry {
    deadline: Instant,
    backoff: Duration,
}

impl Retry {
    pub(crate) fn new(config: &ClientConfig) -> Self {
        Retry::within(config, config.retry_timeout)
    }

    pub(crate) fn within(config: &ClientConfig, time: Duration) -> Self {
        Retry { deadline: Instant::now() + time, backoff: config.retry_backoff }
    }

    /// Pauses before another attempt; `false` when the time is up.
    pub(crate) async fn pause(&mut self) -> bool {
        if Instant::now() + self.backoff >= self.deadline {
            return false;
        }
        sleep(self.backoff).await;
        self.backoff = (self.backoff * 2).min(BACKOFF_MAX);
        true
    }
}
