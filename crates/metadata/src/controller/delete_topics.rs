//! DeleteTopics, by name or by id (KIP-516).

use std::collections::HashSet;

use mainstem_kafka_wire::metadata_records::RemoveTopicRecord;
use mainstem_types::TopicId;

use super::{Controller, Decision};
use crate::config::BrokerConfig;

/// How the client names the topic.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum TopicRef {
    Name(String),
    Id(TopicId),
}

/// A topic that goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeletedTopic {
    pub id: TopicId,
    pub name: String,
}

/// Why a topic is not deleted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DeleteTopicError {
    /// Kafka: UNKNOWN_TOPIC_OR_PARTITION (3).
    #[error("the topic {0} does not exist")]
    UnknownName(String),
    /// Kafka: UNKNOWN_TOPIC_ID (100).
    #[error("no topic has the id {0}")]
    UnknownId(TopicId),
    /// Kafka: INVALID_REQUEST (42).
    #[error("the request names the topic {0} more than once")]
    Duplicate(String),
    /// Kafka: TOPIC_DELETION_DISABLED (73).
    #[error("cannot delete topics: delete.topic.enable is false")]
    Disabled,
}

impl Controller {
    /// One result a topic, in the order of the request; all deletions form one batch. A topic that is named twice is
    /// not deleted.
    pub fn delete_topics(
        &self,
        topics: &[TopicRef],
        broker: &BrokerConfig,
    ) -> Decision<Vec<Result<DeletedTopic, DeleteTopicError>>> {
        let found: Vec<Result<DeletedTopic, DeleteTopicError>> = topics.iter().map(|topic| self.find(topic)).collect();
        let (mut seen, mut twice) = (HashSet::new(), HashSet::new());
        for topic in found.iter().flatten() {
            if !seen.insert(topic.id) {
                twice.insert(topic.id);
            }
        }
        let check = |result: Result<DeletedTopic, DeleteTopicError>| {
            let topic = result?;
            if !broker.topics.delete_enable {
                return Err(DeleteTopicError::Disabled);
            }
            if twice.contains(&topic.id) { Err(DeleteTopicError::Duplicate(topic.name)) } else { Ok(topic) }
        };
        let reply: Vec<Result<DeletedTopic, DeleteTopicError>> = found.into_iter().map(check).collect();
        let records = reply.iter().flatten().map(|topic| RemoveTopicRecord { topic_id: topic.id }.into()).collect();
        Decision { records, reply }
    }

    fn find(&self, topic: &TopicRef) -> Result<DeletedTopic, DeleteTopicError> {
        let found = match topic {
            TopicRef::Name(name) => {
                self.image.topic(name).ok_or_else(|| DeleteTopicError::UnknownName(name.clone()))?
            }
            TopicRef::Id(id) => self.image.topic_by_id(*id).ok_or(DeleteTopicError::UnknownId(*id))?,
        };
        Ok(DeletedTopic { id: found.id, name: found.name.to_string() })
    }
}

#[cfg(test)]
mod tests {
    use super::super::test_support::{apply, broker, running, topic, with_topics};
    use super::*;

    #[test]
    fn row_50_unknown_names_and_ids_have_their_own_errors() {
        let controller = with_topics(&["a", "b"]);
        let id = controller.image().topic_id("a").unwrap();
        let unknown = TopicId([9; 16]);
        let wanted = [TopicRef::Id(id), TopicRef::Name("nope".into()), TopicRef::Id(unknown)];
        let decision = controller.delete_topics(&wanted, &broker(&[]));
        assert_eq!(decision.records, vec![RemoveTopicRecord { topic_id: id }.into()]);
        assert_eq!(decision.reply[0], Ok(DeletedTopic { id, name: "a".into() }));
        assert_eq!(decision.reply[1], Err(DeleteTopicError::UnknownName("nope".into())));
        assert_eq!(decision.reply[2], Err(DeleteTopicError::UnknownId(unknown)));
    }

    #[test]
    fn a_topic_named_twice_is_not_deleted() {
        let controller = with_topics(&["a"]);
        let id = controller.image().topic_id("a").unwrap();
        let decision = controller.delete_topics(&[TopicRef::Name("a".into()), TopicRef::Id(id)], &broker(&[]));
        assert!(decision.records.is_empty());
        assert!(decision.reply.iter().all(|result| matches!(result, Err(DeleteTopicError::Duplicate(_)))));
    }

    #[test]
    fn deleting_can_be_turned_off() {
        let controller = with_topics(&["a"]);
        let decision =
            controller.delete_topics(&[TopicRef::Name("a".into())], &broker(&[("delete.topic.enable", "false")]));
        assert_eq!(decision.reply, vec![Err(DeleteTopicError::Disabled)]);
        assert!(decision.records.is_empty());
    }

    #[test]
    fn settings_go_with_the_topic_and_its_name_is_free_again_under_a_new_id() {
        let mut controller = running();
        let mut wanted = topic("a");
        wanted.configs.push(("retention.ms".into(), Some("5".into())));
        let mut id = 0;
        let mut new_id = || {
            id += 1;
            TopicId([id; 16])
        };
        let records = controller.create_topics(&[wanted], false, &broker(&[]), &mut new_id).records;
        apply(&mut controller, &records);
        assert_eq!(controller.image().topic_configs("a").len(), 1);
        let records = controller.delete_topics(&[TopicRef::Name("a".into())], &broker(&[])).records;
        apply(&mut controller, &records);
        assert!(controller.image().topic("a").is_none() && controller.image().topic_configs("a").is_empty());
        let records = controller.create_topics(&[topic("a")], false, &broker(&[]), &mut new_id).records;
        apply(&mut controller, &records);
        assert_eq!(controller.image().topic_id("a"), Some(TopicId([2; 16])));
        assert!(controller.image().topic_configs("a").is_empty());
    }
}
