//! The thread that changes the metadata: one operation after the other, each "decide, append, replay, follow, reply".
//!
//! An operation decides on the image as it is after all earlier ones. Its records are durable and the node follows them
//! before its reply leaves.

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Weak};
use std::time::Duration;

use mainstem_env::Worker;
use mainstem_kafka_wire::metadata_records::MetadataRecord;
use mainstem_metadata::controller::{Controller, Decision};
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

/// What the thread owns.
pub(crate) struct Core {
    controller: Controller,
    log: MetadataLog,
    /// After a failed write nobody knows what is on the disk: no more changes until a restart.
    failed: bool,
    last_snapshot: Duration,
}

impl Core {
    pub fn new(controller: Controller, log: MetadataLog, now: Duration) -> Core {
        Core { controller, log, failed: false, last_snapshot: now }
    }

    pub fn controller(&self) -> &Controller {
        &self.controller
    }

    /// Where the next record will be.
    pub fn next_offset(&self) -> Offset {
        self.log.log().log_end()
    }

    /// Appends records, makes them durable, and replays them. Gives what changed.
    pub fn commit(&mut self, records: &[MetadataRecord<'_>], now: TimestampMs) -> Result<ImageDelta, ControllerError> {
        if records.is_empty() {
            return Ok(ImageDelta::default());
        }
        let base = self.append(records, now)?;
        self.log.flush().inspect_err(|_| self.failed = true)?;
        self.replay(records, base)
    }

    /// Appends records and replays them; the next [`commit`](Self::commit) makes them durable. For the start, when
    /// nobody sees the image yet.
    pub fn prepare(&mut self, records: &[MetadataRecord<'_>], now: TimestampMs) -> Result<ImageDelta, ControllerError> {
        let base = self.append(records, now)?;
        self.replay(records, base)
    }

    fn append(&mut self, records: &[MetadataRecord<'_>], now: TimestampMs) -> Result<Offset, ControllerError> {
        if self.failed {
            return Err(ControllerError::Failed);
        }
        let (level, end) = (self.controller.image().metadata_version(), self.next_offset());
        let appended = self.log.append(records, level, now);
        // A full disk that took nothing of it leaves the log as it was.
        self.failed = appended.is_err() && (self.next_offset() != end || self.log.log().failure().is_some());
        Ok(appended?)
    }

    fn replay(&mut self, records: &[MetadataRecord<'_>], base: Offset) -> Result<ImageDelta, ControllerError> {
        let mut delta = ImageDelta::default();
        for (offset, record) in (base.0..).zip(records) {
            let replayed = self.controller.replay(record, Offset(offset), self.log.term(), &mut delta);
            replayed.inspect_err(|_| self.failed = true)?;
        }
        Ok(delta)
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

    pub fn snapshot(&mut self, state: &NodeState) {
        self.last_snapshot = state.env.clock.monotonic();
        match self.log.snapshot(self.controller.image(), state.env.clock.wall_ms()) {
            Ok(id) => tracing::debug!("metadata snapshot up to offset {}", id.end),
            // The log has everything that the snapshot would have had: reported, and tried again later.
            Err(error) => tracing::error!("cannot write a metadata snapshot: {error}"),
        }
    }
}

type Job = Box<dyn FnOnce(&mut Core, &NodeState) + Send>;

/// The way to the thread.
pub(crate) struct ControllerThread {
    sender: Mutex<Option<Sender<Job>>>,
    thread: Worker,
}

impl ControllerThread {
    pub fn start(core: Core, state: &Arc<NodeState>) -> io::Result<ControllerThread> {
        let (sender, receiver) = channel();
        let state = Arc::downgrade(state);
        let thread = Worker::start("controller", move |_| run(core, &receiver, &state))?;
        Ok(ControllerThread { sender: Mutex::new(Some(sender)), thread })
    }

    /// Runs one operation: `decide` looks at the image and says what is recorded and answered.
    pub async fn change<R: Send + 'static>(
        &self,
        decide: impl FnOnce(&Controller, &NodeState) -> Decision<R> + Send + 'static,
    ) -> Result<R, ControllerError> {
        self.run(|core, state| decide_and_follow(core, state, decide)).await?
    }

    /// Runs `operation` on the thread, between two changes.
    pub async fn run<R: Send + 'static>(
        &self,
        operation: impl FnOnce(&mut Core, &NodeState) -> R + Send + 'static,
    ) -> Result<R, ControllerError> {
        let (sender, receiver) = oneshot::channel();
        self.submit(Box::new(move |core, state| {
            // The client may have gone away; what was asked for is done all the same.
            let _ = sender.send(operation(core, state));
        }))?;
        receiver.await.map_err(|_| ControllerError::Stopping)
    }

    fn submit(&self, job: Job) -> Result<(), ControllerError> {
        let sender = self.sender.lock();
        sender.as_ref().ok_or(ControllerError::Stopping)?.send(job).map_err(|_| ControllerError::Stopping)
    }

    /// Lets the thread do a last operation, then ends it.
    pub fn stop(&self, last: impl FnOnce(&mut Core, &NodeState) + Send + 'static) {
        // Nothing is left to do for a thread that was stopped before.
        let _ = self.submit(Box::new(last));
        self.sender.lock().take();
        self.thread.join();
    }
}

fn decide_and_follow<R>(
    core: &mut Core,
    state: &NodeState,
    decide: impl FnOnce(&Controller, &NodeState) -> Decision<R>,
) -> Result<R, ControllerError> {
    let Decision { records, reply } = decide(core.controller(), state);
    let delta = core.commit(&records, state.env.clock.wall_ms())?;
    if !delta.is_empty() {
        state.follow(core.controller().image(), &delta);
    }
    Ok(reply)
}

/// How often the thread looks whether a snapshot is due when nothing changes.
const IDLE_CHECK: Duration = Duration::from_secs(60);

fn run(mut core: Core, jobs: &Receiver<Job>, state: &Weak<NodeState>) {
    loop {
        let job = jobs.recv_timeout(IDLE_CHECK);
        let Some(state) = state.upgrade() else { return };
        match job {
            Ok(job) => job(&mut core, &state),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        core.snapshot_if_due(&state);
    }
}
