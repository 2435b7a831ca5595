//! The numbers of Kafka's APIs and their names, and those of Mainstem's own, which begin at 20,000.

/// The int16 that says which API a request is of. Not every number has a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ApiKey(pub i16);

macro_rules! api_keys {
    ($($number:literal $constant:ident $name:literal;)*) => {
        impl ApiKey {
            $(#[doc = $name] pub const $constant: ApiKey = ApiKey($number);)*

            /// All named keys, ascending.
            pub const ALL: &'static [ApiKey] = &[$(ApiKey($number)),*];

            /// Kafka's name, or ours, `Unknown` for other numbers.
            pub fn name(self) -> &'static str {
                match self.0 {
                    $($number => $name,)*
                    _ => "Unknown",
                }
            }
        }
    };
}

impl ApiKey {
    /// APIs from this number on are Mainstem's own. Kafka counts upwards from 0.
    pub const OWN_FROM: ApiKey = ApiKey(20_000);

    pub fn is_own(self) -> bool {
        self >= ApiKey::OWN_FROM
    }
}

impl std::fmt::Display for ApiKey {
    /// Name and number, for logs: `Produce(0)`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}({})", self.name(), self.0)
    }
}

api_keys! {
    0 PRODUCE "Produce";
    1 FETCH "Fetch";
    2 LIST_OFFSETS "ListOffsets";
    3 METADATA "Metadata";
    4 LEADER_AND_ISR "LeaderAndIsr";
    5 STOP_REPLICA "StopReplica";
    6 UPDATE_METADATA "UpdateMetadata";
    7 CONTROLLED_SHUTDOWN "ControlledShutdown";
    8 OFFSET_COMMIT "OffsetCommit";
    9 OFFSET_FETCH "OffsetFetch";
    10 FIND_COORDINATOR "FindCoordinator";
    11 JOIN_GROUP "JoinGroup";
    12 HEARTBEAT "Heartbeat";
    13 LEAVE_GROUP "LeaveGroup";
    14 SYNC_GROUP "SyncGroup";
    15 DESCRIBE_GROUPS "DescribeGroups";
    16 LIST_GROUPS "ListGroups";
    17 SASL_HANDSHAKE "SaslHandshake";
    18 API_VERSIONS "ApiVersions";
    19 CREATE_TOPICS "CreateTopics";
    20 DELETE_TOPICS "DeleteTopics";
    21 DELETE_RECORDS "DeleteRecords";
    22 INIT_PRODUCER_ID "InitProducerId";
    23 OFFSET_FOR_LEADER_EPOCH "OffsetForLeaderEpoch";
    24 ADD_PARTITIONS_TO_TXN "AddPartitionsToTxn";
    25 ADD_OFFSETS_TO_TXN "AddOffsetsToTxn";
    26 END_TXN "EndTxn";
    27 WRITE_TXN_MARKERS "WriteTxnMarkers";
    28 TXN_OFFSET_COMMIT "TxnOffsetCommit";
    29 DESCRIBE_ACLS "DescribeAcls";
    30 CREATE_ACLS "CreateAcls";
    31 DELETE_ACLS "DeleteAcls";
    32 DESCRIBE_CONFIGS "DescribeConfigs";
    33 ALTER_CONFIGS "AlterConfigs";
    34 ALTER_REPLICA_LOG_DIRS "AlterReplicaLogDirs";
    35 DESCRIBE_LOG_DIRS "DescribeLogDirs";
    36 SASL_AUTHENTICATE "SaslAuthenticate";
    37 CREATE_PARTITIONS "CreatePartitions";
    38 CREATE_DELEGATION_TOKEN "CreateDelegationToken";
    39 RENEW_DELEGATION_TOKEN "RenewDelegationToken";
    40 EXPIRE_DELEGATION_TOKEN "ExpireDelegationToken";
    41 DESCRIBE_DELEGATION_TOKEN "DescribeDelegationToken";
    42 DELETE_GROUPS "DeleteGroups";
    43 ELECT_LEADERS "ElectLeaders";
    44 INCREMENTAL_ALTER_CONFIGS "IncrementalAlterConfigs";
    45 ALTER_PARTITION_REASSIGNMENTS "AlterPartitionReassignments";
    46 LIST_PARTITION_REASSIGNMENTS "ListPartitionReassignments";
    47 OFFSET_DELETE "OffsetDelete";
    48 DESCRIBE_CLIENT_QUOTAS "DescribeClientQuotas";
    49 ALTER_CLIENT_QUOTAS "AlterClientQuotas";
    50 DESCRIBE_USER_SCRAM_CREDENTIALS "DescribeUserScramCredentials";
    51 ALTER_USER_SCRAM_CREDENTIALS "AlterUserScramCredentials";
    52 VOTE "Vote";
    53 BEGIN_QUORUM_EPOCH "BeginQuorumEpoch";
    54 END_QUORUM_EPOCH "EndQuorumEpoch";
    55 DESCRIBE_QUORUM "DescribeQuorum";
    56 ALTER_PARTITION "AlterPartition";
    57 UPDATE_FEATURES "UpdateFeatures";
    58 ENVELOPE "Envelope";
    59 FETCH_SNAPSHOT "FetchSnapshot";
    60 DESCRIBE_CLUSTER "DescribeCluster";
    61 DESCRIBE_PRODUCERS "DescribeProducers";
    62 BROKER_REGISTRATION "BrokerRegistration";
    63 BROKER_HEARTBEAT "BrokerHeartbeat";
    64 UNREGISTER_BROKER "UnregisterBroker";
    65 DESCRIBE_TRANSACTIONS "DescribeTransactions";
    66 LIST_TRANSACTIONS "ListTransactions";
    67 ALLOCATE_PRODUCER_IDS "AllocateProducerIds";
    68 CONSUMER_GROUP_HEARTBEAT "ConsumerGroupHeartbeat";
    69 CONSUMER_GROUP_DESCRIBE "ConsumerGroupDescribe";
    70 CONTROLLER_REGISTRATION "ControllerRegistration";
    71 GET_TELEMETRY_SUBSCRIPTIONS "GetTelemetrySubscriptions";
    72 PUSH_TELEMETRY "PushTelemetry";
    73 ASSIGN_REPLICAS_TO_DIRS "AssignReplicasToDirs";
    74 LIST_CONFIG_RESOURCES "ListConfigResources";
    75 DESCRIBE_TOPIC_PARTITIONS "DescribeTopicPartitions";
    76 SHARE_GROUP_HEARTBEAT "ShareGroupHeartbeat";
    77 SHARE_GROUP_DESCRIBE "ShareGroupDescribe";
    78 SHARE_FETCH "ShareFetch";
    79 SHARE_ACKNOWLEDGE "ShareAcknowledge";
    80 ADD_RAFT_VOTER "AddRaftVoter";
    81 REMOVE_RAFT_VOTER "RemoveRaftVoter";
    82 UPDATE_RAFT_VOTER "UpdateRaftVoter";
    83 INITIALIZE_SHARE_GROUP_STATE "InitializeShareGroupState";
    84 READ_SHARE_GROUP_STATE "ReadShareGroupState";
    85 WRITE_SHARE_GROUP_STATE "WriteShareGroupState";
    86 DELETE_SHARE_GROUP_STATE "DeleteShareGroupState";
    87 READ_SHARE_GROUP_STATE_SUMMARY "ReadShareGroupStateSummary";
    88 STREAMS_GROUP_HEARTBEAT "StreamsGroupHeartbeat";
    89 STREAMS_GROUP_DESCRIBE "StreamsGroupDescribe";
    90 DESCRIBE_SHARE_GROUP_OFFSETS "DescribeShareGroupOffsets";
    91 ALTER_SHARE_GROUP_OFFSETS "AlterShareGroupOffsets";
    92 DELETE_SHARE_GROUP_OFFSETS "DeleteShareGroupOffsets";
    93 STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE "StreamsGroupTopologyDescriptionUpdate";
    94 UNREGISTER_CONTROLLER "UnregisterController";
    20000 FIND_BY_KEY "FindByKey";
}
