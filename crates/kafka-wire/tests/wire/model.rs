//! Values of the schema without Rust types, and their random generation.

use std::sync::OnceLock;

use crate::parse::parse_folder;
use crate::schema::{Field, Message, Struct, Type};

#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    Uuid([u8; 16]),
    Text(String),
    Bytes(Vec<u8>),
    Array(Vec<Value>),
    /// One value for each field of the struct, also those that no supported version carries.
    Struct(Vec<Value>),
}

/// All declared messages with the folder they stand in.
pub fn all_messages() -> &'static [(&'static str, Message)] {
    static ALL: OnceLock<Vec<(&'static str, Message)>> = OnceLock::new();
    ALL.get_or_init(|| {
        let mut all = Vec::new();
        for group in ["messages", "records", "metadata_records"] {
            let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("schema").join(group);
            all.extend(parse_folder(&folder).unwrap().into_iter().map(|message| (group, message)));
        }
        all
    })
}

pub fn message(name: &str) -> &'static Message {
    &all_messages().iter().find(|(_, message)| message.name == name).unwrap().1
}

/// A small generator (splitmix64): the same seed gives the same values.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}

pub fn default_struct(message: &Message, structure: &Struct) -> Value {
    Value::Struct(structure.fields.iter().map(|field| default_value(message, field)).collect())
}

pub fn default_value(message: &Message, field: &Field) -> Value {
    let text = field.default.as_deref();
    match (&field.kind, field.is_array) {
        _ if text == Some("null") => Value::Null,
        (_, true) => Value::Array(Vec::new()),
        (Type::Bool, _) => Value::Bool(text == Some("true")),
        (Type::Float64, _) => Value::Float(0.0),
        (Type::Uuid, _) => Value::Uuid([0; 16]),
        (Type::String, _) => Value::Text(text.unwrap_or_default().into()),
        (Type::Bytes, _) => Value::Bytes(Vec::new()),
        (Type::Records, _) => Value::Null,
        (Type::Struct(name), _) => default_struct(message, message.structure(name).unwrap()),
        _ => Value::Int(match text.unwrap_or("0") {
            hex if hex.starts_with("0x") => i64::from_str_radix(&hex[2..], 16).unwrap(),
            decimal => decimal.parse().unwrap(),
        }),
    }
}

/// A random value: fields that `version` carries are random, the others hold their default.
pub fn random_struct(random: &mut Random, message: &Message, structure: &Struct, version: i16) -> Value {
    let fields = structure.fields.iter().map(|field| {
        if !field.versions.contains(version) {
            return default_value(message, field);
        }
        if field.nullable.contains(version) && random.below(4) == 0 {
            return Value::Null;
        }
        if field.tag.is_some() && random.below(3) == 0 {
            return default_value(message, field);
        }
        if field.is_array {
            let count = random.below(4);
            return Value::Array((0..count).map(|_| random_plain(random, message, field, version)).collect());
        }
        random_plain(random, message, field, version)
    });
    Value::Struct(fields.collect())
}

fn random_plain(random: &mut Random, message: &Message, field: &Field, version: i16) -> Value {
    let number = match random.below(3) {
        0 => random.next() as i64,
        1 => random.below(300) as i64,
        _ => -(random.below(3) as i64),
    };
    match &field.kind {
        Type::Bool => Value::Bool(number & 1 == 1),
        Type::Int8 => Value::Int(i64::from(number as i8)),
        Type::Int16 => Value::Int(i64::from(number as i16)),
        Type::Int32 => Value::Int(i64::from(number as i32)),
        Type::Int64 => Value::Int(number),
        Type::Uint16 => Value::Int(i64::from(number as u16)),
        Type::Uint32 => Value::Int(i64::from(number as u32)),
        Type::Float64 => Value::Float(f64::from(number as i16) / 8.0),
        Type::Uuid => Value::Uuid(std::array::from_fn(|_| random.next() as u8)),
        Type::String => {
            let length = if random.below(40) == 0 { 200 } else { random.below(6) };
            Value::Text((0..length).map(|_| ['a', 'Z', '0', '-', 'ü', '水', '🦀'][random.below(7) as usize]).collect())
        }
        Type::Bytes | Type::Records => {
            let length = if random.below(40) == 0 { 300 } else { random.below(6) };
            Value::Bytes((0..length).map(|_| random.next() as u8).collect())
        }
        Type::Struct(name) => random_struct(random, message, message.structure(name).unwrap(), version),
    }
}
