//! The configuration of this node: the file, the changes while running, and the typed result.

use std::collections::BTreeMap;

use super::ConfigError;
use super::definition::{ConfigDefinition, Effect, UpdateMode};
use super::durability::{self, DURABILITY};
use super::error::hint;
use super::listeners::{Listener, SecurityProtocol, invalid, read_listeners, read_protocol_map};
use super::nearest::nearest_setting;
use super::section_values;
use super::sections::{
    CleanerConfig, ConnectionConfig, FetchConfig, GroupConfig, LogConfig, MetadataLogConfig, OffsetsConfig,
    ProducerStateConfig, ThreadConfig, TopicCreationConfig,
};
use super::table::{broker_config_definition, broker_config_definitions};
use super::topic_config::{TopicConfig, Values};
use super::without_effect::reason_without_effect;

/// Something in the configuration file that the operator should know and that does not stop the start.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigWarning {
    #[error("{key} is accepted, and has no effect: {reason}")]
    NoEffect { key: String, reason: &'static str },
    #[error(
        "message.max.bytes ({message}) is larger than socket.request.max.bytes ({request}): the broker cannot receive such batches"
    )]
    MessageLargerThanRequest { message: i32, request: i32 },
    /// `place` is the file and the line.
    #[error("{key} is a setting of neither Kafka nor Mainstem, and is ignored{} ({place})", hint(.suggestion))]
    Unknown { key: String, place: String, suggestion: Option<&'static str> },
    #[error("the listener {name} is for Kafka's controllers; the broker does not open it")]
    ControllerListener { name: String },
}

/// All server properties, parsed and cross-checked. Cheap enough to clone on a change, not per request: share it.
#[derive(Debug, Clone, PartialEq)]
pub struct BrokerConfig {
    /// `node.id`, or its older name `broker.id`.
    pub node_id: i32,
    /// `broker.rack`
    pub rack: Option<String>,
    /// Those to open. At least one.
    pub listeners: Vec<Listener>,
    /// What clients are told, one for each listener, in the same order. Port 0 means "the port that was bound".
    pub advertised_listeners: Vec<Listener>,
    pub connections: ConnectionConfig,
    pub threads: ThreadConfig,
    pub log: LogConfig,
    pub cleaner: CleanerConfig,
    pub metadata_log: MetadataLogConfig,
    pub topics: TopicCreationConfig,
    pub fetch: FetchConfig,
    pub groups: GroupConfig,
    pub offsets: OffsetsConfig,
    pub producer_state: ProducerStateConfig,
    pub warnings: Vec<ConfigWarning>,
    pub(super) fixed: BTreeMap<String, String>,
    pub(super) cluster_wide: BTreeMap<String, String>,
    pub(super) own: BTreeMap<String, String>,
}

/// Pools whose size can change while the broker runs.
const THREAD_POOLS: [&str; 6] = [
    "background.threads",
    "log.cleaner.threads",
    "num.io.threads",
    "num.network.threads",
    "num.recovery.threads.per.data.dir",
    "num.replica.fetchers",
];

impl BrokerConfig {
    /// Reads the properties of a configuration file. Unknown keys, bad values and contradictions are errors that name
    /// the key, the value and the reason.
    pub fn parse(properties: &BTreeMap<String, String>) -> Result<BrokerConfig, ConfigError> {
        let mut fixed = properties.clone();
        // node.id and broker.id are one property under two names.
        if let Some(id) = fixed.get("node.id").or(fixed.get("broker.id")).cloned() {
            let other = if fixed.contains_key("node.id") { "broker.id" } else { "node.id" };
            match fixed.get(other) {
                Some(value) if *value != id => {
                    let reason = "node.id and broker.id are two names of one property and must agree";
                    return Err(invalid("node.id", &id, reason));
                }
                _ => fixed.insert(other.to_string(), id),
            };
        }
        let mut config = Self::build(fixed, BTreeMap::new(), BTreeMap::new())?;
        durability::check_default(config.value(DURABILITY), config.log.memory_forced)?;
        config.warnings = warnings(properties, &config);
        Ok(config)
    }

    /// Whether a configuration file may have the key: a server property, or any key of one listener alone.
    pub fn knows(key: &str) -> bool {
        broker_config_definition(key).is_some() || key.starts_with("listener.name.")
    }

    /// The same file with other settings made while running: for the whole cluster, and for this node. Keys that cannot
    /// be set there are passed over: a Kafka that used the folder may know properties that Mainstem does not.
    pub fn with_dynamic(
        &self,
        cluster_wide: &BTreeMap<String, String>,
        own: &BTreeMap<String, String>,
    ) -> Result<BrokerConfig, ConfigError> {
        let mut config = Self::build(self.fixed.clone(), settable(cluster_wide, false), settable(own, true))?;
        config.warnings = self.warnings.clone();
        Ok(config)
    }

    /// Says what clients are told, complete (real ports, no empty hosts), once the listeners are bound. Stays through
    /// changes made while running.
    pub fn advertise(&mut self, listeners: Vec<Listener>) {
        let text: Vec<String> = listeners.iter().map(ToString::to_string).collect();
        self.fixed.insert("advertised.listeners".to_string(), text.join(","));
        self.advertised_listeners = listeners;
    }

    /// Checks one change made while running. `for_one_broker`: the change names a broker, else it is for all.
    pub fn check_dynamic(key: &str, value: Option<&str>, for_one_broker: bool) -> Result<(), ConfigError> {
        let definition = broker_config_definition(key).ok_or_else(|| unknown(key))?;
        match definition.update_mode {
            UpdateMode::ReadOnly => return Err(ConfigError::ReadOnly { key: key.to_string() }),
            UpdateMode::PerBroker if !for_one_broker => {
                return Err(ConfigError::PerBrokerOnly { key: key.to_string() });
            }
            UpdateMode::PerBroker | UpdateMode::ClusterWide => {}
        }
        value.map(|value| definition.parse(value)).transpose().map(|_| ())
    }

    /// Whether a running node with this configuration may take the new value, as Kafka judges it: pools of threads at
    /// most double or halve in one step, and somebody may connect. Records are left in memory only where that is
    /// forced.
    pub fn check_change(&self, key: &str, value: Option<&str>) -> Result<(), ConfigError> {
        if key == DURABILITY {
            return durability::check_default(value, self.log.memory_forced);
        }
        let parsed = |text: Option<&str>| text.and_then(|text| text.trim().parse::<i64>().ok());
        let (Some(value), Some(current)) = (parsed(value), parsed(self.value(key))) else { return Ok(()) };
        let refused =
            |reason: String| Err(ConfigError::Conflict { key: key.to_string(), value: value.to_string(), reason });
        match key {
            _ if THREAD_POOLS.contains(&key) && value < 1 => refused("at least one thread is needed".to_string()),
            _ if THREAD_POOLS.contains(&key) && value > current.saturating_mul(2) => {
                refused(format!("value should not be greater than double the current value {current}"))
            }
            _ if THREAD_POOLS.contains(&key) && value < current / 2 => {
                refused(format!("value should be at least half the current value {current}"))
            }
            "max.connections" if value < 1 => refused("nobody could connect to take it back".to_string()),
            _ => Ok(()),
        }
    }

    /// Whether the file or a later change says something about the key.
    pub fn is_set(&self, key: &str) -> bool {
        self.explicit(key).is_some()
    }

    /// The value of a property as text; `None` for Kafka's null and for unknown keys.
    pub fn value(&self, key: &str) -> Option<&str> {
        self.explicit(key).or_else(|| broker_config_definition(key).and_then(|definition| definition.default))
    }

    fn explicit(&self, key: &str) -> Option<&str> {
        [&self.own, &self.cluster_wide, &self.fixed].into_iter().find_map(|layer| layer.get(key)).map(String::as_str)
    }

    /// The value that a topic setting has when the topic does not set it.
    pub(super) fn topic_default(&self, definition: &ConfigDefinition) -> Option<String> {
        let set = definition.synonyms.iter().find(|synonym| self.is_set(synonym.name));
        let Some(synonym) = set else { return definition.default.map(str::to_string) };
        let text = self.value(synonym.name)?;
        if synonym.multiplier == 1 {
            return Some(text.trim().to_string());
        }
        // Any negative time is "for ever"; a product that does not fit is as good as never.
        let value: i64 = text.trim().parse().ok()?;
        Some(if value < 0 { -1 } else { value.saturating_mul(synonym.multiplier) }.to_string())
    }

    fn build(
        fixed: BTreeMap<String, String>,
        cluster_wide: BTreeMap<String, String>,
        own: BTreeMap<String, String>,
    ) -> Result<BrokerConfig, ConfigError> {
        if let Some(key) = fixed.keys().find(|key| !Self::knows(key)) {
            return Err(unknown(key));
        }
        let mut values = BTreeMap::new();
        for definition in broker_config_definitions() {
            let set = [&own, &cluster_wide, &fixed].into_iter().find_map(|layer| layer.get(definition.name));
            let value = match set {
                Some(text) => Some(definition.parse(text)?),
                None => definition.default_value(),
            };
            if let Some(value) = value {
                values.insert(definition.name, value);
            }
        }
        let values = Values(values);
        cross_check(&values)?;
        let (listeners, advertised_listeners) = read_addresses(&values)?;
        let mut config = BrokerConfig {
            node_id: values.int("node.id"),
            rack: some_text(&values, "broker.rack"),
            listeners,
            advertised_listeners,
            connections: section_values::connections(&values)?,
            threads: section_values::threads(
                &values,
                [&fixed, &cluster_wide, &own].iter().any(|layer| layer.contains_key("num.network.threads")),
            ),
            log: section_values::log(&values)?,
            cleaner: section_values::cleaner(&values),
            metadata_log: section_values::metadata_log(&values),
            topics: section_values::topics(&values),
            fetch: section_values::fetch(&values),
            groups: section_values::groups(&values),
            offsets: section_values::offsets(&values),
            producer_state: section_values::producer_state(&values),
            warnings: Vec::new(),
            fixed,
            cluster_wide,
            own,
        };
        config.log.topic_defaults = TopicConfig::from_values(|definition| config.topic_default(definition))?;
        Ok(config)
    }
}

fn settable(layer: &BTreeMap<String, String>, for_one_broker: bool) -> BTreeMap<String, String> {
    let keep = |key: &str| match broker_config_definition(key).map(|definition| definition.update_mode) {
        Some(UpdateMode::ClusterWide) => true,
        Some(UpdateMode::PerBroker) => for_one_broker,
        Some(UpdateMode::ReadOnly) | None => false,
    };
    layer.iter().filter(|(key, _)| keep(key)).map(|(key, value)| (key.clone(), value.clone())).collect()
}

fn unknown(key: &str) -> ConfigError {
    ConfigError::UnknownBrokerKey { key: key.to_string(), suggestion: nearest_setting(key) }
}

fn warnings(properties: &BTreeMap<String, String>, config: &BrokerConfig) -> Vec<ConfigWarning> {
    let warning = |key: &String| {
        let reason = reason_without_effect(key).unwrap_or("listeners have no settings of their own");
        ConfigWarning::NoEffect { key: key.clone(), reason }
    };
    let no_effect = |key: &&String| broker_config_definition(key).is_none_or(|row| row.effect == Effect::None);
    let mut warnings: Vec<ConfigWarning> = properties.keys().filter(no_effect).map(warning).collect();
    let (message, request) = (config.log.topic_defaults.max_message_bytes, config.connections.request_max_bytes);
    if message > request {
        warnings.push(ConfigWarning::MessageLargerThanRequest { message, request });
    }
    let listed = config.value("listeners").unwrap_or_default().split(',');
    for name in listed.filter_map(|item| item.trim().split_once("://")).map(|(name, _)| name.to_ascii_uppercase()) {
        if !config.listeners.iter().any(|listener| listener.name == name) {
            warnings.push(ConfigWarning::ControllerListener { name });
        }
    }
    warnings
}

/// Limits that only make sense together.
fn cross_check(values: &Values) -> Result<(), ConfigError> {
    let conflict = |key: &str, reason: String| {
        Err(ConfigError::Conflict { key: key.to_string(), value: values.long(key).to_string(), reason })
    };
    if values.int("group.min.session.timeout.ms") > values.int("group.max.session.timeout.ms") {
        let most = values.int("group.max.session.timeout.ms");
        return conflict(
            "group.min.session.timeout.ms",
            format!("it is more than group.max.session.timeout.ms ({most})"),
        );
    }
    for key in ["log.retention.ms", "log.retention.minutes", "log.retention.hours"] {
        if values.0.contains_key(key) && values.long(key) == 0 {
            return conflict(key, "it must be -1 (for ever) or at least 1".to_string());
        }
    }
    if values.int("max.connections.per.ip") == 0 && values.text("max.connections.per.ip.overrides").is_empty() {
        let reason = "without max.connections.per.ip.overrides nobody could connect".to_string();
        return conflict("max.connections.per.ip", reason);
    }
    if values.int("default.replication.factor") < 1 {
        return conflict("default.replication.factor", "it must be at least 1".to_string());
    }
    let buffer = values.long("mainstem.buffer.max.bytes");
    if i64::from(values.int("socket.request.max.bytes")) > buffer {
        let reason =
            format!("it is more than mainstem.buffer.max.bytes ({buffer}), so such a request could never be read");
        return conflict("socket.request.max.bytes", reason);
    }
    let roles = values.list("process.roles");
    if !roles.iter().any(|role| role == "broker") {
        return Err(invalid("process.roles", &roles.join(","), "a node without the role broker is not supported"));
    }
    Ok(())
}

fn some_text(values: &Values, key: &str) -> Option<String> {
    Some(values.text(key).to_string()).filter(|text| !text.is_empty())
}

fn read_addresses(values: &Values) -> Result<(Vec<Listener>, Vec<Listener>), ConfigError> {
    let protocols = read_protocol_map(values.text("listener.security.protocol.map"))?;
    let controller: Vec<String> =
        values.list("controller.listener.names").iter().map(|name| name.to_ascii_uppercase()).collect();
    let text = |items: &[String]| items.join(",");
    // Controller listeners of a Kafka file are left out before they are read: their protocol does not matter.
    let is_controller = |item: &String| {
        item.split_once("://")
            .is_some_and(|(name, _)| controller.iter().any(|other| *other == name.to_ascii_uppercase()))
    };
    let served =
        |key: &str| -> Vec<String> { values.list(key).iter().filter(|i| !is_controller(i)).cloned().collect() };
    let listeners = read_listeners("listeners", &served("listeners"), &protocols)?;
    let all = text(values.list("listeners"));
    if listeners.is_empty() {
        return Err(invalid("listeners", &all, "at least one address for clients is needed"));
    }
    if let Some(listener) = listeners.iter().find(|listener| listener.protocol != SecurityProtocol::Plaintext) {
        let reason = format!("{} needs a security protocol that is not supported yet: use PLAINTEXT", listener.name);
        return Err(invalid("listeners", &all, &reason));
    }
    let advertised = read_listeners("advertised.listeners", &served("advertised.listeners"), &protocols)?;
    let advertised_text = text(values.list("advertised.listeners"));
    for listener in &advertised {
        if !listeners.iter().any(|other| other.name == listener.name) {
            let reason = format!("listeners has no {}", listener.name);
            return Err(invalid("advertised.listeners", &advertised_text, &reason));
        }
        // No host at all is the name of this machine, as in Kafka.
        if matches!(listener.host.as_str(), "0.0.0.0" | "::") {
            let reason = "clients cannot connect to \"every interface\": give a host name or an address";
            return Err(invalid("advertised.listeners", &advertised_text, reason));
        }
    }
    let told = |listener: &Listener| {
        let advertised = advertised.iter().find(|other| other.name == listener.name);
        advertised.cloned().unwrap_or_else(|| listener.clone())
    };
    let advertised_listeners = listeners.iter().map(told).collect();
    Ok((listeners, advertised_listeners))
}

#[cfg(test)]
#[path = "broker_config_tests.rs"]
mod tests;
