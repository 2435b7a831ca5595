//! A record on its way to a broker.

use mainstem_types::TimestampMs;
use tokio::sync::{OwnedSemaphorePermit, oneshot};
use tokio::time::Instant;

use super::{NewRecord, ProduceError, Receipt};

/// A record under way.
pub(super) struct Pending {
    pub(super) record: NewRecord,
    pub(super) timestamp: TimestampMs,
    /// When it was handed over.
    pub(super) since: Instant,
    /// At most this in a batch.
    pub(super) size: usize,
    pub(super) fate: oneshot::Sender<Result<Receipt, ProduceError>>,
    /// Given back when the fate is known.
    pub(super) _memory: OwnedSemaphorePermit,
}
