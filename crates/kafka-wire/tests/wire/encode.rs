//! The interpreting encoder: from a schema and a [`Value`] to bytes, remembering where lengths and counts stand.

use crate::model::{Value, default_value};
use crate::schema::{Field, Message, Struct, Type};

/// A length or count in the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Site {
    pub position: usize,
    pub width: Width,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Width {
    /// Number of bytes of the varint.
    Varint(usize),
    Int16,
    Int32,
}

/// The value cannot be written in this version.
#[derive(Debug, PartialEq, Eq)]
pub struct Refused;

#[derive(Debug, Default, Clone)]
pub struct Output {
    pub bytes: Vec<u8>,
    pub sites: Vec<Site>,
}

pub fn encode(message: &Message, value: &Value, version: i16) -> Result<Output, Refused> {
    let mut out = Output::default();
    let encoder = Encoder { message, version, flexible: message.flexible.contains(version) };
    encoder.structure(&mut out, &message.structs[0], value)?;
    Ok(out)
}

impl Output {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }

    fn varint_site(&mut self, value: u64) {
        let position = self.bytes.len();
        self.varint(value);
        self.sites.push(Site { position, width: Width::Varint(self.bytes.len() - position) });
    }

    /// A length, `None` for null.
    fn length(&mut self, length: Option<usize>, compact: bool, short: bool) {
        if compact {
            return self.varint_site(length.map_or(0, |length| length as u64 + 1));
        }
        let width = if short { Width::Int16 } else { Width::Int32 };
        self.sites.push(Site { position: self.bytes.len(), width });
        let number = length.map_or(-1, |length| length as i32);
        let bytes = number.to_be_bytes();
        self.bytes.extend_from_slice(if short { &bytes[2..] } else { &bytes });
    }

    fn append(&mut self, other: Output) {
        let base = self.bytes.len();
        self.bytes.extend(other.bytes);
        self.sites.extend(other.sites.into_iter().map(|site| Site { position: site.position + base, ..site }));
    }
}

struct Encoder<'m> {
    message: &'m Message,
    version: i16,
    flexible: bool,
}

impl Encoder<'_> {
    fn structure(&self, out: &mut Output, structure: &Struct, value: &Value) -> Result<(), Refused> {
        let Value::Struct(values) = value else { panic!("{} is not a struct: {value:?}", structure.name) };
        let mut tagged = Vec::new();
        for (field, value) in structure.fields.iter().zip(values) {
            let is_default = *value == default_value(self.message, field);
            if !field.versions.contains(self.version) {
                if !field.ignorable && !is_default {
                    return Err(Refused);
                }
            } else if field.is_tagged_in(self.version) {
                if !is_default {
                    tagged.push((field.tag.unwrap().0, field, value));
                }
            } else {
                self.field(out, field, value)?;
            }
        }
        if self.flexible {
            tagged.sort_by_key(|(tag, _, _)| *tag);
            out.varint_site(tagged.len() as u64);
            for (tag, field, value) in tagged {
                let mut inner = Output::default();
                self.field(&mut inner, field, value)?;
                out.varint(u64::from(tag));
                out.varint_site(inner.bytes.len() as u64);
                out.append(inner);
            }
        }
        Ok(())
    }

    fn field(&self, out: &mut Output, field: &Field, value: &Value) -> Result<(), Refused> {
        let compact = self.flexible && !field.never_compact;
        let nullable = field.nullable.contains(self.version);
        if *value == Value::Null && !nullable {
            return Err(Refused);
        }
        if field.is_array {
            let Value::Array(items) = value else {
                out.length(None, compact, false);
                return Ok(());
            };
            out.length(Some(items.len()), compact, false);
            return items.iter().try_for_each(|item| self.plain(out, field, item, compact));
        }
        if nullable && matches!(field.kind, Type::Struct(_)) {
            // The mark of null is -1, but 0 inside a tagged field.
            let null = if field.is_tagged_in(self.version) { 0 } else { 0xff };
            out.bytes.push(if *value == Value::Null { null } else { 1 });
            if *value == Value::Null {
                return Ok(());
            }
        }
        self.plain(out, field, value, compact)
    }

    fn plain(&self, out: &mut Output, field: &Field, value: &Value, compact: bool) -> Result<(), Refused> {
        match (&field.kind, value) {
            (Type::Bool, Value::Bool(value)) => out.bytes.push(u8::from(*value)),
            (Type::Float64, Value::Float(value)) => out.bytes.extend(value.to_be_bytes()),
            (Type::Uuid, Value::Uuid(value)) => out.bytes.extend(value),
            (Type::String, Value::Null) => out.length(None, compact, true),
            (Type::String, Value::Text(text)) => {
                out.length(Some(text.len()), compact, true);
                out.bytes.extend(text.as_bytes());
            }
            (Type::Bytes | Type::Records, Value::Null) => out.length(None, compact, false),
            (Type::Bytes | Type::Records, Value::Bytes(bytes)) => {
                out.length(Some(bytes.len()), compact, false);
                out.bytes.extend(bytes);
            }
            (Type::Struct(name), value) => {
                return self.structure(out, self.message.structure(name).unwrap(), value);
            }
            (kind, Value::Int(value)) => {
                let width = match kind {
                    Type::Int8 => 1,
                    Type::Int16 | Type::Uint16 => 2,
                    Type::Int32 | Type::Uint32 => 4,
                    _ => 8,
                };
                out.bytes.extend(&value.to_be_bytes()[8 - width..]);
            }
            (kind, value) => panic!("{}: {kind:?} cannot hold {value:?}", field.name),
        }
        Ok(())
    }
}
