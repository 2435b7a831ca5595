//! UpdateFeatures (57), versions 0-2: changes the levels that the cluster works at. v1: kinds of upgrade, and
//! validation alone. v2: one result for all.
//!
//! Either all updates of a request happen, or none. Only features of this broker can be raised: see the features of
//! ApiVersions.

use std::borrow::Cow;
use std::sync::Arc;

use mainstem_door::Handled;
use mainstem_kafka_wire::ErrorCode;
use mainstem_kafka_wire::messages::UpdateFeaturesRequest;
use mainstem_kafka_wire::messages::update_features_request::FeatureUpdateKey;
use mainstem_kafka_wire::messages::update_features_response::{UpdatableFeatureResult, UpdateFeaturesResponse};
use mainstem_metadata::controller::{FeatureUpdate, UpgradeKind};

use crate::close::CloseReason;
use crate::context::{Api, Connection, Door};
use crate::errors::controller_error_code;
use crate::request::Request;

pub const API: Api = Api::new(57, "UpdateFeatures", 0..=2, handle);

fn handle(door: &Door, _connection: &Arc<Connection>, request: Request) -> Result<Handled, CloseReason> {
    let message: UpdateFeaturesRequest<'_> = request.decode()?;
    let (version, validate_only) = (request.version, message.validate_only);
    let updates: Vec<FeatureUpdate> =
        message.feature_updates.into_iter().map(|wanted| update(version, wanted)).collect();
    let broker = Arc::clone(&door.broker);
    Ok(Handled::working(async move {
        let names: Vec<String> = updates.iter().map(|update| update.name.clone()).collect();
        let (error, text) = match broker.update_features(updates, validate_only).await {
            Ok(Ok(())) => (ErrorCode::NONE, None),
            Ok(Err(error)) => {
                let text =
                    format!("The update failed for all features since the following feature had an error: {error}");
                (ErrorCode::INVALID_UPDATE_VERSION, Some(text))
            }
            Err(error) => (controller_error_code(&error), Some(error.to_string())),
        };
        let done = names.into_iter().map(|name| UpdatableFeatureResult {
            feature: Cow::Owned(name),
            // Kafka's own word.
            error_message: Some(Cow::Borrowed("NONE")),
            ..Default::default()
        });
        // The error of the whole request names the feature that fails.
        let results = if error == ErrorCode::NONE && version < 2 { done.collect() } else { Vec::new() };
        let error_message = text.map(Cow::Owned);
        request.reply(&UpdateFeaturesResponse { error_code: error.0, error_message, results, ..Default::default() })
    }))
}

fn update(version: i16, wanted: FeatureUpdateKey<'_>) -> FeatureUpdate {
    let kind = match (version, wanted.allow_downgrade) {
        (0, true) => Some(UpgradeKind::SafeDowngrade),
        (0, false) => Some(UpgradeKind::Upgrade),
        _ => UpgradeKind::from_kafka_id(wanted.upgrade_type),
    };
    FeatureUpdate { name: wanted.feature.into_owned(), level: wanted.max_version_level, kind }
}

#[cfg(test)]
#[path = "k057_update_features_tests.rs"]
mod tests;
