//! The order of a unit's four positions, and the one place that asserts it.

use mainstem_types::Offset;

use crate::UnitPosition;

/// The four positions that readers and writers of a unit go by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Positions<P = Offset> {
    pub log_start: P,
    /// Where the oldest open transaction begins, at most the high watermark.
    pub last_stable: P,
    pub high_watermark: P,
    pub log_end: P,
}

/// The order does not hold. This is a bug or a damaged folder, never an effect of load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the order log start {} ≤ last stable offset {} ≤ high watermark {} ≤ log end {} does not hold; \
     run `mainstem verify` on the data folder",
    .0.log_start, .0.last_stable, .0.high_watermark, .0.log_end
)]
pub struct PositionsError<P: UnitPosition = Offset>(pub Positions<P>);

impl<P: UnitPosition> Positions<P> {
    /// Checks `log start ≤ last stable offset ≤ high watermark ≤ log end`.
    pub fn check(&self) -> Result<(), PositionsError<P>> {
        let ordered = self.log_start <= self.last_stable
            && self.last_stable <= self.high_watermark
            && self.high_watermark <= self.log_end;
        if ordered { Ok(()) } else { Err(PositionsError(*self)) }
    }

    /// The first position that a reader does not get: the last stable offset under `read_committed`, else the high
    /// watermark.
    pub fn read_bound(&self, read_committed: bool) -> P {
        if read_committed { self.last_stable } else { self.high_watermark }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn positions(log_start: i64, last_stable: i64, high_watermark: i64, log_end: i64) -> Positions {
        Positions {
            log_start: Offset(log_start),
            last_stable: Offset(last_stable),
            high_watermark: Offset(high_watermark),
            log_end: Offset(log_end),
        }
    }

    #[test]
    fn the_order_is_checked_pair_by_pair() {
        assert_eq!(positions(0, 0, 0, 0).check(), Ok(()));
        assert_eq!(positions(1, 2, 3, 4).check(), Ok(()));
        for wrong in [positions(3, 2, 3, 4), positions(1, 4, 3, 4), positions(1, 2, 5, 4)] {
            assert_eq!(wrong.check(), Err(PositionsError(wrong)));
        }
    }

    #[test]
    fn read_committed_stops_at_the_last_stable_offset() {
        assert_eq!(positions(1, 2, 3, 4).read_bound(true), Offset(2));
        assert_eq!(positions(1, 2, 3, 4).read_bound(false), Offset(3));
    }
}
