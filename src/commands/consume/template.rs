//! Format strings, as kcat has them: `%t %p %o %k %s\n`.

use std::io::Write;

use mainstem_client::FetchedRecord;

/// A format string, taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    pieces: Vec<Piece>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Literal(Vec<u8>),
    Topic,
    Partition,
    Offset,
    Key,
    KeyLength,
    Value,
    ValueLength,
    /// 4 bytes, the most significant first.
    ValueLengthBinary,
    Timestamp,
    Headers,
}

impl Template {
    pub fn parse(text: &str) -> Result<Template, String> {
        let mut pieces = Vec::new();
        let mut literal = Vec::new();
        let mut rest = text.chars();
        while let Some(character) = rest.next() {
            match character {
                '%' => match piece(rest.next())? {
                    Piece::Literal(bytes) => literal.extend(bytes),
                    piece => {
                        if !literal.is_empty() {
                            pieces.push(Piece::Literal(std::mem::take(&mut literal)));
                        }
                        pieces.push(piece);
                    }
                },
                '\\' => escape(&mut rest, &mut literal)?,
                other => literal.extend(other.encode_utf8(&mut [0; 4]).bytes()),
            }
        }
        if !literal.is_empty() {
            pieces.push(Piece::Literal(literal));
        }
        Ok(Template { pieces })
    }

    pub fn write(&self, record: &FetchedRecord, line: &mut Vec<u8>) -> std::io::Result<()> {
        let length = |bytes: &Option<bytes::Bytes>| bytes.as_ref().map_or(-1, |bytes| bytes.len() as i64);
        for piece in &self.pieces {
            match piece {
                Piece::Literal(bytes) => line.extend_from_slice(bytes),
                Piece::Topic => line.extend_from_slice(record.topic.as_bytes()),
                Piece::Partition => write!(line, "{}", record.partition)?,
                Piece::Offset => write!(line, "{}", record.offset)?,
                Piece::Key => line.extend_from_slice(record.key.as_deref().unwrap_or_default()),
                Piece::KeyLength => write!(line, "{}", length(&record.key))?,
                Piece::Value => line.extend_from_slice(record.value.as_deref().unwrap_or_default()),
                Piece::ValueLength => write!(line, "{}", length(&record.value))?,
                Piece::ValueLengthBinary => line.extend_from_slice(&(length(&record.value) as i32).to_be_bytes()),
                Piece::Timestamp => write!(line, "{}", record.timestamp.0)?,
                Piece::Headers => headers(record, line),
            }
        }
        Ok(())
    }
}

fn piece(character: Option<char>) -> Result<Piece, String> {
    Ok(match character {
        Some('t') => Piece::Topic,
        Some('p') => Piece::Partition,
        Some('o') => Piece::Offset,
        Some('k') => Piece::Key,
        Some('K') => Piece::KeyLength,
        Some('s') => Piece::Value,
        Some('S') => Piece::ValueLength,
        Some('R') => Piece::ValueLengthBinary,
        Some('T') => Piece::Timestamp,
        Some('h') => Piece::Headers,
        Some('%') => Piece::Literal(b"%".to_vec()),
        Some(other) => return Err(format!("%{other} is unknown; use %t %p %o %k %K %s %S %R %T %h or %%")),
        None => return Err("it ends with a single %; write %% for a per cent sign".to_owned()),
    })
}

fn escape(rest: &mut std::str::Chars<'_>, literal: &mut Vec<u8>) -> Result<(), String> {
    let wrong = |what: String| Err(format!("\\{what} is unknown; use \\n \\r \\t \\0 \\\\ or \\x with two digits"));
    match rest.next() {
        Some('n') => literal.push(b'\n'),
        Some('r') => literal.push(b'\r'),
        Some('t') => literal.push(b'\t'),
        Some('0') => literal.push(0),
        Some('\\') => literal.push(b'\\'),
        Some('x') => {
            let digits: String = rest.by_ref().take(2).collect();
            match u8::from_str_radix(&digits, 16) {
                Ok(byte) if digits.len() == 2 && !digits.starts_with('+') => literal.push(byte),
                _ => return wrong(format!("x{digits}")),
            }
        }
        other => return wrong(other.map(String::from).unwrap_or_default()),
    }
    Ok(())
}

/// `name=value`, parted by commas; a null value is NULL.
fn headers(record: &FetchedRecord, line: &mut Vec<u8>) {
    for (i, (name, value)) in record.headers.iter().enumerate() {
        if i > 0 {
            line.push(b',');
        }
        line.extend_from_slice(name.as_bytes());
        line.push(b'=');
        line.extend_from_slice(value.as_deref().unwrap_or(b"NULL"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use mainstem_client::{LeaderEpoch, Offset, PartitionIndex, TimestampMs};

    fn formatted(template: &str, key: Option<&'static str>, value: Option<&'static str>) -> Vec<u8> {
        let record = FetchedRecord {
            topic: "orders".into(),
            partition: PartitionIndex(2),
            offset: Offset(7),
            leader_epoch: LeaderEpoch(0),
            timestamp: TimestampMs(1_772_352_000_000),
            key: key.map(Bytes::from),
            value: value.map(Bytes::from),
            headers: vec![("a".to_owned(), Some(Bytes::from_static(b"1"))), ("b".to_owned(), None)],
        };
        let mut line = Vec::new();
        Template::parse(template).unwrap().write(&record, &mut line).unwrap();
        line
    }

    #[test]
    fn every_field_has_a_letter() {
        let line = formatted("%t[%p] at %o: %k(%K)=%s(%S) %T %h 100%%\\n", Some("ü"), Some("two"));
        assert_eq!(String::from_utf8(line).unwrap(), "orders[2] at 7: ü(2)=two(3) 1772352000000 a=1,b=NULL 100%\n");
        assert_eq!(formatted("%R%s\\x00\\t\\\\", None, Some("abc")), b"\x00\x00\x00\x03abc\x00\t\\");
        assert_eq!(formatted("%k%K%s%S%R", None, None), b"-1-1\xff\xff\xff\xff");
    }

    #[test]
    fn what_means_nothing_is_refused() {
        for wrong in ["%", "%q", "\\q", "\\x1", "\\xzz", "\\x+1", "\\"] {
            assert!(Template::parse(wrong).is_err(), "{wrong}");
        }
    }
}
