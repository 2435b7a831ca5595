//! How to take back the change of a group's live state when its record could not be appended.

use std::sync::Arc;

use super::member::Member;

/// How to take back one change of an outcome.
#[derive(Debug)]
pub(crate) enum Undo {
    /// The group did not exist, or was an empty one of another kind.
    GroupCreated {
        group: Arc<str>,
    },
    /// The leader's assignment made the group stable.
    GenerationCompleted {
        group: Arc<str>,
    },
    StaticMemberReplaced(Box<ReplacedStaticMember>),
}

/// A static member that came back under a new id.
#[derive(Debug)]
pub(crate) struct ReplacedStaticMember {
    pub(crate) group: Arc<str>,
    pub(crate) new_id: Arc<str>,
    pub(crate) old_member: Member,
}

impl PartialEq for Undo {
    /// Outcomes are compared by what they ask for; how they are taken back follows from it.
    fn eq(&self, other: &Undo) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }
}

impl Eq for Undo {}
