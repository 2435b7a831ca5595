//! `listeners`, `advertised.listeners` and the map from listener names to protocols.

use std::collections::BTreeMap;
use std::fmt;

use super::ConfigError;

/// How a listener talks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SecurityProtocol {
    Plaintext,
    Ssl,
    SaslPlaintext,
    SaslSsl,
}

impl SecurityProtocol {
    /// The number in RegisterBrokerRecord.
    pub fn kafka_id(self) -> i16 {
        match self {
            SecurityProtocol::Plaintext => 0,
            SecurityProtocol::Ssl => 1,
            SecurityProtocol::SaslPlaintext => 2,
            SecurityProtocol::SaslSsl => 3,
        }
    }

    fn read(text: &str) -> Option<SecurityProtocol> {
        Some(match text.to_ascii_uppercase().as_str() {
            "PLAINTEXT" => SecurityProtocol::Plaintext,
            "SSL" => SecurityProtocol::Ssl,
            "SASL_PLAINTEXT" => SecurityProtocol::SaslPlaintext,
            "SASL_SSL" => SecurityProtocol::SaslSsl,
            _ => return None,
        })
    }
}

/// One address with its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listener {
    /// Upper case, as Kafka compares it.
    pub name: String,
    /// Without brackets for IPv6. Empty: every interface.
    pub host: String,
    /// 0: any free port.
    pub port: u16,
    pub protocol: SecurityProtocol,
}

impl fmt::Display for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "{}://[{}]:{}", self.name, self.host, self.port)
        } else {
            write!(f, "{}://{}:{}", self.name, self.host, self.port)
        }
    }
}

/// Reads `listener.security.protocol.map`.
pub(super) fn read_protocol_map(text: &str) -> Result<BTreeMap<String, SecurityProtocol>, ConfigError> {
    let mut map = BTreeMap::new();
    for pair in text.split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
        let read = pair.split_once(':').and_then(|(name, protocol)| {
            SecurityProtocol::read(protocol.trim()).map(|protocol| (name.trim().to_ascii_uppercase(), protocol))
        });
        let Some((name, protocol)) = read else {
            return Err(invalid(
                "listener.security.protocol.map",
                text,
                "each item is NAME:PROTOCOL with a known protocol",
            ));
        };
        map.insert(name, protocol);
    }
    Ok(map)
}

/// Reads a list of `NAME://host:port`. Names and ports are unique.
pub(super) fn read_listeners(
    key: &str,
    items: &[String],
    protocols: &BTreeMap<String, SecurityProtocol>,
) -> Result<Vec<Listener>, ConfigError> {
    let text = items.join(",");
    let mut listeners: Vec<Listener> = Vec::new();
    for item in items {
        let Some((name, host, port)) = split_address(item) else {
            return Err(invalid(key, &text, &format!("{item:?} is not of the form NAME://host:port")));
        };
        let name = name.to_ascii_uppercase();
        let Some(protocol) = protocols.get(&name).copied() else {
            let reason = format!("listener.security.protocol.map does not say what {name} is");
            return Err(invalid(key, &text, &reason));
        };
        if listeners.iter().any(|other| other.name == name) {
            return Err(invalid(key, &text, &format!("two listeners are named {name}")));
        }
        listeners.push(Listener { name, host: host.to_string(), port, protocol });
    }
    Ok(listeners)
}

fn split_address(item: &str) -> Option<(&str, &str, u16)> {
    let (name, address) = item.split_once("://")?;
    let (host, port) = address.rsplit_once(':')?;
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let name_ok =
        !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.'));
    let host_ok = !host.contains(['/', ' ', '[', ']']);
    if name_ok && host_ok { Some((name, host, port.parse().ok()?)) } else { None }
}

pub(super) fn invalid(key: &str, value: &str, reason: &str) -> ConfigError {
    ConfigError::InvalidValue { key: key.to_string(), value: value.to_string(), reason: reason.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(items: &[&str]) -> Result<Vec<Listener>, ConfigError> {
        let protocols = read_protocol_map("PLAINTEXT:PLAINTEXT,inner:plaintext").unwrap();
        let items: Vec<String> = items.iter().map(|item| item.to_string()).collect();
        read_listeners("listeners", &items, &protocols)
    }

    #[test]
    fn addresses_are_read_and_shown() {
        for text in ["PLAINTEXT://127.0.0.1:9092", "PLAINTEXT://:9092", "PLAINTEXT://[::1]:0", "INNER://host-1.x:65535"]
        {
            assert_eq!(read(&[text]).unwrap()[0].to_string(), text);
        }
        assert_eq!(read(&["inner://h:1"]).unwrap()[0].name, "INNER");
    }

    #[test]
    fn wrong_addresses_are_refused() {
        for text in
            ["127.0.0.1:9092", "PLAINTEXT://host", "PLAINTEXT://host:70000", "PLAINTEXT://a/b:1", "://h:1", "TLS://h:1"]
        {
            assert!(read(&[text]).is_err(), "{text}");
        }
        assert!(read(&["PLAINTEXT://a:1", "PLAINTEXT://b:2"]).is_err());
        assert!(read_protocol_map("A:B").is_err());
    }
}
