//! Kafka's error codes, their names, and what they mean in our words.
//!
//! Numbers, names and retriability are those of Kafka 4.4.

/// An int16 error code of a response. Numbers without a name are kept as they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct ErrorCode(pub i16);

macro_rules! error_codes {
    ($($number:literal $name:ident $retriable:ident $message:literal;)*) => {
        impl ErrorCode {
            $(#[doc = $message] pub const $name: ErrorCode = ErrorCode($number);)*

            /// All named codes, ascending.
            pub const ALL: &'static [ErrorCode] = &[$(ErrorCode($number)),*];

            /// Kafka's name, `UNNAMED` for other numbers.
            pub fn name(self) -> &'static str {
                match self.0 {
                    $($number => stringify!($name),)*
                    _ => "UNNAMED",
                }
            }

            /// One sentence for people.
            pub fn message(self) -> &'static str {
                match self.0 {
                    $($number => $message,)*
                    _ => "An error code that Kafka 4.4 does not know.",
                }
            }

            /// May the same request succeed later?
            pub fn is_retriable(self) -> bool {
                match self.0 {
                    $($number => error_codes!(@$retriable),)*
                    _ => false,
                }
            }
        }
    };
    (@retriable) => { true };
    (@final) => { false };
}

impl ErrorCode {
    pub fn is_error(self) -> bool {
        self != ErrorCode::NONE
    }
}

impl From<ErrorCode> for i16 {
    fn from(code: ErrorCode) -> i16 {
        code.0
    }
}

impl std::fmt::Display for ErrorCode {
    /// Name and number, for logs: `NOT_COORDINATOR(16)`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}({})", self.name(), self.0)
    }
}

error_codes! {
    -1 UNKNOWN_SERVER_ERROR final "Something went wrong on the server that it did not expect; its log says more.";
    0 NONE final "No error.";
    1 OFFSET_OUT_OF_RANGE final "The offset lies outside of what the partition holds.";
    2 CORRUPT_MESSAGE retriable "The batch is damaged: checksum, size, or a missing key where the topic needs one.";
    3 UNKNOWN_TOPIC_OR_PARTITION retriable "No such topic or partition here.";
    4 INVALID_FETCH_SIZE final "The fetch size is not valid.";
    5 LEADER_NOT_AVAILABLE retriable "The partition has no leader at the moment.";
    6 NOT_LEADER_OR_FOLLOWER retriable "This broker does not lead (or hold) the partition; ask for new metadata.";
    7 REQUEST_TIMED_OUT retriable "The time given for the request ran out.";
    8 BROKER_NOT_AVAILABLE final "The broker is not available.";
    9 REPLICA_NOT_AVAILABLE retriable "The replica is not available here.";
    10 MESSAGE_TOO_LARGE final "The batch is larger than the topic accepts.";
    11 STALE_CONTROLLER_EPOCH final "Another controller has taken over.";
    12 OFFSET_METADATA_TOO_LARGE final "The metadata committed with the offset is too long.";
    13 NETWORK_EXCEPTION retriable "The connection closed before the answer came.";
    14 COORDINATOR_LOAD_IN_PROGRESS retriable "The coordinator is still loading; try again.";
    15 COORDINATOR_NOT_AVAILABLE retriable "The coordinator is not available; try again.";
    16 NOT_COORDINATOR retriable "Another broker coordinates this group or transactional id.";
    17 INVALID_TOPIC_EXCEPTION final "The topic may not be used in this way, or its name is not valid.";
    18 RECORD_LIST_TOO_LARGE final "The batches are larger than one segment of the log.";
    19 NOT_ENOUGH_REPLICAS retriable "Fewer replicas are in sync than the topic demands; nothing was written.";
    20 NOT_ENOUGH_REPLICAS_AFTER_APPEND retriable "Written, but fewer replicas are in sync than the topic demands.";
    21 INVALID_REQUIRED_ACKS final "acks must be -1, 0 or 1.";
    22 ILLEGAL_GENERATION final "The group has moved on to another generation.";
    23 INCONSISTENT_GROUP_PROTOCOL final "No assignment protocol is common to all members, or the member named none.";
    24 INVALID_GROUP_ID final "The group id is not valid.";
    25 UNKNOWN_MEMBER_ID final "The group does not know this member.";
    26 INVALID_SESSION_TIMEOUT final "The session timeout is outside of the range that the broker allows.";
    27 REBALANCE_IN_PROGRESS final "The group is rebalancing; join again.";
    28 INVALID_COMMIT_OFFSET_SIZE final "The offsets to commit are too large.";
    29 TOPIC_AUTHORIZATION_FAILED final "Not allowed on this topic.";
    30 GROUP_AUTHORIZATION_FAILED final "Not allowed on this group.";
    31 CLUSTER_AUTHORIZATION_FAILED final "Not allowed on this cluster.";
    32 INVALID_TIMESTAMP final "The timestamp is too far from the broker's time, or not valid.";
    33 UNSUPPORTED_SASL_MECHANISM final "The SASL mechanism is not offered here.";
    34 ILLEGAL_SASL_STATE final "The request does not fit the state of the SASL exchange.";
    35 UNSUPPORTED_VERSION final "This version of the API is not supported.";
    36 TOPIC_ALREADY_EXISTS final "A topic of this name exists.";
    37 INVALID_PARTITIONS final "The number of partitions is not valid.";
    38 INVALID_REPLICATION_FACTOR final "The replication factor is below 1 or above the number of brokers.";
    39 INVALID_REPLICA_ASSIGNMENT final "The replica assignment is not valid.";
    40 INVALID_CONFIG final "The configuration is not valid.";
    41 NOT_CONTROLLER retriable "This node is not the active controller.";
    42 INVALID_REQUEST final "The request contradicts itself or the protocol.";
    43 UNSUPPORTED_FOR_MESSAGE_FORMAT final "The message format of the log cannot do this.";
    44 POLICY_VIOLATION final "A policy of the broker refuses the request.";
    45 OUT_OF_ORDER_SEQUENCE_NUMBER final "A sequence number is missing before this batch.";
    46 DUPLICATE_SEQUENCE_NUMBER final "This batch was written before.";
    47 INVALID_PRODUCER_EPOCH final "A newer epoch of this producer exists.";
    48 INVALID_TXN_STATE final "The transaction is not in a state that allows this.";
    49 INVALID_PRODUCER_ID_MAPPING final "The producer id does not belong to the transactional id.";
    50 INVALID_TRANSACTION_TIMEOUT final "The transaction timeout is longer than the broker allows.";
    51 CONCURRENT_TRANSACTIONS retriable "Another operation on the same transaction is still under way.";
    52 TRANSACTION_COORDINATOR_FENCED final "A newer transaction coordinator has taken over.";
    53 TRANSACTIONAL_ID_AUTHORIZATION_FAILED final "Not allowed for this transactional id.";
    54 SECURITY_DISABLED final "Security is switched off here.";
    55 OPERATION_NOT_ATTEMPTED final "Not tried, because another part of the request failed.";
    56 KAFKA_STORAGE_ERROR retriable "The disk below the log failed.";
    57 LOG_DIR_NOT_FOUND final "No such log directory.";
    58 SASL_AUTHENTICATION_FAILED final "The login failed.";
    59 UNKNOWN_PRODUCER_ID final "The broker knows nothing of this producer id (any more).";
    60 REASSIGNMENT_IN_PROGRESS final "The partition is being reassigned.";
    61 DELEGATION_TOKEN_AUTH_DISABLED final "Delegation tokens are switched off here.";
    62 DELEGATION_TOKEN_NOT_FOUND final "No such delegation token.";
    63 DELEGATION_TOKEN_OWNER_MISMATCH final "Neither owner nor renewer of the delegation token.";
    64 DELEGATION_TOKEN_REQUEST_NOT_ALLOWED final "Delegation tokens cannot be asked for over this kind of connection.";
    65 DELEGATION_TOKEN_AUTHORIZATION_FAILED final "Not allowed on this delegation token.";
    66 DELEGATION_TOKEN_EXPIRED final "The delegation token has expired.";
    67 INVALID_PRINCIPAL_TYPE final "This kind of principal is not supported.";
    68 NON_EMPTY_GROUP final "The group still has members.";
    69 GROUP_ID_NOT_FOUND final "No such group.";
    70 FETCH_SESSION_ID_NOT_FOUND retriable "The broker does not hold this fetch session (any more).";
    71 INVALID_FETCH_SESSION_EPOCH retriable "The epoch of the fetch session is not the expected one.";
    72 LISTENER_NOT_FOUND retriable "The leader has no listener of the name over which the request came.";
    73 TOPIC_DELETION_DISABLED final "Deleting topics is switched off here.";
    74 FENCED_LEADER_EPOCH retriable "The leader epoch of the request is older than the partition's.";
    75 UNKNOWN_LEADER_EPOCH retriable "The leader epoch of the request is newer than the partition's.";
    76 UNSUPPORTED_COMPRESSION_TYPE final "The client does not support the codec of the partition.";
    77 STALE_BROKER_EPOCH final "The broker has registered anew since.";
    78 OFFSET_NOT_AVAILABLE retriable "The leader is new and does not know the high watermark yet; try again.";
    79 MEMBER_ID_REQUIRED final "Join again with the member id in this answer.";
    80 PREFERRED_LEADER_NOT_AVAILABLE retriable "The preferred leader is not available.";
    81 GROUP_MAX_SIZE_REACHED final "The group is full.";
    82 FENCED_INSTANCE_ID final "Another member uses the same group.instance.id.";
    83 ELIGIBLE_LEADERS_NOT_AVAILABLE retriable "No replica that could lead is available.";
    84 ELECTION_NOT_NEEDED retriable "The partition has the leader it should have.";
    85 NO_REASSIGNMENT_IN_PROGRESS final "The partition is not being reassigned.";
    86 GROUP_SUBSCRIBED_TO_TOPIC final "The group reads from this topic at present.";
    87 INVALID_RECORD final "A record breaks a rule of the topic.";
    88 UNSTABLE_OFFSET_COMMIT retriable "Offsets of an open transaction must be settled first; try again.";
    89 THROTTLING_QUOTA_EXCEEDED retriable "A quota is used up; try again later.";
    90 PRODUCER_FENCED final "A newer producer with the same transactional id exists.";
    91 RESOURCE_NOT_FOUND final "Something that the request names does not exist.";
    92 DUPLICATE_RESOURCE final "The request names the same thing twice.";
    93 UNACCEPTABLE_CREDENTIAL final "The credential is not acceptable.";
    94 INCONSISTENT_VOTER_SET final "Sender or receiver is not among the voters.";
    95 INVALID_UPDATE_VERSION final "The version of the update is not valid.";
    96 FEATURE_UPDATE_FAILED final "The features could not be updated.";
    97 PRINCIPAL_DESERIALIZATION_FAILURE final "The principal of a forwarded request could not be read.";
    98 SNAPSHOT_NOT_FOUND final "No such snapshot.";
    99 POSITION_OUT_OF_RANGE final "The position lies outside of the snapshot.";
    100 UNKNOWN_TOPIC_ID retriable "No topic with this id here.";
    101 DUPLICATE_BROKER_REGISTRATION final "Another broker runs under this id.";
    102 BROKER_ID_NOT_REGISTERED final "No broker is registered under this id.";
    103 INCONSISTENT_TOPIC_ID retriable "The topic id of the request is not that of the log.";
    104 INCONSISTENT_CLUSTER_ID final "The cluster id of the request is not that of this cluster.";
    105 TRANSACTIONAL_ID_NOT_FOUND final "No such transactional id.";
    106 FETCH_SESSION_TOPIC_ID_ERROR retriable "The fetch session mixes topic names and topic ids.";
    107 INELIGIBLE_REPLICA final "The set contains a replica that may not be in sync.";
    108 NEW_LEADER_ELECTED final "The partition changed as asked, and has another leader now.";
    109 OFFSET_MOVED_TO_TIERED_STORAGE final "The offset has moved to tiered storage.";
    110 FENCED_MEMBER_EPOCH final "The member epoch is out of date: give up all partitions and join again.";
    111 UNRELEASED_INSTANCE_ID final "A member that has not left yet uses this instance id.";
    112 UNSUPPORTED_ASSIGNOR final "The group does not support this assignor or its version.";
    113 STALE_MEMBER_EPOCH final "The member epoch is out of date; heartbeat, then try again.";
    114 MISMATCHED_ENDPOINT_TYPE final "The endpoint is of the wrong kind for this request.";
    115 UNSUPPORTED_ENDPOINT_TYPE final "This kind of endpoint is not supported.";
    116 UNKNOWN_CONTROLLER_ID final "No such controller.";
    117 UNKNOWN_SUBSCRIPTION_ID final "The telemetry subscription is unknown or has changed.";
    118 TELEMETRY_TOO_LARGE final "The telemetry is larger than the broker accepts.";
    119 INVALID_REGISTRATION final "The registration is not valid.";
    120 TRANSACTION_ABORTABLE final "The transaction failed and can be aborted; the transactional id stays usable.";
    121 INVALID_RECORD_STATE final "The record is not in a state that allows this acknowledgement.";
    122 SHARE_SESSION_NOT_FOUND retriable "No such share session.";
    123 INVALID_SHARE_SESSION_EPOCH retriable "The epoch of the share session is not the expected one.";
    124 FENCED_STATE_EPOCH final "The state epoch is not the coordinator's.";
    125 INVALID_VOTER_KEY final "The voter's key is not that of this replica.";
    126 DUPLICATE_VOTER final "The voter is in the set already.";
    127 VOTER_NOT_FOUND final "The voter is not in the set.";
    128 INVALID_REGULAR_EXPRESSION final "The regular expression is not valid.";
    129 REBOOTSTRAP_REQUIRED final "What the client knows of the cluster is out of date; it must bootstrap again.";
    130 STREAMS_INVALID_TOPOLOGY final "The topology is not valid.";
    131 STREAMS_INVALID_TOPOLOGY_EPOCH final "The epoch of the topology is not valid.";
    132 STREAMS_TOPOLOGY_FENCED final "The epoch of the topology is out of date.";
    133 SHARE_SESSION_LIMIT_REACHED retriable "No more share sessions are accepted at present.";
    134 GROUP_DELETION_FAILED final "The group could not be deleted; its own message says why.";
    135 STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED final "The description of the topology could not be taken over; its own message says why.";
    136 CONTROLLER_ID_NOT_REGISTERED final "No controller is registered under this id.";
}
