//! Which group has which unit.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Weak};

use mainstem_metadata::image::{ClusterImage, UnitRole};
use mainstem_store::{DataFolder, GroupPartition};
use mainstem_types::NodeId;
use parking_lot::Mutex;

use super::GroupUnit;

/// The units of the groups that have partitions, by the folders of the groups.
#[derive(Default)]
pub(crate) struct GroupUnits {
    by_folder: Mutex<HashMap<PathBuf, Weak<GroupUnit>>>,
}

impl GroupUnits {
    /// The unit of the partition's group. `None`: the group is not open any more.
    pub(crate) fn of(&self, partition: &GroupPartition, folder: &DataFolder, node: NodeId) -> Option<Arc<GroupUnit>> {
        let mut by_folder = self.by_folder.lock();
        if let Some(unit) = by_folder.get(partition.folder()).and_then(Weak::upgrade) {
            return Some(unit);
        }
        let unit = Arc::new(GroupUnit::new(folder.group_in(partition.folder())?, node));
        // Groups of deleted topics.
        by_folder.retain(|_, unit| unit.strong_count() > 0);
        by_folder.insert(partition.folder().to_owned(), Arc::downgrade(&unit));
        Some(unit)
    }
}

/// Gives each of these groups the role that the metadata gives its partitions. If these do not agree, the group is not
/// led by this node until they do.
pub(crate) fn follow_units(image: &ClusterImage, units: Vec<Arc<GroupUnit>>) {
    let units: HashMap<*const GroupUnit, Arc<GroupUnit>> =
        units.into_iter().map(|unit| (Arc::as_ptr(&unit), unit)).collect();
    for unit in units.values() {
        let keys = unit.keys();
        let partitions = keys.iter().filter_map(|(topic, index)| image.topic_by_id(*topic)?.partitions.get(&index.0));
        match UnitRole::agreed(partitions) {
            Ok(Some(role)) => unit.follow(role),
            Ok(None) => {}
            Err(error) => {
                let log = unit.log().folder().display();
                tracing::error!("{log} is not led by this node until the metadata is changed: {error}");
                unit.follow_nobody();
            }
        }
    }
}
