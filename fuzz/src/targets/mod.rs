//! One file a target. A target turns bytes into calls of one decoder and checks what must hold for whatever it accepts.

pub mod coordinator_record;
pub mod kafka_request;
pub mod kafka_response;
pub mod metadata_record;

mod messages;
