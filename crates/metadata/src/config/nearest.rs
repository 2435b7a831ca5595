//! The known server property that a misspelt key most likely means.

use super::{broker_config_definitions, topic_config_definition};

/// Longer keys are compared with nothing: no name is half as long.
const KEY_LETTERS_MAX: usize = 128;
/// More wrong letters than this make another word.
const WRONG_LETTERS_MAX: usize = 3;

/// The server property that `key` most likely means; `None` when no name is close.
///
/// Case, `_` and `-` do not count. A topic setting means the server property that it falls back to, and one of ours may
/// lack its `mainstem.`. Otherwise a sixth of the letters may be wrong, at most three: missing, too many, replaced, or
/// swapped with a neighbour.
pub fn nearest_setting(key: &str) -> Option<&'static str> {
    let wanted: Vec<char> = key
        .chars()
        .take(KEY_LETTERS_MAX + 1)
        .map(|letter| if matches!(letter, '_' | '-') { '.' } else { letter.to_ascii_lowercase() })
        .collect();
    if wanted.is_empty() || wanted.len() > KEY_LETTERS_MAX {
        return None;
    }
    let text: String = wanted.iter().collect();
    let known = |name: &str| {
        broker_config_definitions().iter().map(|row| row.name).find(|other| other.eq_ignore_ascii_case(name))
    };
    let of_topics = || topic_config_definition(&text)?.synonyms.first().map(|synonym| synonym.name);
    known(&text).or_else(of_topics).or_else(|| known(&format!("mainstem.{text}"))).or_else(|| closest(&wanted))
}

fn closest(wanted: &[char]) -> Option<&'static str> {
    let most = (wanted.len() / 6).clamp(1, WRONG_LETTERS_MAX);
    let with_distance = |name: &'static str| {
        let letters: Vec<char> = name.chars().map(|letter| letter.to_ascii_lowercase()).collect();
        let close = letters.len().abs_diff(wanted.len()) <= most;
        close.then(|| (wrong_letters(wanted, &letters), name)).filter(|(wrong, _)| *wrong <= most)
    };
    broker_config_definitions().iter().filter_map(|row| with_distance(row.name)).min().map(|(_, name)| name)
}

/// How many letters have to be added, removed, replaced or swapped with their neighbour to get from one word to the
/// other.
fn wrong_letters(from: &[char], to: &[char]) -> usize {
    let mut before_last = vec![0; to.len() + 1];
    let mut last: Vec<usize> = (0..=to.len()).collect();
    for row in 1..=from.len() {
        let mut current = vec![row; to.len() + 1];
        for column in 1..=to.len() {
            let replaced = last[column - 1] + usize::from(from[row - 1] != to[column - 1]);
            current[column] = replaced.min(last[column] + 1).min(current[column - 1] + 1);
            let swapped = row > 1 && column > 1 && from[row - 1] == to[column - 2] && from[row - 2] == to[column - 1];
            if swapped {
                current[column] = current[column].min(before_last[column - 2] + 1);
            }
        }
        before_last = std::mem::replace(&mut last, current);
    }
    last[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_key_means_the_closest_name_and_a_strange_one_none() {
        let cases = [
            ("log.retention.hour", Some("log.retention.hours")),
            ("log.retension.hours", Some("log.retention.hours")),
            ("num.partitoins", Some("num.partitions")),
            ("LOG_DIRS", Some("log.dirs")),
            ("Auto.Create.Topics.Enable", Some("auto.create.topics.enable")),
            ("durability", Some("mainstem.durability")),
            ("retention.ms", Some("log.retention.ms")),
            ("max.message.bytes", Some("message.max.bytes")),
            ("super.users", None),
            ("confluent.metrics.reporter.bootstrap.servers", None),
            ("a", None),
            ("", None),
        ];
        for (key, expected) in cases {
            assert_eq!(nearest_setting(key), expected, "{key}");
        }
        assert_eq!(nearest_setting(&"log.dirs".repeat(1_000_000)), None);
    }

    #[test]
    fn wrong_letters_are_counted() {
        let count =
            |from: &str, to: &str| wrong_letters(&from.chars().collect::<Vec<_>>(), &to.chars().collect::<Vec<_>>());
        assert_eq!(count("abc", "abc"), 0);
        assert_eq!(count("acb", "abc"), 1);
        assert_eq!(count("ab", "abc"), 1);
        assert_eq!(count("xbcd", "abc"), 2);
        assert_eq!(count("", "abc"), 3);
    }
}
