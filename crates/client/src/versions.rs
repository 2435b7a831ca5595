//! Which version of an API is spoken: the highest that both sides know.

use std::collections::HashMap;
use std::ops::RangeInclusive;

use mainstem_kafka_wire::ApiKey;
use mainstem_kafka_wire::messages::ApiVersionsResponse;

/// What this client speaks. Produce, Fetch, OffsetCommit and OffsetFetch end where topics are named by their id.
const OURS: &[(ApiKey, RangeInclusive<i16>)] = &[
    (ApiKey::PRODUCE, 3..=12),
    (ApiKey::FETCH, 4..=12),
    (ApiKey::LIST_OFFSETS, 1..=8),
    (ApiKey::METADATA, 1..=13),
    (ApiKey::OFFSET_COMMIT, 2..=9),
    (ApiKey::OFFSET_FETCH, 2..=9),
    (ApiKey::FIND_COORDINATOR, 0..=6),
    (ApiKey::JOIN_GROUP, 1..=9),
    (ApiKey::HEARTBEAT, 0..=4),
    (ApiKey::LEAVE_GROUP, 0..=5),
    (ApiKey::SYNC_GROUP, 0..=5),
    (ApiKey::DESCRIBE_GROUPS, 0..=6),
    (ApiKey::LIST_GROUPS, 0..=5),
    (ApiKey::API_VERSIONS, 0..=3),
    (ApiKey::CREATE_TOPICS, 2..=7),
    (ApiKey::DELETE_TOPICS, 1..=6),
    (ApiKey::DELETE_RECORDS, 0..=2),
    (ApiKey::INIT_PRODUCER_ID, 0..=4),
    (ApiKey::DESCRIBE_CONFIGS, 1..=4),
    (ApiKey::CREATE_PARTITIONS, 0..=3),
    (ApiKey::DELETE_GROUPS, 0..=3),
    (ApiKey::INCREMENTAL_ALTER_CONFIGS, 0..=1),
    (ApiKey::OFFSET_DELETE, 0..=0),
    (ApiKey::DESCRIBE_CLUSTER, 0..=1),
    (ApiKey::CONSUMER_GROUP_DESCRIBE, 0..=1),
    (ApiKey::FIND_BY_KEY, 0..=0),
];

/// The versions that one broker offers.
#[derive(Debug, Clone, Default)]
pub(crate) struct Versions {
    theirs: HashMap<i16, (i16, i16)>,
}

/// No version is common; both sides in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NoCommonVersion {
    pub(crate) ours: String,
    pub(crate) theirs: String,
}

impl Versions {
    pub(crate) fn new(response: &ApiVersionsResponse<'_>) -> Self {
        let ranges = response.api_keys.iter().map(|api| (api.api_key, (api.min_version, api.max_version)));
        Versions { theirs: ranges.collect() }
    }

    pub(crate) fn pick(&self, api: ApiKey) -> Result<i16, NoCommonVersion> {
        let ours = OURS.iter().find(|(key, _)| *key == api).map(|(_, range)| (*range.start(), *range.end()));
        let theirs = self.theirs.get(&api.0).copied();
        if let (Some((our_least, our_most)), Some((their_least, their_most))) = (ours, theirs) {
            let highest = our_most.min(their_most);
            if highest >= our_least.max(their_least) {
                return Ok(highest);
            }
        }
        let in_words = |range: Option<(i16, i16)>| {
            range.map_or_else(|| "none".to_owned(), |(least, most)| format!("{least} to {most}"))
        };
        Err(NoCommonVersion { ours: in_words(ours), theirs: in_words(theirs) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mainstem_kafka_wire::messages::api_versions_response::ApiVersion;

    fn offering(api: ApiKey, min_version: i16, max_version: i16) -> Versions {
        let api_keys = vec![ApiVersion { api_key: api.0, min_version, max_version }];
        Versions::new(&ApiVersionsResponse { api_keys, ..Default::default() })
    }

    #[test]
    fn the_highest_common_version_is_spoken() {
        assert_eq!(offering(ApiKey::PRODUCE, 0, 5).pick(ApiKey::PRODUCE), Ok(5));
        assert_eq!(offering(ApiKey::PRODUCE, 3, 99).pick(ApiKey::PRODUCE), Ok(12));
    }

    #[test]
    fn no_common_version_is_said_with_both_ranges() {
        let error = offering(ApiKey::PRODUCE, 0, 2).pick(ApiKey::PRODUCE).unwrap_err();
        assert_eq!((error.ours.as_str(), error.theirs.as_str()), ("3 to 12", "0 to 2"));
        let error = offering(ApiKey::PRODUCE, 0, 2).pick(ApiKey::FETCH).unwrap_err();
        assert_eq!(error.theirs, "none");
    }

    #[test]
    fn every_version_of_ours_is_declared() {
        for (api, range) in OURS {
            for version in range.clone() {
                assert!(mainstem_kafka_wire::request_header_version(api.0, version).is_some());
            }
        }
    }
}
