//! The least number of bytes that a value takes on the wire: what bounds every reservation of the decoder.

use crate::schema::{Field, Message, Struct, Type};

/// The least size of one element of the array `field`, over all versions that carry it. Never zero.
pub fn least_element_size(message: &Message, field: &Field) -> Result<usize, String> {
    let versions = field.versions.intersect(message.versions);
    let least = (versions.lowest..=versions.highest).map(|version| plain_size(message, field, version)).min();
    match least {
        Some(size) if size > 0 => Ok(size),
        _ => Err(format!("{}: elements of {} may take no byte at all", message.place, field.name)),
    }
}

fn is_flexible(message: &Message, version: i16) -> bool {
    message.flexible.contains(version)
}

/// Of one value of the field's type, whether the field is an array or not.
fn plain_size(message: &Message, field: &Field, version: i16) -> usize {
    let compact = is_flexible(message, version) && !field.never_compact;
    match &field.kind {
        Type::Bool | Type::Int8 => 1,
        Type::Int16 | Type::Uint16 => 2,
        Type::Int32 | Type::Uint32 => 4,
        Type::Int64 | Type::Float64 => 8,
        Type::Uuid => 16,
        Type::String => {
            if compact {
                1
            } else {
                2
            }
        }
        Type::Bytes | Type::Records => {
            if compact {
                1
            } else {
                4
            }
        }
        Type::Struct(name) => message.structure(name).map_or(0, |inner| struct_size(message, inner, version)),
    }
}

fn struct_size(message: &Message, structure: &Struct, version: i16) -> usize {
    let flexible = is_flexible(message, version);
    let fields = structure.fields.iter().filter(|field| field.versions.contains(version));
    let plain: usize = fields
        .filter(|field| !field.is_tagged_in(version))
        .map(|field| match (field.is_array, &field.kind) {
            (true, _) => {
                if flexible {
                    1
                } else {
                    4
                }
            }
            // The presence byte of a nullable struct.
            (false, Type::Struct(_)) if nullable_in(field, version) => 1,
            (false, _) => plain_size(message, field, version),
        })
        .sum();
    plain + usize::from(flexible)
}

fn nullable_in(field: &Field, version: i16) -> bool {
    field.nullable.contains(version)
}
