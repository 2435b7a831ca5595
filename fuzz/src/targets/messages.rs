//! All declared messages behind one function type, and the property that every decoder must have.

use mainstem_kafka_wire::{Message as _, Reader, Writer};

pub struct Entry {
    pub group: &'static str,
    pub name: &'static str,
    pub api_key: Option<i16>,
    /// Decodes in this version; what was accepted must encode, and decode again to something that encodes the same.
    pub check: fn(&[u8], i16),
    /// What was written for a client can be read in this version, to the last byte.
    pub read_all: fn(&[u8], i16),
}

macro_rules! entries {
    ($($group:ident $module:ident $name:ident $lowest:literal $highest:literal $kind:ident;)*) => {
        pub const ENTRIES: &[Entry] = &[$(Entry {
            group: stringify!($group),
            name: stringify!($name),
            api_key: mainstem_kafka_wire::$group::$name::API_KEY,
            check: |data, version| {
                use mainstem_kafka_wire::$group::$name;
                let Ok(value) = $name::decode(&mut Reader::new(data), version) else { return };
                let mut first = Writer::new();
                let encoded = value.encode(&mut first, version);
                assert_eq!(encoded, Ok(()), "{} {version} was read and cannot be written", stringify!($name));
                let again = $name::decode(&mut Reader::new(first.as_bytes()), version);
                // reason: the target exists to find this.
                let again = again.expect("what was written can be read");
                let mut second = Writer::new();
                assert_eq!(again.encode(&mut second, version), Ok(()));
                assert_eq!(first.as_bytes(), second.as_bytes(), "{} {version}", stringify!($name));
            },
            read_all: |data, version| {
                let mut reader = Reader::new(data);
                let read = mainstem_kafka_wire::$group::$name::decode(&mut reader, version).map(drop);
                assert_eq!(read, Ok(()), "{} {version}", stringify!($name));
                assert_eq!(reader.finish(stringify!($name)), Ok(()), "{version}");
            },
        }),*];
    };
}

mainstem_kafka_wire::for_each_message!(entries);

/// The message of this API with this ending of its name.
pub fn of_api(api_key: i16, ending: &str) -> Option<&'static Entry> {
    ENTRIES
        .iter()
        .find(|entry| entry.group == "messages" && entry.api_key == Some(api_key) && entry.name.ends_with(ending))
}
