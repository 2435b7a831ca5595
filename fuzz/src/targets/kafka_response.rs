//! A response as a client gets it: int16 API key and int16 version (which the client remembers), then header and body.

use mainstem_kafka_wire::messages::ResponseHeader;
use mainstem_kafka_wire::{Message as _, Reader, response_header_version};

use super::messages::of_api;

pub fn run(data: &[u8]) {
    let mut reader = Reader::new(data);
    let (Ok(api_key), Ok(version)) = (reader.i16("api key"), reader.i16("version")) else { return };
    let Some(header_version) = response_header_version(api_key, version) else { return };
    if ResponseHeader::decode(&mut reader, header_version).is_err() {
        return;
    }
    if let Some(entry) = of_api(api_key, "Response") {
        (entry.check)(reader.rest(), version);
    }
}
