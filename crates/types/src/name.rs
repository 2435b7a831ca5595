//! Topic names. Rule of Kafka's `Topic.validate`: 1 to 249 characters of `[a-zA-Z0-9._-]`, not `.` and not `..`.

use std::fmt;

/// What is wrong with a topic name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TopicNameError {
    Empty,
    Dots,
    TooLong(usize),
    Character(char),
}

impl fmt::Display for TopicNameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TopicNameError::Empty => f.write_str("a topic name cannot be empty"),
            TopicNameError::Dots => f.write_str("a topic cannot be named '.' or '..'"),
            TopicNameError::TooLong(length) => {
                write!(f, "a topic name has at most 249 characters, this one has {length}")
            }
            TopicNameError::Character(c) => {
                write!(f, "a topic name consists of a-z, A-Z, 0-9, '.', '_' and '-', not {c:?}")
            }
        }
    }
}

impl std::error::Error for TopicNameError {}

/// Checks the name of a new topic.
pub fn validate_topic_name(name: &str) -> Result<(), TopicNameError> {
    if name.is_empty() {
        return Err(TopicNameError::Empty);
    }
    if name == "." || name == ".." {
        return Err(TopicNameError::Dots);
    }
    if let Some(c) = name.chars().find(|c| !(c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-'))) {
        return Err(TopicNameError::Character(c));
    }
    if name.len() > 249 {
        return Err(TopicNameError::TooLong(name.len()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_kafka_s_rule() {
        assert_eq!(validate_topic_name("orders.v1_x-2"), Ok(()));
        assert_eq!(validate_topic_name(""), Err(TopicNameError::Empty));
        assert_eq!(validate_topic_name(".."), Err(TopicNameError::Dots));
        assert_eq!(validate_topic_name("a b"), Err(TopicNameError::Character(' ')));
        assert_eq!(validate_topic_name(&"a".repeat(249)), Ok(()));
        assert_eq!(validate_topic_name(&"a".repeat(250)), Err(TopicNameError::TooLong(250)));
    }
}
