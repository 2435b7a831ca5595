//! The content of records of Mainstem's and Kafka's own topics.

use mainstem_kafka_wire::metadata_records::MetadataRecord;
use mainstem_kafka_wire::records as wire;
use mainstem_kafka_wire::{DecodeError, Message, Reader, decode_versioned, read_version};
use mainstem_record::{ControlKind, ControlRecord};
use serde_json::{Value, json};

use crate::message_json;

/// A record that was understood.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Decoded {
    /// Kafka's name of its kind.
    pub(crate) kind: String,
    pub(crate) version: Option<i16>,
    pub(crate) data: Value,
}

/// A record of `__cluster_metadata`.
pub(crate) fn metadata(value: &[u8]) -> Result<Decoded, String> {
    let (record, version) = MetadataRecord::decode_framed_versioned(value).map_err(|error| error.to_string())?;
    Ok(Decoded { kind: record.name().to_owned(), version: Some(version), data: message_json::of(&record) })
}

fn group_key<'a, M: Message<'a>>(mut reader: Reader<'a>) -> Result<(String, Value), DecodeError> {
    let kind = M::NAME.strip_suffix("Key").unwrap_or(M::NAME).to_owned();
    M::decode(&mut reader, 0).map(|key| (kind, message_json::of(&key)))
}

fn group_value<'a, M: Message<'a>>(bytes: &'a [u8]) -> Result<(Value, i16), DecodeError> {
    decode_versioned::<M>(bytes).map(|(value, version)| (message_json::of(&value), version))
}

/// A control record's value: its version stands in front and is a field as well.
fn mark<'a, M: Message<'a>>(bytes: &'a [u8]) -> Result<(Value, i16), DecodeError> {
    let (version, _) = read_version(bytes)?;
    M::decode(&mut Reader::new(bytes), version).map(|value| (message_json::of(&value), version))
}

/// Decodes by the number that a key begins with.
macro_rules! by_number {
    ($number:expr, $reader:expr, $value:expr, $($key_number:pat => $key:ident, $content:ident;)*) => {
        match $number {
            $($key_number => {
                let key = group_key::<wire::$key>($reader);
                let value = $value.map(group_value::<wire::$content>).transpose();
                Some(key.and_then(|key| Ok((key, value?))))
            })*
            _ => None,
        }
    };
}

/// A record of `__consumer_offsets`. A null value removes the key.
pub(crate) fn group(key: &[u8], value: Option<&[u8]>) -> Result<Decoded, String> {
    let (number, reader) = read_version(key).map_err(|error| error.to_string())?;
    let decoded = by_number!(number, reader, value,
        0 => LegacyOffsetCommitKey, OffsetCommitValue;
        1 => OffsetCommitKey, OffsetCommitValue;
        2 => GroupMetadataKey, GroupMetadataValue;
        3 => ConsumerGroupMetadataKey, ConsumerGroupMetadataValue;
        4 => ConsumerGroupPartitionMetadataKey, ConsumerGroupPartitionMetadataValue;
        5 => ConsumerGroupMemberMetadataKey, ConsumerGroupMemberMetadataValue;
        6 => ConsumerGroupTargetAssignmentMetadataKey, ConsumerGroupTargetAssignmentMetadataValue;
        7 => ConsumerGroupTargetAssignmentMemberKey, ConsumerGroupTargetAssignmentMemberValue;
        8 => ConsumerGroupCurrentMemberAssignmentKey, ConsumerGroupCurrentMemberAssignmentValue;
        10 => ShareGroupMemberMetadataKey, ShareGroupMemberMetadataValue;
        11 => ShareGroupMetadataKey, ShareGroupMetadataValue;
        12 => ShareGroupTargetAssignmentMetadataKey, ShareGroupTargetAssignmentMetadataValue;
        13 => ShareGroupTargetAssignmentMemberKey, ShareGroupTargetAssignmentMemberValue;
        14 => ShareGroupCurrentMemberAssignmentKey, ShareGroupCurrentMemberAssignmentValue;
        15 => ShareGroupStatePartitionMetadataKey, ShareGroupStatePartitionMetadataValue;
        16 => ConsumerGroupRegularExpressionKey, ConsumerGroupRegularExpressionValue;
        17 => StreamsGroupMetadataKey, StreamsGroupMetadataValue;
        19 => StreamsGroupMemberMetadataKey, StreamsGroupMemberMetadataValue;
        20 => StreamsGroupTargetAssignmentMetadataKey, StreamsGroupTargetAssignmentMetadataValue;
        21 => StreamsGroupTargetAssignmentMemberKey, StreamsGroupTargetAssignmentMemberValue;
        22 => StreamsGroupCurrentMemberAssignmentKey, StreamsGroupCurrentMemberAssignmentValue;
        23 => StreamsGroupTopologyKey, StreamsGroupTopologyValue;
    );
    finish(number, decoded)
}

type KeyAndValue = ((String, Value), Option<(Value, i16)>);

fn finish(number: i16, decoded: Option<Result<KeyAndValue, DecodeError>>) -> Result<Decoded, String> {
    let decoded = decoded.ok_or_else(|| format!("a key of the unknown kind {number}"))?;
    let ((kind, key), value) = decoded.map_err(|error| error.to_string())?;
    let version = value.as_ref().map(|(_, version)| *version);
    Ok(Decoded { kind, version, data: json!({ "key": key, "value": value.map(|(value, _)| value) }) })
}

/// A record of `__transaction_state`. A null value removes the key.
pub(crate) fn transaction(key: &[u8], value: Option<&[u8]>) -> Result<Decoded, String> {
    let (number, reader) = read_version(key).map_err(|error| error.to_string())?;
    let decoded = by_number!(number, reader, value, 0 => TransactionLogKey, TransactionLogValue;);
    let mut decoded = finish(number, decoded)?;
    if let Some(status) = decoded.data.pointer_mut("/value/transaction_status") {
        let name = status.as_u64().and_then(|status| TRANSACTION_STATES.get(status as usize));
        *status = name.map_or(status.take(), |name| Value::from(*name));
    }
    Ok(decoded)
}

/// Kafka's names, by their numbers.
const TRANSACTION_STATES: [&str; 8] = [
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "Dead",
    "PrepareEpochFence",
];

/// A control record: the end of a transaction, or a mark of the metadata log.
pub(crate) fn control(key: &[u8], value: &[u8]) -> Result<Decoded, String> {
    let text = |error: mainstem_record::ControlError| error.to_string();
    let Some(kind) = ControlKind::of_key(key).map_err(text)? else {
        return Err("a control record of an unknown kind".to_owned());
    };
    let decoded = match kind {
        ControlKind::Abort | ControlKind::Commit => {
            let epoch = ControlRecord::coordinator_epoch(value).map_err(text)?;
            Ok((json!({ "coordinator_epoch": epoch }), 0))
        }
        ControlKind::LeaderChange => mark::<wire::LeaderChangeMessage>(value),
        ControlKind::SnapshotHeader => mark::<wire::SnapshotHeaderRecord>(value),
        ControlKind::SnapshotFooter => mark::<wire::SnapshotFooterRecord>(value),
        ControlKind::KRaftVersion => mark::<wire::KRaftVersionRecord>(value),
        ControlKind::KRaftVoters => mark::<wire::VotersRecord>(value),
    };
    let (data, version) = decoded.map_err(|error| error.to_string())?;
    Ok(Decoded { kind: format!("{kind:?}"), version: Some(version), data })
}

#[cfg(test)]
mod tests {
    use super::*;
    use mainstem_kafka_wire::records::{OffsetCommitKey, OffsetCommitValue};
    use mainstem_kafka_wire::{encode_key, encode_versioned};
    use mainstem_types::NodeId;

    #[test]
    fn a_committed_offset_is_shown_with_its_names() {
        let key = encode_key(&OffsetCommitKey { group: "readers".into(), topic: "t".into(), partition: 3 }).unwrap();
        let value = OffsetCommitValue { offset: 42, metadata: "m".into(), ..Default::default() };
        let value = encode_versioned(&value, 4).unwrap();
        let decoded = group(&key, Some(&value)).unwrap();
        assert_eq!((decoded.kind.as_str(), decoded.version), ("OffsetCommit", Some(4)));
        assert_eq!(decoded.data["key"]["group"], "readers");
        assert_eq!(decoded.data["value"]["offset"], 42);
        assert_eq!(group(&key, None).unwrap().data["value"], Value::Null);
        assert!(group(&[0x7f, 0], None).unwrap_err().contains("unknown kind"));
        assert!(group(&[0], None).is_err());
    }

    #[test]
    fn the_state_of_a_transaction_is_shown_with_its_names() {
        use mainstem_kafka_wire::records::{TransactionLogKey, TransactionLogValue};
        let key = encode_key(&TransactionLogKey { transactional_id: "orders".into() }).unwrap();
        for version in 0..=1 {
            let value = TransactionLogValue { producer_id: 7, transaction_status: 2, ..Default::default() };
            let value = encode_versioned(&value, version).unwrap();
            let decoded = transaction(&key, Some(&value)).unwrap();
            assert_eq!((decoded.kind.as_str(), decoded.version), ("TransactionLog", Some(version)));
            assert_eq!(decoded.data["key"]["transactional_id"], "orders");
            assert_eq!(decoded.data["value"]["producer_id"], 7);
            assert_eq!(decoded.data["value"]["transaction_status"], "PrepareCommit");
        }
        assert_eq!(transaction(&key, None).unwrap().data["value"], Value::Null);
        assert!(transaction(&[0, 1], None).unwrap_err().contains("unknown kind"));
    }

    #[test]
    fn marks_of_transactions_are_understood() {
        let mark = ControlRecord::EndTransaction { committed: true, coordinator_epoch: 7 };
        let decoded = control(&mark.key(), &mark.value()).unwrap();
        assert_eq!((decoded.kind.as_str(), &decoded.data), ("Commit", &json!({ "coordinator_epoch": 7 })));
        let leader = NodeId(3);
        let mark = ControlRecord::LeaderChange { leader, voters: vec![leader], granting_voters: Vec::new() };
        let decoded = control(&mark.key(), &mark.value()).unwrap();
        assert_eq!((decoded.kind.as_str(), &decoded.data["leader_id"]), ("LeaderChange", &json!(3)));
        assert_eq!(decoded.data["voters"][0]["voter_id"], 3);
    }
}
