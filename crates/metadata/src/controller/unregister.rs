//! UnregisterBroker: the cluster forgets a node that will not come back.

use mainstem_kafka_wire::metadata_records::UnregisterBrokerRecord;
use mainstem_types::NodeId;

use super::{Controller, Decision};

/// Why a broker stays registered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnregisterBrokerError {
    /// Kafka: BROKER_ID_NOT_REGISTERED (102).
    #[error("Broker ID {0} is not currently registered")]
    NotRegistered(i32),
    /// Kafka forgets a broker that runs; here it is INVALID_REQUEST (42).
    #[error("broker {0} is this running node")]
    ThisNode(i32),
}

impl Controller {
    /// Forgets another node than this one.
    pub fn unregister_broker(&self, id: i32, this_node: NodeId) -> Decision<Result<(), UnregisterBrokerError>> {
        let refused = |error| Decision { records: Vec::new(), reply: Err(error) };
        match self.image.broker(id) {
            None => refused(UnregisterBrokerError::NotRegistered(id)),
            Some(_) if id == this_node.0 => refused(UnregisterBrokerError::ThisNode(id)),
            Some(broker) => {
                let record = UnregisterBrokerRecord { broker_id: id, broker_epoch: broker.epoch() };
                Decision { records: vec![record.into()], reply: Ok(()) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::test_support::{apply, running};
    use super::*;
    use mainstem_kafka_wire::metadata_records::RegisterBrokerRecord;

    #[test]
    fn another_node_is_forgotten_and_this_one_is_not() {
        let mut controller = running();
        apply(&mut controller, &[RegisterBrokerRecord { broker_id: 5, broker_epoch: 9, ..Default::default() }.into()]);
        let decision = controller.unregister_broker(5, NodeId(1));
        assert_eq!(decision.reply, Ok(()));
        apply(&mut controller, &decision.records);
        assert!(controller.image().broker(5).is_none());
        let again = controller.unregister_broker(5, NodeId(1));
        assert_eq!((again.reply, again.records), (Err(UnregisterBrokerError::NotRegistered(5)), vec![]));
        let own = controller.unregister_broker(1, NodeId(1));
        assert_eq!((own.reply, own.records), (Err(UnregisterBrokerError::ThisNode(1)), vec![]));
    }
}
