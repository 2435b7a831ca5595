//! `.lock` and `abort`: who holds the folder, and that it was not let go orderly. One line of text, for people: the
//! process id. What counts is the lock on the first and the presence of the second, so every content is accepted.

/// Held with an exclusive lock by the process that uses the folder.
pub const LOCK_FILE_NAME: &str = ".lock";
/// Present while a Mainstem uses the folder; found at start, the last one did not stop orderly.
pub const ABORT_FILE_NAME: &str = "abort";

pub fn encode(process_id: u32) -> Vec<u8> {
    format!("{process_id}\n").into_bytes()
}

pub fn decode(bytes: &[u8]) -> Option<u32> {
    std::str::from_utf8(bytes).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn process_ids_round_trip(id in any::<u32>(), bytes in prop::collection::vec(any::<u8>(), 0..20)) {
            prop_assert_eq!(decode(&encode(id)), Some(id));
            let _ = decode(&bytes);
        }
    }
}
