//! Where two logs part, by their leader epochs (KIP-101, KIP-279, KIP-595).
//!
//! The leader looks up the largest epoch of its own that is at or below the follower's last one, and where that epoch
//! ends. If the follower is past that, or has another epoch there, it cuts and asks again: each round takes at least
//! one foreign epoch away.

use mainstem_types::LeaderEpoch;

use crate::UnitPosition;

/// An epoch, and the position after its last record in a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EpochEnd<P> {
    pub epoch: LeaderEpoch,
    pub end: P,
}

/// The leader's side of a fetch from `from` by a follower whose last record has the epoch `last_fetched` (-1: an empty
/// log). `found` is the end of the largest epoch at or below `last_fetched` in the leader's own log. Where that has no
/// such epoch, it is `last_fetched` itself, which ends where the first known one begins: OffsetForLeaderEpoch answers
/// so, too.
///
/// `Some`: the logs differ. The answer is this and no records, and the follower's position must not be counted.
pub fn diverging<P: UnitPosition>(last_fetched: LeaderEpoch, from: P, found: EpochEnd<P>) -> Option<EpochEnd<P>> {
    let differs = found.epoch < last_fetched || found.end < from;
    Some(found).filter(|_| last_fetched != LeaderEpoch::NONE && differs)
}

/// The follower's side: where to cut after the leader answered `leader`. `own` is what the follower's log has at or
/// below that epoch, found in the same way.
pub fn cut_at<P: UnitPosition>(leader: EpochEnd<P>, own: EpochEnd<P>, log_end: P) -> P {
    match own.epoch == leader.epoch {
        true => own.end.min(leader.end).min(log_end),
        // The next fetch names this epoch, which is smaller: another round follows.
        false => own.end.min(log_end),
    }
}
