//! A record as a line of text or of JSON, or by a format string.

use std::io::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use mainstem_client::FetchedRecord;
use serde::Serialize;

use super::template::Template;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Format {
    /// The value, byte for byte, and a line feed.
    Text,
    /// One JSON object a line.
    Json,
    /// Nothing is added, no line feed either.
    Template(Template),
}

impl Format {
    pub fn parse(text: &str) -> Result<Format, String> {
        match text {
            "text" => Ok(Format::Text),
            "json" => Ok(Format::Json),
            template if template.contains(['%', '\\']) => Template::parse(template).map(Format::Template),
            other => Err(format!("{other} is neither text nor json nor a format string such as '%t %p %o %k %s\\n'")),
        }
    }
}

/// Makes lines, in one buffer.
pub struct Printer {
    format: Format,
    key_separator: Option<String>,
    line: Vec<u8>,
}

#[derive(Debug, Serialize)]
struct JsonRecord<'a> {
    topic: &'a str,
    partition: i32,
    offset: i64,
    /// Milliseconds since 1970; `null` when the record has none.
    timestamp: Option<i64>,
    key: Option<JsonBytes<'a>>,
    value: Option<JsonBytes<'a>>,
    /// A list: a name may come more than once.
    headers: Vec<JsonHeader<'a>>,
}

#[derive(Debug, Serialize)]
struct JsonHeader<'a> {
    key: &'a str,
    value: Option<JsonBytes<'a>>,
}

/// A string, or an object with base64 for what no string can hold: never to be mistaken for each other.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum JsonBytes<'a> {
    Text(&'a str),
    Binary { base64: String },
}

impl<'a> JsonBytes<'a> {
    fn new(bytes: &'a [u8]) -> Self {
        match std::str::from_utf8(bytes) {
            Ok(text) => JsonBytes::Text(text),
            Err(_) => JsonBytes::Binary { base64: STANDARD.encode(bytes) },
        }
    }
}

impl Printer {
    pub fn new(format: Format, key_separator: Option<String>) -> Self {
        Printer { format, key_separator, line: Vec::new() }
    }

    /// What is printed of a record.
    pub fn line(&mut self, record: &FetchedRecord) -> anyhow::Result<&[u8]> {
        self.line.clear();
        match &self.format {
            Format::Template(template) => {
                template.write(record, &mut self.line)?;
                return Ok(&self.line);
            }
            Format::Text => {
                if let Some(separator) = &self.key_separator {
                    self.line.extend_from_slice(record.key.as_deref().unwrap_or_default());
                    self.line.extend_from_slice(separator.as_bytes());
                }
                self.line.extend_from_slice(record.value.as_deref().unwrap_or_default());
            }
            Format::Json => serde_json::to_writer(&mut self.line, &json(record))?,
        }
        self.line.write_all(b"\n")?;
        Ok(&self.line)
    }
}

fn json(record: &FetchedRecord) -> JsonRecord<'_> {
    let headers =
        record.headers.iter().map(|(key, value)| JsonHeader { key, value: value.as_deref().map(JsonBytes::new) });
    JsonRecord {
        topic: &record.topic,
        partition: record.partition.0,
        offset: record.offset.0,
        timestamp: (record.timestamp.0 >= 0).then_some(record.timestamp.0),
        key: record.key.as_deref().map(JsonBytes::new),
        value: record.value.as_deref().map(JsonBytes::new),
        headers: headers.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use mainstem_client::{LeaderEpoch, Offset, PartitionIndex, TimestampMs};

    fn record() -> FetchedRecord {
        FetchedRecord {
            topic: "orders".into(),
            partition: PartitionIndex(2),
            offset: Offset(7),
            leader_epoch: LeaderEpoch(0),
            timestamp: TimestampMs(1_772_352_000_000),
            key: Some(Bytes::from_static(b"4\"2")),
            value: Some(Bytes::from_static(b"\xff\x00")),
            headers: vec![("a".to_owned(), Some(Bytes::from_static("ü".as_bytes()))), ("a".to_owned(), None)],
        }
    }

    fn line(format: Format, separator: Option<&str>, record: &FetchedRecord) -> Vec<u8> {
        Printer::new(format, separator.map(str::to_owned)).line(record).unwrap().to_vec()
    }

    #[test]
    fn json_marks_what_is_not_text() {
        let expected = concat!(
            r#"{"topic":"orders","partition":2,"offset":7,"timestamp":1772352000000,"key":"4\"2","#,
            r#""value":{"base64":"/wA="},"headers":[{"key":"a","value":"ü"},{"key":"a","value":null}]}"#,
            "\n"
        );
        assert_eq!(String::from_utf8(line(Format::Json, None, &record())).unwrap(), expected);
    }

    #[test]
    fn json_has_null_for_what_a_record_does_not_have() {
        let bare =
            FetchedRecord { timestamp: TimestampMs(-1), key: None, value: None, headers: Vec::new(), ..record() };
        let text = String::from_utf8(line(Format::Json, None, &bare)).unwrap();
        assert!(text.ends_with("\"timestamp\":null,\"key\":null,\"value\":null,\"headers\":[]}\n"), "{text}");
    }

    #[test]
    fn text_is_the_value_byte_for_byte_and_the_key_on_request() {
        assert_eq!(line(Format::Text, None, &record()), b"\xff\x00\n");
        assert_eq!(line(Format::Text, Some(" = "), &record()), b"4\"2 = \xff\x00\n");
    }
}
