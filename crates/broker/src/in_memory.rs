//! The start's report about topics whose acknowledged records may be only in memory.

use std::collections::BTreeSet;

use mainstem_metadata::config::Durability;
use mainstem_metadata::image::ClusterImage;

use crate::topics::TopicMap;

/// More topics are not named.
const NAMES_MAX: usize = 5;

/// A line for those that have `memory`, and one for those that ask for it in vain.
pub(crate) fn told(image: &ClusterImage, topics: &TopicMap) -> Vec<String> {
    let mut applied = BTreeSet::new();
    let mut refused = BTreeSet::new();
    for topic in topics.iter() {
        let asked = image.topic_configs(&topic.name).get("mainstem.durability").is_some_and(|value| value == "memory");
        match topic.config.durability {
            Durability::Memory => _ = applied.insert(&*topic.name),
            Durability::Os | Durability::Disk if asked => _ = refused.insert(&*topic.name),
            Durability::Os | Durability::Disk => {}
        }
    }
    let lines = [
        (!applied.is_empty())
            .then(|| format!("durability memory of {}: {}", names(&applied), Durability::Memory.exposure())),
        (!refused.is_empty()).then(|| {
            format!(
                "WARNING: mainstem.durability=memory of {} is not applied, os is: it needs mainstem.memory.force=true",
                names(&refused)
            )
        }),
    ];
    lines.into_iter().flatten().collect()
}

fn names(topics: &BTreeSet<&str>) -> String {
    let first: Vec<_> = topics.iter().take(NAMES_MAX).copied().collect();
    let more = match topics.len().saturating_sub(NAMES_MAX) {
        0 => String::new(),
        more => format!(" and {more} more topics"),
    };
    format!("{}{more}", first.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_are_the_numbers_of_the_journal() {
        let said = Durability::Memory.exposure();
        assert!(said.contains(&format!("{} ms", mainstem_store::WRITE_OUT_AFTER.as_millis())), "{said}");
        assert!(said.contains(&format!("{} KiB", mainstem_store::UNWRITTEN_BYTES_MAX >> 10)), "{said}");
    }

    #[test]
    fn a_few_topics_are_named_and_many_counted() {
        let all = ["a", "b", "c", "d", "e", "f", "g"];
        let of = |count: usize| all[..count].iter().copied().collect();
        assert_eq!(names(&of(2)), "a, b");
        assert_eq!(names(&of(7)), "a, b, c, d, e and 2 more topics");
    }
}
