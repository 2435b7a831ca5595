//! `partition.metadata`: the topic id of the partition. Text: `version: 0`, `topic_id: <22 base64url characters>`.

use super::{FormatError, line_error, text};
use mainstem_types::TopicId;

pub const FILE_NAME: &str = "partition.metadata";

/// Kafka writes no line end after the last line.
pub fn encode(topic_id: TopicId) -> Vec<u8> {
    format!("version: 0\ntopic_id: {topic_id}").into_bytes()
}

pub fn decode(bytes: &[u8]) -> Result<TopicId, FormatError> {
    let mut version = None;
    let mut topic_id = None;
    for (number, line) in text(FILE_NAME, bytes)?.lines().enumerate() {
        let number = number + 1;
        match line.split_once(": ") {
            Some(("version", value)) => {
                version =
                    Some(value.trim().parse::<i64>().map_err(|_| line_error(FILE_NAME, number, "a version", line))?);
            }
            Some(("topic_id", value)) => {
                topic_id = Some(value.trim().parse().map_err(|_| line_error(FILE_NAME, number, "a topic id", line))?);
            }
            _ => return Err(line_error(FILE_NAME, number, "`version: 0` or `topic_id: …`", line)),
        }
    }
    match version.ok_or(FormatError::MissingKey { what: FILE_NAME, key: "version" })? {
        0 => topic_id.ok_or(FormatError::MissingKey { what: FILE_NAME, key: "topic_id" }),
        found => Err(FormatError::Version { what: FILE_NAME, found, supported: 0 }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn ids_round_trip(id in any::<[u8; 16]>()) {
            prop_assert_eq!(decode(&encode(TopicId(id))), Ok(TopicId(id)));
        }

        #[test]
        fn any_bytes_are_decoded_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            let _ = decode(&bytes);
        }
    }

    #[test]
    fn text_is_kafka_s() {
        assert_eq!(encode(TopicId::CLUSTER_METADATA), b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ");
        assert_eq!(decode(b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ\n"), Ok(TopicId::CLUSTER_METADATA));
        assert_eq!(decode(b"version: 0"), Err(FormatError::MissingKey { what: FILE_NAME, key: "topic_id" }));
        assert!(matches!(decode(b"version: 0\ntopic_id: short"), Err(FormatError::Line { line: 2, .. })));
    }
}
