//! How the file descriptors that the process may have are shared out, so that a flood of connections leaves the logs
//! theirs: half for the files of logs, an eighth (at least 32, at most 256) for everything else, the rest for
//! connections. Below 256 descriptors logs and connections share equally what everything else leaves.

/// What every Unix allows.
const LIMIT_ASSUMED: u64 = 256;
/// Listeners, reactors, the metadata log and the lock need 21. Files that are opened for a moment come on top.
const OTHER_MIN: u64 = 32;
const OTHER_MAX: u64 = 256;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shares {
    /// Files that the logs may keep open.
    pub logs: usize,
    /// The most connections, also if `max.connections` is larger.
    pub connections: usize,
}

impl Shares {
    /// Raises the limit as far as it goes first.
    pub fn of_this_process() -> Shares {
        let limit = mainstem_env::raise_open_files_limit().unwrap_or_else(|error| {
            tracing::warn!("the limit of open files is unknown: {error}");
            LIMIT_ASSUMED
        });
        Shares::of(limit)
    }

    fn of(limit: u64) -> Shares {
        let other = (limit / 8).clamp(OTHER_MIN, OTHER_MAX);
        let logs = match other {
            OTHER_MIN => limit.saturating_sub(other) / 2,
            _ => limit / 2,
        };
        let size = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        Shares { logs: size(logs), connections: size(limit.saturating_sub(logs + other)).max(1) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_gets_its_share() {
        assert_eq!(Shares::of(300), Shares { logs: 150, connections: 113 });
        assert_eq!(Shares::of(20_000), Shares { logs: 10_000, connections: 9_744 });
        assert_eq!(Shares::of(256), Shares { logs: 112, connections: 112 });
        assert_eq!(Shares::of(64), Shares { logs: 16, connections: 16 });
        assert_eq!(Shares::of(0), Shares { logs: 0, connections: 1 });
        assert!(Shares::of(u64::MAX).connections > 1 << 60);
    }
}
