//! Why a setting of Kafka's is accepted and nothing is done with it. `docs/compatibility.md` lists all of them.

/// Why, and for which keys: whole names, or beginnings that end with `*`. The first that fits counts.
pub const WITHOUT_EFFECT: &[(&str, &[&str])] = &[
    (
        "nothing speaks TLS or SASL, and nobody is refused for who he is",
        &[
            "authorizer.class.name",
            "connection.failed.authentication.delay.ms",
            "connections.max.reauth.ms",
            "delegation.token.*",
            "principal.builder.class",
            "sasl.*",
            "security.providers",
            "ssl.*",
            "security.inter.broker.protocol",
        ],
    ),
    (
        "there are no quotas, and rates are not limited",
        &[
            "alter.log.dirs.replication.quota.*",
            "client.quota.callback.class",
            "controller.quota.*",
            "follower.replication.throttled.*",
            "leader.replication.throttled.*",
            "max.connection.creation.rate",
            "quota.*",
            "replica.alter.log.dirs.io.max.bytes.per.second",
            "replication.quota.*",
        ],
    ),
    (
        "there is no remote storage",
        &[
            "follower.fetch.last.tiered.offset.enable",
            "local.retention.*",
            "log.local.retention.*",
            "log.remote.copy.lag.*",
            "remote.*",
        ],
    ),
    ("there are no transactions", &["add.partitions.to.txn.*", "transaction.*", "transactional.*"]),
    (
        "groups are of the classic kind",
        &[
            "errors.deadletterqueue.*",
            "group.consumer.*",
            "group.coordinator.rebalance.protocols",
            "group.share.*",
            "group.streams.*",
            "share.*",
        ],
    ),
    (
        "a coordinator answers each request at once, on the thread that took it",
        &[
            "group.coordinator.append.linger.ms",
            "group.coordinator.background.threads",
            "group.coordinator.cached.buffer.max.bytes",
            "group.coordinator.threads",
            "offsets.commit.timeout.ms",
            "offsets.load.buffer.size",
        ],
    ),
    (
        "the node is its own controller and the only replica",
        &[
            "auto.leader.rebalance.enable",
            "broker.heartbeat.interval.ms",
            "broker.session.timeout.ms",
            "controlled.shutdown.enable",
            "controller.*",
            "early.start.listeners",
            "initial.broker.registration.timeout.ms",
            "inter.broker.listener.name",
            "leader.imbalance.check.interval.seconds",
            "num.replica.fetchers",
            "replica.fetch.*",
            "replica.lag.time.max.ms",
            "replica.selector.class",
            "replica.socket.*",
            "request.timeout.ms",
            "server.max.startup.time.ms",
            "socket.connection.setup.*",
            "unclean.leader.election.*",
        ],
    ),
    (
        "there is one data folder",
        &["cordoned.log.dirs", "log.dir.failure.timeout.ms", "metadata.log.dir", "num.replica.alter.log.dirs.threads"],
    ),
    (
        "Java classes cannot be loaded",
        &["alter.config.policy.class.name", "config.providers", "create.topic.policy.class.name"],
    ),
    ("there are no metrics of Kafka's kind", &["kafka.metrics.*", "metric.*", "metrics.*", "telemetry.*"]),
    (
        "who waits is woken or times out alone, so that nothing is left to be purged",
        &[
            "delete.records.purgatory.purge.interval.requests",
            "fetch.purgatory.purge.interval.requests",
            "producer.purgatory.purge.interval.requests",
            "share.fetch.purgatory.purge.interval.requests",
        ],
    ),
    (
        "of the metadata log the newest snapshot and what follows it are kept, and nothing is written while nothing changes",
        &["metadata.max.idle.interval.ms", "metadata.max.retention.*"],
    ),
    ("each connection has limits of its own, in requests and in bytes", &["queued.max.requests"]),
    ("lz4 has one level here", &["compression.lz4.level"]),
    ("offsets are committed without compression", &["offsets.topic.compression.codec"]),
    ("space is always reserved ahead of a busy segment, in growing steps", &["log.preallocate", "preallocate"]),
    (
        "every checkpoint is written at `log.flush.offset.checkpoint.interval.ms`",
        &["log.flush.start.offset.checkpoint.interval.ms", "replica.high.watermark.checkpoint.interval.ms"],
    ),
    (
        "a compressed batch is checked piece by piece, and one that unpacks to more than 2 GiB is refused",
        &["max.decompressed.message.bytes"],
    ),
    ("there is no such pool of threads", &["background.threads"]),
    (
        "it is for tests of Kafka itself",
        &["internal.*", "unstable.api.versions.enable", "unstable.feature.versions.enable"],
    ),
];

/// Why nothing is done with this key. Nothing: it has an effect, or does not exist.
pub fn reason_without_effect(key: &str) -> Option<&'static str> {
    let fits = |pattern: &&str| match pattern.strip_suffix('*') {
        Some(beginning) => key.starts_with(beginning),
        None => key == *pattern,
    };
    let effective = super::broker_config_definition(key)
        .or_else(|| super::topic_config_definition(key))
        .is_none_or(|row| row.effect == super::Effect::Works);
    let found = WITHOUT_EFFECT.iter().find(|(_, patterns)| patterns.iter().any(fits));
    found.filter(|_| !effective).map(|(reason, _)| *reason)
}

#[cfg(test)]
#[path = "without_effect_tests.rs"]
mod tests;
