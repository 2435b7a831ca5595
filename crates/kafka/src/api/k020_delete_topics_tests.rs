use mainstem_kafka_wire::messages::delete_topics_request::DeleteTopicState;

use super::*;
use crate::test_support::TestDoor;

fn by_name(name: &str) -> DeleteTopicState<'_> {
    DeleteTopicState { name: Some(Cow::Borrowed(name)), ..Default::default() }
}

fn by_id<'a>(topic_id: TopicId) -> DeleteTopicState<'a> {
    DeleteTopicState { name: None, topic_id }
}

fn delete<'r>(kafka: &TestDoor, topics: Vec<DeleteTopicState<'_>>) -> Vec<DeletableTopicResult<'r>> {
    let request = DeleteTopicsRequest { topics, timeout_ms: 30_000, ..Default::default() };
    kafka.call::<_, DeleteTopicsResponse<'static>>(6, &request).responses
}

#[test]
fn row_50_topics_are_deleted_by_name_in_every_version() {
    let kafka = TestDoor::any();
    for version in API.min_version..=API.max_version {
        let name = kafka.fresh(&format!("row-50-version-{version}"));
        let id = kafka.create(&name, 2);
        let mut request = DeleteTopicsRequest { timeout_ms: 30_000, ..Default::default() };
        if version >= 6 {
            request.topics = vec![by_name(&name)];
        } else {
            request.topic_names = vec![Cow::Borrowed(&name)];
        }
        let response: DeleteTopicsResponse<'static> = kafka.call(version, &request);
        let deleted = &response.responses[0];
        assert_eq!((deleted.name.as_deref(), deleted.error_code), (Some(name.as_str()), 0), "version {version}");
        assert_eq!(deleted.topic_id, if version >= 6 { id } else { TopicId::ZERO });
        let again: DeleteTopicsResponse<'static> = kafka.call(version, &request);
        assert_eq!(again.responses[0].error_code, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION.0, "version {version}");
        assert_eq!(again.responses[0].error_message.is_some(), version >= 5);
    }
}

#[test]
fn row_50_topics_are_deleted_by_id() {
    let kafka = TestDoor::any();
    let name = kafka.fresh("row-50-by-id");
    let id = kafka.create(&name, 1);
    let deleted = delete(&kafka, vec![by_id(id)]);
    assert_eq!((deleted[0].name.as_deref(), deleted[0].topic_id, deleted[0].error_code), (Some(name.as_str()), id, 0));
    assert_ne!(kafka.create(&name, 1), id, "a topic that is made again has another id");
    let gone = delete(&kafka, vec![by_id(id)]);
    assert_eq!((gone[0].name.as_deref(), gone[0].topic_id), (None, id));
    assert_eq!(gone[0].error_code, ErrorCode::UNKNOWN_TOPIC_ID.0);
}

#[test]
fn row_50_name_and_id_together_or_neither_are_invalid() {
    let kafka = TestDoor::any();
    let name = kafka.fresh("row-50-both");
    let id = kafka.create(&name, 1);
    let both = DeleteTopicState { topic_id: id, ..by_name(&name) };
    let refused = delete(&kafka, vec![both, by_id(TopicId::ZERO)]);
    assert_eq!(refused.len(), 2);
    assert!(refused.iter().all(|result| result.error_code == ErrorCode::INVALID_REQUEST.0), "{refused:?}");
    assert_eq!(delete(&kafka, vec![by_name(&name)])[0].error_code, 0, "it was still there");
}

#[test]
fn row_50_a_topic_that_is_named_twice_is_not_deleted() {
    let kafka = TestDoor::any();
    let (name, other) = (kafka.fresh("row-50-twice"), kafka.fresh("row-50-other"));
    let id = kafka.create(&name, 1);
    kafka.create(&other, 1);
    let results = delete(&kafka, vec![by_name(&name), by_name(&other), by_name(&name)]);
    assert_eq!(results.len(), 2);
    for result in &results {
        let expected =
            if result.name.as_deref() == Some(&other) { ErrorCode::NONE } else { ErrorCode::INVALID_REQUEST };
        assert_eq!(ErrorCode(result.error_code), expected, "{result:?}");
    }
    let mixed = delete(&kafka, vec![by_name(&name), by_id(id)]);
    assert!(mixed.iter().all(|result| result.error_code == ErrorCode::INVALID_REQUEST.0), "{mixed:?}");
    assert_eq!(delete(&kafka, vec![by_id(id)])[0].error_code, 0, "it was still there");
}

#[test]
fn row_50_deletion_can_be_disabled() {
    let kafka = TestDoor::start(&[("delete.topic.enable", "false")]);
    kafka.create("kept", 1);
    for (version, expected) in [(1, ErrorCode::INVALID_REQUEST), (3, ErrorCode::TOPIC_DELETION_DISABLED)] {
        let request = DeleteTopicsRequest { topic_names: vec!["kept".into(), "absent".into()], ..Default::default() };
        let response: DeleteTopicsResponse<'static> = kafka.call(version, &request);
        assert_eq!(response.responses.len(), 2);
        assert!(response.responses.iter().all(|result| result.error_code == expected.0), "version {version}");
    }
    assert!(kafka.broker().topics().by_name("kept").is_some());
}

#[test]
fn a_deleted_topic_is_gone_at_once_and_stays_gone_after_a_crash() {
    let kafka = TestDoor::start(&[]);
    kafka.create("gone", 1);
    kafka.create("kept", 1);
    assert_eq!(delete(&kafka, vec![by_name("gone")])[0].error_code, 0);
    assert!(kafka.broker().topics().by_name("gone").is_none());
    let left = kafka.here().fs.crash(mainstem_env::CrashPolicy::Nothing);
    let again = TestDoor::start_on(left, &[]);
    assert!(again.broker().topics().by_name("gone").is_none());
    assert!(again.broker().topics().by_name("kept").is_some());
}
