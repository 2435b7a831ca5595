//! What a group tells its partitions.

use mainstem_replica::InSync;
use mainstem_store::StorageError;
use mainstem_types::{LeaderEpoch, Offset};

/// How far a partition is committed when it takes a role.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Committed {
    /// Everything that is in its log.
    ToItsEnd,
    /// Everything below.
    To(Offset),
    AsBefore,
}

/// The group's role, for one partition.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MemberRole {
    pub leads: bool,
    pub epoch: LeaderEpoch,
    pub is_new_epoch: bool,
    pub in_sync: InSync,
    pub committed: Committed,
}

/// The waiters to wake.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Moved {
    /// The high watermark, from and to.
    pub high_watermark: Option<(Offset, Offset)>,
    /// The node does not lead any more.
    pub resigned: bool,
    /// Something that a fetch sees is another.
    pub changed: bool,
}

/// A partition of a group. All but [`Member::wake`] and [`Member::fail`] are called with the group's lock held.
pub(crate) trait Member: Send + Sync {
    fn has_role(&self) -> bool;

    /// Before anybody is told of the new role, so that nobody waits under an old epoch after that.
    fn before_role(&self, leads: bool, epoch: LeaderEpoch);

    fn take_role(&self, role: &MemberRole) -> Moved;

    /// The batch that ends before `next_offset` lies below the committed position of the group.
    fn committed_to(&self, next_offset: Offset) -> Moved;

    /// The group's log was cut; this partition has become shorter.
    fn was_cut(&self) -> Moved;

    fn wake(&self, moved: Moved);

    fn fail(&self, error: &StorageError);
}
