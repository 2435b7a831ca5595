//! What must hold when the cluster has been whole for a while.

use mainstem_types::{PartitionIndex, TopicPartition};

use super::{Violation, World};
use crate::clients::Client;
use crate::{BROKERS, OFFSETS_TOPIC, PARTITIONS, TOPIC};

impl World {
    /// The cluster has been whole for a while: everything is answered, and all replicas are the same.
    pub(super) fn check_end(&self) -> Result<(), Violation> {
        let rest = |what: String| self.violation("a whole cluster answers everything and agrees", what);
        if let Some(what) = self.clients.iter().find_map(Client::unfinished) {
            return Err(rest(what));
        }
        let names = (0..PARTITIONS).map(|number| (TOPIC, number)).chain([(OFFSETS_TOPIC, 0)]);
        for (topic, number) in names {
            let partition = TopicPartition::new(topic, PartitionIndex(number));
            let mut states = Vec::new();
            for broker in &self.brokers {
                let replica = broker.process.as_ref().and_then(|process| process.replicas.get(&partition));
                let Some(replica) = replica else {
                    return Err(rest(format!("broker {} does not hold {partition}", broker.id)));
                };
                let mut in_sync = replica.in_sync.clone();
                in_sync.sort_unstable();
                states.push((replica.log.log_end(), replica.high_watermark(), in_sync, replica.leader_epoch));
            }
            let (end, watermark, in_sync, _) = &states[0];
            let same = states.iter().all(|state| *state == states[0]);
            if !same || end != watermark || in_sync.len() != BROKERS.len() {
                return Err(rest(format!("{partition}: end, watermark, in-sync set, epoch are {states:?}")));
            }
        }
        Ok(())
    }
}
