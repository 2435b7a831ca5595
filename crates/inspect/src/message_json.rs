//! A decoded message as JSON: from its `Debug` text, which names every field as the schema does.
//!
//! Structs become objects, wrappers of one value that value, `None` becomes `null`. What is no such text becomes a string, whatever it is.

use std::fmt::Debug;

use serde_json::{Map, Number, Value};

/// Deeper than any message of Kafka's.
const DEPTH_MAX: usize = 32;

pub(crate) fn of(message: &impl Debug) -> Value {
    let text = format!("{message:?}");
    let mut reader = Reader { rest: &text };
    reader.value(0).filter(|_| reader.rest.is_empty()).unwrap_or_else(|| Value::String(text.clone()))
}

struct Reader<'a> {
    rest: &'a str,
}

impl<'a> Reader<'a> {
    fn eat(&mut self, token: &str) -> bool {
        self.rest.strip_prefix(token).map(|rest| self.rest = rest).is_some()
    }

    fn word(&mut self) -> &'a str {
        let end = self.rest.find(|c: char| !c.is_alphanumeric() && !"_-+.".contains(c)).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        word
    }

    fn value(&mut self, depth: usize) -> Option<Value> {
        if depth > DEPTH_MAX {
            return None;
        }
        if self.rest.starts_with('"') {
            return self.string().map(Value::String);
        }
        if self.eat("[") {
            return self.list("]", depth).map(Value::Array);
        }
        let word = self.word();
        if self.eat(" { ") {
            return self.fields(depth);
        }
        if self.eat("(") {
            let mut values = self.list(")", depth)?;
            return Some(if values.len() == 1 { values.remove(0) } else { Value::Array(values) });
        }
        (!word.is_empty()).then(|| scalar(word))
    }

    fn list(&mut self, end: &str, depth: usize) -> Option<Vec<Value>> {
        let mut values = Vec::new();
        while !self.eat(end) {
            values.push(self.value(depth + 1)?);
            if !self.eat(", ") && !self.rest.starts_with(end) {
                return None;
            }
        }
        Some(values)
    }

    fn fields(&mut self, depth: usize) -> Option<Value> {
        let mut fields = Map::new();
        loop {
            let name = self.word();
            if !self.eat(": ") {
                return None;
            }
            fields.insert(name.to_owned(), self.value(depth + 1)?);
            if self.eat(" }") {
                return Some(Value::Object(fields));
            }
            if !self.eat(", ") {
                return None;
            }
        }
    }

    /// A quoted string with Rust's escapes.
    fn string(&mut self) -> Option<String> {
        let mut text = String::new();
        let mut chars = self.rest[1..].chars();
        loop {
            match chars.next()? {
                '"' => break,
                '\\' => match chars.next()? {
                    'n' => text.push('\n'),
                    't' => text.push('\t'),
                    'r' => text.push('\r'),
                    '0' => text.push('\0'),
                    'u' => {
                        let (digits, rest) = chars.as_str().strip_prefix('{')?.split_once('}')?;
                        text.push(char::from_u32(u32::from_str_radix(digits, 16).ok()?)?);
                        chars = rest.chars();
                    }
                    other => text.push(other),
                },
                other => text.push(other),
            }
        }
        self.rest = chars.as_str();
        Some(text)
    }
}

fn scalar(word: &str) -> Value {
    match word {
        "None" => return Value::Null,
        "true" => return Value::Bool(true),
        "false" => return Value::Bool(false),
        _ => {}
    }
    let number = word.parse::<i64>().ok().map(Number::from);
    let number = number.or_else(|| word.contains('.').then(|| Number::from_f64(word.parse().ok()?))?);
    number.map_or_else(|| Value::String(word.to_owned()), Value::Number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use mainstem_kafka_wire::metadata_records::{MetadataRecord, PartitionRecord, TopicRecord};
    use mainstem_types::TopicId;
    use serde_json::json;

    #[test]
    fn a_message_becomes_an_object_with_the_names_of_its_fields() {
        let topic = TopicRecord { name: "a \"b\"\n\u{7f}ü".into(), topic_id: TopicId([0xff; 16]) };
        let expected = json!({"name": "a \"b\"\n\u{7f}ü", "topic_id": "_____________________w"});
        assert_eq!(of(&MetadataRecord::Topic(topic)), expected);
        let partition = PartitionRecord { replicas: vec![1, 2], partition_epoch: -1, ..Default::default() };
        let value = of(&partition);
        assert_eq!(value["replicas"], json!([1, 2]));
        assert_eq!(value["partition_epoch"], -1);
    }

    #[test]
    fn wrappers_and_nothing_and_numbers() {
        assert_eq!(of(&(Some(1.5), None::<i32>, [true], "x")), json!([1.5, null, [true], "x"]));
        assert_eq!(of(&Vec::<i32>::new()), json!([]));
    }
}
