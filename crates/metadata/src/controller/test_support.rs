//! A controller with one running node, for the tests beside it.

use std::collections::BTreeMap;

use mainstem_kafka_wire::metadata_records::MetadataRecord;
use mainstem_types::{LeaderEpoch, NodeId, TopicId};

use super::{Controller, NewTopic, NodeAddress, NodeStart, bootstrap_records};
use crate::config::BrokerConfig;
use crate::image::ImageDelta;

pub(crate) fn broker(pairs: &[(&str, &str)]) -> BrokerConfig {
    let map: BTreeMap<String, String> = pairs.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
    BrokerConfig::parse(&map).unwrap()
}

/// As the broker does it: append as one batch, replay.
pub(crate) fn apply(controller: &mut Controller, records: &[MetadataRecord<'static>]) -> ImageDelta {
    let mut delta = ImageDelta::default();
    for record in records {
        let offset = controller.image().offset.plus(1);
        controller.replay(record, offset, LeaderEpoch(1), &mut delta).unwrap();
    }
    delta
}

pub(crate) fn kinds(records: &[MetadataRecord<'_>]) -> Vec<i16> {
    records.iter().map(MetadataRecord::api_key).collect()
}

pub(crate) fn node(incarnation: u8) -> NodeStart {
    let address = |name: &str, port| NodeAddress {
        name: name.to_string(),
        host: "127.0.0.1".to_string(),
        port,
        security_protocol: 0,
    };
    NodeStart {
        node: NodeId(1),
        incarnation: TopicId([incarnation; 16]),
        directory: TopicId([0xd1; 16]),
        rack: None,
        addresses: vec![address("PLAINTEXT", 9092)],
        controller_addresses: vec![address("CONTROLLER", 9093)],
    }
}

pub(crate) fn start(controller: &mut Controller, incarnation: u8) -> i64 {
    let decision = controller.start_node(&node(incarnation), controller.image().offset.plus(1));
    apply(controller, &decision.records);
    decision.reply
}

pub(crate) fn running() -> Controller {
    let mut controller = Controller::default();
    apply(&mut controller, &bootstrap_records());
    start(&mut controller, 1);
    controller
}

pub(crate) fn topic(name: &str) -> NewTopic {
    NewTopic::named(name)
}

pub(crate) fn with_topics(names: &[&str]) -> Controller {
    let mut controller = running();
    let topics: Vec<NewTopic> = names.iter().map(|name| topic(name)).collect();
    let mut last = 0;
    let mut new_id = || {
        last += 1;
        TopicId([last; 16])
    };
    let records = controller.create_topics(&topics, false, &broker(&[]), &mut new_id).records;
    apply(&mut controller, &records);
    controller
}
