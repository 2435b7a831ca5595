//! One file a target. A target turns bytes into calls of one decoder and checks what must hold for whatever it accepts.

pub mod coordinator_record;
pub mod decompress_gzip;
pub mod decompress_lz4;
pub mod decompress_snappy;
pub mod decompress_zstd;
pub mod kafka_request;
pub mod kafka_response;
pub mod metadata_record;
pub mod record_batch;

mod decompress;
mod messages;
