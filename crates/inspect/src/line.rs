//! One thing that was read, as a line of text or as a JSON object.

use std::fmt::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

/// What it is, and its fields in the order in which people read them.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    pub kind: &'static str,
    pub fields: Vec<(&'static str, Value)>,
}

impl Line {
    pub fn new(kind: &'static str) -> Line {
        Line { kind, fields: Vec::new() }
    }

    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl Into<Value>) -> Line {
        self.fields.push((name, value.into()));
        self
    }

    /// The same field, if there is something to say.
    #[must_use]
    pub fn with_some(self, name: &'static str, value: Option<impl Into<Value>>) -> Line {
        match value {
            Some(value) => self.with(name, value),
            None => self,
        }
    }

    pub fn get(&self, name: &str) -> Option<&Value> {
        self.fields.iter().find(|(field, _)| *field == name).map(|(_, value)| value)
    }

    /// `kind name=value …`; values as in JSON, plain words without quotes.
    pub fn to_text(&self) -> String {
        let mut text = self.kind.to_owned();
        for (name, value) in &self.fields {
            let _ = match value.as_str().filter(|word| is_plain(word)) {
                Some(word) => write!(text, " {name}={word}"),
                None => write!(text, " {name}={value}"),
            };
        }
        text
    }

    /// `{"file": …, "kind": …, …}`.
    pub fn to_json(&self, file: &str) -> Value {
        let mut object = Map::new();
        object.insert("file".to_owned(), file.into());
        object.insert("kind".to_owned(), self.kind.into());
        object.extend(self.fields.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
        Value::Object(object)
    }
}

fn is_plain(word: &str) -> bool {
    !word.is_empty() && word.chars().all(|c| c.is_alphanumeric() || "-_./".contains(c))
}

/// A string, or an object with base64 for what no string can hold; `null` for nothing.
pub(crate) fn bytes_value(bytes: Option<&[u8]>) -> Value {
    match bytes.map(|bytes| (bytes, std::str::from_utf8(bytes))) {
        None => Value::Null,
        Some((_, Ok(text))) => text.into(),
        Some((bytes, Err(_))) => json!({ "base64": STANDARD.encode(bytes) }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_text_for_people_and_an_object_for_programs() {
        let line = Line::new("record").with("offset", 3).with("key", bytes_value(Some(b"two words")));
        let line = line.with("value", bytes_value(Some(b"\xff"))).with_some("gone", None::<i64>).with("codec", "zstd");
        assert_eq!(line.to_text(), r#"record offset=3 key="two words" value={"base64":"/w=="} codec=zstd"#);
        let object = line.to_json("a.log");
        assert_eq!(object["file"], "a.log");
        assert_eq!(object["kind"], "record");
        assert_eq!(object["offset"], 3);
        assert!(object.get("gone").is_none());
    }
}
