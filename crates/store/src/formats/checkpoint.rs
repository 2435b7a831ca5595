//! `checkpoint`: up to where each view of a journal is durable, and the least of them over each journal it covers.
//!
//! Text: `version 1`, `generation N`, then a line `position name` for each view, sorted by name, and last `crc32c` of
//! all bytes before that line. Replaced as a whole; the previous generation stays beside it as `checkpoint.old`.

use super::{FormatError, line_error, text};
use std::collections::BTreeMap;
use std::fmt::Write;

const WHAT: &str = "checkpoint";
const VERSION: i64 = 1;
pub const FILE_NAME: &str = "checkpoint";
pub const OLD_FILE_NAME: &str = "checkpoint.old";

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Checkpoint {
    /// Grows with every write.
    pub generation: u64,
    /// Durable position by name. A position is an offset or a byte position, as the view counts.
    pub positions: BTreeMap<String, i64>,
}

pub fn encode(checkpoint: &Checkpoint) -> Vec<u8> {
    let mut out = format!("version {VERSION}\ngeneration {}\n", checkpoint.generation);
    for (name, position) in &checkpoint.positions {
        let _ = writeln!(out, "{position} {name}");
    }
    let crc = crate::crc32c(out.as_bytes());
    let _ = writeln!(out, "crc32c {crc:08x}");
    out.into_bytes()
}

pub fn decode(bytes: &[u8]) -> Result<Checkpoint, FormatError> {
    let text = text(WHAT, bytes)?;
    let short = || FormatError::TooShort { what: WHAT, length: bytes.len(), needed: 40 };
    let body_end = text.strip_suffix('\n').and_then(|t| t.rfind('\n')).ok_or_else(short)? + 1;
    let (body, last) = text.split_at(body_end);
    let crc = last.strip_prefix("crc32c ").and_then(|hex| u32::from_str_radix(hex.trim_end(), 16).ok());
    // A digit in upper case was never written, either.
    let crc = crc.filter(|crc| last == format!("crc32c {crc:08x}\n"));
    let stored = crc.ok_or_else(|| line_error(WHAT, body.lines().count() + 1, "`crc32c …`", last))?;
    let computed = crate::crc32c(body.as_bytes());
    if stored != computed {
        return Err(FormatError::Checksum { what: WHAT, stored, computed });
    }
    let mut lines = body.lines().enumerate();
    let mut head = |key: &'static str| {
        let (number, line) = lines.next().ok_or_else(short)?;
        let value = line.strip_prefix(key).and_then(|v| v.trim_start().parse::<u64>().ok());
        value.ok_or_else(|| line_error(WHAT, number + 1, key, line))
    };
    let version = head("version")? as i64;
    if version != VERSION {
        return Err(FormatError::Version { what: WHAT, found: version, supported: VERSION });
    }
    let mut checkpoint = Checkpoint { generation: head("generation")?, positions: BTreeMap::new() };
    for (number, line) in lines {
        let entry = line.split_once(' ').and_then(|(p, name)| Some((name.to_owned(), p.parse().ok()?)));
        let (name, position) = entry.ok_or_else(|| line_error(WHAT, number + 1, "`position name`", line))?;
        checkpoint.positions.insert(name, position);
    }
    Ok(checkpoint)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn checkpoints_round_trip(generation in any::<u64>(), positions in prop::collection::btree_map("[a-z0-9. _-]{0,20}", any::<i64>(), 0..20)) {
            let checkpoint = Checkpoint { generation, positions };
            prop_assert_eq!(decode(&encode(&checkpoint)), Ok(checkpoint));
        }

        #[test]
        fn a_flipped_bit_is_noticed(at in any::<prop::sample::Index>(), bit in 0..7) {
            let checkpoint = Checkpoint { generation: 7, positions: BTreeMap::from([("orders-0".to_owned(), 12)]) };
            let mut bytes = encode(&checkpoint);
            let at = at.index(bytes.len());
            bytes[at] ^= 1u8 << bit;
            prop_assert_ne!(decode(&bytes), Ok(checkpoint.clone()));
        }

        #[test]
        fn any_text_is_decoded_or_refused(text in "[a-z0-9 \n]{0,100}") {
            let _ = decode(text.as_bytes());
        }
    }

    #[test]
    fn nothing_is_not_an_empty_checkpoint() {
        assert!(matches!(decode(b""), Err(FormatError::TooShort { .. })));
        assert_eq!(decode(&encode(&Checkpoint::default())), Ok(Checkpoint::default()));
    }
}
