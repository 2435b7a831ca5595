//! Copying a leader's batches: their offsets and epochs are the leader's, and stay.

use bytes::Bytes;
use mainstem_record::{Batches, FramingError, ValidationError};
use mainstem_types::{LeaderEpoch, Offset, TimestampMs};

use super::PartitionLog;
use crate::error::AppendError;

impl PartitionLog {
    /// Appends what a leader answered to a fetch from the log end. Gives the new log end.
    ///
    /// Checked: framing, checksums, and that offsets and epochs continue this log. Epochs, producers and transactions
    /// follow the batches; nothing is stamped or compressed again, and no limit of the topic applies. The first batch
    /// of an empty log may begin below the log start and hold it: the log start stays where it is. Left out are a batch
    /// at the end that the answer has only a part of, and everything from the first batch on whose epoch is later than
    /// `asked`: that leader had lost its role (KAFKA-18723).
    pub fn append_replicated(
        &self,
        batches: &Bytes,
        asked: LeaderEpoch,
        now: TimestampMs,
    ) -> Result<Offset, AppendError> {
        let mut whole = 0;
        for view in Batches::new(batches) {
            match view {
                Ok(view) if view.header().leader_epoch <= asked => whole += view.size_in_bytes(),
                Ok(_) | Err(FramingError::Partial { .. }) => break,
                Err(error) => return Err(ValidationError::Framing(error).into()),
            }
        }
        if whole == 0 {
            return Ok(self.log_end());
        }
        self.append_as_they_are(&batches.slice(..whole), now, true).map(|appended| appended.next_offset())
    }
}
