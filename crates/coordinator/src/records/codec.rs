//! Records to bytes and back.

use std::borrow::Cow;
use std::sync::Arc;

use mainstem_kafka_wire::records::group_metadata_key::GroupMetadataKey;
use mainstem_kafka_wire::records::group_metadata_value::{GroupMetadataValue, MemberMetadata};
use mainstem_kafka_wire::records::offset_commit_key::OffsetCommitKey;
use mainstem_kafka_wire::records::offset_commit_value::OffsetCommitValue;
use mainstem_kafka_wire::{
    DecodeError, EncodeError, Message, Reader, decode_versioned, encode_key, encode_versioned, read_version,
};
use mainstem_types::{LeaderEpoch, Offset, PartitionIndex, TimestampMs};

use super::{FoundRecord, GroupMetadata, OffsetsRecord, StoredMember};
use crate::group_type::{ForeignKey, names_member};
use crate::{CommittedOffset, GroupType, RecordError};

/// The version that carries `expireTimestamp`; no other does.
const OFFSET_COMMIT_WITH_EXPIRY: i16 = 1;
const OFFSET_COMMIT: i16 = 4;
const GROUP_METADATA: i16 = 3;

impl OffsetsRecord {
    /// The record's key. Fails only for texts longer than 32,767 bytes.
    pub fn encode_key(&self) -> Result<Vec<u8>, EncodeError> {
        Ok(match self {
            OffsetsRecord::OffsetCommit { group, topic, partition, .. } => encode_key(&OffsetCommitKey {
                group: Cow::Borrowed(group),
                topic: Cow::Borrowed(topic),
                partition: partition.0,
            })?
            .into(),
            OffsetsRecord::GroupMetadata { group, .. } => {
                encode_key(&GroupMetadataKey { group: Cow::Borrowed(group) })?.into()
            }
            OffsetsRecord::ForeignTombstone { key } => key.to_vec(),
        })
    }

    /// The record's value; `None` is a tombstone. Fails only for texts longer than 32,767 bytes.
    pub fn encode_value(&self) -> Result<Option<Vec<u8>>, EncodeError> {
        match self {
            OffsetsRecord::OffsetCommit { value, .. } => value.as_ref().map(encode_offset).transpose(),
            OffsetsRecord::GroupMetadata { value, .. } => value.as_ref().map(encode_group).transpose(),
            OffsetsRecord::ForeignTombstone { .. } => Ok(None),
        }
    }

    /// Reads a record of the log; `None` if it is of a kind that is not written here.
    ///
    /// # Errors
    /// The record is cut short or malformed.
    pub fn decode(key: &[u8], value: Option<&[u8]>) -> Result<Option<OffsetsRecord>, RecordError> {
        Ok(match FoundRecord::decode(key, value)? {
            FoundRecord::OffsetCommit { group, topic, partition, value } => {
                Some(OffsetsRecord::OffsetCommit { group, topic, partition: PartitionIndex(partition), value })
            }
            FoundRecord::GroupMetadata { group, value } => Some(OffsetsRecord::GroupMetadata { group, value }),
            FoundRecord::Foreign { .. } | FoundRecord::Unknown => None,
        })
    }
}

fn encode_offset(value: &CommittedOffset) -> Result<Vec<u8>, EncodeError> {
    let version = if value.expire_timestamp.is_some() { OFFSET_COMMIT_WITH_EXPIRY } else { OFFSET_COMMIT };
    let message = OffsetCommitValue {
        offset: value.offset.0,
        leader_epoch: value.leader_epoch.0,
        metadata: Cow::Borrowed(&value.metadata),
        commit_timestamp: value.commit_timestamp.0,
        expire_timestamp: value.expire_timestamp.unwrap_or(TimestampMs::NONE).0,
        topic_id: value.topic_id,
    };
    encode_versioned(&message, version).map(Into::into)
}

fn encode_group(value: &GroupMetadata) -> Result<Vec<u8>, EncodeError> {
    let members = value.members.iter().map(|member| MemberMetadata {
        member_id: Cow::Borrowed(&member.member_id),
        group_instance_id: member.instance_id.as_deref().map(Cow::Borrowed),
        client_id: Cow::Borrowed(&member.client_id),
        client_host: Cow::Borrowed(&member.client_host),
        rebalance_timeout: member.rebalance_timeout_ms,
        session_timeout: member.session_timeout_ms,
        subscription: Cow::Borrowed(&member.subscription),
        assignment: Cow::Borrowed(&member.assignment),
    });
    let message = GroupMetadataValue {
        protocol_type: Cow::Borrowed(&value.protocol_type),
        generation: value.generation,
        protocol: value.protocol.as_deref().map(Cow::Borrowed),
        leader: value.leader.as_deref().map(Cow::Borrowed),
        current_state_timestamp: value.state_timestamp.0,
        members: members.collect(),
    };
    encode_versioned(&message, GROUP_METADATA).map(Into::into)
}

impl FoundRecord {
    /// Reads a record of the log. Kinds that are not known are [`FoundRecord::Unknown`], which is no error.
    pub(crate) fn decode(key: &[u8], value: Option<&[u8]>) -> Result<FoundRecord, RecordError> {
        let (kind, mut reader) = read_version(key).map_err(in_key)?;
        match kind {
            0 | 1 => {
                let key = OffsetCommitKey::decode(&mut reader, 0).map_err(in_key)?;
                let value = value.map(|bytes| decode_offset(&key.group, bytes)).transpose()?;
                let (group, topic, partition) = (key.group.into(), key.topic.into(), key.partition);
                Ok(FoundRecord::OffsetCommit { group, topic, partition, value })
            }
            2 => {
                let key = GroupMetadataKey::decode(&mut reader, 0).map_err(in_key)?;
                let value = value.map(|bytes| decode_group(&key.group, bytes)).transpose()?;
                Ok(FoundRecord::GroupMetadata { group: key.group.into(), value })
            }
            _ => match GroupType::of_record_kind(kind) {
                None => Ok(FoundRecord::Unknown),
                Some(group_type) => decode_foreign(kind, group_type, &mut reader, key, value.is_some()),
            },
        }
    }
}

fn decode_foreign(
    kind: i16,
    group_type: GroupType,
    reader: &mut Reader<'_>,
    key: &[u8],
    present: bool,
) -> Result<FoundRecord, RecordError> {
    let group: Arc<str> = reader.string("groupId", false).map_err(in_key)?.into();
    let member = if names_member(kind) { Some(reader.string("memberId", false).map_err(in_key)?.into()) } else { None };
    Ok(FoundRecord::Foreign { group, group_type, key: ForeignKey::new(kind, member, key), present })
}

fn decode_offset(group: &str, bytes: &[u8]) -> Result<CommittedOffset, RecordError> {
    let value: OffsetCommitValue<'_> = decode_value(group, bytes)?;
    Ok(CommittedOffset {
        offset: Offset(value.offset),
        leader_epoch: LeaderEpoch(value.leader_epoch),
        metadata: value.metadata.into(),
        commit_timestamp: TimestampMs(value.commit_timestamp),
        expire_timestamp: (value.expire_timestamp != -1).then_some(TimestampMs(value.expire_timestamp)),
        topic_id: value.topic_id,
    })
}

fn decode_group(group: &str, bytes: &[u8]) -> Result<GroupMetadata, RecordError> {
    let value: GroupMetadataValue<'_> = decode_value(group, bytes)?;
    let members = value.members.into_iter().map(|member| StoredMember {
        member_id: member.member_id.into(),
        instance_id: member.group_instance_id.map(Into::into),
        client_id: member.client_id.into(),
        client_host: member.client_host.into(),
        // Version 0 has no rebalance timeout: the session's counts.
        rebalance_timeout_ms: if member.rebalance_timeout == -1 {
            member.session_timeout
        } else {
            member.rebalance_timeout
        },
        session_timeout_ms: member.session_timeout,
        subscription: (&*member.subscription).into(),
        assignment: (&*member.assignment).into(),
    });
    Ok(GroupMetadata {
        protocol_type: value.protocol_type.into(),
        generation: value.generation,
        protocol: value.protocol.map(Into::into),
        leader: value.leader.map(Into::into),
        state_timestamp: TimestampMs(value.current_state_timestamp),
        members: members.collect(),
    })
}

fn decode_value<'a, M: Message<'a>>(group: &str, bytes: &'a [u8]) -> Result<M, RecordError> {
    let malformed = |error: DecodeError| RecordError::Value { group: group.to_owned(), reason: error.to_string() };
    let (version, _) = read_version(bytes).map_err(malformed)?;
    if !M::VERSIONS.contains(&version) {
        let max = *M::VERSIONS.end();
        return Err(RecordError::ValueVersion { group: group.to_owned(), version, max });
    }
    decode_versioned(bytes).map(|(message, _)| message).map_err(malformed)
}

fn in_key(error: DecodeError) -> RecordError {
    RecordError::Key { reason: error.to_string() }
}
