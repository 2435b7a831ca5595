//! ListConfigResources (74), versions 0-1: the names of what can have settings. v0: only client metrics. v1: any kinds
//! (KIP-1142); a request without kinds asks for all.
//!
//! The answer lists all topics, brokers and loggers, but only those groups and client metrics that have settings.

use std::borrow::Cow;
use std::sync::Arc;

use mainstem_door::Handled;
use mainstem_kafka_wire::ErrorCode;
use mainstem_kafka_wire::messages::ListConfigResourcesRequest;
use mainstem_kafka_wire::messages::list_config_resources_response::{
    ConfigResource as Listed, ListConfigResourcesResponse,
};
use mainstem_metadata::image::{ClusterImage, ConfigResource};

use crate::close::CloseReason;
use crate::context::{Api, Connection, Door};
use crate::request::Request;

pub const API: Api = Api::new(74, "ListConfigResources", 0..=1, handle);

const TOPIC: i8 = ConfigResource::TOPIC;
const BROKER: i8 = ConfigResource::BROKER;
const BROKER_LOGGER: i8 = 8;
const CLIENT_METRICS: i8 = 16;
const GROUP: i8 = 32;
const ALL: [i8; 5] = [TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP];

fn handle(door: &Door, _connection: &Arc<Connection>, request: Request) -> Result<Handled, CloseReason> {
    let message: ListConfigResourcesRequest = request.decode()?;
    let mut response = ListConfigResourcesResponse::default();
    let kinds: &[i8] = match (request.version, message.resource_types.as_slice()) {
        (0, _) => &[CLIENT_METRICS],
        (_, []) => &ALL,
        (_, asked) => asked,
    };
    let image = door.broker.image();
    if kinds.iter().all(|kind| ALL.contains(kind)) {
        let wanted = ALL.into_iter().filter(|kind| kinds.contains(kind));
        response.config_resources = wanted.flat_map(|kind| names(&image, kind)).collect();
    } else {
        response.error_code = ErrorCode::UNSUPPORTED_VERSION.0;
    }
    Ok(Handled::Ready(request.reply(&response)))
}

fn names(image: &ClusterImage, kind: i8) -> Vec<Listed<'_>> {
    let listed = |name: Cow<'static, str>| Listed { resource_name: name, resource_type: kind };
    match kind {
        TOPIC => image.topics().map(|topic| listed(Cow::Owned(topic.name.as_ref().to_owned()))).collect(),
        BROKER | BROKER_LOGGER => {
            image.active_brokers().map(|broker| listed(Cow::Owned(broker.id().to_string()))).collect()
        }
        _ => {
            let set = image.config_resources().filter(|resource| resource.kind == kind);
            set.map(|resource| listed(Cow::Owned(resource.name.clone()))).collect()
        }
    }
}

#[cfg(test)]
#[path = "k074_list_config_resources_tests.rs"]
mod tests;
