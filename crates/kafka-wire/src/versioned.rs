//! Bytes that start with an int16: keys (the number of the record kind) and values (their version) of the internal
//! topics, and the opaque bytes of classic consumer groups.

use bytes::BytesMut;

use crate::{DecodeError, EncodeError, Message, Reader, Writer};

/// The int16 in front, and a reader over the rest.
pub fn read_version(bytes: &[u8]) -> Result<(i16, Reader<'_>), DecodeError> {
    let mut reader = Reader::new(bytes);
    let version = reader.i16("version")?;
    Ok((version, reader))
}

/// A value: its int16 version, then the message. Bytes behind the message are left unread, as Kafka leaves them.
pub fn decode_versioned<'a, M: Message<'a>>(bytes: &'a [u8]) -> Result<(M, i16), DecodeError> {
    let (version, mut reader) = read_version(bytes)?;
    Ok((M::decode(&mut reader, version)?, version))
}

/// A value: its int16 version, then the message.
pub fn encode_versioned<'a, M: Message<'a>>(message: &M, version: i16) -> Result<BytesMut, EncodeError> {
    let mut writer = Writer::new();
    writer.i16(version);
    message.encode(&mut writer, version)?;
    Ok(writer.into_parts().0)
}

/// A key of an internal topic: the number of the record kind, then the message in its only version 0.
pub fn encode_key<'a, M: Message<'a>>(key: &M) -> Result<BytesMut, EncodeError> {
    let mut writer = Writer::new();
    writer.i16(M::API_KEY.ok_or(EncodeError::NoKey { message: M::NAME })?);
    key.encode(&mut writer, 0)?;
    Ok(writer.into_parts().0)
}
