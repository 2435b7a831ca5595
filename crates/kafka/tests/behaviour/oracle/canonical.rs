//! A message as lines of `path = value`, with what may differ between two brokers replaced.
//!
//! | field | becomes | because |
//! | --- | --- | --- |
//! | `topic_id`, `cluster_id`, `producer_id`, `session_id` | `#1`, `#2`, … by first appearance | random, or counted |
//! | the uuid in a member id | likewise | random |
//! | `log_dir`, `path` | `folder`, where it is the data folder | another machine |
//! | `host`, `port` | `host`, `port`, unless empty or -1 | another machine |
//! | error messages | `text`, unless null or empty | our own words |
//! | `log_append_time_ms`, times of LogAppendTime batches | `time`, unless -1 | another moment |
//! | record batches | their header and records, a cut one at the end left out | codecs compress differently, and Kafka sends what fits into the limit where we end with a whole batch |

use std::collections::HashMap;
use std::fmt::Debug;

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
    pub fn lines(&mut self, message: &impl Debug) -> Vec<String> {
        let text = format!("{message:?}");
        let mut lines = Vec::new();
        let mut parser = Parser { rest: &text, names: self, lines: &mut lines };
        parser.value("", "");
        assert!(parser.rest.is_empty(), "not understood: {}", parser.rest);
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
            "error_message" | "batch_index_error_message" if value.starts_with('"') && value != "\"\"" => {
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

/// Reads what `{:?}` prints.
struct Parser<'p> {
    rest: &'p str,
    names: &'p mut Names,
    lines: &'p mut Vec<String>,
}

impl Parser<'_> {
    fn value(&mut self, path: &str, field: &str) {
        if self.rest.starts_with('[') {
            return self.list(path, field);
        }
        if self.rest.starts_with('"') {
            let end = end_of_string(self.rest);
            return self.leaf(path, field, end);
        }
        let end = self.rest.find([' ', '(', ',', ']', ')', '}']).unwrap_or(self.rest.len());
        match self.rest[end..].chars().next() {
            Some('(') => {
                // `Some(…)`, `Bytes(…)`: the value alone counts.
                self.rest = &self.rest[end + 1..];
                self.value(path, field);
                self.expect(")");
            }
            Some(' ') if self.rest[end..].starts_with(" { ") => {
                self.rest = &self.rest[end + 3..];
                self.fields(path);
            }
            _ => self.leaf(path, field, end),
        }
    }

    fn leaf(&mut self, path: &str, field: &str, end: usize) {
        let value = self.names.replaced(field, &self.rest[..end]);
        self.lines.push(format!("{path} = {value}"));
        self.rest = &self.rest[end..];
    }

    fn fields(&mut self, path: &str) {
        loop {
            let colon = self.rest.find(": ").expect("a field has a name");
            let name = self.rest[..colon].to_owned();
            self.rest = &self.rest[colon + 2..];
            let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            self.value(&path, &name);
            if self.rest.starts_with(" }") {
                self.rest = &self.rest[2..];
                return;
            }
            self.expect(", ");
        }
    }

    /// Numbers stay on one line; an empty list is one, too.
    fn list(&mut self, path: &str, field: &str) {
        let end = self.rest.find(']').expect("a list ends");
        let inside = &self.rest[1..end];
        if inside.chars().all(|c| c.is_ascii_digit() || matches!(c, ' ' | ',' | '-')) {
            let bytes: Option<Vec<u8>> = inside.split(", ").map(|number| number.parse().ok()).collect();
            match bytes.filter(|_| field == "records").and_then(|bytes| self.names.batches(&bytes)) {
                Some(batches) => {
                    let numbered = batches.into_iter().enumerate();
                    self.lines.extend(numbered.map(|(index, batch)| format!("{path}[{index}] = {batch}")));
                }
                None => self.lines.push(format!("{path} = [{inside}]")),
            }
            self.rest = &self.rest[end + 1..];
            return;
        }
        self.rest = &self.rest[1..];
        for index in 0.. {
            self.value(&format!("{path}[{index}]"), field);
            if self.rest.starts_with(']') {
                self.rest = &self.rest[1..];
                return;
            }
            self.expect(", ");
        }
    }

    fn expect(&mut self, text: &str) {
        self.rest = self.rest.strip_prefix(text).unwrap_or_else(|| panic!("{text:?} expected: {}", self.rest));
    }
}

/// The place after the closing quote.
fn end_of_string(text: &str) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            '"' if !escaped => return at + 1,
            '\\' => escaped = !escaped,
            _ => escaped = false,
        }
    }
    panic!("a text without an end: {text}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    #[allow(dead_code)]
    struct Outer {
        member_id: &'static str,
        producer_id: i64,
        list: Vec<Inner>,
        bytes: Vec<u8>,
        error_message: Option<&'static str>,
    }

    #[derive(Debug)]
    #[allow(dead_code)]
    struct Inner {
        name: Option<&'static str>,
        producer_id: i64,
    }

    #[test]
    fn what_may_differ_is_replaced_and_the_rest_is_kept() {
        let message = Outer {
            member_id: "client-0f8fad5b-d9cb-469f-a165-70867728950e",
            producer_id: 1_000,
            list: vec![
                Inner { name: Some("a, \"b\" ]"), producer_id: 4_000 },
                Inner { name: None, producer_id: 1_000 },
            ],
            bytes: vec![1, 2],
            error_message: Some("no"),
        };
        let lines = Names::default().lines(&message);
        let expected = [
            "member_id = \"client-uuid#1\"",
            "producer_id = producer#1",
            "list[0].name = \"a, \\\"b\\\" ]\"",
            "list[0].producer_id = producer#2",
            "list[1].name = None",
            "list[1].producer_id = producer#1",
            "bytes = [1, 2]",
            "error_message = text",
        ];
        assert_eq!(lines, expected);
    }
}
