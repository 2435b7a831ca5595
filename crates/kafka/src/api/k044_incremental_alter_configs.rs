//! IncrementalAlterConfigs (44), versions 0-1: changes single settings of topics, brokers, or all brokers. v1:
//! flexible.
//!
//! - SET, DELETE (back to what it falls back to; of an unset key it does nothing), APPEND and SUBTRACT for lists.
//! - All changes to one resource are made, or none. New values apply when the answer leaves.
//! - BROKER_LOGGER: levels of this node's loggers, until it ends.
//! - Client metrics and groups have no settings here: INVALID_REQUEST.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use mainstem_broker::ControllerError;
use mainstem_door::{Handled, Reply};
use mainstem_kafka_wire::ErrorCode;
use mainstem_kafka_wire::messages::incremental_alter_configs_request::{
    AlterConfigsResource, AlterableConfig, IncrementalAlterConfigsRequest,
};
use mainstem_kafka_wire::messages::incremental_alter_configs_response::{
    AlterConfigsResourceResponse, IncrementalAlterConfigsResponse,
};
use mainstem_metadata::controller::{
    AlterConfigError, AlterConfigOp, AlterConfigOperation, ConfigAlteration, check_config_operations,
};
use mainstem_metadata::image::ConfigResource;

use crate::close::CloseReason;
use crate::context::{Api, Connection, Door};
use crate::errors::{alter_config_error_code, controller_error_code};
use crate::request::Request;

pub const API: Api = Api::new(44, "IncrementalAlterConfigs", 0..=1, handle);

const BROKER_LOGGER: i8 = 8;

type Altered = Result<Vec<Result<(), AlterConfigError>>, ControllerError>;
type Response = AlterConfigsResourceResponse<'static>;

fn handle(door: &Door, _connection: &Arc<Connection>, request: Request) -> Result<Handled, CloseReason> {
    let message: IncrementalAlterConfigsRequest<'_> = request.decode()?;
    let validate_only = message.validate_only;
    let mut alterations = Vec::with_capacity(message.resources.len());
    let mut responses = Vec::new();
    let loggers_named_twice = loggers_named_twice(&message.resources);
    for resource in message.resources {
        match alteration(resource) {
            Ok(alteration) if alteration.resource.kind == BROKER_LOGGER => {
                let changed = if loggers_named_twice.contains(&alteration.resource.name) {
                    Err((ErrorCode::INVALID_REQUEST, AlterConfigError::DuplicateResource.to_string()))
                } else {
                    change_levels(door, &alteration, validate_only)
                };
                let (code, text) = changed.map_or_else(|(code, text)| (code, Some(text)), |()| (ErrorCode::NONE, None));
                responses.push(response(alteration.resource, code, text));
            }
            Ok(alteration) => alterations.push(alteration),
            Err(refused) => responses.push(refused),
        }
    }
    if alterations.is_empty() {
        return Ok(Handled::Ready(request.reply(&IncrementalAlterConfigsResponse { responses, ..Default::default() })));
    }
    let resources: Vec<ConfigResource> = alterations.iter().map(|alteration| alteration.resource.clone()).collect();
    let broker = Arc::clone(&door.broker);
    Ok(Handled::working(async move {
        let altered = broker.alter_configs(alterations, validate_only).await;
        answer(&request, resources, altered, responses)
    }))
}

fn loggers_named_twice(resources: &[AlterConfigsResource<'_>]) -> HashSet<String> {
    let mut seen = HashSet::new();
    let loggers = resources.iter().filter(|resource| resource.resource_type == BROKER_LOGGER);
    let names = loggers.map(|resource| resource.resource_name.as_ref());
    names.filter(|name| !seen.insert(*name)).map(str::to_owned).collect()
}

fn change_levels(door: &Door, wanted: &ConfigAlteration, validate_only: bool) -> Result<(), (ErrorCode, String)> {
    let (node, own) = (wanted.resource.name.as_str(), door.broker.node_id());
    if node.parse() != Ok(own.0) {
        let text = format!("Unexpected node id. Expected {own}, but received [{node}]: ask that broker itself.");
        return Err((ErrorCode::INVALID_REQUEST, text));
    }
    check_config_operations(&wanted.operations)
        .map_err(|error| (alter_config_error_code(&error), error.to_string()))?;
    door.loggers.change(&wanted.operations, validate_only).map_err(|error| (error.code(), error.to_string()))
}

/// The change, or the answer if it makes no sense.
fn alteration(resource: AlterConfigsResource<'_>) -> Result<ConfigAlteration, Response> {
    let name = resource.resource_name.into_owned();
    let mut operations = Vec::with_capacity(resource.configs.len());
    for AlterableConfig { name: key, config_operation, value } in resource.configs {
        let Some(operation) = AlterConfigOperation::from_kafka_id(config_operation) else {
            let message = format!(
                "Unknown operation {config_operation} for the key {key}: it is SET 0, DELETE 1, APPEND 2 or SUBTRACT 3."
            );
            let resource = ConfigResource { kind: resource.resource_type, name };
            return Err(response(resource, ErrorCode::INVALID_REQUEST, Some(message)));
        };
        operations.push(AlterConfigOp { key: key.into_owned(), operation, value: value.map(Cow::into_owned) });
    }
    Ok(ConfigAlteration { resource: ConfigResource { kind: resource.resource_type, name }, operations })
}

fn answer(request: &Request, resources: Vec<ConfigResource>, altered: Altered, mut responses: Vec<Response>) -> Reply {
    match altered {
        Ok(results) => {
            let one = |(resource, result)| match result {
                Ok(()) => response(resource, ErrorCode::NONE, None),
                Err(error) => response(resource, alter_config_error_code(&error), Some(error.to_string())),
            };
            responses.extend(resources.into_iter().zip(results).map(one));
        }
        Err(error) => {
            let code = controller_error_code(&error);
            responses.extend(resources.into_iter().map(|resource| response(resource, code, Some(error.to_string()))));
        }
    }
    request.reply(&IncrementalAlterConfigsResponse { responses, ..Default::default() })
}

fn response(resource: ConfigResource, error: ErrorCode, message: Option<String>) -> Response {
    AlterConfigsResourceResponse {
        error_code: error.0,
        error_message: message.map(Cow::Owned),
        resource_type: resource.kind,
        resource_name: Cow::Owned(resource.name),
    }
}

#[cfg(test)]
#[path = "k044_incremental_alter_configs_tests.rs"]
mod tests;
