//! The leader epoch of partitions in partition groups (layouts `topic` and `shared`).
//!
//! All partitions of a group have the leader, the leader epoch and the in-sync set of the group. The metadata does not
//! say which partition is in which group. So all partitions that a node leads in groups have one epoch: the broker
//! epoch of the node. No earlier leader epoch has reached it, because each of these cost a record of the metadata log,
//! and the broker epoch counts these records. A group's epoch never goes back, not even if all its topics are deleted.

use std::collections::HashMap;

use super::Controller;
use super::configs::LAYOUT;
use crate::config::Layout;
use crate::image::{NO_LEADER, PartitionImage, TopicImage};

/// The epochs that new partitions in groups get, by their leaders.
pub(super) struct GroupEpochs<'c> {
    controller: &'c Controller,
    /// Found out once for a request: all topics are looked at.
    known: HashMap<i32, i32>,
}

impl<'c> GroupEpochs<'c> {
    pub(super) fn new(controller: &'c Controller) -> GroupEpochs<'c> {
        GroupEpochs { controller, known: HashMap::new() }
    }

    pub(super) fn of(&mut self, leader: i32) -> i32 {
        let controller = self.controller;
        *self.known.entry(leader).or_insert_with(|| controller.group_epoch(leader))
    }
}

impl Controller {
    /// Whether the records of a topic go into partition groups.
    pub(super) fn is_in_groups(&self, topic: &TopicImage) -> bool {
        let configs = self.image.topic_configs(&topic.name);
        configs.get(LAYOUT).is_some_and(|layout| Layout::of(layout) != Layout::Partition)
    }

    /// The epoch in which a node that registers with `broker_epoch` leads its groups: higher than any before.
    pub(super) fn next_group_epoch(&self, broker_epoch: i64) -> i32 {
        let latest = self.partitions_in_groups().map(|partition| partition.leader_epoch).max();
        as_leader_epoch(broker_epoch).max(latest.map_or(0, |latest| latest.saturating_add(1)))
    }

    /// The epoch in which a node leads its groups.
    fn group_epoch(&self, leader: i32) -> i32 {
        if leader == NO_LEADER {
            return 0;
        }
        let led = self.partitions_in_groups().filter(|partition| partition.leader == leader);
        let registered = self.image.broker(leader).map_or(0, |broker| as_leader_epoch(broker.epoch()));
        led.map(|partition| partition.leader_epoch).max().unwrap_or(0).max(registered)
    }

    fn partitions_in_groups(&self) -> impl Iterator<Item = &PartitionImage> {
        let topics = self.image.topics().filter(|topic| self.is_in_groups(topic));
        topics.flat_map(|topic| topic.partitions.values())
    }
}

/// A broker epoch is an offset of the metadata log, which does not reach this limit.
fn as_leader_epoch(broker_epoch: i64) -> i32 {
    i32::try_from(broker_epoch).unwrap_or(i32::MAX)
}

#[cfg(test)]
#[path = "group_epochs_tests.rs"]
mod tests;
