//! What recordings leave out: the descriptions of settings are Kafka's prose. Whether there is one is all that is
//! compared.

use std::borrow::Cow;

use mainstem_kafka_wire::messages::DescribeConfigsResponse;
use mainstem_kafka_wire::{Message, Reader, Writer, response_header_version};

use super::recording::Step;
use crate::support::RequestOutcome;

/// Stands for a description.
const PROSE: &str = "prose";

/// The step, with [`PROSE`] where its answer has a description. `api_key` is the request's.
pub fn left_out(api_key: Option<i16>, mut step: Step) -> Step {
    let RequestOutcome::Answer(frame) = &step.outcome else { return step };
    let api_key = api_key.filter(|key| DescribeConfigsResponse::API_KEY == Some(*key));
    let Some(header_version) = api_key.and_then(|key| response_header_version(key, step.version)) else { return step };
    // The correlation id, and since version 1 the number of tagged fields: none.
    let (header, body) = frame.split_at(if header_version == 0 { 4 } else { 5 });
    let mut response = DescribeConfigsResponse::decode(&mut Reader::new(body), step.version).unwrap();
    for config in response.results.iter_mut().flat_map(|result| &mut result.configs) {
        let described = config.documentation.take_if(|text| !text.is_empty());
        if described.is_some() {
            config.documentation = Some(Cow::Borrowed(PROSE));
        }
    }
    let mut writer = Writer::new();
    response.encode(&mut writer, step.version).unwrap();
    step.outcome = RequestOutcome::Answer([header, writer.as_bytes()].concat());
    step
}
