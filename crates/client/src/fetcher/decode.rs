//! From the bytes of an answer to records.

use std::collections::HashSet;

use bytes::Bytes;
use mainstem_kafka_wire::messages::fetch_response::{AbortedTransaction, PartitionData};
use mainstem_record::codec::decompress;
use mainstem_record::{BatchView, Batches, Codec, ControlKind, FramingError, Record, RecordError};
use mainstem_types::{Offset, ProducerId, TopicPartition};

use super::{FetchError, FetchedRecord};
use crate::offsets::Isolation;

#[derive(Debug, Clone, Copy)]
pub(super) struct DecodeSettings {
    pub(super) isolation: Isolation,
    pub(super) decompressed_size_max: usize,
}

/// Appends the records of the batches from `position` on, and moves `position` behind the last whole batch.
///
/// On an error, `position` is at the batch concerned; the records before it were appended.
pub(super) fn take_records(
    partition: &TopicPartition,
    data: &PartitionData<'_>,
    body: &Bytes,
    settings: DecodeSettings,
    position: &mut Offset,
    records: &mut Vec<FetchedRecord>,
) -> Result<(), FetchError> {
    let Some(bytes) = data.records.as_bytes() else { return Ok(()) };
    let mut aborted = match settings.isolation {
        Isolation::ReadCommitted => Aborted::new(data.aborted_transactions.as_deref().unwrap_or_default()),
        Isolation::ReadUncommitted => Aborted::default(),
    };
    for (whole, batch) in Batches::new(bytes).enumerate() {
        let damaged =
            |position: Offset, detail: String| FetchError::Damaged { partition: partition.clone(), position, detail };
        let view = match batch {
            Ok(view) => view,
            // The rest comes with the next answer, which begins with it.
            Err(FramingError::Partial { .. }) if whole > 0 => return Ok(()),
            Err(FramingError::Partial { .. }) => {
                return Err(FetchError::TooLarge { partition: partition.clone(), position: *position });
            }
            Err(error) => return Err(damaged(*position, error.to_string())),
        };
        if !view.crc_is_valid() {
            return Err(damaged(*position, "the checksum of the batch is wrong".to_owned()));
        }
        let skipped = aborted.skips(&view).map_err(|error| damaged(*position, error.to_string()))?;
        if !skipped && view.header().next_offset() > *position {
            append(partition, &view, body, settings, *position, records)
                .map_err(|error| damaged(*position, error.to_string()))?;
        }
        *position = (*position).max(view.header().next_offset());
    }
    Ok(())
}

/// Appends the records of one batch from `position` on: all of them or, on an error, none.
fn append(
    partition: &TopicPartition,
    view: &BatchView<'_>,
    body: &Bytes,
    settings: DecodeSettings,
    position: Offset,
    records: &mut Vec<FetchedRecord>,
) -> Result<(), RecordError> {
    let codec = view.codec().ok_or(RecordError::UnknownCodec { id: view.header().attributes.codec_id() })?;
    let memory = if codec == Codec::None || view.payload().is_empty() {
        body.slice_ref(view.payload())
    } else {
        let mut decompressed = Vec::new();
        decompress(codec, view.payload(), settings.decompressed_size_max, &mut decompressed)?;
        decompressed.into()
    };
    let before = records.len();
    for record in view.records_in(&memory) {
        match record {
            Ok(record) if record.offset < position => {}
            Ok(record) => records.push(owned(partition, view, &memory, &record)),
            Err(error) => {
                records.truncate(before);
                return Err(error);
            }
        }
    }
    Ok(())
}

fn owned(partition: &TopicPartition, view: &BatchView<'_>, memory: &Bytes, record: &Record<'_>) -> FetchedRecord {
    let slice = |bytes: &[u8]| memory.slice_ref(bytes);
    let headers = record.headers.iter().map(|header| (header.key_text().into_owned(), header.value.map(slice)));
    FetchedRecord {
        topic: partition.topic.clone(),
        partition: partition.partition,
        offset: record.offset,
        leader_epoch: view.header().leader_epoch,
        timestamp: record.timestamp,
        key: record.key.map(slice),
        value: record.value.map(slice),
        headers: headers.collect(),
    }
}

/// Which producers are within a transaction that was aborted, while going over batches in order.
#[derive(Default)]
struct Aborted {
    /// Ascending by first offset, as brokers send them; the next one last.
    ahead: Vec<AbortedTransaction>,
    now: HashSet<ProducerId>,
}

impl Aborted {
    fn new(transactions: &[AbortedTransaction]) -> Self {
        let mut ahead = transactions.to_vec();
        ahead.sort_by_key(|transaction| std::cmp::Reverse(transaction.first_offset));
        Aborted { ahead, now: HashSet::new() }
    }

    /// Whether a batch holds nothing for consumers: a mark, or records that were aborted.
    fn skips(&mut self, view: &BatchView<'_>) -> Result<bool, RecordError> {
        let header = view.header();
        let begun = |next: &mut AbortedTransaction| next.first_offset <= header.last_offset().0;
        while let Some(transaction) = self.ahead.pop_if(begun) {
            self.now.insert(ProducerId(transaction.producer_id));
        }
        if header.attributes.is_control() {
            if is_abort(view)? {
                self.now.remove(&header.producer_id);
            }
            return Ok(true);
        }
        Ok(header.attributes.is_transactional() && self.now.contains(&header.producer_id))
    }
}

fn is_abort(view: &BatchView<'_>) -> Result<bool, RecordError> {
    let record = view.records_in(view.payload()).next().transpose()?;
    let kind = record.and_then(|record| record.key).and_then(|key| ControlKind::of_key(key).ok().flatten());
    Ok(kind == Some(ControlKind::Abort))
}
