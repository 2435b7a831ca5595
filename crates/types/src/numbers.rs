//! The numeric newtypes.

macro_rules! number {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
        #[repr(transparent)]
        pub struct $name(pub $inner);

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.0.fmt(f)
            }
        }

        impl From<$inner> for $name {
            fn from(value: $inner) -> Self {
                $name(value)
            }
        }

        impl From<$name> for $inner {
            fn from(value: $name) -> Self {
                value.0
            }
        }
    };
}

number! {
    /// The number of a record within its partition: dense from 0, or with gaps after compaction. Never negative in a
    /// log; `Offset(-1)` is the protocol's "none".
    Offset(i64)
}
number! {
    /// A byte position in a journal: counts the bytes of all its files together, from the first one that ever was. It
    /// grows and survives restarts. A place within one file is a plain `u64`.
    Position(u64)
}
number! {
    /// Counts the leaders of a partition; each election adds one. `-1` is "unknown".
    LeaderEpoch(i32)
}
number! {
    /// The id of a producer, given out by InitProducerId. `-1` is "none".
    ProducerId(i64)
}
number! {
    /// Counts the incarnations of a producer id. `-1` is "none".
    ProducerEpoch(i16)
}
number! {
    /// The number of a partition within its topic, from 0.
    PartitionIndex(i32)
}
number! {
    /// Milliseconds since 1970-01-01 UTC, from the wall clock. For stamps and display only, never for waits.
    TimestampMs(i64)
}

impl Offset {
    pub const NONE: Offset = Offset(-1);
    pub const ZERO: Offset = Offset(0);

    /// The offset `count` records later.
    #[must_use]
    pub fn plus(self, count: i64) -> Offset {
        Offset(self.0 + count)
    }
}

impl Position {
    pub const ZERO: Position = Position(0);
    /// Beyond every entry.
    pub const MAX: Position = Position(u64::MAX);

    #[must_use]
    pub fn plus(self, bytes: u64) -> Position {
        Position(self.0 + bytes)
    }

    /// The bytes from an earlier position to this one. `None`: the other one is later.
    pub fn bytes_since(self, earlier: Position) -> Option<u64> {
        self.0.checked_sub(earlier.0)
    }
}

impl LeaderEpoch {
    pub const NONE: LeaderEpoch = LeaderEpoch(-1);
}

impl ProducerId {
    pub const NONE: ProducerId = ProducerId(-1);
}

impl ProducerEpoch {
    pub const NONE: ProducerEpoch = ProducerEpoch(-1);
}

impl TimestampMs {
    pub const NONE: TimestampMs = TimestampMs(-1);

    /// The unit that the number seems to have, where that is not milliseconds: read in that unit it is a time between
    /// twenty years ago and tomorrow, which as milliseconds it is not.
    pub fn other_unit(self, now: TimestampMs) -> Option<&'static str> {
        const DAY_MS: i64 = 86_400_000;
        let is_likely = |time: i64| (now.0 - 20 * 365 * DAY_MS..=now.0 + DAY_MS).contains(&time);
        let seconds = ("seconds", self.0.saturating_mul(1000));
        let readings = [seconds, ("microseconds", self.0 / 1000), ("nanoseconds", self.0 / 1_000_000)];
        readings.into_iter().find(|(_, time)| is_likely(*time) && !is_likely(self.0)).map(|(unit, _)| unit)
    }
}

#[cfg(test)]
mod tests {
    use super::TimestampMs;

    #[test]
    fn a_timestamp_in_another_unit_is_told() {
        let now = TimestampMs(1_790_000_000_123);
        let unit = |time| TimestampMs(time).other_unit(now);
        assert_eq!(unit(1_790_000_000), Some("seconds"));
        assert_eq!(unit(1_700_000_000), Some("seconds"));
        assert_eq!(unit(1_789_999_999_123_456), Some("microseconds"));
        assert_eq!(unit(1_789_999_999_123_456_789), Some("nanoseconds"));
        for likely in [now.0, now.0 - 365 * 86_400_000, now.0 + 3_600_000, 0, -1, 5000, i64::MAX, i64::MIN] {
            assert_eq!(unit(likely), None, "{likely}");
        }
    }
}
