//! DescribeConfigs (32), versions 1-4: the settings of topics and brokers, and where each value comes from.
//!
//! - v1: synonyms, on request. v3: types, and documentation on request. v4: flexible.
//! - Every key of a resource is shown, whether set or not; a list of keys in the request restricts that, an empty one
//!   does not. Secrets have no value.
//! - BROKER: this node's number, or "" for the settings of all brokers. Another number gets INVALID_REQUEST: that
//!   broker answers for itself. Groups have no settings here: none are shown. Client metrics get INVALID_REQUEST.
//! - BROKER_LOGGER: the level of each logger of this node.
//! - A request for many resources is answered away from the connection's thread.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use mainstem_broker::Broker;
use mainstem_door::{Handled, Reply};
use mainstem_kafka_wire::ErrorCode;
use mainstem_kafka_wire::messages::describe_configs_request::{DescribeConfigsRequest, DescribeConfigsResource};
use mainstem_kafka_wire::messages::describe_configs_response::{
    DescribeConfigsResourceResult, DescribeConfigsResponse, DescribeConfigsResult, DescribeConfigsSynonym,
};
use mainstem_metadata::config::{
    ConfigEntry, ConfigSynonym, broker_config_entries, cluster_default_config_entries, topic_config_entries,
};
use mainstem_metadata::image::ConfigResource;
use mainstem_types::validate_topic_name;

use crate::close::CloseReason;
use crate::context::{Api, Connection, Door};
use crate::request::Request;

pub const API: Api = Api::new(32, "DescribeConfigs", 1..=4, handle);

/// Kafka's numbers of resources that are no part of the metadata, or have no settings here.
const BROKER_LOGGER: i8 = 8;
const CLIENT_METRICS: i8 = 16;
const GROUP: i8 = 32;

/// Where the level of a logger comes from: it was set while the broker runs.
const DYNAMIC_LOGGER: i8 = 6;

/// Up to this many resources are described at once, in well under a millisecond.
const INLINE_RESOURCES_MAX: usize = 16;

fn handle(door: &Door, _connection: &Arc<Connection>, request: Request) -> Result<Handled, CloseReason> {
    let message: DescribeConfigsRequest<'_> = request.decode()?;
    if message.resources.len() <= INLINE_RESOURCES_MAX {
        return Ok(Handled::Ready(answer(door, &request, &message)));
    }
    drop(message);
    let (door, blocking) = (door.clone(), Arc::clone(door.broker.blocking()));
    Ok(Handled::working(async move {
        let described = blocking.run(move || match request.decode() {
            Ok(message) => answer(&door, &request, &message),
            Err(reason) => Reply::close(reason),
        });
        described.await.unwrap_or_else(Reply::close)
    }))
}

fn answer(door: &Door, request: &Request, message: &DescribeConfigsRequest<'_>) -> Reply {
    let mut seen = HashSet::new();
    // A resource that is named twice is described once, as Kafka's clients expect.
    let distinct = message.resources.iter().filter(|r| seen.insert((r.resource_type, r.resource_name.as_ref())));
    let describe = |resource| describe(door, message, resource);
    request.reply(&DescribeConfigsResponse { results: distinct.map(describe).collect(), ..Default::default() })
}

fn describe<'m>(
    door: &Door,
    message: &'m DescribeConfigsRequest<'_>,
    resource: &'m DescribeConfigsResource<'_>,
) -> DescribeConfigsResult<'m> {
    let keys = resource.configuration_keys.as_deref().unwrap_or_default();
    let wanted: HashSet<&str> = keys.iter().map(Cow::as_ref).collect();
    let is_wanted = |name: &str| wanted.is_empty() || wanted.contains(name);
    let shown = if resource.resource_type == BROKER_LOGGER {
        levels(door, &resource.resource_name, is_wanted)
    } else {
        let shown = |entries: Vec<ConfigEntry>| {
            entries.into_iter().filter(|entry| is_wanted(entry.name)).map(|entry| show(message, entry)).collect()
        };
        entries(&door.broker, resource).map(shown)
    };
    let (error, text, configs) = match shown {
        // Kafka sends an empty text rather than null here.
        Ok(shown) => (ErrorCode::NONE, Some(Cow::Borrowed("")), shown),
        Err((error, text)) => (error, Some(Cow::Owned(text)), Vec::new()),
    };
    DescribeConfigsResult {
        error_code: error.0,
        error_message: text,
        resource_type: resource.resource_type,
        resource_name: Cow::Borrowed(&resource.resource_name),
        configs,
    }
}

/// The loggers of this node.
fn levels(
    door: &Door,
    node: &str,
    is_wanted: impl Fn(&str) -> bool,
) -> Result<Vec<DescribeConfigsResourceResult<'static>>, (ErrorCode, String)> {
    let own = door.broker.node_id();
    if node.parse() != Ok(own.0) {
        let text = format!("Unexpected broker id, expected {own} but received [{node}]: ask that broker itself.");
        return Err((ErrorCode::INVALID_REQUEST, text));
    }
    let shown = door.loggers.levels().into_iter().filter(|(name, _)| is_wanted(name));
    let row = |(name, level): (String, &'static str)| DescribeConfigsResourceResult {
        name: Cow::Owned(name),
        value: Some(Cow::Borrowed(level)),
        config_source: DYNAMIC_LOGGER,
        ..Default::default()
    };
    Ok(shown.map(row).collect())
}

fn entries(broker: &Broker, resource: &DescribeConfigsResource<'_>) -> Result<Vec<ConfigEntry>, (ErrorCode, String)> {
    let invalid = |text: String| Err((ErrorCode::INVALID_REQUEST, text));
    let (name, image, config) = (resource.resource_name.as_ref(), broker.image(), broker.config());
    match resource.resource_type {
        ConfigResource::TOPIC => {
            if let Err(error) = validate_topic_name(name) {
                return Err((ErrorCode::INVALID_TOPIC_EXCEPTION, format!("Topic name is invalid: {error}")));
            }
            match image.topic(name) {
                Some(_) => Ok(topic_config_entries(name, image.topic_configs(name), &config)),
                None => Err((ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, format!("The topic '{name}' does not exist."))),
            }
        }
        ConfigResource::BROKER if name.is_empty() => {
            Ok(cluster_default_config_entries(image.configs(&ConfigResource::cluster_default())))
        }
        ConfigResource::BROKER => match name.parse::<i32>() {
            Ok(id) if id == broker.node_id().0 => Ok(broker_config_entries(&config)),
            Ok(_) => invalid(format!(
                "Unexpected broker id, expected {} or empty string, but received {name}: ask that broker itself.",
                broker.node_id()
            )),
            Err(_) => invalid(format!("Broker id must be an integer, but it is: {name}")),
        },
        CLIENT_METRICS => invalid("This broker has no client metrics.".to_owned()),
        GROUP if name.is_empty() => invalid("A group has a name.".to_owned()),
        // Kafka has settings for single groups only for kinds of groups that this broker does not serve.
        GROUP => Ok(Vec::new()),
        other => invalid(format!("Unsupported resource type: {other}")),
    }
}

fn show(message: &DescribeConfigsRequest<'_>, entry: ConfigEntry) -> DescribeConfigsResourceResult<'static> {
    let synonym = |synonym: ConfigSynonym| DescribeConfigsSynonym {
        name: Cow::Borrowed(synonym.name),
        value: synonym.value.map(Cow::Owned),
        source: synonym.source.kafka_id(),
    };
    let synonyms = if message.include_synonyms { entry.synonyms } else { Vec::new() };
    DescribeConfigsResourceResult {
        name: Cow::Borrowed(entry.name),
        value: entry.value.map(Cow::Owned),
        read_only: entry.read_only,
        config_source: entry.source.kafka_id(),
        is_sensitive: entry.sensitive,
        synonyms: synonyms.into_iter().map(synonym).collect(),
        config_type: entry.kind.kafka_id(),
        documentation: message.include_documentation.then_some(Cow::Borrowed(entry.documentation)),
    }
}

#[cfg(test)]
#[path = "k032_describe_configs_tests.rs"]
mod tests;
