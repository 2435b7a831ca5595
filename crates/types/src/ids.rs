//! Ids: topics by 128-bit uuid, nodes by number.

use std::fmt;
use std::str::FromStr;

/// The id of a broker node. Kafka's `node.id`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub i32);

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A 128-bit uuid as Kafka writes it: topic ids (KIP-516), directory ids, incarnation ids, cluster ids.
///
/// Shown as unpadded base64url, 22 characters, as Kafka's `Uuid.toString` does.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct TopicId(pub [u8; 16]);

/// Why a text is not an id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicIdError;

impl fmt::Display for TopicIdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not an id of 22 base64url characters")
    }
}

impl std::error::Error for TopicIdError {}

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

impl TopicId {
    /// All zero: "no id" in the protocol.
    pub const ZERO: TopicId = TopicId([0; 16]);
    /// The fixed id of `__cluster_metadata`, `AAAAAAAAAAAAAAAAAAAAAQ`.
    pub const CLUSTER_METADATA: TopicId = TopicId([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);

    pub fn is_zero(&self) -> bool {
        *self == TopicId::ZERO
    }
}

impl fmt::Display for TopicId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = [0u8; 22];
        let bits = u128::from_be_bytes(self.0);
        for (i, slot) in text.iter_mut().enumerate() {
            // 22 characters carry 132 bits: the last one ends with four zero bits.
            let shift = 122 - 6 * i as i32;
            let six = if shift >= 0 { bits >> shift } else { bits << -shift } & 0x3f;
            *slot = ALPHABET[six as usize];
        }
        f.write_str(std::str::from_utf8(&text).unwrap_or_default())
    }
}

impl fmt::Debug for TopicId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for TopicId {
    type Err = TopicIdError;

    fn from_str(text: &str) -> Result<Self, TopicIdError> {
        let text = text.trim_end_matches('=');
        if text.len() != 22 {
            return Err(TopicIdError);
        }
        let mut bits: u128 = 0;
        for (i, byte) in text.bytes().enumerate() {
            let six = ALPHABET.iter().position(|a| *a == byte).ok_or(TopicIdError)? as u128;
            bits = if i < 21 { bits << 6 | six } else { bits << 2 | six >> 4 };
        }
        Ok(TopicId(bits.to_be_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_metadata_topic_has_the_id_that_kafka_prints() {
        assert_eq!(TopicId::CLUSTER_METADATA.to_string(), "AAAAAAAAAAAAAAAAAAAAAQ");
    }

    #[test]
    fn text_and_bytes_round_trip() {
        for seed in 0..64u8 {
            let id = TopicId(std::array::from_fn(|i| seed.wrapping_mul(37).wrapping_add((i as u8).wrapping_mul(29))));
            assert_eq!(id.to_string().parse(), Ok(id));
        }
        assert_eq!("MkU3OEVBNTcwNTJENDM2Qg".parse::<TopicId>().map(|i| i.0), Ok(*b"2E78EA57052D436B"));
        assert_eq!("short".parse::<TopicId>(), Err(TopicIdError));
        assert_eq!("MkU3OEVBNTcwNTJENDM2Q!".parse::<TopicId>(), Err(TopicIdError));
    }
}
