//! Parser of the tables of settings. A setting is one line, and what is indented below it:
//!
//! ```text
//! # comment
//! retention.ms: long = 604800000 (at least -1)
//!   falls back to log.retention.ms
//!   falls back to log.retention.hours * 3600000
//!   How long records are kept. A longer text
//!     goes on with more indentation.
//! background.threads: int = 10 (at least 1) · cluster-wide · no effect
//! ```
//!
//! - Name and type. `= DEFAULT` follows where there is one; nothing behind the sign is the empty text. Without it the
//!   value is null.
//! - In brackets: which values are valid. `at least 1`, `1 to 9`, `1 to 9, or -1`, `one of: a b`,
//!   `one of, in any case: a b`, `each of: a b` (of a list), `not empty`, `throttled replicas`.
//! - Marks, each behind ` · `. A server property says when it can change: `read-only`, `per-broker`, `cluster-wide`.
//!   `no effect`: accepted, and nothing is done with it. `hidden`: not shown in descriptions.
//! - `falls back to`: the server properties that a topic setting falls back to, the strongest first, with the factor of
//!   their units.
//! - The description, which only server properties without effect may lack.
//!
//! Settings stand in the order of their names.

/// Whose settings a table has.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Of {
    Topics,
    Servers,
}

pub struct Setting {
    pub name: String,
    /// The variant of `ConfigKind`.
    pub kind: &'static str,
    pub default: Option<String>,
    /// The expression of a `Validator`.
    pub validator: String,
    /// The variant of `UpdateMode`.
    pub update_mode: &'static str,
    pub has_effect: bool,
    pub hidden: bool,
    /// Server property and factor.
    pub synonyms: Vec<(String, i64)>,
    pub documentation: String,
}

/// A reason why settings have no effect, and the names that it is for.
pub struct Reason {
    pub text: String,
    pub patterns: Vec<String>,
}

const WITHOUT_EFFECT: &str = "Accepted because Kafka has it. Mainstem does nothing with it.";
const FALLS_BACK: &str = "falls back to ";

/// The settings of one file.
pub fn settings(file: &str, text: &str, of: Of) -> Result<Vec<Setting>, String> {
    let mut settings: Vec<Setting> = Vec::new();
    for (number, line) in lines(text) {
        let at = |problem: String| format!("{file}:{number}: {problem}: `{line}`");
        if !line.starts_with(' ') {
            let setting = head(line, of).map_err(at)?;
            if settings.last().is_some_and(|last| last.name >= setting.name) {
                return Err(at("settings stand in the order of their names, each once".into()));
            }
            settings.push(setting);
            continue;
        }
        let setting = settings.last_mut().ok_or_else(|| at("no setting stands above it".into()))?;
        match line.trim().strip_prefix(FALLS_BACK) {
            Some(server) if of == Of::Topics => setting.synonyms.push(synonym(server).map_err(at)?),
            Some(_) => return Err(at("a server property falls back to nothing".into())),
            None => {
                let between = if setting.documentation.is_empty() { "" } else { " " };
                setting.documentation = format!("{}{between}{}", setting.documentation, line.trim());
            }
        }
    }
    for setting in &mut settings {
        if setting.documentation.is_empty() && (of == Of::Topics || setting.has_effect) {
            return Err(format!("{file}: {} has no description", setting.name));
        }
        if setting.documentation.is_empty() {
            setting.documentation = WITHOUT_EFFECT.to_string();
        }
    }
    Ok(settings)
}

/// Reasons, and the names below each.
pub fn reasons(file: &str, text: &str) -> Result<Vec<Reason>, String> {
    let mut reasons: Vec<Reason> = Vec::new();
    for (number, line) in lines(text) {
        if !line.starts_with(' ') {
            reasons.push(Reason { text: line.to_string(), patterns: Vec::new() });
            continue;
        }
        let above = reasons.last_mut().ok_or_else(|| format!("{file}:{number}: no reason stands above `{line}`"))?;
        above.patterns.push(line.trim().to_string());
    }
    Ok(reasons)
}

/// Lines with their numbers, without comments and empty ones.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let numbered = (1..).zip(text.lines().map(str::trim_end));
    numbered.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
}

fn head(line: &str, of: Of) -> Result<Setting, String> {
    let mut parts = line.split(" · ");
    let (name, rest) = parts.next().and_then(|first| first.split_once(": ")).ok_or("expected `name: type`")?;
    let (rest, valid) = match rest.split_once('(') {
        Some((before, valid)) => (before.trim_end(), valid.strip_suffix(')').ok_or("the bracket does not end")?),
        None => (rest, ""),
    };
    let (kind, default) = match rest.split_once('=') {
        Some((kind, default)) => (kind.trim(), Some(default.trim().to_string())),
        None => (rest, None),
    };
    let kind = kind_of(kind).ok_or_else(|| format!("`{kind}` is no type"))?;
    let validator = validator(valid, kind)?;
    let (synonyms, documentation) = (Vec::new(), String::new());
    let (mut update_mode, mut has_effect, mut hidden) = (None, true, false);
    for mark in parts {
        match mark {
            "read-only" => update_mode = Some("ReadOnly"),
            "per-broker" => update_mode = Some("PerBroker"),
            "cluster-wide" => update_mode = Some("ClusterWide"),
            "no effect" => has_effect = false,
            "hidden" => hidden = true,
            _ => return Err(format!("`{mark}` is no mark")),
        }
    }
    let update_mode = match (of, update_mode) {
        (Of::Topics, None) => "ClusterWide",
        (Of::Servers, Some(mode)) => mode,
        (Of::Topics, Some(_)) => return Err("a topic setting can always change".into()),
        (Of::Servers, None) => return Err("it is not said when it can change".into()),
    };
    let name = name.to_string();
    Ok(Setting { name, kind, default, validator, update_mode, has_effect, hidden, synonyms, documentation })
}

fn kind_of(name: &str) -> Option<&'static str> {
    Some(match name {
        "boolean" => "Boolean",
        "string" => "String",
        "int" => "Int",
        "short" => "Short",
        "long" => "Long",
        "double" => "Double",
        "list" => "List",
        "class" => "Class",
        "password" => "Password",
        _ => return None,
    })
}

fn validator(text: &str, kind: &str) -> Result<String, String> {
    let names = |names: &str| format!("&{:?}", names.split_whitespace().collect::<Vec<_>>());
    if text.is_empty() {
        return Ok("Any".into());
    }
    if let Some((rule, listed)) = text.split_once(": ") {
        return match (rule, kind) {
            ("one of", _) => Ok(format!("OneOf({})", names(listed))),
            ("one of, in any case", _) => Ok(format!("OneOfIgnoringCase({})", names(listed))),
            ("each of", "List") => Ok(format!("EachOneOf({})", names(listed))),
            _ => Err(format!("`{rule}` is no rule for this type")),
        };
    }
    match text {
        "not empty" => return Ok("NonEmpty".into()),
        "throttled replicas" => return Ok("ThrottledReplicas".into()),
        _ => {}
    }
    if let Some(low) = text.strip_prefix("at least ") {
        return Ok(format!("AtLeast({})", integer(low)?));
    }
    let (low, high) = text.split_once(" to ").ok_or_else(|| format!("`{text}` is no rule"))?;
    if kind == "Double" {
        let real = |text: &str| text.parse::<f64>().map_err(|error| format!("`{text}`: {error}"));
        return Ok(format!("BetweenReal({:?}, {:?})", real(low)?, real(high)?));
    }
    match high.split_once(", or ") {
        Some((high, other)) => Ok(format!("BetweenOr({}, {}, {})", integer(low)?, integer(high)?, integer(other)?)),
        None => Ok(format!("Between({}, {})", integer(low)?, integer(high)?)),
    }
}

fn synonym(text: &str) -> Result<(String, i64), String> {
    match text.split_once(" * ") {
        Some((name, factor)) => Ok((name.to_string(), integer(factor)?)),
        None => Ok((text.to_string(), 1)),
    }
}

fn integer(text: &str) -> Result<i64, String> {
    text.parse().map_err(|error| format!("`{text}`: {error}"))
}
