//! Blocks of producer ids.

use mainstem_kafka_wire::metadata_records::ProducerIdsRecord;
use mainstem_types::{NodeId, ProducerId};

use super::{Controller, Decision};

/// How many ids a broker takes at once, as in Kafka.
pub const PRODUCER_ID_BLOCK_LENGTH: i64 = 1000;

/// Ids that belong to one broker: `first .. first + length`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProducerIdBlock {
    pub first: ProducerId,
    pub length: i64,
}

/// Why no block is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AllocateProducerIdsError {
    /// Kafka: BROKER_ID_NOT_REGISTERED (102).
    #[error("broker {0} is not registered")]
    NotRegistered(NodeId),
    /// Kafka: STALE_BROKER_EPOCH (77).
    #[error("broker {node} is registered with epoch {registered}, not {given}")]
    StaleEpoch { node: NodeId, registered: i64, given: i64 },
    /// Kafka: UNKNOWN_SERVER_ERROR (-1). It would take 292,000 years at a million ids a second.
    #[error("no producer ids are left")]
    Exhausted,
}

impl Controller {
    /// Takes the next block for a broker. Its ids may be used once the record is durable: a block that was half used
    /// before a crash is never given out again.
    pub fn allocate_producer_ids(
        &self,
        node: NodeId,
        broker_epoch: i64,
    ) -> Result<Decision<ProducerIdBlock>, AllocateProducerIdsError> {
        let broker = self.image.broker(node.0).ok_or(AllocateProducerIdsError::NotRegistered(node))?;
        if broker.epoch() != broker_epoch {
            let registered = broker.epoch();
            return Err(AllocateProducerIdsError::StaleEpoch { node, registered, given: broker_epoch });
        }
        let first = self.image.producer_ids().map_or(0, |ids| ids.next);
        let next = first.checked_add(PRODUCER_ID_BLOCK_LENGTH).ok_or(AllocateProducerIdsError::Exhausted)?;
        let record = ProducerIdsRecord { broker_id: node.0, broker_epoch, next_producer_id: next };
        let block = ProducerIdBlock { first: ProducerId(first), length: PRODUCER_ID_BLOCK_LENGTH };
        Ok(Decision { records: vec![record.into()], reply: block })
    }
}

#[cfg(test)]
mod tests {
    use super::super::test_support::{apply, running};
    use super::*;

    #[test]
    fn blocks_follow_each_other_and_are_never_given_twice() {
        let mut controller = running();
        let epoch = controller.image().broker(1).unwrap().epoch();
        for expected in [0, 1000, 2000] {
            let decision = controller.allocate_producer_ids(NodeId(1), epoch).unwrap();
            assert_eq!(decision.reply, ProducerIdBlock { first: ProducerId(expected), length: 1000 });
            apply(&mut controller, &decision.records);
        }
    }

    #[test]
    fn only_the_registered_incarnation_gets_a_block() {
        let controller = running();
        let unknown = controller.allocate_producer_ids(NodeId(2), 0).unwrap_err();
        assert_eq!(unknown, AllocateProducerIdsError::NotRegistered(NodeId(2)));
        let stale = controller.allocate_producer_ids(NodeId(1), -1).unwrap_err();
        assert!(matches!(stale, AllocateProducerIdsError::StaleEpoch { given: -1, .. }));
    }
}
