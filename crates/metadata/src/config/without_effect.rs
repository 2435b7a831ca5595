//! Why a setting of Kafka's is accepted and nothing is done with it: the reasons of `settings/without_effect.txt`,
//! which hold for whole names, or for beginnings that end with `*`. `docs/compatibility.md` lists all of them.

use super::table::WITHOUT_EFFECT;

/// Why nothing is done with this key. Nothing: it has an effect, or does not exist.
pub fn reason_without_effect(key: &str) -> Option<&'static str> {
    let fits = |pattern: &&str| match pattern.strip_suffix('*') {
        Some(beginning) => key.starts_with(beginning),
        None => key == *pattern,
    };
    let effective = super::broker_config_definition(key)
        .or_else(|| super::topic_config_definition(key))
        .is_none_or(|row| row.effect == super::Effect::Works);
    let found = WITHOUT_EFFECT.iter().find(|(_, patterns)| patterns.iter().any(fits));
    found.filter(|_| !effective).map(|(reason, _)| *reason)
}

#[cfg(test)]
#[path = "without_effect_tests.rs"]
mod tests;
