//! Whole frames: int32 length, header, message.

use std::borrow::Cow;

use bytes::Bytes;

use crate::messages::{RequestHeader, ResponseHeader};
use crate::{EncodeError, Message, Writer, request_header_version, response_header_version};

/// A frame ready to be sent: the bytes, and the holes between them (see [`Writer::holes`]).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Encoded {
    pub bytes: Bytes,
    pub holes: Vec<(usize, u32)>,
}

/// A response as it goes to the socket, its length in front. `api_key` and `version` are those of the request.
pub fn encode_response<'a, M: Message<'a>>(
    api_key: i16,
    version: i16,
    correlation_id: i32,
    message: &M,
) -> Result<Encoded, EncodeError> {
    let header_version = response_header_version(api_key, version);
    let header_version = header_version.ok_or(EncodeError::UnsupportedVersion { message: M::NAME, version })?;
    frame(|writer| {
        ResponseHeader { correlation_id }.encode(writer, header_version)?;
        message.encode(writer, version)
    })
}

/// A request as it goes to the socket, its length in front.
pub fn encode_request<'a, M: Message<'a>>(
    version: i16,
    correlation_id: i32,
    client_id: Option<&str>,
    message: &M,
) -> Result<Encoded, EncodeError> {
    let api_key = M::API_KEY.ok_or(EncodeError::NoKey { message: M::NAME })?;
    let header_version = request_header_version(api_key, version);
    let header_version = header_version.ok_or(EncodeError::UnsupportedVersion { message: M::NAME, version })?;
    let header = RequestHeader {
        request_api_key: api_key,
        request_api_version: version,
        correlation_id,
        client_id: client_id.map(Cow::Borrowed),
    };
    frame(|writer| {
        header.encode(writer, header_version)?;
        message.encode(writer, version)
    })
}

fn frame(body: impl FnOnce(&mut Writer) -> Result<(), EncodeError>) -> Result<Encoded, EncodeError> {
    let mut writer = Writer::with_capacity(256);
    writer.i32(0);
    body(&mut writer)?;
    let length = writer.total_len() - 4;
    let too_long = EncodeError::TooLong { field: "frame", length };
    writer.patch_i32(0, i32::try_from(length).map_err(|_| too_long)?);
    let (buffer, holes) = writer.into_parts();
    Ok(Encoded { bytes: buffer.freeze(), holes })
}
