//! Every generated message behind plain functions.

use mainstem_kafka_wire::{DecodeError, EncodeError, Message as _, Reader, Writer};

/// What came of decoding and encoding again.
#[derive(Debug)]
pub struct Recoded {
    /// Bytes that the decoder read.
    pub consumed: usize,
    pub encoded: Result<Vec<u8>, EncodeError>,
}

pub struct Entry {
    pub group: &'static str,
    pub name: &'static str,
    pub lowest: i16,
    pub highest: i16,
    /// Decodes in one version and encodes in another.
    pub recode: fn(&[u8], i16, i16) -> Result<Recoded, DecodeError>,
    /// Only decodes.
    pub decode: fn(&[u8], i16) -> Result<(), DecodeError>,
    /// Encodes the default value.
    pub encode_default: fn(i16) -> Result<Vec<u8>, EncodeError>,
}

macro_rules! owned_equals {
    (borrowing, $value:expr) => {
        // A float that is not a number equals nothing, itself included.
        assert!($value.clone().into_owned() == $value || $value != $value.clone())
    };
    (plain, $value:expr) => {
        let _ = &$value;
    };
}

macro_rules! entries {
    ($($group:ident $module:ident $name:ident $lowest:literal $highest:literal $kind:ident;)*) => {
        pub fn entries() -> Vec<Entry> {
            vec![$({
                use mainstem_kafka_wire::$group::$module::$name;
                Entry {
                    group: stringify!($group),
                    name: stringify!($name),
                    lowest: $lowest,
                    highest: $highest,
                    recode: |bytes, read, write| {
                        let mut reader = Reader::new(bytes);
                        let value = $name::decode(&mut reader, read)?;
                        owned_equals!($kind, value);
                        let consumed = reader.position();
                        let mut writer = Writer::new();
                        let encoded = value.encode(&mut writer, write).map(|()| writer.as_bytes().to_vec());
                        Ok(Recoded { consumed, encoded })
                    },
                    decode: |bytes, version| $name::decode(&mut Reader::new(bytes), version).map(|_| ()),
                    encode_default: |version| {
                        let mut writer = Writer::new();
                        $name::default().encode(&mut writer, version)?;
                        Ok(writer.as_bytes().to_vec())
                    },
                }
            }),*]
        }
    };
}

mainstem_kafka_wire::for_each_message!(entries);

pub fn entry(name: &str) -> Entry {
    entries().into_iter().find(|entry| entry.name == name).unwrap()
}
