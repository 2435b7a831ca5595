use std::collections::BTreeMap;

use super::super::{BrokerConfig, TopicConfig, topic_config_entries};
use super::*;

fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_string(), (*value).to_string())).collect()
}

fn broker(properties: &[(&str, &str)]) -> BrokerConfig {
    BrokerConfig::parse(&map(properties)).unwrap()
}

const MEMORY: [(&str, &str); 1] = [("mainstem.durability", "memory")];

#[test]
fn memory_is_refused_unless_it_is_forced() {
    let (plain, forced) = (broker(&[]), broker(&[("mainstem.memory.force", "true")]));
    let refused = TopicConfig::validate("t", &map(&MEMORY), &plain).unwrap_err().to_string();
    for part in ["memory", "one replica", "10 ms", "256 KiB", "mainstem.memory.force=true"] {
        assert!(refused.contains(part), "{part}: {refused}");
    }
    assert_eq!(TopicConfig::validate("t", &map(&MEMORY), &forced).unwrap().durability, Durability::Memory);
    assert_eq!(BrokerConfig::parse(&map(&MEMORY)).unwrap_err().to_string(), refused);
    assert!(plain.check_change("mainstem.durability", Some("memory")).is_err());
    assert!(plain.check_change("mainstem.durability", Some("disk")).is_ok());
    assert!(plain.check_change("mainstem.durability", None).is_ok());
    assert!(forced.check_change("mainstem.durability", Some("memory")).is_ok());
}

#[test]
fn topics_of_the_broker_itself_are_never_in_memory() {
    let forced = broker(&[("mainstem.memory.force", "true"), MEMORY[0]]);
    for topic in ["__consumer_offsets", "__transaction_state", "__cluster_metadata"] {
        assert!(TopicConfig::validate(topic, &map(&MEMORY), &forced).is_err(), "{topic}");
        let inherited = TopicConfig::validate(topic, &map(&[]), &forced).unwrap().durability;
        assert_eq!(inherited.applied_to(topic, &forced), Durability::Os, "{topic}");
        assert_eq!(Durability::Disk.applied_to(topic, &forced), Durability::Disk, "{topic}");
    }
    assert_eq!(Durability::Memory.applied_to("t", &forced), Durability::Memory);
}

/// It was set on a broker that allowed it: the broker starts, and says what applies.
#[test]
fn memory_that_is_not_allowed_any_more_is_not_applied_and_not_shown() {
    let plain = broker(&[]).with_dynamic(&map(&MEMORY), &map(&[])).unwrap();
    let shown = |topic: &str, overrides: &[(&str, &str)], broker: &BrokerConfig| {
        let entries = topic_config_entries(topic, &map(overrides), broker);
        entries.into_iter().find(|entry| entry.name == DURABILITY).and_then(|entry| entry.value).unwrap()
    };
    assert_eq!((shown("t", &MEMORY, &plain), shown("t", &[], &plain)), ("os".to_string(), "os".to_string()));
    assert_eq!(Durability::Memory.applied_to("t", &plain), Durability::Os);
    let forced = broker(&[("mainstem.memory.force", "true"), MEMORY[0]]);
    assert_eq!(shown("t", &[], &forced), "memory");
    assert_eq!(shown("__consumer_offsets", &[], &forced), "os");
}
