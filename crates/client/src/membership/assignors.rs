//! The assignors `range` and `roundrobin`: they assign as Java's consumer and librdkafka do.

use std::collections::{BTreeMap, BTreeSet};

use mainstem_types::{PartitionIndex, TopicPartition};

/// A member as the leader sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Subscriber {
    pub member_id: String,
    pub instance_id: Option<String>,
    pub topics: Vec<String>,
}

impl Subscriber {
    /// Static members by their instance id, which stays; then the others.
    fn rank(&self) -> (bool, &str, &str) {
        (self.instance_id.is_none(), self.instance_id.as_deref().unwrap_or_default(), &self.member_id)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Assignor {
    /// Of each topic neighbouring partitions to each member; the first members have one more.
    Range,
    /// All partitions of all topics in turn.
    RoundRobin,
}

impl Assignor {
    /// In the order of preference.
    pub const ALL: [Assignor; 2] = [Assignor::Range, Assignor::RoundRobin];

    pub fn name(self) -> &'static str {
        match self {
            Assignor::Range => "range",
            Assignor::RoundRobin => "roundrobin",
        }
    }

    pub fn of(name: &str) -> Option<Assignor> {
        Assignor::ALL.into_iter().find(|assignor| assignor.name() == name)
    }

    /// Each member with its partitions. `topics`: those that exist.
    pub fn assign(
        self,
        members: &[Subscriber],
        topics: &BTreeMap<String, Vec<PartitionIndex>>,
    ) -> Vec<(String, Vec<TopicPartition>)> {
        let mut ordered: Vec<&Subscriber> = members.iter().collect();
        ordered.sort_by_key(|member| member.rank());
        let places = match self {
            Assignor::Range => range(&ordered, topics),
            Assignor::RoundRobin => round_robin(&ordered, topics),
        };
        let with_id = |(member, partitions): (&&Subscriber, _)| (member.member_id.clone(), partitions);
        ordered.iter().zip(places).map(with_id).collect()
    }
}

fn subscribers(members: &[&Subscriber], topic: &str) -> BTreeSet<usize> {
    let reads = |member: &Subscriber| member.topics.iter().any(|name| name == topic);
    members.iter().enumerate().filter(|(_, member)| reads(member)).map(|(place, _)| place).collect()
}

fn range(members: &[&Subscriber], topics: &BTreeMap<String, Vec<PartitionIndex>>) -> Vec<Vec<TopicPartition>> {
    let mut assigned = vec![Vec::new(); members.len()];
    for (topic, partitions) in topics {
        let readers = subscribers(members, topic);
        let Some(each) = partitions.len().checked_div(readers.len()) else { continue };
        let with_one_more = partitions.len() % readers.len();
        let mut rest = partitions.iter();
        for (number, reader) in readers.into_iter().enumerate() {
            let count = each + usize::from(number < with_one_more);
            assigned[reader].extend(rest.by_ref().take(count).map(|index| TopicPartition::new(topic.as_str(), *index)));
        }
    }
    assigned
}

fn round_robin(members: &[&Subscriber], topics: &BTreeMap<String, Vec<PartitionIndex>>) -> Vec<Vec<TopicPartition>> {
    let mut assigned = vec![Vec::new(); members.len()];
    let mut turn = 0;
    for (topic, partitions) in topics {
        let readers = subscribers(members, topic);
        for index in partitions {
            let Some(reader) = readers.range(turn..).next().or_else(|| readers.first()).copied() else { break };
            assigned[reader].push(TopicPartition::new(topic.as_str(), *index));
            turn = reader + 1;
        }
    }
    assigned
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn member(id: &str, topics: &[&str]) -> Subscriber {
        Subscriber {
            member_id: id.to_owned(),
            instance_id: None,
            topics: topics.iter().map(|topic| (*topic).to_owned()).collect(),
        }
    }

    fn topics(sizes: &[(&str, i32)]) -> BTreeMap<String, Vec<PartitionIndex>> {
        sizes.iter().map(|(name, count)| ((*name).to_owned(), (0..*count).map(PartitionIndex).collect())).collect()
    }

    fn assigned(assignor: Assignor, members: &[Subscriber], sizes: &[(&str, i32)]) -> Vec<(String, Vec<String>)> {
        let names = |partitions: Vec<TopicPartition>| partitions.iter().map(ToString::to_string).collect();
        let assigned = assignor.assign(members, &topics(sizes));
        assigned.into_iter().map(|(member, partitions)| (member, names(partitions))).collect()
    }

    fn owned(expected: &[(&str, &[&str])]) -> Vec<(String, Vec<String>)> {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        expected.iter().map(|(member, partitions)| ((*member).to_owned(), names(partitions))).collect()
    }

    /// The examples of Java's RangeAssignor and RoundRobinAssignor.
    #[test]
    fn two_topics_of_three_partitions_and_two_members() {
        let members = [member("c1", &["t0", "t1"]), member("c0", &["t0", "t1"])];
        let sizes = [("t0", 3), ("t1", 3)];
        let expected: [(&str, &[&str]); 2] = [("c0", &["t0-0", "t0-1", "t1-0", "t1-1"]), ("c1", &["t0-2", "t1-2"])];
        assert_eq!(assigned(Assignor::Range, &members, &sizes), owned(&expected));
        let expected: [(&str, &[&str]); 2] = [("c0", &["t0-0", "t0-2", "t1-1"]), ("c1", &["t0-1", "t1-0", "t1-2"])];
        assert_eq!(assigned(Assignor::RoundRobin, &members, &sizes), owned(&expected));
    }

    #[test]
    fn members_with_different_topics() {
        let members = [member("c0", &["t0"]), member("c1", &["t0", "t1"]), member("c2", &["t0", "t1", "t2"])];
        let sizes = [("t0", 1), ("t1", 2), ("t2", 3)];
        let expected: [(&str, &[&str]); 3] =
            [("c0", &["t0-0"]), ("c1", &["t1-0"]), ("c2", &["t1-1", "t2-0", "t2-1", "t2-2"])];
        assert_eq!(assigned(Assignor::RoundRobin, &members, &sizes), owned(&expected));
    }

    #[test]
    fn static_members_come_first_by_their_instance_id() {
        let with_instance =
            |id: &str, instance: &str| Subscriber { instance_id: Some(instance.into()), ..member(id, &["t"]) };
        let members = [member("a", &["t"]), with_instance("z", "1"), with_instance("b", "2")];
        let expected: [(&str, &[&str]); 3] = [("z", &["t-0"]), ("b", &["t-1"]), ("a", &["t-2"])];
        assert_eq!(assigned(Assignor::Range, &members, &[("t", 3)]), owned(&expected));
    }

    #[test]
    fn topics_without_readers_or_partitions_and_members_without_topics() {
        for assignor in Assignor::ALL {
            let members = [member("a", &["absent", "empty"]), member("b", &[])];
            assert_eq!(assigned(assignor, &members, &[("empty", 0), ("unread", 2)]), owned(&[("a", &[]), ("b", &[])]));
        }
    }

    proptest! {
        #[test]
        fn each_partition_that_is_read_has_one_reader_who_asked_for_it(
            sizes in prop::collection::vec(0..7i32, 1..4),
            wishes in prop::collection::vec(0..8u8, 1..6),
            range: bool,
        ) {
            let names: Vec<String> = (0..sizes.len()).map(|number| format!("t{number}")).collect();
            let sizes: Vec<(&str, i32)> = names.iter().map(String::as_str).zip(sizes).collect();
            let wanted = |wish: u8| -> Vec<&str> {
                names.iter().enumerate().filter(|(i, _)| wish >> i & 1 == 1).map(|(_, name)| name.as_str()).collect()
            };
            let members: Vec<Subscriber> =
                wishes.iter().enumerate().map(|(i, wish)| member(&format!("m{i}"), &wanted(*wish))).collect();
            let assignor = if range { Assignor::Range } else { Assignor::RoundRobin };
            let mut seen = BTreeSet::new();
            for (member_id, partitions) in assignor.assign(&members, &topics(&sizes)) {
                let reader = members.iter().find(|member| member.member_id == member_id).unwrap();
                for partition in partitions {
                    prop_assert!(reader.topics.iter().any(|topic| **topic == *partition.topic));
                    prop_assert!(seen.insert(partition), "two readers");
                }
            }
            let read = sizes.iter().filter(|(topic, _)| members.iter().any(|m| m.topics.iter().any(|t| t == topic)));
            prop_assert_eq!(seen.len(), read.map(|(_, count)| *count as usize).sum::<usize>());
        }
    }
}
