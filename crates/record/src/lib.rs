//! RecordBatch v2: view, validate, stamp, build, iterate, compress. Nothing else in Mainstem parses batches.
//!
//! Guarantees:
//!
//! - No function panics on any bytes; every error names the fault. No `unsafe`.
//! - [`BatchView`] and [`validate`] copy no payload. Walking an uncompressed batch allocates nothing; walking a
//!   compressed one uses one scratch window a thread.
//! - Decompression never yields more than the limit that the caller gives, and memory grows with the bytes that really
//!   come out, never with a claimed length.
//! - No IO, no clock: `now` is an argument.
//!
//! Numbers: the header is [`HEADER_SIZE`] = 61 bytes; a scanner needs [`PEEK_SIZE`] = 17 bytes to know size and format;
//! a batch is at most 2 GiB (its length field is an int32); a batch has at least one record when a client sends it and
//! may have none after compaction; the window for walking compressed records is 64 KiB, larger only for raw snappy.
//!
//! ```text
//! ┌───────────────┬──────────────┬─────────────────┬───────┬───────┬────────────┬───────────────────┬ …
//! │ base_offset 8 │ length 4     │ leader_epoch 4  │ magic │ crc 4 │ attributes │ last_offset_delta │
//! │               │ (after it)   │ (not in crc)    │ 1     │       │ 2          │ 4                 │
//! └───────────────┴──────────────┴─────────────────┴───────┴───────┴────────────┴───────────────────┴ …
//! … ┬──────────────────┬─────────────────┬───────────────┬──────────────────┬─────────────────┬─────────┬─────────┐
//!   │ base_timestamp 8 │ max_timestamp 8 │ producer_id 8 │ producer_epoch 2 │ base_sequence 4 │ count 4 │ records │
//! … ┴──────────────────┴─────────────────┴───────────────┴──────────────────┴─────────────────┴─────────┴─────────┘
//! ```
//! Big-endian. `crc` is CRC-32C over everything from `attributes` on. With a codec, `records` is one compressed stream.

mod batches;
mod build;
pub mod codec;
mod control;
mod header;
mod iter;
mod peek;
mod recompress;
mod retain;
mod stamp;
mod validate;
mod varint;
mod view;
mod walk;

pub use batches::Batches;
pub use build::{BatchBuilder, BuildError};
pub use codec::{Codec, CompressError, DecompressError, UnknownCodecName};
pub use control::{ControlError, ControlKind, ControlRecord};
pub use header::{Attributes, BatchHeader, HEADER_SIZE, PEEK_SIZE, TimestampType, layout};
pub use iter::{Record, RecordHeader, RecordHeaders, RecordIter};
pub use peek::{FramingError, Peek, peek};
pub use recompress::{RecompressError, recompress};
pub use retain::{RetainedBatch, empty_batch};
pub use stamp::{Stamp, StampTimestamp, stamp_in_place, stamped, stamped_header};
pub use validate::{
    ErrorClass, Origin, RecordProblem, RecordRejection, Rejections, Validated, ValidationError, ValidationRules,
    validate, validate_produced,
};
pub use view::{BatchView, has_transactional_bit};
pub use walk::RecordError;
