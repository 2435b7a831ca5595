//! What an operation leaves to its caller: records to append, and answers that wait for them.

use crate::classic::Undo;
use crate::{OffsetsRecord, Reply, ReplyToken};

/// What a caller must do after an operation.
#[derive(Debug, Default, PartialEq, Eq)]
#[must_use = "an outcome carries records to append and answers to send"]
pub struct CoordinatorOutcome {
    /// To be appended in this order as one batch.
    pub records: Vec<OffsetsRecord>,
    /// To be sent once the records are committed; at once if there are none.
    pub replies: Vec<(ReplyToken, Reply)>,
    /// How to take the operation back if the append fails.
    pub(crate) undo: Vec<Undo>,
}

impl CoordinatorOutcome {
    pub(crate) fn reply(token: ReplyToken, reply: Reply) -> CoordinatorOutcome {
        CoordinatorOutcome { replies: vec![(token, reply)], ..CoordinatorOutcome::default() }
    }

    /// True if there is nothing to append and nothing to send.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty() && self.replies.is_empty()
    }
}
