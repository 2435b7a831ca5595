//! A message as lines of `path = value`, with what may differ between two brokers replaced.
//!
//! | field | becomes | because |
//! | --- | --- | --- |
//! | `topic_id`, `cluster_id`, `producer_id`, `session_id` | `#1`, `#2`, … by first appearance | random, or counted |
//! | the uuid in a member id | likewise | random |
//! | `log_dir`, `path` | `folder`, where it is the data folder | another machine |
//! | `host`, `port` | `host`, `port`, unless empty or -1 | another machine |
//! | error messages, descriptions of settings | `text`, unless null or empty | our own words |
//! | `log_append_time_ms`, times of LogAppendTime batches | `time`, unless -1 | another moment |
//! | record batches | their header and records, a cut one at the end left out | codecs compress differently, and Kafka sends what fits into the limit where we end with a whole batch |

use std::collections::HashMap;

use mainstem_kafka_wire::{AsFieldValue, FieldValue};
use mainstem_record::{BatchView, FramingError, Record, TimestampType};
use mainstem_types::TopicId;

/// What one broker calls things: the same thing has the same number in all messages of a script.
#[derive(Debug, Default)]
pub struct Names {
    numbers: HashMap<(&'static str, String), usize>,
    counts: HashMap<&'static str, usize>,
}

impl Names {
    fn number(&mut self, kind: &'static str, text: &str) -> String {
        let counts = &mut self.counts;
        let number = self.numbers.entry((kind, text.to_owned())).or_insert_with(|| {
            let count = counts.entry(kind).or_default();
            *count += 1;
            *count
        });
        format!("{kind}#{number}")
    }

    /// What stands for a topic id, the same in both brokers once both had to do with the topic: something to sort by.
    pub fn topic(&mut self, id: TopicId) -> String {
        self.replaced("topic_id", &id.to_string())
    }

    /// The lines of a message.
    pub fn lines(&mut self, message: &impl AsFieldValue) -> Vec<String> {
        let mut lines = Vec::new();
        self.add_value(message.field_value(), "", "", &mut lines);
        lines
    }

    fn replaced(&mut self, field: &str, value: &str) -> String {
        match field {
            "topic_id" if value != "AAAAAAAAAAAAAAAAAAAAAA" => self.number("topic", value),
            "cluster_id" if value.len() > 4 => self.number("cluster", value),
            "producer_id" if value != "-1" => self.number("producer", value),
            "session_id" if value != "0" => self.number("session", value),
            "host" if value != "\"\"" => "host".to_owned(),
            "port" if value != "-1" => "port".to_owned(),
            "log_dir" | "path" if value.ends_with("/data\"") => "folder".to_owned(),
            "log_append_time_ms" if value != "-1" => "time".to_owned(),
            "error_message" | "batch_index_error_message" | "documentation"
                if value.starts_with('"') && value != "\"\"" =>
            {
                "text".to_owned()
            }
            _ => self.without_uuid(value),
        }
    }

    /// One text a batch; nothing if the bytes are no batches.
    fn batches(&mut self, bytes: &[u8]) -> Option<Vec<String>> {
        let mut rest = bytes;
        let mut all = Vec::new();
        while !rest.is_empty() {
            let view = match BatchView::parse(rest) {
                Ok(view) => view,
                Err(FramingError::Partial { .. }) if !all.is_empty() => break,
                Err(_) => return None,
            };
            let mut scratch = Vec::new();
            let records = view.records(&mut scratch, 1 << 24).ok()?.collect::<Result<Vec<_>, _>>().ok()?;
            all.push(self.batch(&view, &records));
            rest = &rest[view.size_in_bytes()..];
        }
        Some(all)
    }

    fn batch(&mut self, view: &BatchView<'_>, records: &[Record<'_>]) -> String {
        let header = view.header();
        let own_times = header.timestamp_type() == TimestampType::CreateTime;
        let time = |time: i64| if own_times { time.to_string() } else { "time".to_owned() };
        let text = |bytes: Option<&[u8]>| bytes.map(|bytes| String::from_utf8_lossy(bytes).into_owned());
        let record = |record: &Record<'_>| {
            let headers: Vec<_> = record.headers.iter().map(|h| (text(Some(h.key)), text(h.value))).collect();
            let (key, value) = (text(record.key), text(record.value));
            format!("{}@{} {key:?} {value:?} {headers:?}", record.offset.0, time(record.timestamp.0))
        };
        let records: Vec<String> = records.iter().map(record).collect();
        format!(
            "base {} last {} epoch {} crc {} attributes {:?} times {}-{} producer {} {} {} count {}: {}",
            header.base_offset.0,
            header.last_offset_delta,
            header.leader_epoch.0,
            view.crc_is_valid(),
            header.attributes,
            header.base_timestamp.0,
            time(header.max_timestamp.0),
            self.replaced("producer_id", &header.producer_id.0.to_string()),
            header.producer_epoch.0,
            header.base_sequence,
            header.record_count,
            records.join(", ")
        )
    }

    /// `"client-<uuid>"` → `client-uuid#1`.
    fn without_uuid(&mut self, value: &str) -> String {
        let uuid_at = value.len().checked_sub(37).filter(|at| value.is_char_boundary(*at));
        let Some(uuid) = uuid_at.map(|at| &value[at..value.len() - 1]).filter(|text| is_uuid(text)) else {
            return value.to_owned();
        };
        format!("{}{}\"", &value[..value.len() - 37], self.number("uuid", uuid))
    }
}

fn is_uuid(text: &str) -> bool {
    text.char_indices().all(|(at, c)| match at {
        8 | 13 | 18 | 23 => c == '-',
        _ => c.is_ascii_hexdigit(),
    })
}

impl Names {
    fn add_value(&mut self, value: FieldValue<'_>, path: &str, field: &str, lines: &mut Vec<String>) {
        match value {
            FieldValue::Struct(fields) => {
                for (name, value) in fields {
                    let path = if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
                    self.add_value(value, &path, name, lines);
                }
            }
            FieldValue::List(values) if values.iter().all(|value| matches!(value, FieldValue::Integer(_))) => {
                // Numbers stay on one line; an empty list is one, too.
                lines.push(format!("{path} = [{}]", values.iter().map(leaf).collect::<Vec<_>>().join(", ")));
            }
            FieldValue::List(values) => {
                for (index, value) in values.into_iter().enumerate() {
                    self.add_value(value, &format!("{path}[{index}]"), field, lines);
                }
            }
            FieldValue::Bytes(bytes) => {
                match Some(bytes).filter(|_| field == "records").and_then(|bytes| self.batches(bytes)) {
                    Some(batches) if !batches.is_empty() => {
                        let numbered = batches.into_iter().enumerate();
                        lines.extend(numbered.map(|(index, batch)| format!("{path}[{index}] = {batch}")));
                    }
                    _ => lines.push(format!("{path} = {bytes:?}")),
                }
            }
            value => {
                let value = self.replaced(field, &leaf(&value));
                lines.push(format!("{path} = {value}"));
            }
        }
    }
}

/// A value without parts.
fn leaf(value: &FieldValue<'_>) -> String {
    match value {
        FieldValue::Bool(value) => value.to_string(),
        FieldValue::Integer(value) => value.to_string(),
        FieldValue::Float(value) => format!("{value:?}"),
        FieldValue::Id(id) => id.to_string(),
        FieldValue::Text(text) => format!("{text:?}"),
        other => format!("{other:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Message;

    impl AsFieldValue for Message {
        fn field_value(&self) -> FieldValue<'_> {
            let inner = |name, producer| FieldValue::Struct(vec![("name", name), ("producer_id", producer)]);
            let list = vec![
                inner(FieldValue::Text("a, \"b\" ]"), FieldValue::Integer(4_000)),
                inner(FieldValue::Null, FieldValue::Integer(1_000)),
            ];
            FieldValue::Struct(vec![
                ("member_id", FieldValue::Text("client-0f8fad5b-d9cb-469f-a165-70867728950e")),
                ("producer_id", FieldValue::Integer(1_000)),
                ("list", FieldValue::List(list)),
                ("bytes", FieldValue::Bytes(&[1, 2])),
                ("error_message", FieldValue::Text("no")),
                ("documentation", FieldValue::Text("What it is.")),
                ("empty", FieldValue::List(Vec::new())),
                ("numbers", FieldValue::List(vec![FieldValue::Integer(-1), FieldValue::Integer(2)])),
            ])
        }
    }

    #[test]
    fn what_may_differ_is_replaced_and_the_rest_is_kept() {
        let expected = [
            "member_id = \"client-uuid#1\"",
            "producer_id = producer#1",
            "list[0].name = \"a, \\\"b\\\" ]\"",
            "list[0].producer_id = producer#2",
            "list[1].name = Null",
            "list[1].producer_id = producer#1",
            "bytes = [1, 2]",
            "error_message = text",
            "documentation = text",
            "empty = []",
            "numbers = [-1, 2]",
        ];
        assert_eq!(Names::default().lines(&Message), expected);
    }
}
