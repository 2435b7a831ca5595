//! What a schema file declares: messages, structs, fields, and the versions that carry them.

/// An inclusive range of versions; empty when `lowest > highest`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Versions {
    pub lowest: i16,
    pub highest: i16,
}

impl Versions {
    pub const NONE: Versions = Versions { lowest: 0, highest: -1 };

    pub fn is_empty(self) -> bool {
        self.lowest > self.highest
    }

    pub fn contains(self, version: i16) -> bool {
        (self.lowest..=self.highest).contains(&version)
    }

    pub fn intersect(self, other: Versions) -> Versions {
        Versions { lowest: self.lowest.max(other.lowest), highest: self.highest.min(other.highest) }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Type {
    Bool,
    Int8,
    Int16,
    Int32,
    Int64,
    Uint16,
    Uint32,
    Float64,
    Uuid,
    String,
    Bytes,
    Records,
    /// A struct of the same message, by name.
    Struct(String),
}

#[derive(Debug, Clone)]
pub struct Field {
    pub name: String,
    pub kind: Type,
    pub is_array: bool,
    pub versions: Versions,
    pub nullable: Versions,
    /// Number of the tag and the versions in which the field is tagged.
    pub tag: Option<(u32, Versions)>,
    pub default: Option<String>,
    pub ignorable: bool,
    /// `flexible none`: lengths stay classic in flexible versions too.
    pub never_compact: bool,
}

#[derive(Debug, Clone)]
pub struct Struct {
    pub name: String,
    pub fields: Vec<Field>,
}

#[derive(Debug, Clone)]
pub struct Message {
    pub key: Option<i16>,
    pub name: String,
    pub versions: Versions,
    pub flexible: Versions,
    /// The first one is the message itself.
    pub structs: Vec<Struct>,
    /// File and line of the header, for error messages.
    pub place: String,
}

impl Message {
    pub fn structure(&self, name: &str) -> Option<&Struct> {
        self.structs.iter().find(|candidate| candidate.name == name)
    }
}

impl Field {
    /// Is the field tagged in this version?
    pub fn is_tagged_in(&self, version: i16) -> bool {
        self.tag.is_some_and(|(_, versions)| versions.contains(version))
    }
}
