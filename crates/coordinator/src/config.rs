//! The settings that groups and offsets obey, each under Kafka's name.

/// Settings of a [`GroupShard`](crate::GroupShard). The defaults are Kafka's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupConfig {
    /// `group.min.session.timeout.ms`, 6 s.
    pub min_session_timeout_ms: i32,
    /// `group.max.session.timeout.ms`, 30 min.
    pub max_session_timeout_ms: i32,
    /// `group.initial.rebalance.delay.ms`, 3 s: how long the first rebalance of an empty group waits for more members.
    pub initial_rebalance_delay_ms: i32,
    /// `group.max.size`: members of one group, unbounded by default.
    pub max_group_size: usize,
    /// `offsets.retention.minutes` in milliseconds, 7 days.
    pub offsets_retention_ms: i64,
    /// `offsets.retention.check.interval.ms`, 10 min.
    pub offsets_retention_check_interval_ms: u64,
    /// `offset.metadata.max.bytes`, 4096. Kafka counts UTF-16 units, and so does this.
    pub max_offset_metadata: usize,
    /// How long a member's first join may stay parked before the member is dropped: 5 min, fixed in Kafka.
    pub new_member_join_timeout_ms: u64,
    /// `group.consumer.session.timeout.ms`, 45 s: after a start, members of group kinds that are not served here are
    /// gone after this time, as they would be for a Kafka that hears nothing from them.
    pub foreign_session_timeout_ms: u64,
}

impl Default for GroupConfig {
    fn default() -> Self {
        GroupConfig {
            min_session_timeout_ms: 6_000,
            max_session_timeout_ms: 1_800_000,
            initial_rebalance_delay_ms: 3_000,
            max_group_size: usize::MAX,
            offsets_retention_ms: 7 * 24 * 60 * 60 * 1_000,
            offsets_retention_check_interval_ms: 600_000,
            max_offset_metadata: 4_096,
            new_member_join_timeout_ms: 300_000,
            foreign_session_timeout_ms: 45_000,
        }
    }
}
