//! Read and change configurations of topics and brokers.

use mainstem_kafka_wire::messages::describe_configs_request::DescribeConfigsResource;
use mainstem_kafka_wire::messages::describe_configs_response::DescribeConfigsSynonym;
use mainstem_kafka_wire::messages::incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig};
use mainstem_kafka_wire::messages::{
    DescribeConfigsRequest, DescribeConfigsResponse, IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse,
};
use mainstem_kafka_wire::{ErrorCode, Message};
use mainstem_types::NodeId;

use crate::client::Client;
use crate::connection::Response;
use crate::error::ClientError;

/// Whose configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConfigResource {
    Topic(String),
    /// One broker by its node id.
    Broker(i32),
    /// The dynamic defaults of all brokers.
    BrokerDefaults,
    /// The levels of one broker's loggers.
    BrokerLogger(i32),
    /// One group (Kafka 3.7 and later).
    Group(String),
}

impl ConfigResource {
    fn kind(&self) -> i8 {
        match self {
            ConfigResource::Topic(_) => 2,
            ConfigResource::Broker(_) | ConfigResource::BrokerDefaults => 4,
            ConfigResource::BrokerLogger(_) => 8,
            ConfigResource::Group(_) => 32,
        }
    }

    fn name(&self) -> String {
        match self {
            ConfigResource::Topic(name) | ConfigResource::Group(name) => name.clone(),
            ConfigResource::Broker(node) | ConfigResource::BrokerLogger(node) => node.to_string(),
            ConfigResource::BrokerDefaults => String::new(),
        }
    }

    /// The node that alone can answer, if there is one.
    fn node(&self) -> Option<NodeId> {
        match self {
            ConfigResource::Broker(node) | ConfigResource::BrokerLogger(node) => Some(NodeId(*node)),
            _ => None,
        }
    }

    fn in_words(&self) -> String {
        match self {
            ConfigResource::Topic(name) => format!("topic {name}"),
            ConfigResource::Broker(node) => format!("broker {node}"),
            ConfigResource::BrokerDefaults => "the brokers' defaults".to_owned(),
            ConfigResource::BrokerLogger(node) => format!("the loggers of broker {node}"),
            ConfigResource::Group(name) => format!("group {name}"),
        }
    }
}

/// Where a value comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ConfigSource {
    Topic,
    Broker,
    BrokerDefaults,
    ServerProperties,
    Default,
    BrokerLogger,
    Group,
    Other(i8),
}

impl ConfigSource {
    fn of(number: i8) -> Self {
        match number {
            1 => ConfigSource::Topic,
            2 => ConfigSource::Broker,
            3 => ConfigSource::BrokerDefaults,
            4 => ConfigSource::ServerProperties,
            5 => ConfigSource::Default,
            6 => ConfigSource::BrokerLogger,
            8 => ConfigSource::Group,
            other => ConfigSource::Other(other),
        }
    }
}

/// One setting, as it holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigEntry {
    pub name: String,
    /// `None` when it is secret, or has no value.
    pub value: Option<String>,
    pub source: ConfigSource,
    pub read_only: bool,
    pub sensitive: bool,
    /// Every place that gives the setting a value, the one that counts first.
    pub synonyms: Vec<ConfigSynonym>,
}

/// One of the places where a setting has a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigSynonym {
    /// Brokers call a topic's setting by other names.
    pub name: String,
    pub value: Option<String>,
    pub source: ConfigSource,
}

/// A change of one setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConfigChange {
    Set {
        name: String,
        value: String,
    },
    /// Back to the default.
    Delete {
        name: String,
    },
    /// Adds to a list.
    Append {
        name: String,
        value: String,
    },
    /// Takes out of a list.
    Subtract {
        name: String,
        value: String,
    },
}

impl ConfigChange {
    pub fn set(name: &str, value: &str) -> Self {
        ConfigChange::Set { name: name.to_owned(), value: value.to_owned() }
    }

    pub fn delete(name: &str) -> Self {
        ConfigChange::Delete { name: name.to_owned() }
    }

    fn wire(&self) -> AlterableConfig<'_> {
        let (name, config_operation, value) = match self {
            ConfigChange::Set { name, value } => (name, 0, Some(value)),
            ConfigChange::Delete { name } => (name, 1, None),
            ConfigChange::Append { name, value } => (name, 2, Some(value)),
            ConfigChange::Subtract { name, value } => (name, 3, Some(value)),
        };
        let value = value.map(|value| value.as_str().into());
        AlterableConfig { name: name.as_str().into(), config_operation, value }
    }
}

impl Client {
    /// All settings of a resource, by name.
    pub async fn describe_configs(&self, resource: &ConfigResource) -> Result<Vec<ConfigEntry>, ClientError> {
        const API: &str = "DescribeConfigs";
        let wanted = DescribeConfigsResource {
            resource_type: resource.kind(),
            resource_name: resource.name().into(),
            configuration_keys: None,
        };
        let request = DescribeConfigsRequest { resources: vec![wanted], include_synonyms: true, ..Default::default() };
        let read = |response: &Response| {
            let answer: DescribeConfigsResponse<'_> = response.decode()?;
            let result = answer.results.first().ok_or_else(|| response.missing(resource.in_words()))?;
            let code = ErrorCode(result.error_code);
            if code.is_error() {
                let message = result.error_message.as_deref();
                return Err(ClientError::of_broker(API, resource.in_words(), code, message));
            }
            let entries = result.configs.iter().map(|config| ConfigEntry {
                name: config.name.to_string(),
                value: config.value.as_deref().map(str::to_owned),
                source: ConfigSource::of(config.config_source),
                read_only: config.read_only,
                sensitive: config.is_sensitive,
                synonyms: config.synonyms.iter().map(synonym).collect(),
            });
            let mut entries: Vec<_> = entries.collect();
            entries.sort_by(|a, b| a.name.cmp(&b.name));
            Ok(entries)
        };
        self.ask_about(resource, &request, read).await
    }

    /// Changes settings of a resource, all or none. With `validate_only` nothing changes and the same errors come.
    pub async fn alter_configs(
        &self,
        resource: &ConfigResource,
        changes: &[ConfigChange],
        validate_only: bool,
    ) -> Result<(), ClientError> {
        const API: &str = "IncrementalAlterConfigs";
        let altered = AlterConfigsResource {
            resource_type: resource.kind(),
            resource_name: resource.name().into(),
            configs: changes.iter().map(ConfigChange::wire).collect(),
        };
        let request = IncrementalAlterConfigsRequest { resources: vec![altered], validate_only };
        self.ask_about(resource, &request, |response| {
            let answer: IncrementalAlterConfigsResponse<'_> = response.decode()?;
            let result = answer.responses.first().ok_or_else(|| response.missing(resource.in_words()))?;
            match ErrorCode(result.error_code) {
                ErrorCode::NONE => Ok(()),
                code => {
                    let message = result.error_message.as_deref();
                    Err(ClientError::of_broker(API, resource.in_words(), code, message))
                }
            }
        })
        .await
    }

    /// Asks the broker whose settings they are, else the controller.
    async fn ask_about<'r, M: Message<'r>, T>(
        &self,
        resource: &ConfigResource,
        request: &M,
        read: impl Fn(&Response) -> Result<T, ClientError>,
    ) -> Result<T, ClientError> {
        match resource.node() {
            Some(node) => read(&self.node(node).await?.call(request).await?),
            None => self.ask_controller(request, read).await,
        }
    }
}

fn synonym(synonym: &DescribeConfigsSynonym<'_>) -> ConfigSynonym {
    ConfigSynonym {
        name: synonym.name.to_string(),
        value: synonym.value.as_deref().map(str::to_owned),
        source: ConfigSource::of(synonym.source),
    }
}
