//! `checkpoint` of a partition group: up to where its views are on the disk, and the state of each partition.
//!
//! Everything before the position was durable when the file was written: the commit log, the consume queues, the key
//! index. A partition's state may be newer than the position, never newer than what was durable.

use super::epoch_checkpoint::EpochEntry;
use super::producer_snapshot::{self, ProducerSnapshotEntry};
use super::transaction_index::{self, AbortedTransaction};
use super::{FormatError, array};
use mainstem_types::{LeaderEpoch, Offset, PartitionIndex, Position, TopicId};

const WHAT: &str = "group checkpoint";
pub const FILE_NAME: &str = "checkpoint";
/// The generation before.
pub const OLD_FILE_NAME: &str = "checkpoint.old";

const MAGIC: [u8; 4] = *b"MSGL";
/// Version 1 says nothing of the high watermark and of leader epochs.
const VERSION: u16 = 2;
const VERSION_MIN: u16 = 1;
const VERSION_AT: usize = 4;
const CRC_AT: usize = VERSION_AT + 2;
const BODY_AT: usize = CRC_AT + 4;

/// What is known of a group.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GroupCheckpoint {
    /// The file of the commit log, and the position in it.
    pub segment: u64,
    pub position: u64,
    /// The file is full, and the next one begins here.
    pub next_segment: Option<u64>,
    /// What was known to be committed: every entry before. At most where the next entry goes.
    pub high_watermark: Position,
    /// At which positions the leader epochs of the group began, as far as entries before this checkpoint tell.
    pub epochs: Vec<EpochStart>,
    /// Epochs of entries before this position are not known.
    pub epochs_from: Position,
    pub indexes: Vec<IndexFact>,
    pub partitions: Vec<PartitionState>,
}

impl GroupCheckpoint {
    /// Everything before is covered.
    pub fn covered_to(&self) -> Position {
        Position(self.segment + self.position)
    }
}

impl PartitionState {
    /// Where the last entry of the partition ends in the commit log.
    pub fn end_position(&self) -> Position {
        self.last_position.plus(self.last_size.into())
    }
}

/// A leader epoch, and the position of its first entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EpochStart {
    pub epoch: LeaderEpoch,
    pub position: Position,
}

/// One file of the key index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IndexFact {
    /// The digits of its name.
    pub name: u64,
    /// As in its header.
    pub count: u32,
}

/// What of a partition is in one file of the commit log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    pub segment: u64,
    pub first_offset: Offset,
    pub bytes: u64,
    /// The largest timestamp of its batches.
    pub newest_ms: i64,
}

/// A stretch of offsets, and a time that none of its batches is newer than. The stretch ends where the next one begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeMark {
    pub first_offset: Offset,
    pub newest_ms: i64,
}

/// The state of one partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionState {
    pub topic_id: TopicId,
    pub partition: PartitionIndex,
    pub log_start: Offset,
    pub next_offset: Offset,
    /// Position and size of the last entry; 0 and 0 when there is none.
    pub last_position: Position,
    pub last_size: u32,
    /// Offsets of one full time mark.
    pub mark_offsets: u64,
    pub epochs: Vec<EpochEntry>,
    pub producers: Vec<ProducerSnapshotEntry>,
    pub aborted: Vec<AbortedTransaction>,
    pub shares: Vec<Share>,
    pub marks: Vec<TimeMark>,
}

pub fn encode(checkpoint: &GroupCheckpoint) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(64 + checkpoint.partitions.len() * 128);
    bytes.extend_from_slice(&MAGIC);
    bytes.extend_from_slice(&VERSION.to_be_bytes());
    bytes.extend_from_slice(&[0; 4]);
    put_u64(&mut bytes, checkpoint.segment);
    put_u64(&mut bytes, checkpoint.position);
    put_u64(&mut bytes, checkpoint.next_segment.unwrap_or(u64::MAX));
    put_u64(&mut bytes, checkpoint.high_watermark.0);
    put_u64(&mut bytes, checkpoint.epochs_from.0);
    put_list(&mut bytes, &checkpoint.epochs, |bytes, start| {
        bytes.extend_from_slice(&start.epoch.0.to_be_bytes());
        put_u64(bytes, start.position.0);
    });
    put_list(&mut bytes, &checkpoint.indexes, |bytes, fact| {
        put_u64(bytes, fact.name);
        bytes.extend_from_slice(&fact.count.to_be_bytes());
    });
    put_list(&mut bytes, &checkpoint.partitions, encode_partition);
    let crc = crate::crc32c(&bytes[BODY_AT..]);
    bytes[CRC_AT..BODY_AT].copy_from_slice(&crc.to_be_bytes());
    bytes
}

fn encode_partition(bytes: &mut Vec<u8>, state: &PartitionState) {
    bytes.extend_from_slice(&state.topic_id.0);
    bytes.extend_from_slice(&state.partition.0.to_be_bytes());
    put_i64(bytes, state.log_start.0);
    put_i64(bytes, state.next_offset.0);
    put_u64(bytes, state.last_position.0);
    bytes.extend_from_slice(&state.last_size.to_be_bytes());
    put_u64(bytes, state.mark_offsets);
    put_list(bytes, &state.epochs, |bytes, entry| {
        bytes.extend_from_slice(&entry.epoch.0.to_be_bytes());
        put_i64(bytes, entry.start_offset.0);
    });
    let producers = producer_snapshot::encode(&state.producers);
    bytes.extend_from_slice(&(producers.len() as u32).to_be_bytes());
    bytes.extend_from_slice(&producers);
    put_list(bytes, &state.aborted, |bytes, aborted| bytes.extend_from_slice(&aborted.encode()));
    put_list(bytes, &state.shares, |bytes, share| {
        put_u64(bytes, share.segment);
        put_i64(bytes, share.first_offset.0);
        put_u64(bytes, share.bytes);
        put_i64(bytes, share.newest_ms);
    });
    put_list(bytes, &state.marks, |bytes, mark| {
        put_i64(bytes, mark.first_offset.0);
        put_i64(bytes, mark.newest_ms);
    });
}

fn put_u64(bytes: &mut Vec<u8>, number: u64) {
    bytes.extend_from_slice(&number.to_be_bytes());
}

fn put_i64(bytes: &mut Vec<u8>, number: i64) {
    bytes.extend_from_slice(&number.to_be_bytes());
}

fn put_list<T>(bytes: &mut Vec<u8>, list: &[T], encode: impl Fn(&mut Vec<u8>, &T)) {
    bytes.extend_from_slice(&(list.len() as u32).to_be_bytes());
    list.iter().for_each(|item| encode(bytes, item));
}

pub fn decode(bytes: &[u8]) -> Result<GroupCheckpoint, FormatError> {
    let short = || FormatError::TooShort { what: WHAT, length: bytes.len(), needed: BODY_AT };
    let version = u16::from_be_bytes(array(bytes, VERSION_AT).ok_or_else(short)?);
    if bytes.get(..VERSION_AT) != Some(&MAGIC) || !(VERSION_MIN..=VERSION).contains(&version) {
        return Err(FormatError::Version { what: WHAT, found: version.into(), supported: VERSION.into() });
    }
    let stored = u32::from_be_bytes(array(bytes, CRC_AT).ok_or_else(short)?);
    let computed = crate::crc32c(bytes.get(BODY_AT..).ok_or_else(short)?);
    if stored != computed {
        return Err(FormatError::Checksum { what: WHAT, stored, computed });
    }
    let mut reader = Reader { bytes, at: BODY_AT };
    let (segment, position) = (reader.u64()?, reader.u64()?);
    let next_segment = Some(reader.u64()?).filter(|next| *next != u64::MAX);
    let (high_watermark, epochs_from, epochs) = match version {
        VERSION_MIN => (Position::ZERO, Position(segment.saturating_add(position)), Vec::new()),
        _ => (Position(reader.u64()?), Position(reader.u64()?), reader.list(12, decode_epoch)?),
    };
    let checkpoint = GroupCheckpoint {
        segment,
        position,
        next_segment,
        high_watermark,
        epochs,
        epochs_from,
        indexes: reader.list(12, |reader| Ok(IndexFact { name: reader.u64()?, count: reader.u32()? }))?,
        partitions: reader.list(48, decode_partition)?,
    };
    match bytes.len() - reader.at {
        0 => Ok(checkpoint),
        extra => Err(FormatError::Trailing { what: WHAT, extra }),
    }
}

fn decode_epoch(reader: &mut Reader<'_>) -> Result<EpochStart, FormatError> {
    Ok(EpochStart { epoch: LeaderEpoch(reader.u32()? as i32), position: Position(reader.u64()?) })
}

fn decode_partition(reader: &mut Reader<'_>) -> Result<PartitionState, FormatError> {
    Ok(PartitionState {
        topic_id: TopicId(reader.array()?),
        partition: PartitionIndex(reader.u32()? as i32),
        log_start: Offset(reader.i64()?),
        next_offset: Offset(reader.i64()?),
        last_position: Position(reader.u64()?),
        last_size: reader.u32()?,
        mark_offsets: reader.u64()?,
        epochs: reader.list(12, |reader| {
            Ok(EpochEntry { epoch: LeaderEpoch(reader.u32()? as i32), start_offset: Offset(reader.i64()?) })
        })?,
        producers: {
            let len = reader.u32()? as usize;
            producer_snapshot::decode(reader.take(len)?)?
        },
        aborted: reader.list(transaction_index::ENTRY_SIZE, |reader| {
            let entry = transaction_index::decode(reader.take(transaction_index::ENTRY_SIZE)?)?;
            entry.first().copied().ok_or(FormatError::Count { what: WHAT, stated: 1, found: 0 })
        })?,
        shares: reader.list(32, |reader| {
            Ok(Share {
                segment: reader.u64()?,
                first_offset: Offset(reader.i64()?),
                bytes: reader.u64()?,
                newest_ms: reader.i64()?,
            })
        })?,
        marks: reader
            .list(16, |reader| Ok(TimeMark { first_offset: Offset(reader.i64()?), newest_ms: reader.i64()? }))?,
    })
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8], FormatError> {
        let needed = self.at.saturating_add(len);
        let taken = self.bytes.get(self.at..needed);
        let taken = taken.ok_or(FormatError::TooShort { what: WHAT, length: self.bytes.len(), needed })?;
        self.at = needed;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], FormatError> {
        let (at, needed) = (self.at, self.at.saturating_add(N));
        self.take(N)?;
        array(self.bytes, at).ok_or(FormatError::TooShort { what: WHAT, length: self.bytes.len(), needed })
    }

    fn u32(&mut self) -> Result<u32, FormatError> {
        Ok(u32::from_be_bytes(self.array()?))
    }

    fn u64(&mut self) -> Result<u64, FormatError> {
        Ok(u64::from_be_bytes(self.array()?))
    }

    fn i64(&mut self) -> Result<i64, FormatError> {
        Ok(i64::from_be_bytes(self.array()?))
    }

    /// A count, then as many items of at least `least` bytes: no more memory is taken than the bytes could fill.
    fn list<T>(
        &mut self,
        least: usize,
        decode: impl Fn(&mut Reader<'a>) -> Result<T, FormatError>,
    ) -> Result<Vec<T>, FormatError> {
        let count = self.u32()? as usize;
        let mut items = Vec::with_capacity(count.min((self.bytes.len() - self.at) / least));
        for _ in 0..count {
            items.push(decode(self)?);
        }
        Ok(items)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mainstem_types::{ProducerEpoch, ProducerId, TimestampMs};
    use proptest::prelude::*;

    fn state() -> impl Strategy<Value = PartitionState> {
        let lists = (
            prop::collection::vec((any::<i32>(), any::<i64>()), 0..3),
            prop::collection::vec(any::<i64>(), 0..3),
            prop::collection::vec(any::<(i64, i64)>(), 0..3),
            prop::collection::vec(any::<(u64, i64, u64, i64)>(), 0..3),
        );
        (any::<[u8; 16]>(), any::<i32>(), any::<(i64, i64)>(), any::<(u64, u32, u64)>(), lists).prop_map(
            |(id, partition, offsets, last, (epochs, producers, aborted, shares))| PartitionState {
                topic_id: TopicId(id),
                partition: PartitionIndex(partition),
                log_start: Offset(offsets.0),
                next_offset: Offset(offsets.1),
                last_position: Position(last.0),
                last_size: last.1,
                mark_offsets: last.2,
                epochs: epochs
                    .into_iter()
                    .map(|(epoch, start)| EpochEntry { epoch: LeaderEpoch(epoch), start_offset: Offset(start) })
                    .collect(),
                producers: producers
                    .into_iter()
                    .map(|id| ProducerSnapshotEntry {
                        producer_id: ProducerId(id),
                        epoch: ProducerEpoch(1),
                        last_sequence: 5,
                        last_offset: Offset(6),
                        offset_delta: 0,
                        timestamp: TimestampMs(7),
                        coordinator_epoch: -1,
                        transaction_first_offset: Offset(-1),
                    })
                    .collect(),
                aborted: aborted
                    .iter()
                    .map(|(first, last)| AbortedTransaction {
                        producer_id: ProducerId(1),
                        first_offset: Offset(*first),
                        last_offset: Offset(*last),
                        last_stable_offset: Offset(*last),
                    })
                    .collect(),
                shares: shares
                    .iter()
                    .map(|(segment, first, bytes, newest_ms)| Share {
                        segment: *segment,
                        first_offset: Offset(*first),
                        bytes: *bytes,
                        newest_ms: *newest_ms,
                    })
                    .collect(),
                marks: aborted
                    .iter()
                    .map(|(first, newest_ms)| TimeMark { first_offset: Offset(*first), newest_ms: *newest_ms })
                    .collect(),
            },
        )
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            place in any::<(u64, u64, u32)>(), indexes in prop::collection::vec(any::<(u64, u32)>(), 0..3),
            partitions in prop::collection::vec(state(), 0..4),
            group in (any::<(u64, u64)>(), prop::collection::vec(any::<(i32, u64)>(), 0..3)), damaged in any::<prop::sample::Index>(),
        ) {
            let checkpoint = GroupCheckpoint {
                segment: place.0, position: place.1,
                next_segment: (place.2 > 1000).then(|| place.2.into()),
                high_watermark: Position(group.0.0),
                epochs_from: Position(group.0.1),
                epochs: group.1.into_iter().map(|(epoch, position)| EpochStart {
                    epoch: LeaderEpoch(epoch), position: Position(position),
                }).collect(),
                indexes: indexes.into_iter().map(|(name, count)| IndexFact { name, count }).collect(),
                partitions,
            };
            let bytes = encode(&checkpoint);
            prop_assert_eq!(decode(&bytes), Ok(checkpoint));
            let mut bad = bytes.clone();
            bad[damaged.index(bytes.len())] ^= 4;
            prop_assert!(decode(&bad).is_err());
            prop_assert!(decode(&bytes[..bytes.len() - 1]).is_err());
        }

        #[test]
        fn a_file_of_version_1_is_read(
            place in any::<(u32, u32)>(), partitions in prop::collection::vec(state(), 0..4),
        ) {
            let (segment, position) = (place.0.into(), place.1.into());
            let epochs_from = Position(segment + position);
            let checkpoint = GroupCheckpoint { segment, position, epochs_from, partitions, ..Default::default() };
            let mut bytes = encode(&checkpoint);
            // Without high watermark, where epochs are known from, and an empty list of epochs.
            bytes.drain(BODY_AT + 24..BODY_AT + 24 + 20);
            bytes[VERSION_AT..CRC_AT].copy_from_slice(&1u16.to_be_bytes());
            let crc = crate::crc32c(&bytes[BODY_AT..]);
            bytes[CRC_AT..BODY_AT].copy_from_slice(&crc.to_be_bytes());
            prop_assert_eq!(decode(&bytes), Ok(checkpoint));
        }

        #[test]
        fn arbitrary_bytes_never_panic(body in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = decode(&body);
            for version in VERSION_MIN..=VERSION {
                let mut bytes = MAGIC.to_vec();
                bytes.extend(version.to_be_bytes());
                bytes.extend(crate::crc32c(&body).to_be_bytes());
                bytes.extend(&body);
                let _ = decode(&bytes);
            }
        }
    }
}
