//! `__cluster_metadata-0/quorum-state`: the vote and the leader of the metadata log. JSON of Kafka's QuorumStateData
//! with `data_version` 0 (static voters) or 1 (`kraft.version` 1 and up: no voters here, but a directory id with the
//! vote).

use super::{FormatError, text};
use mainstem_types::{LeaderEpoch, NodeId, Offset, TopicId};
use serde::Deserialize;
use std::fmt::Write;

const WHAT: &str = "quorum-state";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuorumState {
    /// -1 while unknown.
    pub leader_id: NodeId,
    pub leader_epoch: LeaderEpoch,
    /// -1 while no vote was given in this epoch.
    pub voted_id: NodeId,
    pub content: QuorumContent,
}

/// What differs between the two versions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QuorumContent {
    /// `data_version` 0.
    StaticVoters { cluster_id: String, applied_offset: Offset, voters: Vec<NodeId> },
    /// `data_version` 1.
    Dynamic { voted_directory_id: TopicId },
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Json {
    #[serde(rename = "data_version")]
    data_version: i64,
    leader_id: i32,
    leader_epoch: i32,
    voted_id: i32,
    #[serde(default)]
    cluster_id: String,
    #[serde(default)]
    applied_offset: i64,
    current_voters: Option<Vec<JsonVoter>>,
    voted_directory_id: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct JsonVoter {
    voter_id: i32,
}

pub fn encode(state: &QuorumState) -> Vec<u8> {
    let QuorumState { leader_id, leader_epoch, voted_id, content } = state;
    let common = format!("\"leaderId\":{leader_id},\"leaderEpoch\":{leader_epoch},\"votedId\":{voted_id}");
    match content {
        QuorumContent::StaticVoters { cluster_id, applied_offset, voters } => {
            let mut list = String::new();
            for (i, voter) in voters.iter().enumerate() {
                let _ = write!(list, "{}{{\"voterId\":{voter}}}", if i == 0 { "" } else { "," });
            }
            let cluster_id = serde_json::Value::from(cluster_id.as_str());
            format!(
                "{{\"clusterId\":{cluster_id},{common},\"appliedOffset\":{applied_offset},\"currentVoters\":[{list}],\"data_version\":0}}"
            )
        }
        QuorumContent::Dynamic { voted_directory_id } => {
            format!("{{{common},\"votedDirectoryId\":\"{voted_directory_id}\",\"data_version\":1}}")
        }
    }
    .into_bytes()
}

pub fn decode(bytes: &[u8]) -> Result<QuorumState, FormatError> {
    let json: Json = serde_json::from_str(text(WHAT, bytes)?).map_err(|e| FormatError::Json {
        what: WHAT,
        line: e.line(),
        column: e.column(),
    })?;
    let content = match json.data_version {
        0 => QuorumContent::StaticVoters {
            cluster_id: json.cluster_id,
            applied_offset: Offset(json.applied_offset),
            voters: json.current_voters.unwrap_or_default().into_iter().map(|v| NodeId(v.voter_id)).collect(),
        },
        1 => QuorumContent::Dynamic {
            voted_directory_id: json
                .voted_directory_id
                .and_then(|id| id.parse().ok())
                .ok_or(FormatError::MissingKey { what: WHAT, key: "votedDirectoryId" })?,
        },
        found => return Err(FormatError::Version { what: WHAT, found, supported: 1 }),
    };
    Ok(QuorumState {
        leader_id: NodeId(json.leader_id),
        leader_epoch: LeaderEpoch(json.leader_epoch),
        voted_id: NodeId(json.voted_id),
        content,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn content() -> impl Strategy<Value = QuorumContent> {
        prop_oneof![
            (".{0,10}", any::<i64>(), prop::collection::vec(any::<i32>(), 0..5)).prop_map(
                |(cluster_id, applied, voters)| {
                    QuorumContent::StaticVoters {
                        cluster_id,
                        applied_offset: Offset(applied),
                        voters: voters.into_iter().map(NodeId).collect(),
                    }
                }
            ),
            any::<[u8; 16]>().prop_map(|id| QuorumContent::Dynamic { voted_directory_id: TopicId(id) }),
        ]
    }

    proptest! {
        #[test]
        fn states_round_trip(leader in any::<i32>(), epoch in any::<i32>(), voted in any::<i32>(), content in content()) {
            let state = QuorumState {
                leader_id: NodeId(leader),
                leader_epoch: LeaderEpoch(epoch),
                voted_id: NodeId(voted),
                content,
            };
            prop_assert_eq!(decode(&encode(&state)), Ok(state));
        }

        #[test]
        fn any_bytes_are_decoded_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            let _ = decode(&bytes);
        }
    }

    #[test]
    fn text_is_kafka_s() {
        let text = br#"{"clusterId":"","leaderId":1,"leaderEpoch":1,"votedId":-1,"appliedOffset":0,"currentVoters":[{"voterId":1}],"data_version":0}"#;
        let state = QuorumState {
            leader_id: NodeId(1),
            leader_epoch: LeaderEpoch(1),
            voted_id: NodeId(-1),
            content: QuorumContent::StaticVoters {
                cluster_id: String::new(),
                applied_offset: Offset(0),
                voters: vec![NodeId(1)],
            },
        };
        assert_eq!(encode(&state), text);
        assert_eq!(decode(text), Ok(state));
    }
}
