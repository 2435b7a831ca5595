//! The Rust of the tables.

use std::fmt::Write as _;

use crate::parse::{Reason, Setting};

/// A static of this name with the settings, in their order.
pub fn table(name: &str, settings: &[Setting]) -> String {
    let mut text = format!("pub(super) static {name}: &[ConfigDefinition] = &[\n");
    for setting in settings {
        let synonyms = setting
            .synonyms
            .iter()
            .map(|(name, multiplier)| format!("Synonym {{ name: {name:?}, multiplier: {multiplier} }}"));
        let synonyms = synonyms.collect::<Vec<_>>().join(", ");
        let effect = if setting.has_effect { "Works" } else { "None" };
        // Writing into a String cannot fail.
        let _ = writeln!(
            text,
            "    ConfigDefinition {{ name: {:?}, kind: ConfigKind::{}, default: {:?}, validator: Validator::{}, \
             update_mode: UpdateMode::{}, synonyms: &[{synonyms}], effect: Effect::{effect}, internal: {}, \
             documentation: {:?} }},",
            setting.name,
            setting.kind,
            setting.default,
            setting.validator,
            setting.update_mode,
            setting.hidden,
            setting.documentation,
        );
    }
    text + "];\n"
}

/// Each reason with the names that it is for.
pub fn reasons(reasons: &[Reason]) -> String {
    let mut text = String::from("pub(super) static WITHOUT_EFFECT: &[(&str, &[&str])] = &[\n");
    for reason in reasons {
        let _ = writeln!(text, "    ({:?}, &{:?}),", reason.text, reason.patterns);
    }
    text + "];\n"
}
