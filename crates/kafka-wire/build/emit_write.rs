//! The encoder of one struct: a function `write(writer, version)`.

use std::fmt::Write as _;

use crate::emit::{condition, default_value, flexible_condition, is_optional, live_fields};
use crate::emit_read::full_name;
use crate::names::snake;
use crate::schema::{Field, Message, Struct, Type};

pub fn emit(out: &mut String, message: &Message, structure: &Struct) -> Result<(), String> {
    let _ = writeln!(
        out,
        "pub(crate) fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {{
            let flexible = {};",
        flexible_condition(message)
    );
    for field in live_fields(message, structure) {
        let Some(present) = condition(message, field.versions) else { continue };
        let absent = absent(message, structure, field)?;
        let body = if field.tag.is_some() { String::new() } else { value(message, structure, field) };
        let statement = match (present.as_str(), body.as_str(), absent.as_str()) {
            ("true", body, _) => body.into(),
            (_, "", "") => String::new(),
            (present, body, "") => format!("if {present} {{ {body} }}\n"),
            (present, "", absent) => format!("if !({present}) {{ {absent} }}\n"),
            (present, body, absent) => format!("if {present} {{ {body} }} else {{ {absent} }}\n"),
        };
        out.push_str(&statement);
    }
    emit_tags(out, message, structure)?;
    out.push_str("let _ = (version, flexible, writer); Ok(()) }\n");
    Ok(())
}

/// What happens in a version that does not carry the field: nothing, or an error unless it holds its default.
fn absent(message: &Message, structure: &Struct, field: &Field) -> Result<String, String> {
    if field.ignorable {
        return Ok(String::new());
    }
    let is_default = is_default(message, field)?;
    Ok(format!(
        "if !({is_default}) {{ return Err(EncodeError::absent({:?}, version)); }}\n",
        full_name(structure, field)
    ))
}

fn is_default(message: &Message, field: &Field) -> Result<String, String> {
    let name = snake(&field.name);
    let default = default_value(message, field)?;
    Ok(match (default.as_str(), field.is_array, &field.kind) {
        ("None", _, _) => format!("self.{name}.is_none()"),
        ("Vec::new()", _, _) => format!("self.{name}.is_empty()"),
        ("Some(Vec::new())", _, _) => format!("self.{name}.as_ref().is_some_and(|items| items.is_empty())"),
        (_, false, Type::Records) => format!("self.{name}.is_null()"),
        (_, false, Type::Bytes) if !is_optional(message, field) => format!("self.{name}.is_empty()"),
        ("true", _, _) => format!("self.{name}"),
        ("false", _, _) => format!("!self.{name}"),
        (default, _, _) => format!("self.{name} == {default}"),
    })
}

fn emit_tags(out: &mut String, message: &Message, structure: &Struct) -> Result<(), String> {
    let mut tagged: Vec<(u32, &Field)> =
        live_fields(message, structure).filter_map(|field| field.tag.map(|(tag, _)| (tag, field))).collect();
    tagged.sort_by_key(|(tag, _)| *tag);
    if tagged.is_empty() {
        out.push_str("if flexible { writer.uvarint(0); }\n");
        return Ok(());
    }
    out.push_str("if flexible {\n");
    let mut count = String::from("0u32");
    let mut writes = String::new();
    for (index, (tag, field)) in tagged.into_iter().enumerate() {
        let present = condition(message, field.versions).unwrap_or_else(|| "false".into());
        let _ = writeln!(out, "let send_{index} = {present} && !({});", is_default(message, field)?);
        let _ = write!(count, " + u32::from(send_{index})");
        let body = value(message, structure, field);
        let _ = writeln!(
            writes,
            "if send_{index} {{ let start = writer.begin_tag({tag}); {body} writer.end_tag(start); }}"
        );
    }
    let _ = writeln!(out, "writer.uvarint({count});\n{writes}}}");
    Ok(())
}

/// Statements that write the field.
fn value(message: &Message, structure: &Struct, field: &Field) -> String {
    let name = snake(&field.name);
    let place = full_name(structure, field);
    let compact = if field.never_compact { "false" } else { "flexible" };
    let mut out = String::new();
    let optional = is_optional(message, field);
    let nullable = condition(message, field.nullable.intersect(field.versions));
    if nullable != condition(message, field.versions) && (optional || field.kind == Type::Records) {
        let test = if optional { "is_none" } else { "is_null" };
        let nullable = nullable.unwrap_or_else(|| "false".into());
        let _ = writeln!(
            out,
            "if !({nullable}) && self.{name}.{test}() {{ return Err(EncodeError::null({place:?}, version)); }}"
        );
    }
    if field.is_array {
        let element = element_writer(field, "item", "*item", &place, compact);
        let (length, items) = if optional {
            (format!("self.{name}.as_ref().map(Vec::len)"), format!("self.{name}.iter().flatten()"))
        } else {
            (format!("Some(self.{name}.len())"), format!("&self.{name}"))
        };
        let _ =
            writeln!(out, "writer.array_length({place:?}, {length}, {compact})?; for item in {items} {{ {element} }}");
        return out;
    }
    let text = match (&field.kind, optional) {
        (Type::String, true) => format!("writer.nullable_string({place:?}, self.{name}.as_deref(), {compact})?;"),
        (Type::Bytes, true) => format!("writer.nullable_bytes({place:?}, self.{name}.as_deref(), {compact})?;"),
        (Type::Struct(_), true) => {
            // Kafka writes presence as an int8 in the body and as a varint in a tagged field.
            let (null, present) = match field.tag {
                None => ("i8(-1)", "i8(1)"),
                Some(_) => ("uvarint(0)", "uvarint(1)"),
            };
            format!(
                "match &self.{name} {{
                    None => writer.{null},
                    Some(item) => {{ writer.{present}; item.write(writer, version)?; }}
                }}"
            )
        }
        _ => element_writer(field, &format!("&self.{name}"), &format!("self.{name}"), &place, compact),
    };
    let _ = writeln!(out, "{text}");
    out
}

/// A statement that writes one value, given as a reference and as a copy.
fn element_writer(field: &Field, reference: &str, copy: &str, place: &str, compact: &str) -> String {
    let number = |kind: &str| format!("writer.{kind}({copy});");
    match &field.kind {
        Type::Bool => number("bool"),
        Type::Int8 => number("i8"),
        Type::Int16 => number("i16"),
        Type::Int32 => number("i32"),
        Type::Int64 => number("i64"),
        Type::Uint16 => number("u16"),
        Type::Uint32 => number("u32"),
        Type::Float64 => number("f64"),
        Type::Uuid => number("uuid"),
        Type::String => format!("writer.string({place:?}, {reference}, {compact})?;"),
        Type::Bytes => format!("writer.bytes({place:?}, {reference}, {compact})?;"),
        Type::Records => format!("writer.records({place:?}, {reference}, {compact})?;"),
        Type::Struct(_) => format!("({reference}).write(writer, version)?;"),
    }
}
