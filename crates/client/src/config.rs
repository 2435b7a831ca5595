//! How a client finds its brokers and how long it waits for them.

use std::time::Duration;

/// Settings of a [`crate::Client`].
#[derive(Debug, Clone)]
pub struct ClientConfig {
    /// `host:port` of some brokers; one that answers is enough to learn the others.
    pub bootstrap: Vec<String>,
    /// Shown in the brokers' logs, metrics and quotas.
    pub client_id: String,
    /// For a TCP connection to come up.
    pub connect_timeout: Duration,
    /// For the answer to one request; then the connection is given up.
    pub request_timeout: Duration,
    /// For an operation with all its attempts: only retriable errors are tried again.
    pub retry_timeout: Duration,
    /// Pause before the second attempt; doubles up to 1 s.
    pub retry_backoff: Duration,
    /// How long a topic that the brokers do not know (yet) is asked for again.
    pub unknown_topic_wait: Duration,
    /// How old the metadata of topics and brokers may get.
    pub metadata_max_age: Duration,
    /// Answers beyond this end the connection.
    pub response_size_max: usize,
}

impl ClientConfig {
    /// `bootstrap` is `host:port`, several parted by commas.
    pub fn new(bootstrap: &str) -> Self {
        let addresses = bootstrap.split(',').map(str::trim).filter(|address| !address.is_empty());
        ClientConfig {
            bootstrap: addresses.map(str::to_owned).collect(),
            client_id: "mainstem-client".to_owned(),
            connect_timeout: Duration::from_secs(5),
            request_timeout: Duration::from_secs(30),
            retry_timeout: Duration::from_secs(60),
            retry_backoff: Duration::from_millis(50),
            unknown_topic_wait: Duration::from_secs(3),
            metadata_max_age: Duration::from_secs(300),
            response_size_max: 256 << 20,
        }
    }

    #[must_use]
    pub fn client_id(mut self, client_id: &str) -> Self {
        client_id.clone_into(&mut self.client_id);
        self
    }
}
