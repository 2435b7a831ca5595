//! The role that all partitions of a partition group share: the group is one unit of replication.

use std::collections::BTreeSet;

use mainstem_types::{LeaderEpoch, NodeId};

use super::topics::{NO_LEADER, PartitionImage};

/// Replicas, leader, epoch and in-sync set of a unit of replication.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnitRole {
    pub replicas: Vec<NodeId>,
    pub in_sync: Vec<NodeId>,
    pub leader: Option<NodeId>,
    pub epoch: LeaderEpoch,
}

/// Two partitions of a group have different ones.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} and {1:?} are in one partition group and do not agree")]
pub struct UnitDisagrees(pub Box<UnitRole>, pub Box<UnitRole>);

impl UnitRole {
    pub fn of(partition: &PartitionImage) -> UnitRole {
        let nodes = |list: &[i32]| list.iter().copied().map(NodeId).collect();
        UnitRole {
            replicas: nodes(&partition.replicas),
            in_sync: nodes(&partition.isr),
            leader: Some(NodeId(partition.leader)).filter(|leader| leader.0 != NO_LEADER),
            epoch: LeaderEpoch(partition.leader_epoch),
        }
    }

    /// Whether the partition has this role. Sets of nodes count, not their order.
    pub fn is_of(&self, partition: &PartitionImage) -> bool {
        let same = |nodes: &[NodeId], list: &[i32]| {
            // Nearly always in the same order.
            let in_order = nodes.len() == list.len() && nodes.iter().zip(list).all(|(node, id)| node.0 == *id);
            in_order || nodes.iter().map(|node| node.0).collect::<BTreeSet<_>>() == list.iter().copied().collect()
        };
        self.epoch.0 == partition.leader_epoch
            && self.leader.map_or(NO_LEADER, |leader| leader.0) == partition.leader
            && same(&self.in_sync, &partition.isr)
            && same(&self.replicas, &partition.replicas)
    }

    /// The one role of all these partitions. `None`: there are none.
    pub fn agreed<'p>(
        partitions: impl IntoIterator<Item = &'p PartitionImage>,
    ) -> Result<Option<UnitRole>, UnitDisagrees> {
        let mut agreed: Option<UnitRole> = None;
        for partition in partitions {
            match &agreed {
                None => agreed = Some(UnitRole::of(partition)),
                Some(role) if role.is_of(partition) => {}
                Some(role) => return Err(UnitDisagrees(Box::new(role.clone()), Box::new(UnitRole::of(partition)))),
            }
        }
        Ok(agreed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn partition(leader: i32, leader_epoch: i32, isr: &[i32], replicas: &[i32]) -> PartitionImage {
        PartitionImage {
            replicas: replicas.to_vec(),
            directories: Vec::new(),
            isr: isr.to_vec(),
            removing_replicas: Vec::new(),
            adding_replicas: Vec::new(),
            eligible_leader_replicas: Vec::new(),
            last_known_eligible: Vec::new(),
            leader,
            leader_recovery_state: 0,
            leader_epoch,
            partition_epoch: 7,
        }
    }

    #[test]
    fn partitions_agree_on_leader_epoch_and_sets_whatever_their_order() {
        let one = partition(1, 5, &[1, 2], &[1, 2, 3]);
        let same = partition(1, 5, &[2, 1], &[3, 2, 1]);
        let role = UnitRole::agreed([&one, &same]).unwrap().unwrap();
        assert_eq!((role.leader, role.epoch, role.in_sync.len()), (Some(NodeId(1)), LeaderEpoch(5), 2));
        assert_eq!(UnitRole::agreed([]), Ok(None));
        let others = [
            partition(2, 5, &[1, 2], &[1, 2, 3]),
            partition(NO_LEADER, 5, &[1, 2], &[1, 2, 3]),
            partition(1, 6, &[1, 2], &[1, 2, 3]),
            partition(1, 5, &[1], &[1, 2, 3]),
            partition(1, 5, &[1, 2], &[1, 2]),
        ];
        for other in others {
            assert!(UnitRole::agreed([&one, &other]).is_err(), "{other:?}");
        }
    }
}
