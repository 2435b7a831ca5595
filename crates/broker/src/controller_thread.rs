//! The thread that changes the metadata: decide, append, sync, commit, follow, reply.
//!
//! An operation decides on the image after all earlier operations, committed or not. Its records are appended, and
//! replayed on that image at once. The operation then waits among the [`Uncommitted`] until the log is committed that
//! far. Only then the node follows it, and its reply leaves. This node is the only voter, so durable records are
//! committed. Operations that wait for the thread together share one sync.

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Weak};
use std::time::Duration;

use mainstem_env::Worker;
use mainstem_kafka_wire::metadata_records::MetadataRecord;
use mainstem_metadata::controller::{Controller, Decision, Uncommitted};
use mainstem_metadata::image::{ClusterImage, ImageDelta};
use mainstem_types::{Offset, TimestampMs};
use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::metadata_log::{LoadError, MetadataLog, MetadataWriteError};
use crate::node_state::NodeState;

/// Why a change of the metadata was not made.
#[derive(Debug, thiserror::Error)]
pub enum ControllerError {
    #[error(transparent)]
    Write(#[from] MetadataWriteError),
    #[error("this node cannot follow the metadata: {0}")]
    Replay(#[from] mainstem_metadata::image::ReplayError),
    #[error("the metadata log failed before; restart the broker")]
    Failed,
    #[error("cannot assign producer ids: {0}")]
    ProducerIds(#[from] mainstem_metadata::controller::AllocateProducerIdsError),
    #[error("cannot create the offsets topic: {0}")]
    OffsetsTopic(mainstem_metadata::controller::CreateTopicError),
    #[error("the broker is stopping")]
    Stopping,
}

/// An appended change: once it is committed, the node follows it, and its caller is told.
struct Change {
    /// With this change, and without later ones.
    image: ClusterImage,
    delta: ImageDelta,
    done: Done,
}

type Done = Box<dyn FnOnce(Result<(), ControllerError>) + Send>;

/// The state that the thread owns.
pub(crate) struct ControllerState {
    /// With all changes that are appended.
    controller: Controller,
    log: MetadataLog,
    uncommitted: Uncommitted<Change>,
    /// After a failed write nobody knows what is on the disk: no more changes until a restart.
    failed: bool,
    last_snapshot: Duration,
}

impl ControllerState {
    pub fn new(controller: Controller, log: MetadataLog, now: Duration) -> ControllerState {
        let uncommitted = Uncommitted::new(log.log().durable_end());
        ControllerState { controller, log, uncommitted, failed: false, last_snapshot: now }
    }

    pub fn controller(&self) -> &Controller {
        &self.controller
    }

    /// Where the next record will be.
    pub fn next_offset(&self) -> Offset {
        self.log.log().log_end()
    }

    /// Appends records and replays them; they are committed with the next [`sync`](Self::sync). Gives what changed.
    pub fn append(&mut self, records: &[MetadataRecord<'_>], now: TimestampMs) -> Result<ImageDelta, ControllerError> {
        if records.is_empty() {
            return Ok(ImageDelta::default());
        }
        if self.failed {
            return Err(ControllerError::Failed);
        }
        let (level, end) = (self.controller.image().metadata_version(), self.next_offset());
        let appended = self.log.append(records, level, now);
        // A full disk that took nothing of it leaves the log as it was.
        self.failed = appended.is_err() && (self.next_offset() != end || self.log.log().failure().is_some());
        self.replay(records, appended?)
    }

    fn replay(&mut self, records: &[MetadataRecord<'_>], base: Offset) -> Result<ImageDelta, ControllerError> {
        let mut delta = ImageDelta::default();
        for (offset, record) in (base.0..).zip(records) {
            let replayed = self.controller.replay(record, Offset(offset), self.log.term(), &mut delta);
            replayed.inspect_err(|_| self.failed = true)?;
        }
        Ok(delta)
    }

    /// Makes everything durable that is appended. Gives the position up to which this node, the only voter, has
    /// committed the log. An error is final, unless the log goes on: then nothing is lost, and a later sync may
    /// succeed.
    pub fn sync(&mut self) -> Result<Offset, ControllerError> {
        if self.next_offset() > self.uncommitted.committed() {
            self.log.flush().inspect_err(|_| self.failed |= self.log.log().failure().is_some())?;
        }
        Ok(self.log.log().durable_end())
    }

    /// The node follows the changes that are committed below `position`, and their callers are told.
    fn committed(&mut self, position: Offset, state: &NodeState) {
        for Change { image, delta, done } in self.uncommitted.commit(position) {
            if !delta.is_empty() {
                state.follow(&image, &delta);
            }
            done(Ok(()));
        }
    }

    /// Commits the appended changes. If the commit fails for good, no waiting caller is told of success. If it may
    /// succeed later, the callers go on waiting.
    fn settle(&mut self, state: &NodeState) {
        if self.uncommitted.is_empty() {
            return;
        }
        match self.sync() {
            Ok(position) => self.committed(position, state),
            Err(_) if !self.failed => {}
            Err(error) => {
                let mut error = Some(error);
                for change in self.uncommitted.abandon() {
                    (change.done)(Err(error.take().unwrap_or(ControllerError::Failed)));
                }
            }
        }
    }

    /// Lets an operation decide and appends its records. Gives its reply to `tell` once they are committed.
    fn decide<R: Send + 'static>(
        &mut self,
        state: &NodeState,
        decide: impl FnOnce(&Controller, &NodeState) -> Decision<R>,
        tell: impl FnOnce(Result<R, ControllerError>) + Send + 'static,
    ) {
        let Decision { records, reply } = decide(&self.controller, state);
        match self.append(&records, state.env.clock.wall_ms()) {
            Ok(delta) => {
                let image = self.controller.image().clone();
                let done: Done = Box::new(move |committed| tell(committed.map(|()| reply)));
                self.uncommitted.append(self.next_offset(), Change { image, delta, done });
            }
            Err(error) => tell(Err(error)),
        }
    }

    /// The image that the files of the log give, read again.
    pub fn replayed(&self) -> Result<ClusterImage, LoadError> {
        self.log.reader().load().map(|loaded| loaded.image)
    }

    /// Writes a snapshot if there is enough new, or the last one is old.
    fn snapshot_if_due(&mut self, state: &NodeState) {
        let config = &state.config.load().metadata_log;
        let now = state.env.clock.monotonic();
        let bytes = self.log.bytes_since_snapshot();
        let interval_ms = config.max_snapshot_interval_ms;
        let old = interval_ms > 0 && now.saturating_sub(self.last_snapshot).as_millis() as i64 >= interval_ms;
        let enough = bytes as i64 >= config.max_record_bytes_between_snapshots;
        if self.failed || bytes == 0 || !(enough || old) {
            return;
        }
        self.snapshot(state);
    }

    /// A snapshot has committed changes only: while changes wait for their commit there is none.
    pub fn snapshot(&mut self, state: &NodeState) {
        if !self.uncommitted.is_empty() {
            return;
        }
        self.last_snapshot = state.env.clock.monotonic();
        match self.log.snapshot(self.controller.image(), state.env.clock.wall_ms()) {
            Ok(id) => tracing::debug!("metadata snapshot up to offset {}", id.end),
            // The log has everything that the snapshot would have had: reported, and tried again later.
            Err(error) => tracing::error!("cannot write a metadata snapshot: {error}"),
        }
    }
}

type Work = Box<dyn FnOnce(&mut ControllerState, &NodeState) + Send>;

enum Job {
    /// Decides and appends.
    Change(Work),
    /// Runs when all changes before it are committed, or have failed.
    Between(Work),
}

/// The way to the thread.
pub(crate) struct ControllerThread {
    sender: Mutex<Option<Sender<Job>>>,
    thread: Worker,
}

impl ControllerThread {
    pub fn start(core: ControllerState, state: &Arc<NodeState>) -> io::Result<ControllerThread> {
        let (sender, receiver) = channel();
        let state = Arc::downgrade(state);
        let thread = Worker::start("controller", move |_| run(core, &receiver, &state))?;
        Ok(ControllerThread { sender: Mutex::new(Some(sender)), thread })
    }

    /// Runs one operation: `decide` looks at the image, and gives the records and the answer.
    pub async fn change<R: Send + 'static>(
        &self,
        decide: impl FnOnce(&Controller, &NodeState) -> Decision<R> + Send + 'static,
    ) -> Result<R, ControllerError> {
        let (sender, receiver) = oneshot::channel();
        self.submit(Job::Change(Box::new(move |core, state| {
            // The client may have gone away; the operation is done all the same.
            core.decide(state, decide, move |reply| _ = sender.send(reply));
        })))?;
        receiver.await.map_err(|_| ControllerError::Stopping)?
    }

    /// Runs `operation` on the thread, when no change waits for its commit.
    pub async fn run<R: Send + 'static>(
        &self,
        operation: impl FnOnce(&mut ControllerState, &NodeState) -> R + Send + 'static,
    ) -> Result<R, ControllerError> {
        let (sender, receiver) = oneshot::channel();
        self.submit(Job::Between(Box::new(move |core, state| _ = sender.send(operation(core, state)))))?;
        receiver.await.map_err(|_| ControllerError::Stopping)
    }

    fn submit(&self, job: Job) -> Result<(), ControllerError> {
        let sender = self.sender.lock();
        sender.as_ref().ok_or(ControllerError::Stopping)?.send(job).map_err(|_| ControllerError::Stopping)
    }

    /// Lets the thread do a last operation, then ends it.
    pub fn stop(&self, last: impl FnOnce(&mut ControllerState, &NodeState) + Send + 'static) {
        // Nothing is left to do for a thread that was stopped before.
        let _ = self.submit(Job::Between(Box::new(last)));
        self.sender.lock().take();
        self.thread.join();
    }
}

/// How often the thread looks whether a snapshot is due when nothing changes.
const IDLE_CHECK: Duration = Duration::from_secs(60);
/// When a sync is tried again for which no file descriptor was left.
const SYNC_AGAIN_AFTER: Duration = Duration::from_millis(100);
/// Changes that share a sync at the most, so that the first of them does not wait for ever.
const CHANGES_A_SYNC_MAX: usize = 100;

fn run(mut core: ControllerState, jobs: &Receiver<Job>, state: &Weak<NodeState>) {
    loop {
        let limit = if core.uncommitted.is_empty() { IDLE_CHECK } else { SYNC_AGAIN_AFTER };
        let mut next = match jobs.recv_timeout(limit) {
            Ok(job) => Some(job),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => return,
        };
        let Some(state) = state.upgrade() else { return };
        while let Some(job) = next {
            match job {
                Job::Change(change) => change(&mut core, &state),
                Job::Between(operation) => {
                    core.settle(&state);
                    operation(&mut core, &state);
                }
            }
            next = if core.uncommitted.len() < CHANGES_A_SYNC_MAX { jobs.try_recv().ok() } else { None };
        }
        core.settle(&state);
        core.snapshot_if_due(&state);
    }
}

#[cfg(test)]
#[path = "controller_thread_tests.rs"]
mod tests;
