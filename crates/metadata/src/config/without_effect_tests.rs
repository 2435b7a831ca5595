//! `docs/compatibility.md` says what the tables say. `MAINSTEM_WRITE_DOCS=1` writes the lists that follow from them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::PathBuf;

use super::super::{ConfigDefinition, Effect, broker_config_definitions, topic_config_definitions};
use super::*;

fn path() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/compatibility.md")
}

fn names(rows: &[ConfigDefinition], effect: Effect) -> Vec<&'static str> {
    rows.iter().filter(|row| row.effect == effect && !row.internal).map(|row| row.name).collect()
}

fn listed<'n>(names: impl IntoIterator<Item = &'n str>) -> String {
    names.into_iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

/// Reason and keys, in the order of the table of reasons.
fn by_reason(rows: &[ConfigDefinition]) -> String {
    let mut text = String::from("| accepted without effect, because | settings |\n| --- | --- |\n");
    let mut found: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for name in names(rows, Effect::None) {
        let reason =
            reason_without_effect(name).unwrap_or_else(|| panic!("say in without_effect.txt why {name} has no effect"));
        found.entry(reason).or_default().insert(name);
    }
    for (reason, _) in WITHOUT_EFFECT {
        if let Some(names) = found.remove(reason) {
            writeln!(text, "| {reason} | {} |", listed(names)).unwrap();
        }
    }
    text
}

/// The text between the two comments that say `name`.
fn section<'t>(text: &'t str, name: &str) -> (usize, &'t str) {
    let begin = format!("<!-- begin {name} -->\n");
    let from = text.find(&begin).unwrap_or_else(|| panic!("compatibility.md has no {begin}")) + begin.len();
    let len = text[from..].find(&format!("<!-- end {name} -->")).expect("a section ends");
    (from, &text[from..from + len])
}

#[test]
fn the_document_lists_every_setting_as_the_tables_do() {
    let mut text = std::fs::read_to_string(path()).unwrap();
    let effective = format!("Effective: {}.\n", listed(names(topic_config_definitions(), Effect::Works)));
    let parts = [
        ("effective topic settings", effective),
        ("topic settings without effect", by_reason(topic_config_definitions())),
        ("server properties without effect", by_reason(broker_config_definitions())),
    ];
    for (name, expected) in parts {
        let (from, found) = section(&text, name);
        if found != expected && std::env::var_os("MAINSTEM_WRITE_DOCS").is_some() {
            let end = from + found.len();
            text.replace_range(from..end, &expected);
            std::fs::write(path(), &text).unwrap();
            continue;
        }
        assert_eq!(found, expected, "{name}: MAINSTEM_WRITE_DOCS=1 cargo test -p mainstem-metadata writes it");
    }
}

#[test]
fn the_documents_name_every_server_property_that_works() {
    let read = |path: PathBuf| std::fs::read_to_string(path).unwrap();
    // Our own stand in the other one.
    let text = read(path()) + &read(path().with_file_name("configuration.md"));
    let works = |row: &&ConfigDefinition| row.effect == Effect::Works;
    let of_topics: BTreeSet<&str> =
        topic_config_definitions().iter().filter(works).flat_map(|row| row.synonyms).map(|one| one.name).collect();
    let missing: Vec<&str> = names(broker_config_definitions(), Effect::Works)
        .into_iter()
        .filter(|name| !of_topics.contains(name) && !text.contains(&format!("`{name}`")))
        .collect();
    assert!(
        missing.is_empty(),
        "these work, and docs/compatibility.md or docs/configuration.md must name them: {missing:?}"
    );
}

#[test]
fn no_reason_is_left_over() {
    let keys: Vec<&str> = broker_config_definitions()
        .iter()
        .chain(topic_config_definitions())
        .filter(|row| row.effect == Effect::None)
        .map(|row| row.name)
        .collect();
    for (reason, patterns) in WITHOUT_EFFECT {
        for pattern in *patterns {
            let is_used = match pattern.strip_suffix('*') {
                Some(beginning) => keys.iter().any(|key| key.starts_with(beginning)),
                None => keys.contains(pattern),
            };
            assert!(is_used, "no setting is meant by {pattern} ({reason})");
        }
    }
    for key in keys {
        assert!(reason_without_effect(key).is_some(), "say in without_effect.txt why {key} has no effect");
    }
    assert_eq!((reason_without_effect("num.partitions"), reason_without_effect("no.such.key")), (None, None));
}
