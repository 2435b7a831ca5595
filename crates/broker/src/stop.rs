//! The last change of the metadata: the node records its orderly stop.

use mainstem_store::StopKind;

use crate::controller_thread::ControllerState;
use crate::node_state::NodeState;

/// Records the orderly stop, as Kafka does it: the next broker on the folder knows that this node had everything.
pub(crate) fn last_operation(core: &mut ControllerState, state: &NodeState) {
    let decision = core.controller().stop_node(state.node);
    if let Err(error) = core.append(&decision.records, state.env.clock.wall_ms()).and_then(|_| core.sync()) {
        tracing::error!("cannot record the orderly stop: {error}");
    }
}

/// Ends a start before all logs are open. Those that are were recovered, and are closed. The others are as they were
/// found: after an orderly stop that is good enough for another mark of one.
pub(crate) fn during_start(core: &mut ControllerState, state: &NodeState, found: StopKind) {
    last_operation(core, state);
    let (logs, epoch) = (state.all_logs(), *state.broker_epoch.lock());
    let closed = match found {
        StopKind::Unclean => state.folder.close_unfinished(&logs),
        StopKind::New | StopKind::Clean { .. } => state.folder.close(&logs, epoch),
    };
    if let Err(error) = closed {
        tracing::error!("cannot close the data folder in order; the next start will check it: {error}");
    }
}
