//! Which header version goes with which request, and reading a request's header.

use crate::messages::RequestHeader;
use crate::{ApiKey, DecodeError, Message, Reader};

/// Header 2 for flexible versions, 1 for all others. Nothing for APIs that are not declared here.
pub fn request_header_version(api_key: i16, version: i16) -> Option<i16> {
    let flexible_from = crate::registry::flexible_from(api_key)?;
    Some(if version >= flexible_from { 2 } else { 1 })
}

/// Header 1 for flexible versions, 0 for all others and for ApiVersions always: a client that does not know yet which
/// versions the broker speaks must be able to read that answer.
pub fn response_header_version(api_key: i16, version: i16) -> Option<i16> {
    let flexible_from = crate::registry::flexible_from(api_key)?;
    Some(i16::from(api_key != ApiKey::API_VERSIONS.0 && version >= flexible_from))
}

/// Reads the header in front of a request, in the version that its own first four bytes name. Nothing when the API is
/// not declared here: what follows the first eight bytes is then unknown.
pub fn decode_request_header<'a>(reader: &mut Reader<'a>) -> Result<Option<RequestHeader<'a>>, DecodeError> {
    let mut ahead = reader.clone();
    let api_key = ahead.i16("RequestHeader.RequestApiKey")?;
    let version = ahead.i16("RequestHeader.RequestApiVersion")?;
    match request_header_version(api_key, version) {
        Some(header_version) => RequestHeader::decode(reader, header_version).map(Some),
        None => Ok(None),
    }
}
