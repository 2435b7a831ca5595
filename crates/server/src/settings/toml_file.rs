//! Settings in TOML: `"log.segment.bytes" = 1`, `log.segment.bytes = 1` and `[log.segment] bytes = 1` say the same.
//!
//! Numbers, booleans and text become the text of Kafka's properties; a list becomes text with commas.

use std::collections::BTreeMap;

use toml::Spanned;
use toml::de::{DeInteger, DeTable, DeValue};

use super::{Entry, FileError};

pub(super) fn parse(text: &str) -> Result<Vec<Entry>, FileError> {
    let document = DeTable::parse(text).map_err(|error| {
        let line = line_of(text, error.span().map_or(0, |span| span.start));
        FileError::Syntax { line, reason: error.message().to_owned() }
    })?;
    let mut reader = Reader { text, entries: Vec::new(), lines: BTreeMap::new() };
    reader.table("", document.get_ref())?;
    Ok(reader.entries)
}

fn line_of(text: &str, position: usize) -> usize {
    text.as_bytes()[..position.min(text.len())].iter().filter(|byte| **byte == b'\n').count() + 1
}

struct Reader<'a> {
    text: &'a str,
    entries: Vec<Entry>,
    /// The line in which each key was set.
    lines: BTreeMap<String, usize>,
}

impl Reader<'_> {
    fn table(&mut self, prefix: &str, table: &DeTable<'_>) -> Result<(), FileError> {
        for (name, value) in table {
            let key =
                if prefix.is_empty() { name.get_ref().to_string() } else { format!("{prefix}.{}", name.get_ref()) };
            if let DeValue::Table(inner) = value.get_ref() {
                self.table(&key, inner)?;
                continue;
            }
            let line = line_of(self.text, name.span().start);
            let value = self.value(&key, value)?;
            if let Some(first) = self.lines.insert(key.clone(), line) {
                return Err(FileError::Twice { key, line: line.max(first), first: line.min(first) });
            }
            self.entries.push(Entry { key, value, line });
        }
        Ok(())
    }

    fn value(&self, key: &str, value: &Spanned<DeValue<'_>>) -> Result<String, FileError> {
        let wrong = |reason: String| FileError::Syntax { line: line_of(self.text, value.span().start), reason };
        match value.get_ref() {
            DeValue::String(text) => Ok(text.to_string()),
            DeValue::Integer(integer) => {
                integer_text(integer).ok_or_else(|| wrong(format!("{key}: {integer} is too large")))
            }
            DeValue::Float(float) => Ok(float.as_str().to_owned()),
            DeValue::Boolean(boolean) => Ok(boolean.to_string()),
            DeValue::Array(items) => {
                let texts = items.iter().map(|item| match item.get_ref() {
                    DeValue::Array(_) | DeValue::Table(_) => {
                        Err(wrong(format!("{key}: a list holds text and numbers only")))
                    }
                    _ => self.value(key, item),
                });
                Ok(texts.collect::<Result<Vec<_>, _>>()?.join(","))
            }
            DeValue::Datetime(_) | DeValue::Table(_) => {
                Err(wrong(format!("{key}: a {} is no value of a setting", value.get_ref().type_str())))
            }
        }
    }
}

/// The decimal text of an integer of any radix.
fn integer_text(integer: &DeInteger<'_>) -> Option<String> {
    i64::from_str_radix(integer.as_str(), integer.radix()).ok().map(|value| value.to_string())
}
