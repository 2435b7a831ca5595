//! One request frame: its header, decoded, and its body, still in the frame.

use bytes::{Bytes, BytesMut};
use mainstem_door::{Chunk, Reply, Response};
use mainstem_kafka_wire::{DecodeError, Message, Reader, Writer, decode_request_header, response_header_version};

use crate::close::CloseReason;

/// A request whose header is read and whose body waits to be decoded by the handler of its api.
#[derive(Debug, Clone)]
pub struct Request {
    pub api_key: i16,
    pub version: i16,
    pub correlation_id: i32,
    /// `client.id` as sent, at most 32 KiB (a protocol string).
    pub client_id: Option<Box<str>>,
    frame: Bytes,
    body_start: usize,
}

impl Request {
    /// Reads the header. The body is not looked at. `None`: there is no such api.
    pub fn parse(frame: Bytes) -> Result<Option<Request>, DecodeError> {
        let mut reader = Reader::new(&frame);
        let Some(header) = decode_request_header(&mut reader)? else { return Ok(None) };
        let (api_key, version) = (header.request_api_key, header.request_api_version);
        let client_id = header.client_id.map(|text| text.as_ref().into());
        let (correlation_id, body_start) = (header.correlation_id, reader.position());
        Ok(Some(Request { api_key, version, correlation_id, client_id, frame, body_start }))
    }

    pub fn body(&self) -> &[u8] {
        &self.frame[self.body_start..]
    }

    /// The whole frame, header included.
    pub fn frame(&self) -> &Bytes {
        &self.frame
    }

    /// Decodes the body. Bytes after the message are ignored, as Kafka does.
    pub fn decode<'a, M: Message<'a>>(&'a self) -> Result<M, CloseReason> {
        M::decode(&mut Reader::new(self.body()), self.version)
            .map_err(|error| CloseReason::Malformed(error.to_string()))
    }

    /// The response frame for `message`, with the header version that the api and version ask for.
    pub fn reply<'m, M: Message<'m>>(&self, message: &M) -> Reply {
        self.reply_with_holes(message, Vec::new())
    }

    /// As [`reply`](Self::reply), for a message with holes: `fillings[i]` takes the place of the i-th hole.
    pub fn reply_with_holes<'m, M: Message<'m>>(&self, message: &M, fillings: Vec<Vec<Chunk>>) -> Reply {
        self.reply_in_version(message, self.version, fillings)
    }

    /// As [`reply`](Self::reply), in another version than the request's (ApiVersions answers unknown versions in 0).
    pub fn reply_in_version<'m, M: Message<'m>>(&self, message: &M, version: i16, fillings: Vec<Vec<Chunk>>) -> Reply {
        let mut writer = Writer::with_capacity(256);
        writer.i32(self.correlation_id);
        if response_header_version(self.api_key, version).is_some_and(|header| header >= 1) {
            writer.uvarint(0); // no tagged fields
        }
        if let Err(error) = message.encode(&mut writer, version) {
            return Reply::close(CloseReason::Encoding(error.to_string()));
        }
        let (bytes, holes) = writer.into_parts();
        Reply::Send(Response { chunks: interleave(bytes, &holes, fillings) })
    }
}

/// Header bytes, filling, bytes, filling, … bytes.
fn interleave(mut bytes: BytesMut, holes: &[(usize, u32)], fillings: Vec<Vec<Chunk>>) -> Vec<Chunk> {
    debug_assert_eq!(holes.len(), fillings.len(), "each hole has one filling");
    let mut chunks = Vec::with_capacity(2 * holes.len() + 1);
    let mut taken = 0;
    for ((position, length), filling) in holes.iter().zip(fillings) {
        debug_assert_eq!(
            u64::from(*length),
            filling.iter().map(Chunk::len).sum::<u64>(),
            "a filling has its hole's size"
        );
        let part = bytes.split_to(position - taken);
        taken = *position;
        if !part.is_empty() {
            chunks.push(Chunk::Bytes(part.freeze()));
        }
        chunks.extend(filling);
    }
    if !bytes.is_empty() {
        chunks.push(Chunk::Bytes(bytes.freeze()));
    }
    chunks
}
