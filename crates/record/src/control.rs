//! Control records: marks that brokers write into partitions for each other and for consumers.
//!
//! The key is `version int16 = 0, type int16`. The values are Kafka's `EndTxnMarker` (with its version in front) and
//! its Raft messages, whose first field is their version.

use mainstem_types::{NodeId, TimestampMs};

/// The types of control records that have a number. Readers skip numbers they do not know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ControlKind {
    Abort = 0,
    Commit = 1,
    LeaderChange = 2,
    SnapshotHeader = 3,
    SnapshotFooter = 4,
    KRaftVersion = 5,
    KRaftVoters = 6,
}

impl ControlKind {
    const ALL: [ControlKind; 7] = [
        ControlKind::Abort,
        ControlKind::Commit,
        ControlKind::LeaderChange,
        ControlKind::SnapshotHeader,
        ControlKind::SnapshotFooter,
        ControlKind::KRaftVersion,
        ControlKind::KRaftVoters,
    ];

    /// Reads a key. `Ok(None)` is a type that this version does not know.
    pub fn of_key(key: &[u8]) -> Result<Option<ControlKind>, ControlError> {
        let (version, rest) = key.split_first_chunk::<2>().ok_or(ControlError::KeyTooShort { size: key.len() })?;
        let version = i16::from_be_bytes(*version);
        if version < 0 {
            return Err(ControlError::Version { version });
        }
        let kind = rest.first_chunk::<2>().ok_or(ControlError::KeyTooShort { size: key.len() })?;
        let kind = i16::from_be_bytes(*kind);
        Ok(ControlKind::ALL.into_iter().find(|known| *known as i16 == kind))
    }
}

/// Why a control record cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ControlError {
    #[error("the key of a control record has {size} bytes and needs 4")]
    KeyTooShort { size: usize },
    #[error("the control record has version {version}")]
    Version { version: i16 },
    #[error("the value of a transaction marker has {size} bytes and needs 6")]
    MarkerTooShort { size: usize },
}

/// A control record to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ControlRecord {
    /// The end of a transaction of the batch's producer.
    EndTransaction { committed: bool, coordinator_epoch: i32 },
    /// The first record of each leader of a Raft log (`LeaderChangeMessage` version 0).
    LeaderChange { leader: NodeId, voters: Vec<NodeId>, granting_voters: Vec<NodeId> },
    /// The first record of a snapshot.
    SnapshotHeader { last_contained_log_timestamp: TimestampMs },
    /// The last record of a snapshot.
    SnapshotFooter,
    /// The level of the Raft feature, in snapshots and logs of level 1 and later.
    KRaftVersion { level: i16 },
    /// A Raft message that was encoded elsewhere, its version in front.
    Raft { kind: ControlKind, value: Vec<u8> },
}

impl ControlRecord {
    pub fn kind(&self) -> ControlKind {
        match self {
            ControlRecord::EndTransaction { committed: false, .. } => ControlKind::Abort,
            ControlRecord::EndTransaction { committed: true, .. } => ControlKind::Commit,
            ControlRecord::LeaderChange { .. } => ControlKind::LeaderChange,
            ControlRecord::SnapshotHeader { .. } => ControlKind::SnapshotHeader,
            ControlRecord::SnapshotFooter => ControlKind::SnapshotFooter,
            ControlRecord::KRaftVersion { .. } => ControlKind::KRaftVersion,
            ControlRecord::Raft { kind, .. } => *kind,
        }
    }

    pub fn key(&self) -> [u8; 4] {
        let [high, low] = (self.kind() as i16).to_be_bytes();
        [0, 0, high, low]
    }

    pub fn value(&self) -> Vec<u8> {
        let mut out = 0i16.to_be_bytes().to_vec();
        match self {
            ControlRecord::EndTransaction { coordinator_epoch, .. } => {
                out.extend_from_slice(&coordinator_epoch.to_be_bytes());
                return out;
            }
            ControlRecord::LeaderChange { leader, voters, granting_voters } => {
                out.extend_from_slice(&leader.0.to_be_bytes());
                write_voters(&mut out, voters);
                write_voters(&mut out, granting_voters);
            }
            ControlRecord::SnapshotHeader { last_contained_log_timestamp } => {
                out.extend_from_slice(&last_contained_log_timestamp.0.to_be_bytes());
            }
            ControlRecord::SnapshotFooter => {}
            ControlRecord::KRaftVersion { level } => out.extend_from_slice(&level.to_be_bytes()),
            ControlRecord::Raft { value, .. } => return value.clone(),
        }
        out.push(0); // no tagged fields
        out
    }

    /// Reads the coordinator epoch out of the value of an `Abort` or `Commit`.
    pub fn coordinator_epoch(value: &[u8]) -> Result<i32, ControlError> {
        let short = ControlError::MarkerTooShort { size: value.len() };
        let (version, rest) = value.split_first_chunk::<2>().ok_or(short.clone())?;
        let version = i16::from_be_bytes(*version);
        if version < 0 {
            return Err(ControlError::Version { version });
        }
        rest.first_chunk::<4>().map(|epoch| i32::from_be_bytes(*epoch)).ok_or(short)
    }
}

/// A compact array: its length plus one as an unsigned varint, then each voter's id and its (no) tagged fields.
fn write_voters(out: &mut Vec<u8>, voters: &[NodeId]) {
    let mut length = voters.len() as u64 + 1;
    while length >= 0x80 {
        out.push(length as u8 | 0x80);
        length >>= 7;
    }
    out.push(length as u8);
    for voter in voters {
        out.extend_from_slice(&voter.0.to_be_bytes());
        out.push(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_name_the_kind() {
        let records = [
            (ControlRecord::EndTransaction { committed: false, coordinator_epoch: 1 }, 0),
            (ControlRecord::EndTransaction { committed: true, coordinator_epoch: 1 }, 1),
            (ControlRecord::SnapshotHeader { last_contained_log_timestamp: TimestampMs(5) }, 3),
            (ControlRecord::SnapshotFooter, 4),
            (ControlRecord::KRaftVersion { level: 1 }, 5),
            (ControlRecord::Raft { kind: ControlKind::KRaftVoters, value: vec![0, 0, 1] }, 6),
        ];
        for (record, number) in records {
            assert_eq!(record.key(), [0, 0, 0, number]);
            assert_eq!(ControlKind::of_key(&record.key()), Ok(Some(record.kind())));
        }
        assert_eq!(ControlKind::of_key(&[0, 0, 0, 99]), Ok(None));
        assert_eq!(ControlKind::of_key(&[0, 0, 0]), Err(ControlError::KeyTooShort { size: 3 }));
        assert_eq!(ControlKind::of_key(&[0xff, 0xff, 0, 1]), Err(ControlError::Version { version: -1 }));
    }

    #[test]
    fn values_are_kafka_s_messages() {
        let marker = ControlRecord::EndTransaction { committed: true, coordinator_epoch: 7 };
        assert_eq!(marker.value(), [0, 0, 0, 0, 0, 7]);
        assert_eq!(ControlRecord::coordinator_epoch(&marker.value()), Ok(7));
        assert!(ControlRecord::coordinator_epoch(&[0, 0, 1]).is_err());
        let leader = ControlRecord::LeaderChange {
            leader: NodeId(1),
            voters: vec![NodeId(1)],
            granting_voters: vec![NodeId(1)],
        };
        assert_eq!(leader.value(), [0, 0, 0, 0, 0, 1, 2, 0, 0, 0, 1, 0, 2, 0, 0, 0, 1, 0, 0]);
        assert_eq!(ControlRecord::SnapshotFooter.value(), [0, 0, 0]);
        assert_eq!(ControlRecord::Raft { kind: ControlKind::KRaftVoters, value: vec![0, 0, 1] }.value(), [0, 0, 1]);
        let header = ControlRecord::SnapshotHeader { last_contained_log_timestamp: TimestampMs(258) };
        assert_eq!(header.value(), [0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 0]);
    }
}
