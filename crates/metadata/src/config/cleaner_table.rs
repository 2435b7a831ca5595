//! The server properties of compaction.

use super::broker_table::row;
use super::definition::ConfigDefinition;
use super::definition::ConfigKind::{Boolean, Double, Int, Long};
use super::definition::UpdateMode::{ClusterWide, ReadOnly};
use super::definition::Validator::{Any, AtLeast, BetweenReal};

pub(super) const CLEANER: &[ConfigDefinition] = &[
    row("log.cleaner.backoff.ms", Long, Some("15000"), AtLeast(0), ClusterWide)
        .says("How long a compaction thread rests when no log is due."),
    row("log.cleaner.dedupe.buffer.size", Long, Some("134217728"), Any, ClusterWide).says(
        "Memory for the keys of the logs that are being compacted, all threads together: 24 bytes a key. Taken only while a log is \
         compacted, and no more than it needs.",
    ),
    row("log.cleaner.delete.retention.ms", Long, Some("86400000"), AtLeast(0), ClusterWide)
        .says("Default of the topic setting delete.retention.ms."),
    row("log.cleaner.enable", Boolean, Some("true"), Any, ReadOnly).says("Whether logs are compacted at all."),
    row("log.cleaner.io.buffer.load.factor", Double, Some("0.9"), Any, ClusterWide)
        .says("How full the memory for keys may get before the rest is left to the next pass."),
    row("log.cleaner.io.buffer.size", Int, Some("524288"), AtLeast(0), ClusterWide)
        .says("Memory of the buffers that compaction reads and writes with, all threads together."),
    row("log.cleaner.io.max.bytes.per.second", Double, Some("1.7976931348623157E308"), Any, ClusterWide)
        .says("How much compaction reads and writes at most, all threads together."),
    row("log.cleaner.max.compaction.lag.ms", Long, Some("9223372036854775807"), AtLeast(1), ClusterWide)
        .says("Default of the topic setting max.compaction.lag.ms."),
    row("log.cleaner.min.cleanable.ratio", Double, Some("0.5"), BetweenReal(0.0, 1.0), ClusterWide)
        .says("Default of the topic setting min.cleanable.dirty.ratio."),
    row("log.cleaner.min.compaction.lag.ms", Long, Some("0"), AtLeast(0), ClusterWide)
        .says("Default of the topic setting min.compaction.lag.ms."),
    row("log.cleaner.threads", Int, Some("1"), AtLeast(0), ClusterWide)
        .says("How many logs are compacted at the same time; 0 is none."),
];
