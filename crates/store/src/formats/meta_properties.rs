//! `meta.properties`: whose data folder this is. A Java properties file with `version=1`, `cluster.id`, `node.id`,
//! `directory.id`.

use super::{FormatError, line_error, text};
use mainstem_types::{NodeId, TopicId};

const WHAT: &str = "meta.properties";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetaProperties {
    /// As given by whoever formatted the folder: 22 base64url characters as a rule, but any text is kept.
    pub cluster_id: String,
    pub node_id: NodeId,
    /// Absent in folders that were formatted before directory ids existed (KIP-858).
    pub directory_id: Option<TopicId>,
}

/// Keys in alphabetic order, as Kafka writes them.
pub fn encode(properties: &MetaProperties) -> Vec<u8> {
    let mut out = String::from("#\n");
    out.push_str(&format!("cluster.id={}\n", escape(&properties.cluster_id)));
    if let Some(directory_id) = properties.directory_id {
        out.push_str(&format!("directory.id={directory_id}\n"));
    }
    out.push_str(&format!("node.id={}\nversion=1\n", properties.node_id));
    out.into_bytes()
}

/// Java escapes `=`, `:`, `#`, `!`, `\` and a leading blank of values.
fn escape(value: &str) -> String {
    let mut out = String::with_capacity(value.len());
    for (i, c) in value.chars().enumerate() {
        if matches!(c, '=' | ':' | '#' | '!' | '\\') || (c == ' ' && i == 0) {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

fn unescape(value: &str) -> String {
    let mut out = String::with_capacity(value.len());
    let mut escaped = false;
    for c in value.chars() {
        if c == '\\' && !escaped {
            escaped = true;
            continue;
        }
        escaped = false;
        out.push(c);
    }
    out
}

pub fn decode(bytes: &[u8]) -> Result<MetaProperties, FormatError> {
    let (mut version, mut cluster_id, mut node_id, mut directory_id) = (None, None, None, None);
    for (number, line) in text(WHAT, bytes)?.lines().enumerate() {
        let number = number + 1;
        let line = line.trim_start();
        if line.is_empty() || line.starts_with(['#', '!']) {
            continue;
        }
        let (key, value) = line.split_once('=').ok_or_else(|| line_error(WHAT, number, "`key=value`", line))?;
        let value = value.trim_start();
        match key.trim_end() {
            "version" => version = Some(value.parse::<i64>().map_err(|_| line_error(WHAT, number, "a version", line))?),
            "cluster.id" => cluster_id = Some(unescape(value)),
            "node.id" => {
                node_id = Some(NodeId(value.parse().map_err(|_| line_error(WHAT, number, "a node id", line))?));
            }
            "directory.id" => {
                directory_id = Some(value.parse().map_err(|_| line_error(WHAT, number, "a directory id", line))?);
            }
            // Kafka ignores keys it does not know.
            _ => {}
        }
    }
    match version.ok_or(FormatError::MissingKey { what: WHAT, key: "version" })? {
        1 => Ok(MetaProperties {
            cluster_id: cluster_id.ok_or(FormatError::MissingKey { what: WHAT, key: "cluster.id" })?,
            node_id: node_id.ok_or(FormatError::MissingKey { what: WHAT, key: "node.id" })?,
            directory_id,
        }),
        found => Err(FormatError::Version { what: WHAT, found, supported: 1 }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn properties_round_trip(cluster_id in "[a-zA-Z0-9_=:#! \\\\-]{1,30}", node in 0i32..i32::MAX, directory in any::<Option<[u8; 16]>>()) {
            let properties = MetaProperties { cluster_id, node_id: NodeId(node), directory_id: directory.map(TopicId) };
            prop_assert_eq!(decode(&encode(&properties)), Ok(properties));
        }

        #[test]
        fn any_text_is_decoded_or_refused(text in "[a-z.=#0-9 \n]{0,200}") {
            let _ = decode(text.as_bytes());
        }
    }

    #[test]
    fn a_file_of_kafka_is_read() {
        let text = b"#\n#Mon Nov 30 08:18:00 UTC 2026\ncluster.id=4L6g3nShT-eMCtK--X86sw\ndirectory.id=AAAAAAAAAAAAAAAAAAAAAQ\nnode.id=1\nversion=1\n";
        let properties = decode(text);
        let expected = MetaProperties {
            cluster_id: "4L6g3nShT-eMCtK--X86sw".into(),
            node_id: NodeId(1),
            directory_id: Some(TopicId::CLUSTER_METADATA),
        };
        assert_eq!(properties, Ok(expected));
        assert_eq!(decode(b"version=1\nnode.id=1\n"), Err(FormatError::MissingKey { what: WHAT, key: "cluster.id" }));
        assert!(matches!(decode(b"version=0\n"), Err(FormatError::Version { found: 0, .. })));
    }
}
