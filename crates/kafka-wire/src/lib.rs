//! Every message of Kafka 4.4, declared: bounded borrowing decode, encode with holes for file slices.
//!
//! What is guaranteed:
//! - Decoding borrows strings, bytes and records from the frame. It never panics, whatever the bytes are.
//! - No allocation is sized by an unchecked length or count: an array is refused when its elements could not fit into
//!   the bytes that are left, at most 64 KiB are reserved ahead, and all arrays of one message together take at most
//!   [`DEFAULT_MEMORY_LIMIT`] (128 MiB, see [`Reader::with_memory_limit`]).
//! - A string is at most 32,767 bytes and UTF-8; a varint at most 5 bytes; nesting is what the schema declares.
//! - Unknown tagged fields are skipped. Bytes behind a message are left to the caller: Kafka ignores them in requests
//!   (and so does a door), and refuses them in metadata records ([`Reader::finish`]).
//! - A field that a version does not carry is left out when it is ignorable or holds its default, and is an error
//!   otherwise.
//! - Records are never copied: an encoder leaves a *hole* for them ([`Records::Hole`], [`Writer::holes`]).
//!
//! The messages are declared in `schema/`, one line a field; `build.rs` writes the Rust. Each message has a module
//! of its own in [`messages`], [`records`] (internal topics, control records) or [`metadata_records`].

mod api_key;
mod error;
mod error_code;
mod field_value;
mod frame;
mod header;
mod message;
mod reader;
mod records_value;
mod versioned;
mod writer;

pub use api_key::ApiKey;
pub use error::{DecodeError, DecodeErrorKind, EncodeError};
pub use error_code::ErrorCode;
pub use field_value::{AsFieldValue, FieldValue};
pub use frame::{Encoded, encode_request, encode_response};
pub use header::{decode_request_header, request_header_version, response_header_version};
pub use message::Message;
pub use reader::{DEFAULT_MEMORY_LIMIT, Reader};
pub use records_value::Records;
pub use versioned::{decode_versioned, encode_key, encode_versioned, read_version};
pub use writer::Writer;

/// What the generated modules need.
mod prelude {
    pub use std::borrow::Cow;
    pub use std::ops::RangeInclusive;

    pub use mainstem_types::TopicId;

    pub use crate::error::{DecodeError, EncodeError};
    pub use crate::field_value::{AsFieldValue, FieldValue};
    pub use crate::message::Message;
    pub use crate::reader::Reader;
    pub use crate::records_value::Records;
    pub use crate::writer::Writer;
}

/// Requests, responses, headers, and the messages embedded in them.
#[allow(clippy::all, unused_imports, unused_mut)]
pub mod messages {
    include!(concat!(env!("OUT_DIR"), "/messages.rs"));
}

/// Keys and values of `__consumer_offsets`, `__transaction_state` and `__share_group_state`; control records.
#[allow(clippy::all, unused_imports, unused_mut)]
pub mod records {
    include!(concat!(env!("OUT_DIR"), "/records.rs"));
}

/// Records of `__cluster_metadata`, and [`MetadataRecord`](metadata_records::MetadataRecord) over all of them.
#[allow(clippy::all, unused_imports, unused_mut)]
pub mod metadata_records {
    pub use crate::frame_metadata::METADATA_FRAME_VERSION;
    use crate::prelude::*;

    include!(concat!(env!("OUT_DIR"), "/metadata_records.rs"));
    include!(concat!(env!("OUT_DIR"), "/metadata_record_enum.rs"));
}

mod frame_metadata;

#[allow(clippy::all)]
mod registry {
    include!(concat!(env!("OUT_DIR"), "/registry.rs"));
}
