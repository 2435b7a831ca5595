//! The Rust of a message: structs, defaults, `into_owned`, and the `Message` trait.

use std::fmt::Write as _;

use crate::names::snake;
use crate::schema::{Field, Message, Struct, Type, Versions};
use crate::{emit_read, emit_write};

/// One module a message, and a re-export of each message's own struct.
pub fn module(messages: &[Message]) -> Result<String, String> {
    let mut out = String::new();
    for message in messages {
        let module = snake(&message.name);
        let _ = writeln!(out, "pub use self::{module}::{};", message.name);
        let _ = writeln!(out, "/// [`{}`] and its parts.\npub mod {module} {{", message.name);
        out.push_str("use crate::prelude::*;\n");
        for structure in &message.structs {
            emit_struct(&mut out, message, structure)?;
        }
        emit_message(&mut out, message);
        out.push_str("}\n");
    }
    Ok(out)
}

/// Fields that at least one supported version carries.
pub fn live_fields<'s>(message: &Message, structure: &'s Struct) -> impl Iterator<Item = &'s Field> + use<'s> {
    let versions = message.versions;
    structure.fields.iter().filter(move |field| !field.versions.intersect(versions).is_empty())
}

/// Does the struct borrow from the frame?
pub fn borrows(message: &Message, structure: &Struct) -> bool {
    live_fields(message, structure).any(|field| match &field.kind {
        Type::String | Type::Bytes | Type::Records => true,
        Type::Struct(name) => message.structure(name).is_some_and(|inner| borrows(message, inner)),
        _ => false,
    })
}

fn lifetime(message: &Message, structure: &Struct, name: &str) -> String {
    if borrows(message, structure) { format!("<{name}>") } else { String::new() }
}

/// May the field be null in some supported version?
pub fn is_optional(message: &Message, field: &Field) -> bool {
    field.kind != Type::Records && condition(message, field.nullable.intersect(field.versions)).is_some()
}

/// `None`: never; `Some(text)`: a Rust condition over `version`, `true` when it holds in all supported versions.
pub fn condition(message: &Message, versions: Versions) -> Option<String> {
    let range = versions.intersect(message.versions);
    if range.is_empty() {
        return None;
    }
    let from = range.lowest > message.versions.lowest;
    let to = range.highest < message.versions.highest;
    Some(match (from, to) {
        (false, false) => "true".into(),
        (true, false) => format!("version >= {}", range.lowest),
        (false, true) => format!("version <= {}", range.highest),
        (true, true) => format!("({}..={}).contains(&version)", range.lowest, range.highest),
    })
}

/// The condition under which `flexible` holds, `false` for never.
pub fn flexible_condition(message: &Message) -> String {
    condition(message, message.flexible).unwrap_or_else(|| "false".into())
}

fn element_type(message: &Message, field: &Field, life: &str) -> String {
    match &field.kind {
        Type::Bool => "bool".into(),
        Type::Int8 => "i8".into(),
        Type::Int16 => "i16".into(),
        Type::Int32 => "i32".into(),
        Type::Int64 => "i64".into(),
        Type::Uint16 => "u16".into(),
        Type::Uint32 => "u32".into(),
        Type::Float64 => "f64".into(),
        Type::Uuid => "TopicId".into(),
        Type::String => format!("Cow<{life}, str>"),
        Type::Bytes => format!("Cow<{life}, [u8]>"),
        Type::Records => format!("Records<{life}>"),
        Type::Struct(name) => {
            let parameters = message.structure(name).map(|inner| lifetime(message, inner, life)).unwrap_or_default();
            format!("{name}{parameters}")
        }
    }
}

fn field_type(message: &Message, field: &Field) -> String {
    let mut text = element_type(message, field, "'a");
    if field.is_array {
        text = format!("Vec<{text}>");
    }
    if is_optional(message, field) { format!("Option<{text}>") } else { text }
}

/// The declared default as a Rust expression.
pub fn default_value(message: &Message, field: &Field) -> Result<String, String> {
    let bad = |text: &str| Err(format!("{}: {}: bad default `{text}`", message.place, field.name));
    let optional = is_optional(message, field);
    let plain = match (&field.default, field.is_array, &field.kind) {
        (Some(text), _, _) if text == "null" => return if optional { Ok("None".into()) } else { bad(text) },
        (None, true, _) => "Vec::new()".into(),
        (Some(text), true, _) => return bad(text),
        (text, false, Type::String) => format!("Cow::Borrowed({:?})", text.as_deref().unwrap_or_default()),
        (None, false, Type::Bytes) => "Cow::Borrowed(&[])".into(),
        (None, false, Type::Records) => "Records::Null".into(),
        (None, false, Type::Struct(name)) => format!("{name}::default()"),
        (None, false, Type::Uuid) => "TopicId::ZERO".into(),
        (None, false, Type::Bool) => "false".into(),
        (None, false, Type::Float64) => "0.0".into(),
        (None, false, _) => "0".into(),
        (Some(text), false, Type::Bool) if text == "true" || text == "false" => text.clone(),
        (Some(text), false, kind) if is_integer(kind) => {
            if text.trim_start_matches('-').trim_start_matches("0x").chars().any(|letter| !letter.is_ascii_hexdigit()) {
                return bad(text);
            }
            text.clone()
        }
        (Some(text), _, _) => return bad(text),
    };
    Ok(if optional { format!("Some({plain})") } else { plain })
}

fn is_integer(kind: &Type) -> bool {
    matches!(kind, Type::Int8 | Type::Int16 | Type::Int32 | Type::Int64 | Type::Uint16 | Type::Uint32)
}

fn versions_text(versions: Versions) -> String {
    match versions.highest {
        i16::MAX => format!("{}+", versions.lowest),
        highest if highest == versions.lowest => highest.to_string(),
        highest => format!("{}-{highest}", versions.lowest),
    }
}

fn emit_struct(out: &mut String, message: &Message, structure: &Struct) -> Result<(), String> {
    let (name, life) = (&structure.name, lifetime(message, structure, "'a"));
    let _ = writeln!(out, "#[derive(Debug, Clone, PartialEq)]\npub struct {name}{life} {{");
    for field in live_fields(message, structure) {
        let tag = field.tag.map(|(tag, _)| format!(", tag {tag}")).unwrap_or_default();
        let kind = field_type(message, field);
        let _ = writeln!(out, "/// Versions {}{tag}.", versions_text(field.versions));
        let _ = writeln!(out, "pub {}: {kind},", snake(&field.name));
    }
    let _ = writeln!(out, "}}\nimpl{life} Default for {name}{life} {{ fn default() -> Self {{ Self {{");
    for field in live_fields(message, structure) {
        let _ = writeln!(out, "{}: {},", snake(&field.name), default_value(message, field)?);
    }
    let _ = writeln!(out, "}} }} }}\nimpl{life} {name}{life} {{");
    if !life.is_empty() {
        emit_into_owned(out, message, structure);
    }
    emit_read::emit(out, message, structure)?;
    emit_write::emit(out, message, structure)?;
    out.push_str("}\n");
    emit_field_value(out, message, structure);
    Ok(())
}

fn emit_field_value(out: &mut String, message: &Message, structure: &Struct) {
    let (name, life) = (&structure.name, lifetime(message, structure, "'_"));
    let _ = writeln!(out, "impl AsFieldValue for {name}{life} {{ fn field_value(&self) -> FieldValue<'_> {{");
    let _ = writeln!(out, "FieldValue::Struct(vec![");
    for field in live_fields(message, structure) {
        let rust = snake(&field.name);
        let shown = rust.strip_prefix("r#").unwrap_or(&rust);
        let _ = writeln!(out, "({shown:?}, self.{rust}.field_value()),");
    }
    out.push_str("]) } }\n");
}

fn emit_into_owned(out: &mut String, message: &Message, structure: &Struct) {
    let name = &structure.name;
    let _ = writeln!(out, "/// The same value, owning what it borrowed.");
    let _ = writeln!(out, "pub fn into_owned(self) -> {name}<'static> {{ {name} {{");
    for field in live_fields(message, structure) {
        let rust = snake(&field.name);
        let one = match &field.kind {
            Type::String | Type::Bytes => "|item| Cow::Owned(item.into_owned())",
            Type::Records => "|item| item.into_owned()",
            Type::Struct(inner) if message.structure(inner).is_some_and(|inner| borrows(message, inner)) => {
                "|item| item.into_owned()"
            }
            _ => "",
        };
        let value = match (one, field.is_array, is_optional(message, field)) {
            ("", _, _) => format!("self.{rust}"),
            (one, true, true) => format!("self.{rust}.map(|items| items.into_iter().map({one}).collect())"),
            (one, true, false) => format!("self.{rust}.into_iter().map({one}).collect()"),
            (one, false, true) => format!("self.{rust}.map({one})"),
            (_, false, false) if matches!(field.kind, Type::String | Type::Bytes) => {
                format!("Cow::Owned(self.{rust}.into_owned())")
            }
            (_, false, false) => format!("self.{rust}.into_owned()"),
        };
        let _ = writeln!(out, "{rust}: {value},");
    }
    out.push_str("} }\n");
}

fn emit_message(out: &mut String, message: &Message) {
    let name = &message.name;
    let life = message.structure(name).map(|top| lifetime(message, top, "'a")).unwrap_or_default();
    let key = message.key.map_or("None".into(), |key| format!("Some({key})"));
    let flexible = message.flexible.intersect(message.versions);
    let flexible = if flexible.is_empty() { "None".into() } else { format!("Some({})", message.flexible.lowest) };
    let (lowest, highest) = (message.versions.lowest, message.versions.highest);
    let _ = writeln!(
        out,
        "impl<'a> Message<'a> for {name}{life} {{
            const NAME: &'static str = {name:?};
            const API_KEY: Option<i16> = {key};
            const VERSIONS: RangeInclusive<i16> = {lowest}..={highest};
            const FLEXIBLE_FROM: Option<i16> = {flexible};
            fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {{
                reader.check_version(Self::NAME, Self::VERSIONS, version)?;
                Self::read(reader, version)
            }}
            fn encode(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {{
                crate::error::check_encode_version(Self::NAME, Self::VERSIONS, version)?;
                self.write(writer, version)
            }}
        }}"
    );
}
