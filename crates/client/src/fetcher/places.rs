//! Reading single records by their offsets.

use std::collections::BTreeMap;
use std::time::Duration;

use mainstem_kafka_wire::ErrorCode;
use mainstem_kafka_wire::messages::FetchResponse;
use mainstem_types::{Offset, TopicPartition};

use super::decode::{self, DecodeSettings};
use super::{API, FetchError, FetchedRecord, FetcherConfig, fetch};
use crate::client::Client;
use crate::error::ClientError;
use crate::offsets::Isolation;
use crate::retry::Attempts;

impl Client {
    /// The records at these places, in their order; `None` for one that is not there, or not any more.
    pub async fn records_at(
        &self,
        places: &[(TopicPartition, Offset)],
        isolation: Isolation,
    ) -> Result<Vec<Option<FetchedRecord>>, FetchError> {
        // One batch an answer.
        let config = FetcherConfig {
            max_wait: Duration::ZERO,
            min_bytes: 0,
            partition_max_bytes: 1,
            isolation,
            ..FetcherConfig::default()
        };
        let mut wanted: BTreeMap<&TopicPartition, BTreeMap<Offset, Option<FetchedRecord>>> = BTreeMap::new();
        for (partition, offset) in places {
            wanted.entry(partition).or_default().insert(*offset, None);
        }
        for (partition, records) in &mut wanted {
            let mut from = records.keys().next().copied();
            while let Some(offset) = from {
                let mut last = offset;
                for record in self.batch_at(partition, offset, &config).await? {
                    last = last.max(record.offset);
                    if let Some(place) = records.get_mut(&record.offset) {
                        *place = Some(record);
                    }
                }
                // Those that lie in the same batch have come with it.
                from = records.range(last.plus(1)..).next().map(|(offset, _)| *offset);
            }
        }
        let of_place = |(partition, offset): &(TopicPartition, Offset)| wanted.get(partition)?.get(offset)?.clone();
        Ok(places.iter().map(of_place).collect())
    }

    /// What a batch has from an offset on; nothing if there is none.
    async fn batch_at(
        &self,
        partition: &TopicPartition,
        offset: Offset,
        config: &FetcherConfig,
    ) -> Result<Vec<FetchedRecord>, FetchError> {
        let mut attempts = Attempts::new(self.config());
        loop {
            let error = match self.batch_at_once(partition, offset, config).await {
                Err(FetchError::Client(error)) => error,
                other => return other,
            };
            self.doubt_topic(&partition.topic, &error);
            if !attempts.pause(&error).await {
                return Err(error.into());
            }
        }
    }

    async fn batch_at_once(
        &self,
        partition: &TopicPartition,
        mut offset: Offset,
        config: &FetcherConfig,
    ) -> Result<Vec<FetchedRecord>, FetchError> {
        let leader = self.leader(&partition.topic, partition.partition).await?;
        let response = fetch(self, config, leader, &[(partition.clone(), offset)]).await?;
        let answer: FetchResponse<'_> = response.decode()?;
        let subject = || format!("partition {partition}");
        let code = ErrorCode(answer.error_code);
        if code.is_error() {
            return Err(ClientError::of_broker(API, subject(), code, None).into());
        }
        let mut parts = answer.responses.iter().flat_map(|topic| &topic.partitions);
        let Some(data) = parts.next() else { return Err(response.missing(subject()).into()) };
        match ErrorCode(data.error_code) {
            ErrorCode::NONE => {}
            ErrorCode::OFFSET_OUT_OF_RANGE => return Ok(Vec::new()),
            code => return Err(ClientError::of_broker(API, subject(), code, None).into()),
        }
        let isolation = config.isolation;
        let settings = DecodeSettings { isolation, decompressed_size_max: config.decompressed_size_max };
        let mut records = Vec::new();
        decode::take_records(partition, data, response.body(), settings, &mut offset, &mut records)?;
        Ok(records)
    }
}
