//! Producer ids: assigned from a block that the metadata log gave to this node. When the process ends, the rest of the
//! block is lost, and no id is used twice.

use mainstem_types::ProducerId;
use parking_lot::Mutex;

/// Ids that this node may give out.
#[derive(Default)]
pub struct ProducerIds {
    block: Mutex<std::ops::Range<i64>>,
}

impl ProducerIds {
    /// The next id, if the block has one left.
    pub fn next_at_hand(&self) -> Option<ProducerId> {
        self.block.lock().next().map(ProducerId)
    }

    /// Takes over a new block. Ids that are left of the old one are not given out any more.
    pub(crate) fn refill(&self, block: std::ops::Range<i64>) {
        *self.block.lock() = block;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_a_block_are_given_once_each() {
        let ids = ProducerIds::default();
        assert_eq!(ids.next_at_hand(), None);
        ids.refill(1000..1002);
        assert_eq!(ids.next_at_hand(), Some(ProducerId(1000)));
        assert_eq!(ids.next_at_hand(), Some(ProducerId(1001)));
        assert_eq!(ids.next_at_hand(), None);
    }
}
