//! A request as the broker gets it, without the length in front: header, then the body of the API and version that the
//! header names.

use mainstem_kafka_wire::{Reader, decode_request_header};

use super::messages::of_api;

pub fn run(data: &[u8]) {
    let mut reader = Reader::new(data);
    let Ok(Some(header)) = decode_request_header(&mut reader) else { return };
    if let Some(entry) = of_api(header.request_api_key, "Request") {
        (entry.check)(reader.rest(), header.request_api_version);
    }
}
