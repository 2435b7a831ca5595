//! Parser of the schema files. The form is that of a table that people read:
//!
//! ```text
//! # comment
//! message 0 ProduceRequest · versions 3-13 · flexible 9+
//! struct Shared 3+
//!   Name: string 3+, key
//! TransactionalId: string 3+, nullable 3+, default null
//! TopicData: []TopicProduceData 0+
//!   Index: int32 0+
//! ```
//!
//! Two blanks of indentation put a field into the struct above it.

use std::collections::BTreeSet;
use std::path::Path;

use crate::schema::{Field, Message, Struct, Type, Versions};

/// Every message of the files of a folder, in the order of the file names.
pub fn parse_folder(folder: &Path) -> Result<Vec<Message>, String> {
    let entries = std::fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut paths: Vec<_> = entries.filter_map(|entry| entry.ok().map(|entry| entry.path())).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "txt"));
    paths.sort();
    let mut messages = Vec::new();
    let mut names = BTreeSet::new();
    for path in paths {
        let text = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        for message in parse_text(&path.display().to_string(), &text)? {
            if !names.insert(message.name.clone()) {
                return Err(format!("{}: {} is declared twice", message.place, message.name));
            }
            messages.push(message);
        }
    }
    Ok(messages)
}

/// The messages of one file.
pub fn parse_text(file: &str, text: &str) -> Result<Vec<Message>, String> {
    let mut messages: Vec<Message> = Vec::new();
    // Index of the struct that fields of each depth belong to.
    let mut stack: Vec<usize> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let place = format!("{file}:{}", number + 1);
        let at = |problem: String| format!("{place}: {problem}: `{line}`");
        let content = line.trim_start();
        if content.is_empty() || content.starts_with('#') {
            continue;
        }
        if let Some(header) = line.strip_prefix("message ") {
            messages.push(parse_header(header, &place).map_err(at)?);
            stack = vec![0];
            continue;
        }
        let message = messages.last_mut().ok_or_else(|| at("a field before the first message".into()))?;
        let depth = depth_of(line).map_err(at)?;
        if let Some(declaration) = line.strip_prefix("struct ") {
            let (name, versions) =
                declaration.split_once(' ').ok_or_else(|| at("expected `struct Name versions`".into()))?;
            parse_versions(versions).map_err(at)?;
            let index = add_struct(message, name).map_err(at)?;
            stack = vec![0, index];
            continue;
        }
        if depth >= stack.len() {
            return Err(at("indented below a field that is not a struct".into()));
        }
        stack.truncate(depth + 1);
        // A field at depth zero always belongs to the message itself.
        let owner = stack[depth];
        let field = parse_field(content).map_err(at)?;
        if message.structs[owner].fields.iter().any(|other| other.name == field.name) {
            return Err(at("field declared twice".into()));
        }
        stack.extend(struct_index(message, &field));
        message.structs[owner].fields.push(field);
    }
    for message in &mut messages {
        check(message)?;
    }
    Ok(messages)
}

fn depth_of(line: &str) -> Result<usize, String> {
    let blanks = line.len() - line.trim_start_matches(' ').len();
    if blanks.is_multiple_of(2) { Ok(blanks / 2) } else { Err("indentation is not a multiple of two".into()) }
}

/// The struct that takes the fields below this field: one declared earlier or a new one; none for plain types.
fn struct_index(message: &mut Message, field: &Field) -> Option<usize> {
    let Type::Struct(name) = &field.kind else { return None };
    let known = message.structs.iter().position(|structure| structure.name == *name);
    Some(known.unwrap_or_else(|| {
        message.structs.push(Struct { name: name.clone(), fields: Vec::new() });
        message.structs.len() - 1
    }))
}

/// A `struct` line may come after a field that named it already.
fn add_struct(message: &mut Message, name: &str) -> Result<usize, String> {
    match message.structs.iter().position(|structure| structure.name == name) {
        Some(index) if message.structs[index].fields.is_empty() => Ok(index),
        Some(_) => Err(format!("struct {name} is declared twice")),
        None => {
            message.structs.push(Struct { name: name.into(), fields: Vec::new() });
            Ok(message.structs.len() - 1)
        }
    }
}

fn parse_header(header: &str, place: &str) -> Result<Message, String> {
    let mut parts = header.split(" · ");
    let title = parts.next().unwrap_or_default();
    let (key, name) = match title.split_once(' ') {
        Some((key, name)) => (Some(parse_number(key)?), name),
        None => (None, title),
    };
    let (mut versions, mut flexible) = (None, None);
    for part in parts {
        match part.split_once(' ') {
            Some(("versions", range)) => versions = Some(parse_versions(range)?),
            Some(("flexible", range)) => flexible = Some(parse_versions(range)?),
            // The newest version is not advertised by default; the layout is the same.
            Some(("latest", "unstable")) => {}
            _ => return Err(format!("unknown part `{part}` of the header")),
        }
    }
    Ok(Message {
        key,
        name: name.into(),
        versions: versions.ok_or("the header has no versions")?,
        flexible: flexible.ok_or("the header does not say from where it is flexible")?,
        structs: vec![Struct { name: name.into(), fields: Vec::new() }],
        place: place.into(),
    })
}

fn parse_field(content: &str) -> Result<Field, String> {
    let (name, rest) = content.split_once(": ").ok_or("expected `Name: type versions`")?;
    let mut attributes = rest.split(", ");
    let declaration = attributes.next().unwrap_or_default();
    let (kind, versions) = declaration.split_once(' ').ok_or("expected `type versions`")?;
    let (is_array, kind) = match kind.strip_prefix("[]") {
        Some(element) => (true, element),
        None => (false, kind),
    };
    let mut field = Field {
        name: name.into(),
        kind: parse_type(kind)?,
        is_array,
        versions: if versions == "all" { Versions::NONE } else { parse_versions(versions)? },
        nullable: Versions::NONE,
        tag: None,
        default: None,
        ignorable: false,
        never_compact: false,
    };
    for attribute in attributes {
        parse_attribute(&mut field, attribute)?;
    }
    // `all`: the field exists in exactly the versions in which it is tagged.
    if versions == "all" {
        field.versions = field.tag.ok_or("`all` without a tag")?.1;
    }
    Ok(field)
}

fn parse_attribute(field: &mut Field, attribute: &str) -> Result<(), String> {
    match attribute.split_once(' ').unwrap_or((attribute, "")) {
        // Key of a set: matters to Kafka's collections, not to the bytes.
        ("key", "") => {}
        ("ignorable", "") => field.ignorable = true,
        ("flexible", "none") => field.never_compact = true,
        ("nullable", versions) => field.nullable = parse_versions(versions)?,
        ("default", text) if !text.is_empty() => {
            field.default = Some(if text == "\"\"" { String::new() } else { text.into() });
        }
        ("tag", text) => {
            let (number, versions) = text.split_once(" (").ok_or("expected `tag N (versions)`")?;
            let versions = versions.strip_suffix(')').ok_or("expected `tag N (versions)`")?;
            let number = number.parse().map_err(|_| format!("bad tag number `{number}`"))?;
            field.tag = Some((number, parse_versions(versions)?));
        }
        _ => return Err(format!("unknown attribute `{attribute}`")),
    }
    Ok(())
}

fn parse_type(text: &str) -> Result<Type, String> {
    Ok(match text {
        "bool" => Type::Bool,
        "int8" => Type::Int8,
        "int16" => Type::Int16,
        "int32" => Type::Int32,
        "int64" => Type::Int64,
        "uint16" => Type::Uint16,
        "uint32" => Type::Uint32,
        "float64" => Type::Float64,
        "uuid" => Type::Uuid,
        "string" => Type::String,
        "bytes" => Type::Bytes,
        "records" => Type::Records,
        name if name.starts_with(|first: char| first.is_ascii_uppercase()) => Type::Struct(name.into()),
        _ => return Err(format!("unknown type `{text}`")),
    })
}

fn parse_versions(text: &str) -> Result<Versions, String> {
    if text == "none" {
        return Ok(Versions::NONE);
    }
    if let Some(lowest) = text.strip_suffix('+') {
        return Ok(Versions { lowest: parse_number(lowest)?, highest: i16::MAX });
    }
    let (lowest, highest) = text.split_once('-').unwrap_or((text, text));
    let versions = Versions { lowest: parse_number(lowest)?, highest: parse_number(highest)? };
    if versions.is_empty() { Err(format!("empty version range `{text}`")) } else { Ok(versions) }
}

fn parse_number(text: &str) -> Result<i16, String> {
    text.parse().map_err(|_| format!("`{text}` is not a number"))
}

/// What a single line cannot show: every struct has fields and ends, tags are sane.
fn check(message: &Message) -> Result<(), String> {
    let at = |problem: String| Err(format!("{}: {}: {problem}", message.place, message.name));
    for structure in &message.structs {
        if structure.fields.is_empty() && structure.name != message.name {
            return at(format!("struct {} has no fields", structure.name));
        }
        let mut tags = BTreeSet::new();
        for field in &structure.fields {
            let Some((tag, versions)) = field.tag else { continue };
            if !tags.insert(tag) {
                return at(format!("tag {tag} is used twice in {}", structure.name));
            }
            if field.kind == Type::Records {
                return at(format!("{}: records cannot be tagged", field.name));
            }
            if versions.intersect(message.versions) != field.versions.intersect(message.versions) {
                return at(format!("{}: tagged in other versions than it exists in", field.name));
            }
        }
    }
    ends(message, &message.name, &mut Vec::new())
}

/// Nesting is bounded by the declaration: no struct contains itself.
fn ends(message: &Message, name: &str, above: &mut Vec<String>) -> Result<(), String> {
    if above.iter().any(|other| other == name) {
        return Err(format!("{}: struct {name} contains itself", message.place));
    }
    let structure = message.structure(name).ok_or_else(|| format!("{}: no struct {name}", message.place))?;
    above.push(name.into());
    for field in &structure.fields {
        if let Type::Struct(inner) = &field.kind {
            ends(message, inner, above)?;
        }
    }
    above.pop();
    Ok(())
}
