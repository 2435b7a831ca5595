//! `.kafka_cleanshutdown`: present after an orderly stop. JSON: `{"version":0,"brokerEpoch":N}`.

use super::{FormatError, text};
use serde::Deserialize;

const WHAT: &str = ".kafka_cleanshutdown";
pub const FILE_NAME: &str = ".kafka_cleanshutdown";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CleanShutdown {
    /// The epoch under which the broker was registered when it stopped.
    pub broker_epoch: i64,
}

#[derive(Deserialize)]
struct Json {
    version: i64,
    #[serde(rename = "brokerEpoch")]
    broker_epoch: i64,
}

pub fn encode(mark: CleanShutdown) -> Vec<u8> {
    format!("{{\"version\":0,\"brokerEpoch\":{}}}", mark.broker_epoch).into_bytes()
}

pub fn decode(bytes: &[u8]) -> Result<CleanShutdown, FormatError> {
    let json: Json = serde_json::from_str(text(WHAT, bytes)?).map_err(|e| FormatError::Json {
        what: WHAT,
        line: e.line(),
        column: e.column(),
    })?;
    match json.version {
        0 => Ok(CleanShutdown { broker_epoch: json.broker_epoch }),
        found => Err(FormatError::Version { what: WHAT, found, supported: 0 }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn marks_round_trip(broker_epoch in any::<i64>()) {
            let mark = CleanShutdown { broker_epoch };
            prop_assert_eq!(decode(&encode(mark)), Ok(mark));
        }

        #[test]
        fn any_bytes_are_decoded_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            let _ = decode(&bytes);
        }
    }

    #[test]
    fn text_is_kafka_s() {
        assert_eq!(encode(CleanShutdown { broker_epoch: 42 }), br#"{"version":0,"brokerEpoch":42}"#);
        assert!(decode(b"").is_err());
    }
}
