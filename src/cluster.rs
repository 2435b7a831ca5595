//! Which cluster a command talks to, and what its errors mean for the person at the keyboard.

use std::time::Duration;

use anyhow::anyhow;
use clap::Args;
use mainstem_client::{Client, ClientConfig, ClientError, ErrorCode, FetchError, FetcherConfig, ProduceError};

/// No setting of a broker: `mainstem serve` passes over it.
pub const BOOTSTRAP_VARIABLE: &str = "MAINSTEM_BOOTSTRAP";

/// A topic may have been created a moment ago, and not every broker knows at once.
const UNKNOWN_TOPIC_WAIT: Duration = Duration::from_millis(500);

/// The options of every command that talks to brokers.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Connection")]
pub struct ClusterOptions {
    /// A broker, or several parted by commas: one that answers is enough
    #[arg(
        long,
        value_name = "HOST:PORT",
        env = BOOTSTRAP_VARIABLE,
        hide_env_values = true,
        default_value = "127.0.0.1:9092",
        value_parser = parse_bootstrap
    )]
    bootstrap_server: String,
    /// How long brokers may take, attempts included: 10s, 500ms, 2m; a bare number is seconds
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = parse_timeout)]
    pub timeout: Duration,
}

impl ClusterOptions {
    pub async fn connect(&self) -> anyhow::Result<Client> {
        let mut config = ClientConfig::new(&self.bootstrap_server).client_id("mainstem-cli");
        config.connect_timeout = config.connect_timeout.min(self.timeout);
        config.request_timeout = self.timeout;
        config.retry_timeout = self.timeout;
        config.unknown_topic_wait = UNKNOWN_TOPIC_WAIT.min(self.timeout);
        Client::connect(config).await.map_err(|error| self.explain(error))
    }

    /// A broker that waits for records answers well before the request is given up.
    pub fn fetcher_config(&self) -> FetcherConfig {
        let config = FetcherConfig::default();
        FetcherConfig { max_wait: config.max_wait.min(self.timeout / 2), ..config }
    }

    pub fn explain(&self, error: ClientError) -> anyhow::Error {
        let asked = &self.bootstrap_server;
        match error {
            ClientError::NoBroker { addresses, detail } => anyhow!(
                "no broker at {addresses}: start one with `mainstem serve`, or name another with --bootstrap-server \
                 ({detail})"
            ),
            // The broker that was asked first did answer, and named this address.
            ClientError::Connect { address, detail } if !asked.split(',').any(|one| one.trim() == address) => anyhow!(
                "cannot connect to {address}, the address that the broker at {asked} gives to its clients: {detail}; \
                 if that is the wrong address, set advertised.listeners of the broker"
            ),
            ClientError::Timeout { .. } => anyhow!("{error}; check the broker, or raise --timeout"),
            other => other.into(),
        }
    }

    pub fn explain_produce(&self, topic: &str, error: ProduceError) -> anyhow::Error {
        match error {
            ProduceError::Client(error) => self.explain_topic(topic, error),
            ProduceError::TooLarge { size, limit } => {
                anyhow!("a record of {size} bytes is more than this command sends ({limit} bytes)")
            }
            ProduceError::TimedOut { .. } | ProduceError::Expired { .. } => {
                anyhow!("{error}; check the broker, or raise --timeout")
            }
            other => other.into(),
        }
    }

    pub fn explain_fetch(&self, topic: &str, error: FetchError) -> anyhow::Error {
        match error {
            FetchError::Client(error) => self.explain_topic(topic, error),
            FetchError::OutOfRange { partition, position, .. } => anyhow!(
                "{partition} no longer has offset {position}: its oldest records were deleted meanwhile, or the topic \
                 was created anew; begin again with --from beginning"
            ),
            other => other.into(),
        }
    }

    /// An error about one topic.
    pub fn explain_topic(&self, topic: &str, error: ClientError) -> anyhow::Error {
        match error.code() {
            Some(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION) => anyhow!(
                "there is no topic {topic}: `mainstem topic list` shows those that exist, `mainstem topic create \
                 {topic}` creates it"
            ),
            Some(ErrorCode::TOPIC_ALREADY_EXISTS) => {
                anyhow!("topic {topic} exists already: `mainstem topic describe {topic}` shows it")
            }
            Some(_) => match error {
                ClientError::Broker { code, message, .. } => anyhow!("topic {topic}: {message} ({code})"),
                other => other.into(),
            },
            None => self.explain(error),
        }
    }
}

fn parse_bootstrap(text: &str) -> Result<String, String> {
    let addresses: Vec<_> = text.split(',').map(str::trim).filter(|address| !address.is_empty()).collect();
    if addresses.is_empty() {
        return Err("no address: give HOST:PORT, for example 127.0.0.1:9092".to_owned());
    }
    for address in &addresses {
        let port = address.rsplit_once(':').filter(|(host, _)| !host.is_empty()).map(|(_, port)| port.parse::<u16>());
        if !matches!(port, Some(Ok(1..))) {
            return Err(format!("{address} is not HOST:PORT, for example 127.0.0.1:9092"));
        }
    }
    Ok(addresses.join(","))
}

fn parse_timeout(text: &str) -> Result<Duration, String> {
    let parsed = match text.parse::<u32>() {
        Ok(seconds) => Some(Duration::from_secs(u64::from(seconds))),
        Err(_) => text.parse::<jiff::SignedDuration>().ok().and_then(|duration| duration.try_into().ok()),
    };
    match parsed {
        // The protocol counts milliseconds in 31 bits.
        Some(duration) if (1..=i32::MAX as u128).contains(&duration.as_millis()) => Ok(duration),
        _ => Err("give a time from 1ms to 24 days, for example 10s, 500ms or 2m".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bootstrap_servers_are_host_and_port() {
        assert_eq!(parse_bootstrap("a:1, [::1]:9092,").unwrap(), "a:1,[::1]:9092");
        for wrong in ["", ",", "host", "host:", ":9092", "host:0", "host:99999", "a:1,b"] {
            assert!(parse_bootstrap(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn timeouts_have_units() {
        for (text, milliseconds) in [("10s", 10_000), ("500ms", 500), ("2m", 120_000), ("7", 7_000)] {
            assert_eq!(parse_timeout(text).unwrap(), Duration::from_millis(milliseconds), "{text}");
        }
        for wrong in ["", "0", "-1s", "soon", "1000h"] {
            assert!(parse_timeout(wrong).is_err(), "{wrong}");
        }
    }
}
