//! The frame of a metadata record: varint frame version, varint record kind, varint version, then the message.

use crate::error::DecodeErrorKind;
use crate::metadata_records::MetadataRecord;
use crate::{DecodeError, EncodeError, Reader, Writer};

/// The only frame version that Kafka knows.
pub const METADATA_FRAME_VERSION: u32 = 1;

const FIELD: &str = "MetadataRecord";

impl<'a> MetadataRecord<'a> {
    /// Appends the frame and the record in this version: the value of a record of `__cluster_metadata`.
    pub fn encode_framed(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        let unsupported = EncodeError::UnsupportedVersion { message: FIELD, version };
        writer.uvarint(METADATA_FRAME_VERSION);
        writer.uvarint(u32::try_from(self.api_key()).map_err(|_| unsupported)?);
        writer.uvarint(u32::try_from(version).map_err(|_| unsupported)?);
        self.encode_body(writer, version)
    }

    /// The value of a record of `__cluster_metadata`. Bytes behind the record are an error.
    pub fn decode_framed(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        Self::decode_framed_versioned(bytes).map(|(record, _)| record)
    }

    /// As [`decode_framed`](Self::decode_framed), and the version in which the record was written.
    pub fn decode_framed_versioned(bytes: &'a [u8]) -> Result<(Self, i16), DecodeError> {
        let mut reader = Reader::new(bytes);
        let frame_version = reader.uvarint(FIELD)?;
        if frame_version != METADATA_FRAME_VERSION {
            return Err(reader.error(FIELD, DecodeErrorKind::UnknownFrameVersion(frame_version)));
        }
        let api_key = small(&mut reader)?;
        let version = small(&mut reader)?;
        let record = Self::decode_body(&mut reader, api_key, version)?;
        reader.finish(FIELD)?;
        Ok((record, version))
    }
}

/// A varint that must fit an int16.
fn small(reader: &mut Reader<'_>) -> Result<i16, DecodeError> {
    let value = reader.uvarint(FIELD)?;
    i16::try_from(value).map_err(|_| reader.error(FIELD, DecodeErrorKind::VarintTooLong))
}
