//! Bytes that Kafka's own classes wrote, for every message and version: `tests/golden/*.txt`.
//!
//! A line is `Name version hex json`, separated by tabs; `default` in place of the JSON is the
//! value of the class without anything set. The JSON holds the fields by name, so these bytes prove order,
//! type and default of each field, not only the layout. How to make the files anew: `tests/peers/golden/README.md`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use mainstem_kafka_wire::ApiKey;
use serde_json::{Map, Value as Json};

use crate::encode::encode;
use crate::entries::entry;
use crate::model::{Random, Value, all_messages, default_value, message, random_struct};
use crate::schema::{Field, Message, Struct, Type};

const GROUPS: [&str; 3] = ["messages", "records", "metadata_records"];
const STANDARD: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const URL: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// The messages that Kafka has, too.
fn kafkas() -> impl Iterator<Item = &'static (&'static str, Message)> {
    all_messages().iter().filter(|(_, message)| !message.key.is_some_and(|key| ApiKey(key).is_own()))
}

fn file(group: &str) -> std::path::PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(format!("{group}.txt"))
}

#[test]
fn bytes_are_those_of_kafkas_own_classes() {
    let mut seen = BTreeSet::new();
    for group in GROUPS {
        for line in std::fs::read_to_string(file(group)).unwrap().lines() {
            let parts: Vec<&str> = line.split('\t').collect();
            let [name, version, hex, json] = parts[..] else { panic!("bad line {line}") };
            let version: i16 = version.parse().unwrap();
            let message = message(name);
            let json = serde_json::from_str(json).unwrap();
            let value = struct_from_json(message, &message.structs[0], &json);
            let expected = bytes_of_hex(hex);
            let interpreted = encode(message, &value, version).unwrap().bytes;
            assert_eq!(hex_of(&interpreted), hex, "{name} {version}: the schema says something else: {json}");
            let recoded = (entry(name).recode)(&expected, version, version)
                .unwrap_or_else(|error| panic!("{name} {version}: {error}: {json}"));
            assert_eq!(hex_of(&recoded.encoded.unwrap()), hex, "{name} {version}: {json}");
            seen.insert((name.to_string(), version));
        }
    }
    for (_, message) in kafkas() {
        for version in message.versions.lowest..=message.versions.highest {
            assert!(seen.contains(&(message.name.clone(), version)), "no golden bytes of {} {version}", message.name);
        }
    }
}

#[test]
fn defaults_are_those_of_kafkas_own_classes() {
    let text = std::fs::read_to_string(file("defaults")).unwrap();
    let mut count = 0;
    for line in text.lines() {
        let parts: Vec<&str> = line.split('\t').collect();
        let [name, version, hex, "default"] = parts[..] else { panic!("bad line {line}") };
        match (entry(name).encode_default)(version.parse().unwrap()) {
            Ok(bytes) => assert_eq!(hex_of(&bytes), hex, "{name} {version}"),
            Err(error) => assert_eq!(hex, "refused", "{name} {version}: {error}"),
        }
        count += 1;
    }
    let versions = |message: &Message| (message.versions.lowest..=message.versions.highest).count();
    assert_eq!(count, kafkas().map(|(_, message)| versions(message)).sum::<usize>());
}

/// The JSON of a value is the value. With `GOLDEN_INPUTS` set to a folder, the values from which Kafka's classes make
/// the golden files are written there.
#[test]
fn values_survive_json() {
    let mut random = Random(2026);
    let mut files: BTreeMap<&str, String> = BTreeMap::new();
    for (group, message) in kafkas() {
        for version in message.versions.lowest..=message.versions.highest {
            let value = random_struct(&mut random, message, &message.structs[0], version);
            let json = struct_to_json(message, &message.structs[0], &value, version);
            let read: Json = serde_json::from_str(&json.to_string()).unwrap();
            assert_eq!(struct_from_json(message, &message.structs[0], &read), value, "{} {version}", message.name);
            writeln!(files.entry(group).or_default(), "{}\t{version}\t{json}", message.name).unwrap();
            writeln!(files.entry("defaults").or_default(), "{}\t{version}\tdefault", message.name).unwrap();
        }
    }
    if let Some(folder) = std::env::var_os("GOLDEN_INPUTS") {
        for (name, text) in files {
            std::fs::write(std::path::Path::new(&folder).join(format!("{name}.txt")), text).unwrap();
        }
    }
}

/// Kafka's JSON names begin with a small letter.
fn json_name(field: &Field) -> String {
    let (first, rest) = field.name.split_at(1);
    first.to_lowercase() + rest
}

fn struct_to_json(message: &Message, structure: &Struct, value: &Value, version: i16) -> Json {
    let Value::Struct(values) = value else { panic!("{value:?} is not a struct") };
    let mut map = Map::new();
    for (field, value) in structure.fields.iter().zip(values) {
        if field.versions.contains(version) {
            map.insert(json_name(field), to_json(message, field, value, version));
        }
    }
    Json::Object(map)
}

fn to_json(message: &Message, field: &Field, value: &Value, version: i16) -> Json {
    match value {
        Value::Null => Json::Null,
        Value::Bool(value) => Json::from(*value),
        Value::Int(value) => Json::from(*value),
        Value::Float(value) => Json::from(*value),
        Value::Uuid(bytes) => Json::from(base64(bytes, URL)),
        Value::Text(text) => Json::from(text.as_str()),
        Value::Bytes(bytes) => {
            let text = base64(bytes, STANDARD);
            let padding = "=".repeat((4 - text.len() % 4) % 4);
            Json::from(text + &padding)
        }
        Value::Array(items) => items.iter().map(|item| to_json(message, field, item, version)).collect(),
        Value::Struct(_) => {
            let Type::Struct(name) = &field.kind else { panic!("{} is no struct", field.name) };
            struct_to_json(message, message.structure(name).unwrap(), value, version)
        }
    }
}

fn struct_from_json(message: &Message, structure: &Struct, json: &Json) -> Value {
    let map = json.as_object().unwrap();
    for name in map.keys() {
        assert!(structure.fields.iter().any(|field| json_name(field) == *name), "{}: no {name}", structure.name);
    }
    let field_value = |field: &Field| match map.get(&json_name(field)) {
        None => default_value(message, field),
        Some(Json::Array(items)) => Value::Array(items.iter().map(|item| from_json(message, field, item)).collect()),
        Some(json) => from_json(message, field, json),
    };
    Value::Struct(structure.fields.iter().map(field_value).collect())
}

fn from_json(message: &Message, field: &Field, json: &Json) -> Value {
    match (&field.kind, json) {
        (_, Json::Null) => Value::Null,
        (Type::Bool, json) => Value::Bool(json.as_bool().unwrap()),
        (Type::Float64, json) => Value::Float(json.as_f64().unwrap()),
        (Type::Uuid, Json::String(text)) => Value::Uuid(unbase64(text, URL).try_into().unwrap()),
        (Type::String, Json::String(text)) => Value::Text(text.clone()),
        (Type::Bytes | Type::Records, Json::String(text)) => {
            Value::Bytes(unbase64(text.trim_end_matches('='), STANDARD))
        }
        (Type::Struct(name), json) => struct_from_json(message, message.structure(name).unwrap(), json),
        (_, json) => Value::Int(json.as_i64().unwrap()),
    }
}

fn base64(bytes: &[u8], alphabet: &[u8; 64]) -> String {
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let group = chunk.iter().fold(0u32, |all, byte| all << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for index in 0..=chunk.len() {
            text.push(alphabet[(group >> (18 - 6 * index)) as usize & 63].into());
        }
    }
    text
}

fn unbase64(text: &str, alphabet: &[u8; 64]) -> Vec<u8> {
    let digit = |letter: &u8| alphabet.iter().position(|known| known == letter).unwrap() as u32;
    let bytes_of = |chunk: &[u8]| {
        let group = chunk.iter().fold(0, |all, letter| all << 6 | digit(letter)) << (6 * (4 - chunk.len()));
        group.to_be_bytes()[1..chunk.len()].to_vec()
    };
    text.as_bytes().chunks(4).flat_map(bytes_of).collect()
}

fn hex_of(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes_of_hex(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}
