//! Reads every file of a data folder, Mainstem's or Kafka's, and changes nothing. [`dump()`] shows the content of a
//! file, and [`verify()`] checks whether all files agree.
//!
//! Guarantees:
//!
//! - Files are opened only to read.
//! - Damage is reported with its place, and what follows it is read, too.
//!
//! Numbers: of a log, 1 MiB is in memory, or one batch; of small files at most 256 MiB; records of a batch are
//! decompressed up to 256 MiB.

pub mod dump;
mod internal;
mod key_index_file;
mod kind;
mod line;
mod message_json;
mod scan;
pub mod verify;

pub use dump::{DumpError, DumpOptions, Dumped, dump};
pub use kind::{Content, FileKind};
pub use line::Line;
pub use verify::{Event, Summary, VerifyError, verify};
