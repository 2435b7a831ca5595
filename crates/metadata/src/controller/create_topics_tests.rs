use super::super::test_support::{apply, broker, kinds, running, topic, with_topics};
use super::*;

fn ids() -> impl FnMut() -> TopicId {
    let mut last = 100;
    move || {
        last += 1;
        TopicId([last; 16])
    }
}

fn create(controller: &Controller, topics: &[NewTopic]) -> Decision<Vec<Result<CreatedTopic, CreateTopicError>>> {
    controller.create_topics(topics, false, &broker(&[("num.partitions", "2")]), &mut ids())
}

fn error(controller: &Controller, topic: NewTopic) -> CreateTopicError {
    let decision = create(controller, &[topic]);
    assert!(decision.records.is_empty());
    decision.reply.into_iter().next().unwrap().unwrap_err()
}

#[test]
fn a_topic_is_one_topic_record_its_settings_and_its_partitions() {
    let mut controller = running();
    let mut wanted = topic("a");
    wanted.configs = vec![("retention.ms".into(), Some("7".into())), ("cleanup.policy".into(), Some("compact".into()))];
    let decision = create(&controller, &[wanted]);
    assert_eq!(kinds(&decision.records), [2, 4, 4, 3, 3]);
    let created = decision.reply[0].as_ref().unwrap();
    assert_eq!((created.partitions, created.replication_factor), (2, 1));
    let retention = created.configs.iter().find(|entry| entry.name == "retention.ms").unwrap();
    assert_eq!((retention.value.as_deref(), retention.source.kafka_id()), (Some("7"), 1));
    apply(&mut controller, &decision.records);
    let image = controller.image().topic("a").unwrap();
    let partition = &image.partitions[&1];
    assert_eq!((partition.leader, partition.leader_epoch, partition.partition_epoch), (1, 0, 0));
    assert_eq!((&partition.isr, &partition.directories), (&vec![1], &vec![TopicId([0xd1; 16])]));
}

#[test]
fn the_layout_that_the_broker_gives_is_written_down_with_the_topic() {
    let controller = running();
    let shared = broker(&[("mainstem.layout", "shared")]);
    let configured =
        |key: &str, value: &str| NewTopic { configs: vec![(key.to_string(), Some(value.to_string()))], ..topic("a") };
    let layout_of = |topic: NewTopic| {
        let decision = controller.create_topics(&[topic], false, &shared, &mut ids());
        let created = decision.reply.into_iter().next().unwrap().unwrap();
        let entry = created.configs.into_iter().find(|entry| entry.name == "mainstem.layout").unwrap();
        (entry.value.unwrap(), entry.source.kafka_id() == 1)
    };
    assert_eq!(layout_of(topic("a")), ("shared".to_string(), true));
    assert_eq!(layout_of(configured("mainstem.layout", "topic")), ("topic".to_string(), true));
    assert_eq!(layout_of(configured("cleanup.policy", "compact")), ("partition".to_string(), false));
    let offsets = offsets_topic(&shared, 1);
    assert_eq!(layout_of(offsets), ("partition".to_string(), false));
}

#[test]
fn a_topic_that_cannot_be_compacted_does_not_inherit_that_it_is_to_be() {
    let controller = running();
    let compacting = broker(&[("log.cleanup.policy", "compact,delete")]);
    let with = |configs: &[(&str, &str)]| {
        let configs = configs.iter().map(|(key, value)| (key.to_string(), Some(value.to_string()))).collect();
        let topic = NewTopic { configs, ..topic("a") };
        controller.create_topics(&[topic], false, &compacting, &mut ids()).reply.remove(0)
    };
    let refused = with(&[("mainstem.layout", "shared")]).unwrap_err().to_string();
    assert!(refused.contains("it is the brokers' default") && refused.contains("mainstem.layout=partition only"));
    assert!(with(&[("mainstem.layout", "shared"), ("cleanup.policy", "delete")]).is_ok());
    assert!(with(&[]).is_ok());
}

#[test]
fn row_46_counts_that_make_no_sense_are_refused_with_kafka_s_codes() {
    let controller = running();
    let counts = |partitions, replication_factor| NewTopic { partitions, replication_factor, ..topic("a") };
    assert_eq!(error(&controller, counts(0, 1)), CreateTopicError::Partitions);
    assert_eq!(error(&controller, counts(-2, 1)), CreateTopicError::Partitions);
    assert_eq!(error(&controller, counts(1, 0)), CreateTopicError::ReplicationFactor);
    assert_eq!(error(&controller, counts(1, -2)), CreateTopicError::ReplicationFactor);
    assert_eq!(error(&controller, counts(1, 2)), CreateTopicError::TooFewBrokers { wanted: 2, brokers: 1 });
    assert_eq!(error(&controller, counts(20_000, 1)), CreateTopicError::TooManyPartitions);
}

#[test]
fn row_46_assignments_are_checked() {
    let controller = running();
    let named = |assignments: &[(i32, &[i32])]| NewTopic {
        assignments: assignments.iter().map(|(number, brokers)| (*number, brokers.to_vec())).collect(),
        ..topic("a")
    };
    let both = NewTopic { partitions: 1, ..named(&[(0, &[1])]) };
    assert_eq!(error(&controller, both), CreateTopicError::CountBesideAssignment("numPartitions"));
    let both = NewTopic { replication_factor: 1, ..named(&[(0, &[1])]) };
    assert_eq!(error(&controller, both), CreateTopicError::CountBesideAssignment("replication factor"));
    let cases: [(NewTopic, AssignmentError); 5] = [
        (named(&[(0, &[1]), (2, &[1])]), AssignmentError::NotConsecutive),
        (named(&[(1, &[1])]), AssignmentError::NotConsecutive),
        (named(&[(0, &[1, 1])]), AssignmentError::Twice(1)),
        (named(&[(0, &[2])]), AssignmentError::UnknownBroker(2)),
        (named(&[(0, &[])]), AssignmentError::Empty),
    ];
    for (wanted, expected) in cases {
        assert_eq!(error(&controller, wanted), CreateTopicError::Assignment(expected));
    }
    let decision = create(&controller, &[named(&[(1, &[1]), (0, &[1])])]);
    assert_eq!(decision.reply[0].as_ref().map(|created| created.partitions), Ok(2));
}

#[test]
fn row_42_names_follow_the_rules_and_do_not_collide() {
    let controller = with_topics(&["x.y", "plain"]);
    let collision =
        |name: &str, existing: &str| CreateTopicError::Collision { name: name.into(), existing: existing.into() };
    assert!(matches!(error(&controller, topic("a b")), CreateTopicError::Name(_)));
    assert!(matches!(error(&controller, topic("..")), CreateTopicError::Name(_)));
    assert_eq!(error(&controller, topic("x_y")), collision("x_y", "x.y"));
    assert_eq!(error(&controller, topic("plain")), CreateTopicError::Exists("plain".into()));
    assert_eq!(error(&controller, topic(CLUSTER_METADATA_TOPIC)), CreateTopicError::Prohibited);
    let within = create(&controller, &[topic("new.one"), topic("new_one")]);
    assert!(within.reply[0].is_ok());
    assert_eq!(within.reply[1], Err(collision("new_one", "new.one")));
}

#[test]
fn row_47_settings_that_kafka_does_not_have_are_refused() {
    let controller = running();
    let with = |key: &str, value: Option<&str>| NewTopic {
        configs: vec![(key.to_string(), value.map(str::to_string))],
        ..topic("a")
    };
    let unknown = error(&controller, with("x", Some("y")));
    assert_eq!(unknown.to_string(), "Unknown topic config name: x");
    let null = error(&controller, with("retention.ms", None));
    assert_eq!(null.to_string(), "Null value not supported for topic configs: retention.ms");
    assert!(matches!(error(&controller, with("retention.ms", Some("-5"))), CreateTopicError::Config(_)));
}

#[test]
fn one_bad_topic_does_not_spoil_the_others_and_duplicates_are_refused() {
    let controller = with_topics(&["old"]);
    let decision = create(&controller, &[topic("a"), topic("old"), topic("b"), topic("twice"), topic("twice")]);
    assert!(decision.reply[0].is_ok() && decision.reply[2].is_ok());
    assert!(matches!(decision.reply[1], Err(CreateTopicError::Exists(_))));
    assert_eq!(decision.reply[3], Err(CreateTopicError::Duplicate));
    assert_eq!(decision.reply[4], Err(CreateTopicError::Duplicate));
    assert_eq!(kinds(&decision.records), [2, 3, 3, 2, 3, 3]);
}

#[test]
fn thousands_of_topics_are_one_batch() {
    let mut controller = running();
    let mut last = 0u32;
    let mut new_id = || {
        last += 1;
        TopicId(u128::from(last).to_be_bytes())
    };
    let topics: Vec<NewTopic> = (0..5000).map(|number| topic(&format!("topic.{number}"))).collect();
    let decision = controller.create_topics(&topics, false, &broker(&[]), &mut new_id);
    assert!(decision.reply.iter().all(Result::is_ok));
    assert_eq!(decision.records.len(), 10_000);
    let delta = apply(&mut controller, &decision.records);
    assert_eq!((delta.topics_created.len(), controller.image().topic_count()), (5000, 5000));
}

#[test]
fn validating_writes_nothing_and_answers_the_same() {
    let controller = running();
    let decision = controller.create_topics(&[topic("a")], true, &broker(&[]), &mut ids());
    assert!(decision.records.is_empty() && decision.reply[0].is_ok());
}

#[test]
fn the_offsets_topic_is_made_for_the_brokers_there_are() {
    let wanted = offsets_topic(&broker(&[]), 1);
    assert_eq!((wanted.partitions, wanted.replication_factor), (50, 1));
    assert_eq!(offsets_topic(&broker(&[]), 5).replication_factor, 3);
    let decision = create(&running(), &[wanted]);
    assert!(decision.reply[0].is_ok(), "{:?}", decision.reply);
}
