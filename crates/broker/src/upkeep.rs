//! Runs the tasks of the broker's own threads at once, on the caller's thread: for administration, and for tests that
//! control every step.

use mainstem_store::{OpenError, Removal};

use crate::broker::Broker;
use crate::controller_thread::ControllerError;
use crate::maintenance;

impl Broker {
    /// Applies retention to every partition.
    pub fn apply_retention(&self) {
        maintenance::retention(&self.state, &|| true);
    }

    /// Deletes files of commit logs where the disk is too full to wait for their hour, or for retention.
    pub fn make_room(&self) {
        crate::commit_logs::make_room(&self.state, &|| true);
    }

    /// Compacts due logs, also without `log.cleaner.enable`. Gives the number of passes over a log.
    pub fn compact_logs(&self) -> usize {
        self.cleaner.run_due(&self.state)
    }

    /// Writes the checkpoint files of the data folder: log starts that were raised are durable when this returns.
    pub fn write_checkpoints(&self) -> Result<(), OpenError> {
        self.state.folder.write_checkpoints(&self.state.all_logs(), &|| true)
    }

    /// Looks at the free space of the disk: whether records are taken from producers.
    pub fn look_at_disk(&self) {
        maintenance::look_at_disk(&self.state);
    }

    /// Removes the files of deleted topics and segments whose delay is over.
    pub fn remove_due_files(&self) {
        maintenance::remove_files(&self.state, &Removal::due());
    }

    /// Writes a snapshot of the metadata.
    pub async fn snapshot_metadata(&self) -> Result<(), ControllerError> {
        self.controller.run(|core, state| core.snapshot(state)).await
    }

    /// Compares what is in memory with what a replay of the journals gives: the metadata, groups and their offsets. One
    /// line for each difference; nothing while all is well. Reads the whole of these journals, and holds up what
    /// changes them.
    pub async fn verify_views(&self) -> Result<Vec<String>, ControllerError> {
        let metadata = self.controller.run(|core, _| match core.replayed() {
            Ok(image) if image == *core.controller().image() => None,
            Ok(_) => Some("the metadata: a replay gives another image".to_owned()),
            Err(error) => Some(format!("the metadata: {error}")),
        });
        let mut found: Vec<String> = metadata.await?.into_iter().collect();
        found.extend(self.state.consumer_groups.verify());
        Ok(found)
    }
}
