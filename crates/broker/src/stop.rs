//! The last change of the metadata: the node says that it goes.

use crate::controller_thread::Core;
use crate::state::State;

/// Records the orderly stop, as Kafka does it: whoever starts on the folder next knows that this node had everything.
pub(crate) fn last_operation(core: &mut Core, state: &State) {
    let decision = core.controller().stop_node(state.node);
    if let Err(error) = core.commit(&decision.records, state.env.clock.wall_ms()) {
        tracing::error!("the stop is not recorded: {error}");
    }
}
