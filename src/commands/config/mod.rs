//! `mainstem config`: settings of topics, brokers, loggers and groups.

mod alter;
mod describe;

use clap::{Args, Subcommand};
use mainstem_client::{ConfigResource, ConfigSource};

pub use alter::Changes;
pub use describe::{JsonSetting, settings_of, table_of};

const EXAMPLES: &str = "\
Examples:
  mainstem config describe --topic orders
  mainstem config describe --broker 1 --all --synonyms
  mainstem config alter --broker-defaults --set log.retention.hours=24
  mainstem config alter --topic orders --append cleanup.policy=compact --dry-run";

/// Show and change the settings of running brokers.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, arg_required_else_help = true)]
pub struct Config {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    Describe(describe::Describe),
    Alter(alter::Alter),
}

impl Config {
    pub fn run(self) -> anyhow::Result<()> {
        super::runtime()?.block_on(async {
            match self.action {
                Action::Describe(describe) => describe.run().await,
                Action::Alter(alter) => alter.run().await,
            }
        })
    }
}

/// Whose settings.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct Whose {
    /// A topic
    #[arg(long, value_name = "NAME")]
    topic: Option<String>,
    /// One broker, by its node id
    #[arg(long, value_name = "ID")]
    broker: Option<i32>,
    /// The defaults of all brokers
    #[arg(long)]
    broker_defaults: bool,
    /// The log levels of one broker, by its node id
    #[arg(long, value_name = "ID")]
    broker_logger: Option<i32>,
    /// A group
    #[arg(long, value_name = "NAME")]
    group: Option<String>,
}

impl Whose {
    fn resource(&self) -> ConfigResource {
        match self {
            Whose { topic: Some(name), .. } => ConfigResource::Topic(name.clone()),
            Whose { broker: Some(node), .. } => ConfigResource::Broker(*node),
            Whose { broker_logger: Some(node), .. } => ConfigResource::BrokerLogger(*node),
            Whose { group: Some(name), .. } => ConfigResource::Group(name.clone()),
            // One of them is given, and no other is left.
            _ => ConfigResource::BrokerDefaults,
        }
    }
}

/// Kind and name of a resource, as JSON tells them.
fn kind_and_name(resource: &ConfigResource) -> (&'static str, Option<String>) {
    match resource {
        ConfigResource::Topic(name) => ("topic", Some(name.clone())),
        ConfigResource::Broker(node) => ("broker", Some(node.to_string())),
        ConfigResource::BrokerDefaults => ("broker-defaults", None),
        ConfigResource::BrokerLogger(node) => ("broker-logger", Some(node.to_string())),
        ConfigResource::Group(name) => ("group", Some(name.clone())),
    }
}

fn in_words(resource: &ConfigResource) -> String {
    match resource {
        ConfigResource::BrokerDefaults => "the brokers' defaults".to_owned(),
        ConfigResource::BrokerLogger(node) => format!("the loggers of broker {node}"),
        other => {
            let (kind, name) = kind_and_name(other);
            format!("{kind} {}", name.unwrap_or_default())
        }
    }
}

/// Where a value comes from, as JSON and tables tell it.
pub fn source_name(source: ConfigSource) -> &'static str {
    match source {
        ConfigSource::Topic => "topic",
        ConfigSource::Broker => "broker",
        ConfigSource::BrokerDefaults => "broker-defaults",
        ConfigSource::ServerProperties => "server-properties",
        ConfigSource::Default => "default",
        ConfigSource::BrokerLogger => "broker-logger",
        ConfigSource::Group => "group",
        ConfigSource::Other(_) => "other",
    }
}
