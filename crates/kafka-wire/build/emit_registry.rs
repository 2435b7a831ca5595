//! What spans messages: the enum over all metadata records, and the list that tests and fuzz targets walk.

use std::fmt::Write as _;

use crate::emit::borrows;
use crate::names::snake;
use crate::schema::Message;

fn life(message: &Message) -> &'static str {
    message.structure(&message.name).map_or("", |top| if borrows(message, top) { "<'a>" } else { "" })
}

fn variant(message: &Message) -> &str {
    message.name.strip_suffix("Record").unwrap_or(&message.name)
}

pub fn metadata_record_enum(messages: &[Message]) -> Result<String, String> {
    let mut out = String::from(
        "/// Any record of `__cluster_metadata`.\n#[derive(Debug, Clone, PartialEq)]\npub enum MetadataRecord<'a> {\n",
    );
    let (mut keys, mut highest, mut encode, mut decode, mut owned, mut from, mut names, mut shown) = Default::default();
    let arms: [&mut String; 8] =
        [&mut keys, &mut highest, &mut encode, &mut decode, &mut owned, &mut from, &mut names, &mut shown];
    for message in messages {
        let key = message.key.ok_or_else(|| format!("{}: a metadata record needs a key", message.place))?;
        let (name, variant, life) = (&message.name, variant(message), life(message));
        let _ = writeln!(out, "{variant}({name}{life}),");
        let _ = writeln!(arms[0], "Self::{variant}(_) => {key},");
        let _ = writeln!(arms[1], "Self::{variant}(_) => {},", message.versions.highest);
        let _ = writeln!(arms[2], "Self::{variant}(record) => record.encode(writer, version),");
        let _ = writeln!(arms[3], "{key} => {name}::decode(reader, version).map(Self::{variant}),");
        let into = if life.is_empty() { "" } else { ".into_owned()" };
        let _ = writeln!(arms[4], "Self::{variant}(record) => MetadataRecord::{variant}(record{into}),");
        let _ = writeln!(
            arms[5],
            "impl<'a> From<{name}{life}> for MetadataRecord<'a> {{
                fn from(record: {name}{life}) -> Self {{ Self::{variant}(record) }}
            }}"
        );
        let _ = writeln!(arms[6], "Self::{variant}(_) => {name:?},");
        let _ = writeln!(arms[7], "Self::{variant}(record) => record.field_value(),");
    }
    let _ = writeln!(
        out,
        "}}
        impl AsFieldValue for MetadataRecord<'_> {{
            fn field_value(&self) -> FieldValue<'_> {{ match self {{ {shown} }} }}
        }}
        impl<'a> MetadataRecord<'a> {{
            /// Kafka's number of the record kind.
            pub fn api_key(&self) -> i16 {{ match self {{ {keys} }} }}
            /// Kafka's name of the record kind, for example `TopicRecord`.
            pub fn name(&self) -> &'static str {{ match self {{ {names} }} }}
            /// The newest version of the record kind.
            pub fn highest_version(&self) -> i16 {{ match self {{ {highest} }} }}
            /// The same record, owning what it borrowed.
            pub fn into_owned(self) -> MetadataRecord<'static> {{ match self {{ {owned} }} }}
            pub(crate) fn encode_body(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {{
                match self {{ {encode} }}
            }}
            pub(crate) fn decode_body(reader: &mut Reader<'a>, api_key: i16, version: i16) -> Result<Self, DecodeError> {{
                match api_key {{ {decode} _ => Err(reader.unknown_record(api_key)) }}
            }}
        }}
        {from}"
    );
    Ok(out)
}

/// `for_each_message!(m)` expands to `m! { group module Name lowest highest borrowing|plain; … }`.
pub fn registry(groups: &[(&str, Vec<Message>)]) -> String {
    let mut lines = String::new();
    for (group, messages) in groups {
        for message in messages {
            let (module, versions) = (snake(&message.name), message.versions);
            let kind = if life(message).is_empty() { "plain" } else { "borrowing" };
            let _ =
                writeln!(lines, "{group} {module} {} {} {} {kind};", message.name, versions.lowest, versions.highest);
        }
    }
    let mut flexible = String::new();
    for message in &groups[0].1 {
        let (Some(key), true) = (message.key, message.name.ends_with("Request")) else { continue };
        let from = if message.flexible.is_empty() { i16::MAX } else { message.flexible.lowest };
        let _ = writeln!(flexible, "{key} => Some({from}),");
    }
    format!(
        "/// Calls a macro with one entry `group module Name lowest highest borrowing|plain;` for each declared message.
        #[macro_export]
        macro_rules! for_each_message {{ ($callback:ident) => {{ $callback! {{ {lines} }} }} }}

        /// The first flexible version of a request, `i16::MAX` when it has none; nothing for undeclared APIs.
        pub(crate) fn flexible_from(api_key: i16) -> Option<i16> {{ match api_key {{ {flexible} _ => None }} }}
        "
    )
}
