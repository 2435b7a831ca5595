//! A configuration key: its type, its default, the values that it accepts.

use super::ConfigError;

/// The type of a value, as DescribeConfigs names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConfigKind {
    Boolean,
    String,
    Int,
    Short,
    Long,
    Double,
    List,
    Class,
    Password,
}

impl ConfigKind {
    /// The number in DescribeConfigs (version 3 on).
    pub fn kafka_id(self) -> i8 {
        match self {
            ConfigKind::Boolean => 1,
            ConfigKind::String => 2,
            ConfigKind::Int => 3,
            ConfigKind::Short => 4,
            ConfigKind::Long => 5,
            ConfigKind::Double => 6,
            ConfigKind::List => 7,
            ConfigKind::Class => 8,
            ConfigKind::Password => 9,
        }
    }

    /// Shown as null, never logged.
    pub fn is_sensitive(self) -> bool {
        self == ConfigKind::Password
    }

    fn java_name(self) -> &'static str {
        match self {
            ConfigKind::Boolean => "BOOLEAN",
            ConfigKind::String => "STRING",
            ConfigKind::Int => "INT",
            ConfigKind::Short => "SHORT",
            ConfigKind::Long => "LONG",
            ConfigKind::Double => "DOUBLE",
            ConfigKind::List => "LIST",
            ConfigKind::Class => "CLASS",
            ConfigKind::Password => "PASSWORD",
        }
    }
}

/// Which values of its type a key accepts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Validator {
    Any,
    AtLeast(i64),
    Between(i64, i64),
    BetweenOr(i64, i64, i64),
    BetweenReal(f64, f64),
    OneOf(&'static [&'static str]),
    OneOfIgnoringCase(&'static [&'static str]),
    /// Every item of a list.
    EachOneOf(&'static [&'static str]),
    NonEmpty,
    /// `*`, or `partition:broker` pairs.
    ThrottledReplicas,
}

/// When a server property can change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UpdateMode {
    /// Only with a restart.
    ReadOnly,
    /// While running, for one broker.
    PerBroker,
    /// While running, for one broker or for all.
    ClusterWide,
}

/// Whether Mainstem does anything with the value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    Works,
    /// Accepted, checked, stored and shown, mostly because Kafka has it. A server property of this kind warns at start.
    None,
}

/// A server property that gives a topic setting its default.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Synonym {
    pub name: &'static str,
    /// The topic's value is the server's value times this (hours to milliseconds).
    pub multiplier: i64,
}

/// One row of the table of topic settings, or of the table of server properties.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ConfigDefinition {
    pub name: &'static str,
    pub kind: ConfigKind,
    /// `None` is Kafka's null: no value unless one is given.
    pub default: Option<&'static str>,
    pub validator: Validator,
    pub update_mode: UpdateMode,
    /// Server properties that a topic setting falls back to, the strongest first.
    pub synonyms: &'static [Synonym],
    pub effect: Effect,
    /// Kafka does not show it in descriptions.
    pub internal: bool,
    pub documentation: &'static str,
}

/// A value of the type that its key has.
#[derive(Debug, Clone, PartialEq)]
pub enum ConfigValue {
    Boolean(bool),
    Integer(i64),
    Double(f64),
    Text(String),
    List(Vec<String>),
}

impl ConfigDefinition {
    /// Reads and checks a value as Kafka's `ConfigDef` does: surrounding blanks are ignored, lists are split at commas
    /// and lose their duplicates.
    pub fn parse(&self, text: &str) -> Result<ConfigValue, ConfigError> {
        let value = self.read(text.trim()).map_err(|reason| self.invalid(text, reason))?;
        self.check(&value).map_err(|reason| self.invalid(text, reason))?;
        Ok(value)
    }

    /// The row's default, read. `None` when it has none.
    pub fn default_value(&self) -> Option<ConfigValue> {
        self.default.and_then(|text| self.read(text).ok())
    }

    fn invalid(&self, text: &str, reason: String) -> ConfigError {
        let value = if self.kind.is_sensitive() { "[hidden]" } else { text };
        ConfigError::InvalidValue { key: self.name.to_string(), value: value.to_string(), reason }
    }

    fn read(&self, text: &str) -> Result<ConfigValue, String> {
        let number = || format!("Not a number of type {}", self.kind.java_name());
        let integer = |low: i64, high: i64| {
            let value: i64 = text.strip_prefix('+').unwrap_or(text).parse().map_err(|_| number())?;
            if (low..=high).contains(&value) { Ok(ConfigValue::Integer(value)) } else { Err(number()) }
        };
        match self.kind {
            ConfigKind::Boolean if text.eq_ignore_ascii_case("true") => Ok(ConfigValue::Boolean(true)),
            ConfigKind::Boolean if text.eq_ignore_ascii_case("false") => Ok(ConfigValue::Boolean(false)),
            ConfigKind::Boolean => Err("Expected value to be either true or false".to_string()),
            ConfigKind::Int => integer(i64::from(i32::MIN), i64::from(i32::MAX)),
            ConfigKind::Short => integer(i64::from(i16::MIN), i64::from(i16::MAX)),
            ConfigKind::Long => integer(i64::MIN, i64::MAX),
            ConfigKind::Double => text.parse().map(ConfigValue::Double).map_err(|_| number()),
            ConfigKind::List => Ok(ConfigValue::List(split_list(text))),
            ConfigKind::String | ConfigKind::Class | ConfigKind::Password => Ok(ConfigValue::Text(text.to_string())),
        }
    }

    fn check(&self, value: &ConfigValue) -> Result<(), String> {
        match (self.validator, value) {
            (Validator::AtLeast(low), ConfigValue::Integer(value)) => within(*value, low, i64::MAX),
            (Validator::Between(low, high), ConfigValue::Integer(value)) => within(*value, low, high),
            (Validator::BetweenOr(low, high, other), ConfigValue::Integer(value)) => {
                let fits = *value == other || (low..=high).contains(value);
                if fits { Ok(()) } else { Err(format!("Value must be between {low} and {high} or equal to {other}")) }
            }
            (Validator::BetweenReal(low, high), ConfigValue::Double(value)) => real_within(*value, low, high),
            (Validator::OneOf(names), ConfigValue::Text(text)) => one_of(text, names, false),
            (Validator::OneOfIgnoringCase(names), ConfigValue::Text(text)) => one_of(text, names, true),
            (Validator::EachOneOf(names), ConfigValue::List(items)) => {
                items.iter().try_for_each(|item| one_of(item, names, false))
            }
            (Validator::NonEmpty, ConfigValue::Text(text)) if text.is_empty() => {
                Err("String must be non-empty".to_string())
            }
            (Validator::ThrottledReplicas, ConfigValue::List(items)) => self.throttled(items),
            _ => Ok(()),
        }
    }

    fn throttled(&self, items: &[String]) -> Result<(), String> {
        let pair = |item: &String| {
            let number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            item.split_once(':').is_some_and(|(partition, broker)| number(partition) && number(broker))
        };
        if items.iter().all(pair) || items == ["*"] {
            return Ok(());
        }
        Err(format!("{} must be '*' or a list of partition:broker pairs", self.name))
    }
}

fn within(value: i64, low: i64, high: i64) -> Result<(), String> {
    if value < low {
        return Err(format!("Value must be at least {low}"));
    }
    if value > high { Err(format!("Value must be no more than {high}")) } else { Ok(()) }
}

fn real_within(value: f64, low: f64, high: f64) -> Result<(), String> {
    if value.is_nan() || value < low {
        return Err(format!("Value must be at least {low}"));
    }
    if value > high { Err(format!("Value must be no more than {high}")) } else { Ok(()) }
}

fn one_of(text: &str, names: &[&str], ignore_case: bool) -> Result<(), String> {
    let found = names.iter().any(|name| *name == text || (ignore_case && name.eq_ignore_ascii_case(text)));
    if found { Ok(()) } else { Err(format!("String must be one of: {}", names.join(", "))) }
}

/// Splits at commas, trims, drops empty text and duplicates.
pub(super) fn split_list(text: &str) -> Vec<String> {
    let mut items: Vec<String> = Vec::new();
    if text.trim().is_empty() {
        return items;
    }
    for item in text.split(',').map(str::trim) {
        if !items.iter().any(|known| known == item) {
            items.push(item.to_string());
        }
    }
    items
}

#[cfg(test)]
mod tests {
    use super::super::{broker_config_definition, topic_config_definition};
    use super::*;

    fn refused(key: &str, value: &str) -> String {
        topic_config_definition(key).unwrap().parse(value).unwrap_err().to_string()
    }

    #[test]
    fn messages_name_key_value_and_reason() {
        let cases = [
            ("retention.ms", "abc", "Not a number of type LONG"),
            ("retention.ms", "-2", "Value must be at least -1"),
            ("segment.bytes", "99999999999", "Not a number of type INT"),
            ("cleanup.policy", "foo", "String must be one of: compact, delete"),
            ("preallocate", "yes", "Expected value to be either true or false"),
            ("compression.gzip.level", "0", "Value must be between 1 and 9 or equal to -1"),
            ("min.cleanable.dirty.ratio", "2", "Value must be no more than 1"),
            ("compression.type", "br", "String must be one of: uncompressed, zstd, lz4, snappy, gzip, producer"),
        ];
        for (key, value, reason) in cases {
            assert_eq!(refused(key, value), format!("Invalid value {value} for configuration {key}: {reason}"));
        }
    }

    #[test]
    fn values_are_read_as_kafka_reads_them() {
        let parse = |key: &str, value: &str| topic_config_definition(key).unwrap().parse(value).unwrap();
        assert_eq!(parse("retention.ms", " 5 "), ConfigValue::Integer(5));
        assert_eq!(parse("preallocate", "TRUE"), ConfigValue::Boolean(true));
        assert_eq!(parse("cleanup.policy", "compact, compact"), ConfigValue::List(vec!["compact".into()]));
        assert_eq!(parse("cleanup.policy", ""), ConfigValue::List(vec![]));
        for value in ["*", "0:1,12:3", ""] {
            parse("leader.replication.throttled.replicas", value);
        }
        refused("leader.replication.throttled.replicas", "x");
    }

    #[test]
    fn a_secret_never_shows_in_a_message() {
        let key = broker_config_definition("ssl.key.password").unwrap();
        assert!(!key.invalid("hunter2", "reason".into()).to_string().contains("hunter2"));
    }
}
