//! Settings in environment variables: `MAINSTEM_` and the key in capitals, dots as underscores.
//!
//! A key of ours, `mainstem.durability`, may be written `MAINSTEM_DURABILITY` as well as
//! `MAINSTEM_MAINSTEM_DURABILITY`.

use std::collections::HashMap;

use mainstem_metadata::config::nearest_setting;

use super::SettingsError;

const PREFIX: &str = "MAINSTEM_";
/// Read by the program itself.
const LOG_FILTER: &str = "MAINSTEM_LOG";

/// Key, variable and value of each variable that names a setting.
pub(super) fn settings(
    environment: impl IntoIterator<Item = (String, String)>,
    known_keys: impl IntoIterator<Item = &'static str>,
) -> Result<Vec<(String, String, String)>, SettingsError> {
    let mut ours: Vec<(String, String)> = environment
        .into_iter()
        .filter(|(name, _)| name.starts_with(PREFIX) && name != LOG_FILTER && !is_service_link(name))
        .collect();
    if ours.is_empty() {
        return Ok(Vec::new());
    }
    ours.sort();
    let keys = variables(known_keys);
    let mut found = Vec::with_capacity(ours.len());
    for (name, value) in ours {
        match keys.get(&name) {
            Some(key) => found.push(((*key).to_owned(), name, value)),
            None => {
                let suggestion = nearest_setting(&name[PREFIX.len()..]).map(variable);
                return Err(SettingsError::UnknownVariable { name, suggestion });
            }
        }
    }
    Ok(found)
}

fn variables(keys: impl IntoIterator<Item = &'static str>) -> HashMap<String, &'static str> {
    let mut variables = HashMap::new();
    for key in keys {
        variables.insert(variable(key), key);
        if key.starts_with("mainstem.") {
            variables.insert(variable(key).split_off(PREFIX.len()), key);
        }
    }
    variables
}

fn variable(key: &str) -> String {
    let tail = key.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter.to_ascii_uppercase() } else { '_' });
    PREFIX.chars().chain(tail).collect()
}

/// Kubernetes sets such variables in every pod beside a service called `mainstem`.
fn is_service_link(name: &str) -> bool {
    name == "MAINSTEM_PORT" || name.starts_with("MAINSTEM_PORT_") || name.starts_with("MAINSTEM_SERVICE_")
}
