//! AlterConfigs (33), versions 0-2: replaces all settings of a topic, of a broker, or of all brokers. v2: flexible.
//!
//! - Settings that the request does not name return to their defaults. Clients that want to change single settings use
//!   IncrementalAlterConfigs.
//! - Either all changes of one resource are made, or none. New values apply when the answer leaves.
//! - Only IncrementalAlterConfigs changes levels of loggers. Client metrics and groups have no settings here:
//!   INVALID_REQUEST.

use std::borrow::Cow;
use std::sync::Arc;

use mainstem_broker::ControllerError;
use mainstem_door::{Handled, Reply};
use mainstem_kafka_wire::ErrorCode;
use mainstem_kafka_wire::messages::alter_configs_request::{AlterConfigsRequest, AlterConfigsResource};
use mainstem_kafka_wire::messages::alter_configs_response::{AlterConfigsResourceResponse, AlterConfigsResponse};
use mainstem_metadata::controller::{AlterConfigError, ConfigReplacement};
use mainstem_metadata::image::ConfigResource;

use crate::close::CloseReason;
use crate::context::{Api, Connection, Door};
use crate::errors::{alter_config_error_code, controller_error_code};
use crate::request::Request;

pub const API: Api = Api::new(33, "AlterConfigs", 0..=2, handle);

type Replaced = Result<Vec<Result<(), AlterConfigError>>, ControllerError>;

fn handle(door: &Door, _connection: &Arc<Connection>, request: Request) -> Result<Handled, CloseReason> {
    let message: AlterConfigsRequest<'_> = request.decode()?;
    let validate_only = message.validate_only;
    let replacements: Vec<ConfigReplacement> = message.resources.into_iter().map(replacement).collect();
    let resources: Vec<ConfigResource> = replacements.iter().map(|one| one.resource.clone()).collect();
    let broker = Arc::clone(&door.broker);
    Ok(Handled::working(async move {
        let replaced = broker.replace_configs(replacements, validate_only).await;
        answer(&request, &resources, replaced)
    }))
}

fn replacement(resource: AlterConfigsResource<'_>) -> ConfigReplacement {
    let value = |(name, value): (Cow<'_, str>, Option<Cow<'_, str>>)| (name.into_owned(), value.map(Cow::into_owned));
    ConfigReplacement {
        resource: ConfigResource { kind: resource.resource_type, name: resource.resource_name.into_owned() },
        values: resource.configs.into_iter().map(|config| value((config.name, config.value))).collect(),
    }
}

fn answer(request: &Request, resources: &[ConfigResource], replaced: Replaced) -> Reply {
    let responses = match replaced {
        Ok(results) => {
            let one = |(resource, result): (_, Result<(), AlterConfigError>)| match result {
                Ok(()) => response(resource, ErrorCode::NONE, None),
                Err(error) => response(resource, alter_config_error_code(&error), Some(error.to_string())),
            };
            resources.iter().zip(results).map(one).collect()
        }
        Err(error) => {
            let code = controller_error_code(&error);
            resources.iter().map(|resource| response(resource, code, Some(error.to_string()))).collect()
        }
    };
    request.reply(&AlterConfigsResponse { responses, ..Default::default() })
}

fn response(resource: &ConfigResource, error: ErrorCode, message: Option<String>) -> AlterConfigsResourceResponse<'_> {
    AlterConfigsResourceResponse {
        error_code: error.0,
        error_message: message.map(Cow::Owned),
        resource_type: resource.kind,
        resource_name: Cow::Borrowed(&resource.name),
    }
}

#[cfg(test)]
#[path = "k033_alter_configs_tests.rs"]
mod tests;
