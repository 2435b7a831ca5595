//! Byte comparison with the crate `kafka-protocol` (generated from Kafka 4.1), for every message and version it has.
//!
//! What we write, it reads to the last byte and writes again: the same bytes. And what it writes, we read and write
//! again: the same bytes. Field order by name is the business of [`crate::golden`]; this is the second opinion on
//! layout, and it is a decoder that nobody here wrote.

use kafka_protocol::messages as theirs;
use kafka_protocol::protocol::{Decodable, Encodable};
use proptest::prelude::*;

use crate::encode::encode;
use crate::entries::{Entry, entries};
use crate::model::{Random, Value, message, random_struct};
use crate::schema::Message;

/// The number of bytes left unread, and the bytes written.
type PeerRecoded = Result<(usize, Vec<u8>), String>;

struct Peer {
    name: &'static str,
    lowest: i16,
    highest: i16,
    /// Decodes and encodes again.
    recode: fn(&[u8], i16) -> PeerRecoded,
}

macro_rules! peers {
    ($($name:ident),* $(,)?) => {
        fn peers() -> Vec<Peer> {
            vec![$(Peer {
                name: stringify!($name),
                lowest: <theirs::$name as kafka_protocol::protocol::Message>::VERSIONS.min,
                highest: <theirs::$name as kafka_protocol::protocol::Message>::VERSIONS.max,
                recode: |bytes, version| {
                    let mut input = bytes::Bytes::copy_from_slice(bytes);
                    let value = theirs::$name::decode(&mut input, version).map_err(|error| error.to_string())?;
                    let mut output = bytes::BytesMut::new();
                    value.encode(&mut output, version).map_err(|error| error.to_string())?;
                    Ok((input.len(), output.to_vec()))
                },
            }),*]
        }
    };
}

peers! {
    ProduceRequest, ProduceResponse, FetchRequest, FetchResponse, ListOffsetsRequest, ListOffsetsResponse,
    MetadataRequest, MetadataResponse, OffsetCommitRequest, OffsetCommitResponse, OffsetFetchRequest,
    OffsetFetchResponse, FindCoordinatorRequest, FindCoordinatorResponse, JoinGroupRequest, JoinGroupResponse,
    HeartbeatRequest, HeartbeatResponse, LeaveGroupRequest, LeaveGroupResponse, SyncGroupRequest,
    SyncGroupResponse, DescribeGroupsRequest, DescribeGroupsResponse, ListGroupsRequest, ListGroupsResponse,
    SaslHandshakeRequest, SaslHandshakeResponse, ApiVersionsRequest, ApiVersionsResponse, CreateTopicsRequest,
    CreateTopicsResponse, DeleteTopicsRequest, DeleteTopicsResponse, DeleteRecordsRequest,
    DeleteRecordsResponse, InitProducerIdRequest, InitProducerIdResponse, OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse, AddPartitionsToTxnRequest, AddPartitionsToTxnResponse, AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse, EndTxnRequest, EndTxnResponse, WriteTxnMarkersRequest, WriteTxnMarkersResponse,
    TxnOffsetCommitRequest, TxnOffsetCommitResponse, DescribeAclsRequest, DescribeAclsResponse,
    CreateAclsRequest, CreateAclsResponse, DeleteAclsRequest, DeleteAclsResponse, DescribeConfigsRequest,
    DescribeConfigsResponse, AlterConfigsRequest, AlterConfigsResponse, AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse, DescribeLogDirsRequest, DescribeLogDirsResponse, SaslAuthenticateRequest,
    SaslAuthenticateResponse, CreatePartitionsRequest, CreatePartitionsResponse, CreateDelegationTokenRequest,
    CreateDelegationTokenResponse, RenewDelegationTokenRequest, RenewDelegationTokenResponse,
    ExpireDelegationTokenRequest, ExpireDelegationTokenResponse, DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse, DeleteGroupsRequest, DeleteGroupsResponse, ElectLeadersRequest,
    ElectLeadersResponse, IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse,
    AlterPartitionReassignmentsRequest, AlterPartitionReassignmentsResponse, ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse, OffsetDeleteRequest, OffsetDeleteResponse, DescribeClientQuotasRequest,
    DescribeClientQuotasResponse, AlterClientQuotasRequest, AlterClientQuotasResponse,
    DescribeUserScramCredentialsRequest, DescribeUserScramCredentialsResponse, AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse, DescribeQuorumRequest, DescribeQuorumResponse, UpdateFeaturesRequest,
    UpdateFeaturesResponse, DescribeClusterRequest, DescribeClusterResponse, DescribeProducersRequest,
    DescribeProducersResponse, UnregisterBrokerRequest, UnregisterBrokerResponse, DescribeTransactionsRequest,
    DescribeTransactionsResponse, ListTransactionsRequest, ListTransactionsResponse,
    ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse, ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse, GetTelemetrySubscriptionsRequest, GetTelemetrySubscriptionsResponse,
    PushTelemetryRequest, PushTelemetryResponse, ListConfigResourcesRequest, ListConfigResourcesResponse,
    DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse, ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse, ShareGroupDescribeRequest, ShareGroupDescribeResponse, ShareFetchRequest,
    ShareFetchResponse, ShareAcknowledgeRequest, ShareAcknowledgeResponse, DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsResponse, AlterShareGroupOffsetsRequest, AlterShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsRequest, DeleteShareGroupOffsetsResponse, ConsumerProtocolAssignment,
    ConsumerProtocolSubscription, RequestHeader, ResponseHeader, DefaultPrincipalData, EndTxnMarker,
    LeaderChangeMessage, SnapshotHeaderRecord, SnapshotFooterRecord, KRaftVersionRecord, VotersRecord,
}

/// Messages that `kafka-protocol` 0.18 does not have, by the end or the start of their names. All of Kafka's are in
/// [`crate::golden`].
const MISSING: [(&str, &str); 8] = [
    ("FindByKey*", "Mainstem's own: its bytes are in `crate::exact`"),
    ("StreamsGroup*", "newer than its Kafka 4.1 APIs"),
    ("*Key", "records of internal topics are not part of it"),
    ("*Value", "records of internal topics are not part of it"),
    ("*Record", "metadata records are not part of it"),
    ("ControlRecordTypeSchema", "the type of a control record is written by hand there"),
    ("QuorumStateData", "stored as JSON, declared for its fields"),
    ("AbortedTxn", "entries of `.txnindex` are not part of it"),
];

fn is_declared_missing(name: &str) -> bool {
    MISSING.iter().any(|(pattern, _)| match (pattern.strip_prefix('*'), pattern.strip_suffix('*')) {
        (Some(end), _) => name.ends_with(end),
        (_, Some(start)) => name.starts_with(start),
        _ => name == *pattern,
    })
}

#[test]
fn every_message_is_compared_or_declared_missing() {
    let peers = peers();
    for entry in entries() {
        match peers.iter().find(|peer| peer.name == entry.name) {
            Some(peer) => {
                assert_eq!(peer.lowest, entry.lowest, "{}", entry.name);
                assert!(peer.highest <= entry.highest, "{}: {} is newer there", entry.name, peer.highest);
            }
            None => assert!(is_declared_missing(entry.name), "{} is neither compared nor missing", entry.name),
        }
    }
}

/// Messages with a field `Version`, which in `kafka-protocol`'s decoder hides the version being decoded: the structs
/// behind it are then read in the version that the field says. The field gets the true version here, which is also
/// what Kafka puts into it; other values are compared in [`crate::golden`].
const VERSION_HIDDEN_THERE: [&str; 2] = ["LeaderChangeMessage", "VotersRecord"];

fn random_value(random: &mut Random, message: &Message, version: i16) -> Value {
    let mut value = random_struct(random, message, &message.structs[0], version);
    if let (Value::Struct(fields), true) = (&mut value, VERSION_HIDDEN_THERE.contains(&message.name.as_str())) {
        fields[0] = Value::Int(i64::from(version));
    }
    value
}

fn compare(peer: &Peer, entry: &Entry, ours: &[u8], version: i16) -> Result<(), String> {
    let (unread, theirs) = (peer.recode)(ours, version)?;
    if unread != 0 {
        return Err(format!("{unread} bytes left unread"));
    }
    if theirs != ours {
        return Err(format!("they write {theirs:02x?}, we write {ours:02x?}"));
    }
    match (entry.recode)(&theirs, version, version).map_err(|error| error.to_string())?.encoded {
        Ok(again) if again == theirs => Ok(()),
        other => Err(format!("we make {other:02x?} of their {theirs:02x?}")),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..Default::default() })]

    #[test]
    fn bytes_are_those_of_kafka_protocol(seed: u64) {
        let (mut random, entries) = (Random(seed), entries());
        let mut failures = Vec::new();
        for peer in peers() {
            let entry = entries.iter().find(|entry| entry.name == peer.name).unwrap();
            let message = message(peer.name);
            for version in peer.lowest..=peer.highest {
                let value = random_value(&mut random, message, version);
                let ours = encode(message, &value, version).unwrap().bytes;
                if let Err(problem) = compare(&peer, entry, &ours, version) {
                    failures.push(format!("{} {version}: {problem}: {value:?}", peer.name));
                }
            }
        }
        prop_assert!(failures.is_empty(), "{}", failures.join("\n"));
    }
}
