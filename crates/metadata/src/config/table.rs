//! The table of topic settings and the table of server properties: Kafka 4.4's and ours. They are data
//! (`settings/*.txt` beside this crate's `src`), which `build.rs` turns into the statics that are included here.

use super::definition::{ConfigDefinition, ConfigKind, Effect, Synonym, UpdateMode, Validator};

include!(concat!(env!("OUT_DIR"), "/settings.rs"));

/// All topic settings, sorted by name.
pub fn topic_config_definitions() -> &'static [ConfigDefinition] {
    TOPIC_SETTINGS
}

/// One topic setting.
pub fn topic_config_definition(name: &str) -> Option<&'static ConfigDefinition> {
    row(TOPIC_SETTINGS, name)
}

/// All server properties, sorted by name.
pub fn broker_config_definitions() -> &'static [ConfigDefinition] {
    SERVER_SETTINGS
}

/// One server property.
pub fn broker_config_definition(name: &str) -> Option<&'static ConfigDefinition> {
    row(SERVER_SETTINGS, name)
}

fn row(table: &'static [ConfigDefinition], name: &str) -> Option<&'static ConfigDefinition> {
    table.binary_search_by(|row| row.name.cmp(name)).ok().map(|index| &table[index])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_are_sorted_and_their_defaults_are_valid() {
        for table in [TOPIC_SETTINGS, SERVER_SETTINGS] {
            assert!(table.windows(2).all(|pair| pair[0].name < pair[1].name));
            for row in table {
                if let Some(default) = row.default {
                    assert!(row.parse(default).is_ok(), "{}", row.name);
                }
            }
        }
    }

    #[test]
    fn all_of_kafka_s_names_are_there() {
        let visible = TOPIC_SETTINGS.iter().filter(|row| !row.internal).count();
        assert_eq!(visible, 37 + 4, "37 of Kafka 4.4 and four of ours");
        let kafka = SERVER_SETTINGS.iter().filter(|row| !row.name.starts_with("mainstem."));
        // Three of them are rates of replication, which Kafka takes while it runs only.
        assert_eq!(kafka.count(), 379 + 3);
    }

    #[test]
    fn a_synonym_is_a_server_property_with_the_same_default() {
        for row in TOPIC_SETTINGS {
            for synonym in row.synonyms {
                let server = broker_config_definition(synonym.name);
                assert!(server.is_some(), "{} has the unknown synonym {}", row.name, synonym.name);
                let default = server.and_then(|row| row.default);
                if synonym.multiplier == 1 && default.is_some() {
                    assert_eq!(default, row.default, "{}", row.name);
                }
            }
        }
    }
}
