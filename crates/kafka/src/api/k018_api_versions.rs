//! ApiVersions (18), versions 0-5: which apis and versions this broker speaks.
//!
//! - v3: flexible, the client says its software and version (KIP-511).
//! - v3: features, with the finalized levels of the features that this broker has. Levels of other features, which a
//!   Kafka left in the folder, are not shown. Before v4 features that may be off are left out: clients took a least
//!   version of 0 for none (KAFKA-17011).
//! - Mainstem's own APIs are listed only for its own client, which gives its name from v3 on.
//! - v5: the client says which cluster and node it means to speak to (KIP-1242).
//! - An unknown version is answered in version 0 with UNSUPPORTED_VERSION and the range of this api, so that the client
//!   can try again. The response header is always version 0.

use std::borrow::Cow;
use std::sync::Arc;

use mainstem_door::{Handled, Reply};
use mainstem_kafka_wire::ErrorCode;
use mainstem_kafka_wire::messages::ApiVersionsRequest;
use mainstem_kafka_wire::messages::api_versions_response::{
    ApiVersion, ApiVersionsResponse, FinalizedFeatureKey, SupportedFeatureKey,
};
use mainstem_metadata::image::{ClusterImage, FeatureRange, SUPPORTED_FEATURES};

use crate::close::CloseReason;
use crate::context::{AllApis, Api, Connection, Door};
use crate::request::Request;

pub const API: Api = Api::new(18, "ApiVersions", 0..=5, handle);

/// The software name of the crate `mainstem-client`.
const OWN_CLIENT: &str = "mainstem-client";

fn handle(door: &Door, connection: &Arc<Connection>, request: Request) -> Result<Handled, CloseReason> {
    answer(door, connection, &request).map(Handled::Ready)
}

fn answer(door: &Door, connection: &Arc<Connection>, request: &Request) -> Result<Reply, CloseReason> {
    if !API.supports(request.version) {
        let own = ApiVersion { api_key: API.key, min_version: API.min_version, max_version: API.max_version };
        let error_code = ErrorCode::UNSUPPORTED_VERSION.0;
        let response = ApiVersionsResponse { error_code, api_keys: vec![own], ..Default::default() };
        return Ok(request.reply_in_version(&response, 0, Vec::new()));
    }
    let message: ApiVersionsRequest<'_> = request.decode()?;
    let error = check(door, request.version, &message);
    if error == ErrorCode::NONE && request.version >= 3 {
        *connection.client_software.lock() =
            Some((owned(&message.client_software_name), owned(&message.client_software_version)));
    }
    if error != ErrorCode::NONE {
        return Ok(request.reply(&ApiVersionsResponse { error_code: error.0, ..Default::default() }));
    }
    let image = door.broker.image();
    Ok(request.reply(&ApiVersionsResponse {
        api_keys: advertised(&door.apis, request.version >= 3 && message.client_software_name == OWN_CLIENT),
        supported_features: supported_features(request.version),
        finalized_features_epoch: image.offset.0,
        finalized_features: finalized_features(&image),
        ..Default::default()
    }))
}

fn owned(text: &str) -> Box<str> {
    text.into()
}

/// The APIs of Kafka, and Mainstem's own for clients that know them, by ascending key.
fn advertised(apis: &AllApis, with_own: bool) -> Vec<ApiVersion> {
    let row = |api: &&Api| ApiVersion {
        api_key: api.key,
        min_version: api.advertised_min_version,
        max_version: api.max_version,
    };
    let own = if with_own { apis.own } else { &[] };
    apis.of_kafka.iter().chain(own).map(row).collect()
}

fn supported_features(version: i16) -> Vec<SupportedFeatureKey<'static>> {
    let shown = SUPPORTED_FEATURES.iter().filter(|feature| version >= 4 || feature.min > 0);
    let row = |feature: &FeatureRange| SupportedFeatureKey {
        name: Cow::Borrowed(feature.name),
        min_version: feature.min,
        max_version: feature.max,
    };
    shown.map(row).collect()
}

fn finalized_features(image: &ClusterImage) -> Vec<FinalizedFeatureKey<'static>> {
    let level = |name: &'static str| {
        let level = *image.features().get(name)?;
        Some(FinalizedFeatureKey { name: Cow::Borrowed(name), max_version_level: level, min_version_level: level })
    };
    SUPPORTED_FEATURES.iter().filter_map(|feature| level(feature.name)).collect()
}

fn check(door: &Door, version: i16, message: &ApiVersionsRequest<'_>) -> ErrorCode {
    if version >= 3 && !(is_software(&message.client_software_name) && is_software(&message.client_software_version)) {
        return ErrorCode::INVALID_REQUEST;
    }
    if version >= 5 {
        // A client sends both or none. If it means another cluster or node, it must find out where it is (KIP-1242).
        match (&message.cluster_id, message.node_id) {
            (None, -1) => {}
            (None, _) | (Some(_), -1) => return ErrorCode::INVALID_REQUEST,
            (Some(cluster), node) => {
                if cluster.as_ref() != door.broker.cluster_id() || node != door.broker.node_id().0 {
                    return ErrorCode::REBOOTSTRAP_REQUIRED;
                }
            }
        }
    }
    ErrorCode::NONE
}

/// `[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?`
fn is_software(text: &str) -> bool {
    let inner = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.';
    text.chars().all(inner)
        && text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.ends_with(|c: char| c.is_ascii_alphanumeric())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::{APIS, OWN_APIS};
    use crate::test_support::TestDoor;
    use mainstem_kafka_wire::ApiKey;

    #[test]
    fn software_names_follow_kip_511() {
        for good in ["a", "librdkafka", "confluent-kafka-python", "4.4.0", "2.15.0-rc.1"] {
            assert!(is_software(good), "{good}");
        }
        for bad in ["", "-a", "a-", ".a", "a b", "ä", "a/b"] {
            assert!(!is_software(bad), "{bad}");
        }
    }

    #[test]
    fn what_is_advertised_is_what_is_registered() {
        let all: Vec<_> = APIS.iter().chain(OWN_APIS).collect();
        let lists = AllApis { of_kafka: APIS, own: OWN_APIS };
        for (advertised, apis) in [(advertised(&lists, false), &all[..APIS.len()]), (advertised(&lists, true), &all)] {
            assert_eq!(advertised.len(), apis.len());
            let same = |(row, api): (&ApiVersion, &&&Api)| row.api_key == api.key && row.max_version == api.max_version;
            assert!(advertised.iter().zip(apis).all(same));
        }
    }

    #[test]
    fn own_apis_are_named_to_the_own_client_alone() {
        let kafka = TestDoor::start(&[]);
        let keys = |name: &'static str, version: i16| -> Vec<i16> {
            let named = ApiVersionsRequest {
                client_software_name: name.into(),
                client_software_version: "1".into(),
                ..Default::default()
            };
            let request = if version >= 3 { named } else { ApiVersionsRequest::default() };
            let response: ApiVersionsResponse<'static> = kafka.call(version, &request);
            response.api_keys.iter().map(|api| api.api_key).filter(|key| ApiKey(*key).is_own()).collect()
        };
        for version in 3..=5 {
            assert_eq!(keys("mainstem-client", version), [20_000]);
            assert!(keys("apache-kafka-java", version).is_empty());
        }
        assert!(keys("", 0).is_empty());
    }
}
