//! The task of one partition: collects records into batches and has them sent, one batch at a time.

use std::collections::VecDeque;

use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout_at};

use super::batch::{Sending, Sequence};
use super::pending::Pending;

pub(super) enum Command {
    Record(Pending),
    /// Answered once everything before it has been told its fate.
    Flush(oneshot::Sender<()>),
}

/// Runs until the producer is dropped; then sends the remaining batches.
pub(super) async fn run(sending: Sending, mut commands: mpsc::UnboundedReceiver<Command>) {
    let mut sequence = Sequence::default();
    let mut answered = None;
    let mut held = None;
    let mut failed = false;
    while let Some(records) = collect(&sending, &mut commands, &mut held).await {
        if failed && sending.config.halt_on_failure {
            sending.refuse(records);
        } else if !records.is_empty() {
            failed = !sending.deliver(records, &mut sequence, &mut answered).await;
        }
        if let Some(Command::Flush(done)) = held.take_if(|command| matches!(command, Command::Flush(_))) {
            // Nobody waits any more when the caller gave up.
            let _ = done.send(());
        }
    }
}

/// The records of the next batch: full, or all that came within the linger time. Stops before a flush, which stays in
/// `held`, as does a record that does not fit. `None` when the producer is gone and everything was given out.
async fn collect(
    sending: &Sending,
    commands: &mut mpsc::UnboundedReceiver<Command>,
    held: &mut Option<Command>,
) -> Option<VecDeque<Pending>> {
    let mut next = match held.take() {
        Some(command) => Some(command),
        None => Some(commands.recv().await?),
    };
    let mut records = VecDeque::new();
    let mut size = 0;
    let deadline = Instant::now() + sending.config.linger;
    while let Some(command) = next {
        match command {
            Command::Record(pending) if records.is_empty() || size + pending.size <= sending.config.batch_size => {
                size += pending.size;
                records.push_back(pending);
            }
            other => {
                *held = Some(other);
                break;
            }
        }
        next = match commands.try_recv() {
            Ok(command) => Some(command),
            Err(_) if sending.config.linger.is_zero() || size >= sending.config.batch_size => None,
            Err(_) => timeout_at(deadline, commands.recv()).await.ok().flatten(),
        };
    }
    Some(records)
}
