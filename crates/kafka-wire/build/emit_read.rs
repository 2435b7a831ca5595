//! The decoder of one struct: a function `read(reader, version)`.

use std::fmt::Write as _;

use crate::emit::{condition, flexible_condition, is_optional, live_fields};
use crate::names::snake;
use crate::schema::{Field, Message, Struct, Type};
use crate::size::least_element_size;

pub fn emit(out: &mut String, message: &Message, structure: &Struct) -> Result<(), String> {
    let life = if crate::emit::borrows(message, structure) { "" } else { "<'a>" };
    let _ = writeln!(
        out,
        "pub(crate) fn read{life}(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {{
            let flexible = {};
            let mut value = Self::default();",
        flexible_condition(message)
    );
    for field in live_fields(message, structure) {
        let name = snake(&field.name);
        let Some(present) = condition(message, field.versions) else { continue };
        if field.tag.is_some() {
            continue;
        }
        let expression = field_value(message, structure, field)?;
        if present == "true" {
            let _ = writeln!(out, "value.{name} = {expression};");
        } else {
            let _ = writeln!(out, "if {present} {{ value.{name} = {expression}; }}");
        }
    }
    emit_tags(out, message, structure)?;
    out.push_str("let _ = (version, flexible); Ok(value) }\n");
    Ok(())
}

fn emit_tags(out: &mut String, message: &Message, structure: &Struct) -> Result<(), String> {
    let name = &structure.name;
    let tagged: Vec<&Field> = live_fields(message, structure).filter(|field| field.tag.is_some()).collect();
    if tagged.is_empty() {
        let _ = writeln!(out, "if flexible {{ reader.skip_tags({:?})?; }}", format!("{name}.tags"));
        return Ok(());
    }
    let place = format!("{name}.tags");
    let _ = writeln!(out, "if flexible {{ for _ in 0..reader.tag_count({place:?})? {{");
    let _ = writeln!(out, "let (tag, end) = reader.begin_tag({place:?})?; match tag {{");
    for field in tagged {
        let Some((tag, versions)) = field.tag else { continue };
        let Some(present) = condition(message, versions) else { continue };
        let expression = field_value(message, structure, field)?;
        let guard = if present == "true" { String::new() } else { format!(" if {present}") };
        let _ = writeln!(
            out,
            "{tag}{guard} => {{ value.{} = {expression}; reader.end_tag({:?}, end)?; }}",
            snake(&field.name),
            full_name(structure, field)
        );
    }
    out.push_str("_ => reader.skip_to(end), } } }\n");
    Ok(())
}

pub fn full_name(structure: &Struct, field: &Field) -> String {
    format!("{}.{}", structure.name, field.name)
}

fn field_value(message: &Message, structure: &Struct, field: &Field) -> Result<String, String> {
    let place = full_name(structure, field);
    let compact = if field.never_compact { "false" } else { "flexible" };
    let nullable = condition(message, field.nullable.intersect(field.versions));
    if field.is_array {
        let least = least_element_size(message, field)?;
        let element = element_reader(field, &place, compact);
        return Ok(match nullable {
            Some(nullable) => {
                format!("reader.nullable_array({place:?}, {compact}, {nullable}, {least}, |reader| {element})?")
            }
            None => format!("reader.array({place:?}, {compact}, {least}, |reader| {element})?"),
        });
    }
    Ok(match (&field.kind, nullable) {
        (Type::Records, nullable) => {
            format!("reader.records({place:?}, {compact}, {})?", nullable.unwrap_or_else(|| "false".into()))
        }
        (Type::String, Some(nullable)) => {
            format!("reader.nullable_string({place:?}, {compact}, {nullable})?.map(Cow::Borrowed)")
        }
        (Type::Bytes, Some(nullable)) => {
            format!("reader.nullable_bytes({place:?}, {compact}, {nullable})?.map(Cow::Borrowed)")
        }
        (Type::Struct(name), Some(nullable)) => {
            if nullable != condition(message, field.versions).unwrap_or_default() {
                return Err(format!("{}: {place}: a struct is nullable in all its versions or in none", message.place));
            }
            let present = if field.tag.is_some() { "is_present_in_tag" } else { "is_present" };
            format!("if reader.{present}({place:?})? {{ Some({name}::read(reader, version)?) }} else {{ None }}")
        }
        (_, Some(_)) if is_optional(message, field) => {
            return Err(format!("{}: {place}: this type cannot be null", message.place));
        }
        (_, _) => format!("{}?", element_reader(field, &place, compact)),
    })
}

/// An expression of type `Result<element, DecodeError>`.
fn element_reader(field: &Field, place: &str, compact: &str) -> String {
    match &field.kind {
        Type::Bool => format!("reader.bool({place:?})"),
        Type::Int8 => format!("reader.i8({place:?})"),
        Type::Int16 => format!("reader.i16({place:?})"),
        Type::Int32 => format!("reader.i32({place:?})"),
        Type::Int64 => format!("reader.i64({place:?})"),
        Type::Uint16 => format!("reader.u16({place:?})"),
        Type::Uint32 => format!("reader.u32({place:?})"),
        Type::Float64 => format!("reader.f64({place:?})"),
        Type::Uuid => format!("reader.uuid({place:?})"),
        Type::String => format!("reader.string({place:?}, {compact}).map(Cow::Borrowed)"),
        Type::Bytes => format!("reader.bytes({place:?}, {compact}).map(Cow::Borrowed)"),
        Type::Records => format!("reader.records({place:?}, {compact}, false)"),
        Type::Struct(name) => format!("{name}::read(reader, version)"),
    }
}
