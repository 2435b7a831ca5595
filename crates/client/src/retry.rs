//! Trying again, with growing pauses, until a time is up.

use std::time::Duration;

use mainstem_kafka_wire::ErrorCode;
use tokio::time::{Instant, sleep};

use crate::config::ClientConfig;
use crate::error::ClientError;

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

/// The attempts of one operation: errors that pass are waited out for `retry_timeout`, a topic that is not there for
/// `unknown_topic_wait`.
pub(crate) struct Attempts {
    retry: Retry,
    unknown: Retry,
}

impl Attempts {
    pub(crate) fn new(config: &ClientConfig) -> Self {
        let unknown = Retry::within(config, config.unknown_topic_wait);
        Attempts { retry: Retry::new(config), unknown }
    }

    /// Pauses before another attempt; `false` when the error is the last word.
    pub(crate) async fn pause(&mut self, error: &ClientError) -> bool {
        match error.code() {
            Some(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION) => self.unknown.pause().await,
            _ => error.is_retriable() && self.retry.pause().await,
        }
    }

    /// Pauses before another attempt after any error. `false`: the time is up.
    pub(crate) async fn wait(&mut self) -> bool {
        self.retry.pause().await
    }
}
