//! Which cluster a command talks to, and what its errors mean for the person at the keyboard.

use std::sync::OnceLock;
use std::time::Duration;

use anyhow::anyhow;
use clap::Args;
use mainstem_client::{Client, ClientConfig, ClientError, ErrorCode, FetchError, FetcherConfig, ProduceError};

use crate::Usage;
use crate::profile::{self, FILE_VARIABLE};

const BOOTSTRAP_VARIABLE: &str = "MAINSTEM_BOOTSTRAP";
const PROFILE_VARIABLE: &str = "MAINSTEM_PROFILE";

/// No settings of a broker: `mainstem serve` passes over them.
pub const COMMAND_VARIABLES: [&str; 3] = [BOOTSTRAP_VARIABLE, PROFILE_VARIABLE, FILE_VARIABLE];

const BOOTSTRAP_DEFAULT: &str = "127.0.0.1:9092";
const TIMEOUT_DEFAULT: Duration = Duration::from_secs(30);

/// A topic may have been created a moment ago, and not every broker knows at once.
const UNKNOWN_TOPIC_WAIT: Duration = Duration::from_millis(500);

/// The options of every command that talks to brokers.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Connection")]
pub struct ClusterOptions {
    /// A broker, or several separated by commas; one that answers is enough [env: MAINSTEM_BOOTSTRAP=] [default: the
    /// profile's, else 127.0.0.1:9092]
    #[arg(long, value_name = "HOST:PORT", value_parser = parse_bootstrap)]
    bootstrap_server: Option<String>,
    /// A cluster by its name in ~/.config/mainstem/config.toml, or in the file that MAINSTEM_CONFIG names
    /// [env: MAINSTEM_PROFILE=]
    #[arg(long, value_name = "NAME")]
    profile: Option<String>,
    /// How long brokers may take, including retries: 10s, 500ms, 2m; a number alone means seconds [default: the
    /// profile's, else 30s]
    #[arg(long, value_name = "DURATION", value_parser = parse_timeout)]
    timeout: Option<Duration>,
    #[arg(skip)]
    resolved: OnceLock<Cluster>,
}

/// Whom to ask, and for how long.
#[derive(Debug, Clone)]
pub struct Cluster {
    bootstrap: String,
    pub timeout: Duration,
}

impl ClusterOptions {
    /// A cluster by address or profile, for commands that talk to two.
    pub fn of(bootstrap_server: Option<String>, profile: Option<String>, timeout: Option<Duration>) -> Self {
        ClusterOptions { bootstrap_server, profile, timeout, resolved: OnceLock::new() }
    }

    /// The address on the command line counts first, then the profile there, then the two variables in the same order,
    /// then the profile that the file prefers.
    fn resolve(&self) -> anyhow::Result<Cluster> {
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let mut bootstrap = self.bootstrap_server.clone();
        if bootstrap.is_none() && self.profile.is_none() {
            bootstrap = variable(BOOTSTRAP_VARIABLE)
                .map(|text| parse_bootstrap(&text).map_err(|error| Usage(format!("{BOOTSTRAP_VARIABLE}: {error}"))))
                .transpose()?;
        }
        let mut timeout = self.timeout;
        let wanted = self.profile.clone().or_else(|| variable(PROFILE_VARIABLE));
        // With an address, the file matters only to those who named a profile.
        if (bootstrap.is_none() || wanted.is_some())
            && let Some(chosen) = profile::find(wanted.as_deref())?
        {
            let wrong = |what: &str, error: String| anyhow!("{what} in {}: {error}", chosen.where_from);
            if let (None, Some(text)) = (&bootstrap, &chosen.profile.bootstrap_server) {
                bootstrap = Some(parse_bootstrap(text).map_err(|error| wrong("bootstrap-server", error))?);
            }
            if let (None, Some(text)) = (timeout, &chosen.profile.timeout) {
                timeout = Some(parse_timeout(text).map_err(|error| wrong("timeout", error))?);
            }
        }
        Ok(Cluster {
            bootstrap: bootstrap.unwrap_or_else(|| BOOTSTRAP_DEFAULT.to_owned()),
            timeout: timeout.unwrap_or(TIMEOUT_DEFAULT),
        })
    }

    /// Whom the options mean.
    pub fn cluster(&self) -> anyhow::Result<&Cluster> {
        if self.resolved.get().is_none() {
            // Another call cannot have set anything else.
            let _ = self.resolved.set(self.resolve()?);
        }
        self.resolved.get().ok_or_else(|| anyhow!("no cluster is named"))
    }

    /// The same after [`ClusterOptions::connect`], which told what is wrong with the options.
    fn known(&self) -> Cluster {
        let fallback = || Cluster { bootstrap: BOOTSTRAP_DEFAULT.to_owned(), timeout: TIMEOUT_DEFAULT };
        self.cluster().cloned().unwrap_or_else(|_| fallback())
    }

    pub fn timeout(&self) -> Duration {
        self.known().timeout
    }

    pub async fn connect(&self) -> anyhow::Result<Client> {
        let cluster = self.cluster()?;
        let mut config = ClientConfig::new(&cluster.bootstrap).client_id("mainstem-cli");
        config.connect_timeout = config.connect_timeout.min(cluster.timeout);
        config.request_timeout = cluster.timeout;
        config.retry_timeout = cluster.timeout;
        config.unknown_topic_wait = UNKNOWN_TOPIC_WAIT.min(cluster.timeout);
        Client::connect(config).await.map_err(|error| self.explain(error))
    }

    /// A broker that waits for records answers well before the request is given up.
    pub fn fetcher_config(&self) -> FetcherConfig {
        let config = FetcherConfig::default();
        FetcherConfig { max_wait: config.max_wait.min(self.timeout() / 2), ..config }
    }

    pub fn explain(&self, error: ClientError) -> anyhow::Error {
        let asked = self.known().bootstrap;
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
                anyhow!("a record has {size} bytes; this command sends at most {limit} bytes")
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

    /// An error about something that is neither a topic nor a group: `subject` in words.
    pub fn explain_subject(&self, subject: &str, error: ClientError) -> anyhow::Error {
        match error {
            ClientError::Broker { code, message, .. } => anyhow!("{subject}: {message} ({code})"),
            ClientError::UnknownBroker { .. } => anyhow!("{subject}: the cluster has no such broker at the moment"),
            other => self.explain(other),
        }
    }

    /// An error about one group.
    pub fn explain_group(&self, group: &str, error: ClientError) -> anyhow::Error {
        match (error.code(), error) {
            (Some(ErrorCode::GROUP_ID_NOT_FOUND), _) => {
                anyhow!("group {group} does not exist: `mainstem group list` shows the groups that exist")
            }
            (Some(ErrorCode::NON_EMPTY_GROUP), _) => anyhow!(
                "group {group} has members: stop its consumers first; `mainstem group describe {group}` shows them \
                 (NON_EMPTY_GROUP)"
            ),
            (Some(ErrorCode::UNKNOWN_MEMBER_ID), _) => anyhow!(
                "group {group} has members, and offsets can only be set while it has none: stop its consumers first \
                 (UNKNOWN_MEMBER_ID)"
            ),
            (Some(ErrorCode::GROUP_SUBSCRIBED_TO_TOPIC), _) => anyhow!(
                "group {group} is subscribed to the topic, and its offsets there are in use: stop its consumers first \
                 (GROUP_SUBSCRIBED_TO_TOPIC)"
            ),
            (Some(_), ClientError::Broker { code, message, .. }) => anyhow!("group {group}: {message} ({code})"),
            (_, other) => self.explain(other),
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

pub fn parse_bootstrap(text: &str) -> Result<String, String> {
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

pub fn parse_timeout(text: &str) -> Result<Duration, String> {
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
