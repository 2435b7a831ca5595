//! Reads every file of a data folder, Mainstem's or Kafka's, and changes nothing: what is in a file ([`dump()`]), and
//! whether all files say the same ([`verify()`]).
//!
//! What is guaranteed:
//!
//! - Files are opened to read and for nothing else.
//! - Damage is told with its place, and what follows it is read too.
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
