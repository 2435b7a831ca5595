//! Collects the settings of a node: file, environment, command line, later ones over earlier ones.
//!
//! In a `.properties` file an unknown key is a warning: Kafka ignores it, and such files have keys of authorizers,
//! metrics reporters and vendors. In all other sources it is an error.
//!
//! Each value keeps its source, so that an error can say where it came from. What keys mean is the business of
//! `mainstem-metadata`; here they are text.

mod environment;
mod properties_file;
mod toml_file;

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use mainstem_metadata::config::{BrokerConfig, ConfigError, ConfigWarning, broker_config_definitions, nearest_setting};

/// The end of the name of a Kafka file.
const PROPERTIES: &str = "properties";

/// Where a value came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    File {
        path: PathBuf,
        line: usize,
    },
    Environment {
        name: String,
    },
    /// Nobody set it.
    Default,
    /// The argument, for example `--data-dir`.
    CommandLine {
        argument: &'static str,
    },
}

impl Source {
    fn is_kafka_s_file(&self) -> bool {
        matches!(self, Source::File { path, .. } if path.extension().is_some_and(|extension| extension == PROPERTIES))
    }
}

impl fmt::Display for Source {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::File { path, line } => write!(formatter, "{} line {line}", path.display()),
            Source::Environment { name } => write!(formatter, "environment variable {name}"),
            Source::Default => write!(formatter, "default"),
            Source::CommandLine { argument } => write!(formatter, "command line, {argument}"),
        }
    }
}

/// One value and its source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    pub value: String,
    pub source: Source,
}

/// All settings of a node by key.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Settings {
    values: BTreeMap<String, Setting>,
}

/// Why settings could not be collected.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    #[error("{}: cannot read the configuration file: {error}", .path.display())]
    Read { path: PathBuf, error: io::Error },
    #[error("{}: the name of a configuration file must end in .toml or .properties", .path.display())]
    UnknownKind { path: PathBuf },
    #[error("{} line {line}: {reason}", .path.display())]
    Syntax { path: PathBuf, line: usize, reason: String },
    #[error("{} line {line}: {key} is set twice, first in line {first}", .path.display())]
    Twice { path: PathBuf, key: String, line: usize, first: usize },
    #[error("--set {0}: it must be --set key=value")]
    NoEqualSign(String),
    #[error(
        "{name} is set in the environment, but no setting has this name{} (write a setting in capitals, with underscores for dots)",
        meant(.suggestion)
    )]
    UnknownVariable { name: String, suggestion: Option<String> },
}

fn meant(suggestion: &Option<String>) -> String {
    suggestion.as_ref().map(|name| format!(": did you mean {name}?")).unwrap_or_default()
}

/// The settings of the command line.
#[derive(Debug, Clone, Default)]
pub struct Arguments {
    /// `--config`
    pub config: Option<PathBuf>,
    /// `--data-dir`
    pub data_dir: Option<String>,
    /// `--listen`: `HOST:PORT`, or a whole `NAME://HOST:PORT`.
    pub listen: Option<String>,
    /// `--set key=value`, in order.
    pub set: Vec<String>,
}

impl Settings {
    /// Collects everything. `environment` are all variables of the process; `known_keys` are the keys that variables
    /// can name.
    pub fn collect(
        arguments: &Arguments,
        environment: impl IntoIterator<Item = (String, String)>,
        known_keys: impl IntoIterator<Item = &'static str>,
    ) -> Result<Settings, SettingsError> {
        let mut settings = Settings::default();
        if let Some(path) = &arguments.config {
            settings.read_file(path)?;
        }
        for (key, name, value) in environment::settings(environment, known_keys)? {
            settings.insert(key, value, Source::Environment { name });
        }
        for pair in &arguments.set {
            let (key, value) = pair.split_once('=').ok_or_else(|| SettingsError::NoEqualSign(pair.clone()))?;
            settings.insert(key.trim().to_owned(), value.trim().to_owned(), Source::CommandLine { argument: "--set" });
        }
        if let Some(data_dir) = &arguments.data_dir {
            settings.insert("log.dirs".to_owned(), data_dir.clone(), Source::CommandLine { argument: "--data-dir" });
        }
        if let Some(listen) = &arguments.listen {
            let value = if listen.contains("://") { listen.clone() } else { format!("PLAINTEXT://{listen}") };
            settings.insert("listeners".to_owned(), value, Source::CommandLine { argument: "--listen" });
        }
        Ok(settings)
    }

    fn read_file(&mut self, path: &Path) -> Result<(), SettingsError> {
        let not_read = |error| SettingsError::Read { path: path.to_owned(), error };
        let bytes = std::fs::read(path).map_err(not_read)?;
        let entries = match path.extension().and_then(|extension| extension.to_str()) {
            Some("toml") => {
                toml_file::parse(&String::from_utf8(bytes).map_err(|error| not_read(io::Error::other(error)))?)
            }
            Some(PROPERTIES) => properties_file::parse(&properties_file::text(bytes)),
            _ => return Err(SettingsError::UnknownKind { path: path.to_owned() }),
        };
        let entries = entries.map_err(|error| error.in_file(path))?;
        for entry in entries {
            self.insert(entry.key, entry.value, Source::File { path: path.to_owned(), line: entry.line });
        }
        Ok(())
    }

    fn insert(&mut self, key: String, value: String, source: Source) {
        self.values.insert(key, Setting { value, source });
    }

    /// Sets a value unless it is set.
    pub fn set_default(&mut self, key: &str, value: &str) {
        let default = || Setting { value: value.to_owned(), source: Source::Default };
        self.values.entry(key.to_owned()).or_insert_with(default);
    }

    pub fn get(&self, key: &str) -> Option<&Setting> {
        self.values.get(key)
    }

    /// Keys and values alone.
    pub fn properties(&self) -> BTreeMap<String, String> {
        self.values.iter().map(|(key, setting)| (key.clone(), setting.value.clone())).collect()
    }
}

/// Settings that the broker does not accept, with their source.
#[derive(Debug, thiserror::Error)]
#[error("{error}{}", place(.source_of_value))]
pub struct ConfigRefused {
    pub error: ConfigError,
    pub source_of_value: Option<Source>,
}

fn place(source: &Option<Source>) -> String {
    source.as_ref().map(|source| format!(" ({source})")).unwrap_or_default()
}

/// Reads the collected settings. Unknown keys of a `.properties` file are among the warnings.
pub fn read_config(settings: &Settings) -> Result<BrokerConfig, ConfigRefused> {
    let mut properties = settings.properties();
    let mut ignored = Vec::new();
    for (key, setting) in &settings.values {
        if setting.source.is_kafka_s_file() && !BrokerConfig::knows(key) {
            properties.remove(key);
            let (key, place) = (key.clone(), setting.source.to_string());
            ignored.push(ConfigWarning::Unknown { suggestion: nearest_setting(&key), key, place });
        }
    }
    let mut config = BrokerConfig::parse(&properties).map_err(|error| {
        let source_of_value = settings.get(key_of(&error)).map(|setting| setting.source.clone());
        ConfigRefused { error, source_of_value }
    })?;
    config.warnings.append(&mut ignored);
    Ok(config)
}

fn key_of(error: &ConfigError) -> &str {
    match error {
        ConfigError::InvalidValue { key, .. }
        | ConfigError::UnknownTopicKey { key }
        | ConfigError::UnknownBrokerKey { key, .. }
        | ConfigError::Conflict { key, .. }
        | ConfigError::ReadOnly { key }
        | ConfigError::PerBrokerOnly { key }
        | ConfigError::NullValue { key } => key,
    }
}

/// The names of all server properties.
pub fn setting_names() -> impl Iterator<Item = &'static str> {
    broker_config_definitions().iter().map(|definition| definition.name)
}

/// One entry of a file.
#[derive(Debug, PartialEq, Eq)]
struct Entry {
    key: String,
    value: String,
    line: usize,
}

/// The fault of a file, before its path is known.
#[derive(Debug, PartialEq, Eq)]
enum FileError {
    Syntax { line: usize, reason: String },
    Twice { key: String, line: usize, first: usize },
}

impl FileError {
    fn in_file(self, path: &Path) -> SettingsError {
        let path = path.to_owned();
        match self {
            FileError::Syntax { line, reason } => SettingsError::Syntax { path, line, reason },
            FileError::Twice { key, line, first } => SettingsError::Twice { path, key, line, first },
        }
    }
}

#[cfg(test)]
mod tests;
