//! Files that are read as a whole: checkpoints, snapshots of producers, marks.

use mainstem_store::formats::group_checkpoint::{self, GroupCheckpoint, PartitionState};
use mainstem_store::formats::group_log_starts;
use mainstem_store::formats::{
    FormatError, checkpoint, clean_shutdown, epoch_checkpoint, key_index_state, lock, meta_properties,
    offset_checkpoint, partition_metadata, producer_snapshot, quorum_state,
};
use mainstem_store::{AbortedTransaction, QuorumContent};
use mainstem_types::{Offset, PartitionIndex, TopicId};
use serde_json::{Value, json};

use super::{DumpResult, Dumper, Ended};
use crate::kind::FileKind;
use crate::line::Line;

/// Beyond a million producers, or a checkpoint of a million partitions.
pub(super) const BYTES_MAX: u64 = 256 << 20;
/// Where the checksums of the binary files are: what has a wrong one is shown as well.
const SNAPSHOT_CRC_AT: usize = 2;
const GROUP_CRC_AT: usize = 6;
const KEY_INDEX_CRC_AT: usize = 2;
/// What a checkpoint of a group begins with.
const GROUP_MAGIC: &[u8] = b"MSGL";

type Lines = Result<Vec<Line>, FormatError>;

pub(super) fn show(dumper: &mut Dumper<'_, '_>, kind: FileKind) -> DumpResult {
    let Some(bytes) = dumper.read_small()? else { return Ok(()) };
    if bytes.is_empty() {
        // An old Kafka's mark of an orderly stop, and what a Kafka creates before it has anything to say.
        return dumper.show(Line::new("empty"));
    }
    match kind {
        FileKind::LeaderEpochs => say(dumper, &bytes, epochs(&bytes)),
        FileKind::PartitionMetadata => say(dumper, &bytes, topic_id(&bytes)),
        FileKind::QuorumState => say(dumper, &bytes, quorum(&bytes)),
        FileKind::MetaProperties => say(dumper, &bytes, meta(&bytes)),
        FileKind::CleanShutdown => say(dumper, &bytes, clean(&bytes)),
        FileKind::OffsetCheckpoint => say(dumper, &bytes, offsets(&bytes)),
        FileKind::ProducerSnapshot => say_checked(dumper, bytes, SNAPSHOT_CRC_AT, producers),
        FileKind::KeyIndexState => say_checked(dumper, bytes, KEY_INDEX_CRC_AT, key_index_state),
        FileKind::Checkpoint if bytes.starts_with(GROUP_MAGIC) => say_checked(dumper, bytes, GROUP_CRC_AT, group),
        FileKind::LogStarts => say_checked(dumper, bytes, GROUP_CRC_AT, log_starts),
        FileKind::Checkpoint => say(dumper, &bytes, positions(&bytes)),
        _ => {
            let line = Line::new("process").with("id", lock::decode(&bytes));
            dumper.show(line)
        }
    }
}

/// Shows the content; of a text that is damaged, why, and every line as it is.
fn say(dumper: &mut Dumper<'_, '_>, bytes: &[u8], lines: Lines) -> DumpResult {
    match lines {
        Ok(lines) => lines.into_iter().try_for_each(|line| dumper.show(line)),
        Err(error) => {
            dumper.damage(0, bytes.len() as u64, error.to_string())?;
            let text = String::from_utf8_lossy(bytes);
            for (number, line) in text.lines().enumerate() {
                dumper.show(Line::new("text").with("line", number + 1).with("text", line))?;
            }
            Ok(())
        }
    }
}

/// Shows the content; where nothing but the checksum is wrong, why, and the content.
fn say_checked(
    dumper: &mut Dumper<'_, '_>,
    mut bytes: Vec<u8>,
    crc_at: usize,
    lines: fn(&[u8]) -> Lines,
) -> DumpResult {
    let error = match lines(&bytes) {
        Ok(lines) => return lines.into_iter().try_for_each(|line| dumper.show(line)),
        Err(error) => error,
    };
    dumper.damage(0, bytes.len() as u64, error.to_string())?;
    if let FormatError::Checksum { computed, .. } = error
        && let Some(place) = bytes.get_mut(crc_at..crc_at + 4)
    {
        place.copy_from_slice(&computed.to_be_bytes());
        return match lines(&bytes) {
            Ok(lines) => lines.into_iter().try_for_each(|line| dumper.show(line)),
            Err(error) => dumper.damage(0, bytes.len() as u64, error.to_string()),
        };
    }
    Ok::<(), Ended>(())
}

fn epochs(bytes: &[u8]) -> Lines {
    let entries = epoch_checkpoint::decode(bytes)?.into_iter();
    let line = |entry: epoch_checkpoint::EpochEntry| {
        Line::new("epoch").with("epoch", entry.epoch.0).with("start_offset", entry.start_offset.0)
    };
    Ok(entries.map(line).collect())
}

fn topic_id(bytes: &[u8]) -> Lines {
    partition_metadata::decode(bytes).map(|id| vec![Line::new("topic").with("topic_id", id.to_string())])
}

fn quorum(bytes: &[u8]) -> Lines {
    let state = quorum_state::decode(bytes)?;
    let line = Line::new("quorum").with("leader_id", state.leader_id.0).with("leader_epoch", state.leader_epoch.0);
    let line = line.with("voted_id", state.voted_id.0);
    Ok(vec![match state.content {
        QuorumContent::StaticVoters { cluster_id, applied_offset, voters } => {
            let voters: Vec<i32> = voters.into_iter().map(|voter| voter.0).collect();
            line.with("cluster_id", cluster_id).with("applied_offset", applied_offset.0).with("voters", voters)
        }
        QuorumContent::Dynamic { voted_directory_id } => {
            line.with("voted_directory_id", voted_directory_id.to_string())
        }
    }])
}

fn meta(bytes: &[u8]) -> Lines {
    let meta = meta_properties::decode(bytes)?;
    let line = Line::new("properties").with("cluster_id", meta.cluster_id).with("node_id", meta.node_id.0);
    Ok(vec![line.with("directory_id", meta.directory_id.map(|id| id.to_string()))])
}

fn clean(bytes: &[u8]) -> Lines {
    clean_shutdown::decode(bytes).map(|mark| vec![Line::new("stopped").with("broker_epoch", mark.broker_epoch)])
}

fn offsets(bytes: &[u8]) -> Lines {
    let line = |(partition, offset): (mainstem_types::TopicPartition, mainstem_types::Offset)| {
        let line = Line::new("offset").with("topic", &*partition.topic).with("partition", partition.partition.0);
        line.with("offset", offset.0)
    };
    Ok(offset_checkpoint::decode(bytes)?.into_iter().map(line).collect())
}

fn positions(bytes: &[u8]) -> Lines {
    let checkpoint = checkpoint::decode(bytes)?;
    let mut lines = vec![Line::new("checkpoint").with("generation", checkpoint.generation)];
    let line = |(name, position)| Line::new("position").with("name", name).with("position", position);
    lines.extend(checkpoint.positions.into_iter().map(line));
    Ok(lines)
}

fn producers(bytes: &[u8]) -> Lines {
    Ok(producer_snapshot::decode(bytes)?.iter().map(producer).collect())
}

fn producer(entry: &producer_snapshot::ProducerSnapshotEntry) -> Line {
    Line::new("producer")
        .with("producer_id", entry.producer_id.0)
        .with("epoch", entry.epoch.0)
        .with("last_sequence", entry.last_sequence)
        .with("last_offset", entry.last_offset.0)
        .with("offset_delta", entry.offset_delta)
        .with("timestamp", entry.timestamp.0)
        .with("coordinator_epoch", entry.coordinator_epoch)
        .with("transaction_first_offset", entry.transaction_first_offset.0)
}

fn group(bytes: &[u8]) -> Lines {
    let GroupCheckpoint { segment, position, next_segment, high_watermark, epochs, epochs_from, indexes, partitions } =
        group_checkpoint::decode(bytes)?;
    let epochs = epochs.iter().map(|start| json!([start.epoch.0, start.position.0])).collect();
    let line = Line::new("checkpoint").with("file", segment).with("position", position);
    let line = line.with_some("next_file", next_segment).with("high_watermark", high_watermark.0);
    let mut lines = vec![line.with("epochs", Value::Array(epochs)).with("epochs_from", epochs_from.0)];
    lines.extend(indexes.iter().map(index));
    lines.extend(partitions.iter().map(partition));
    Ok(lines)
}

fn log_starts(bytes: &[u8]) -> Lines {
    let known = group_log_starts::decode(bytes)?;
    let line = |((topic_id, partition), log_start): (&(TopicId, PartitionIndex), &Offset)| {
        let line = Line::new("partition").with("topic_id", topic_id.to_string()).with("partition", partition.0);
        match *log_start == group_log_starts::DELETED {
            true => line.with("deleted", true),
            false => line.with("log_start", log_start.0),
        }
    };
    Ok(known.iter().map(line).collect())
}

fn index(fact: &group_checkpoint::IndexFact) -> Line {
    Line::new("index").with("name", format!("{:017}", fact.name)).with("next_entry", fact.count)
}

fn key_index_state(bytes: &[u8]) -> Lines {
    let state = key_index_state::decode(bytes)?;
    let (base, crc) = state.last_batch;
    let line = Line::new("applied").with("offset", state.applied.0).with("last_base_offset", base.0);
    let line = line.with("last_crc", format!("{crc:08x}"));
    Ok(std::iter::once(line).chain(state.files.iter().map(index)).collect())
}

fn partition(state: &PartitionState) -> Line {
    let epoch = |entry: &epoch_checkpoint::EpochEntry| json!([entry.epoch.0, entry.start_offset.0]);
    let aborted = |one: &AbortedTransaction| json!([one.producer_id.0, one.first_offset.0, one.last_offset.0]);
    let share = |share: &group_checkpoint::Share| json!({ "file": share.segment, "first_offset": share.first_offset.0, "bytes": share.bytes, "newest": share.newest_ms });
    let list = |values: Vec<Value>| Value::Array(values);
    Line::new("partition")
        .with("topic_id", state.topic_id.to_string())
        .with("partition", state.partition.0)
        .with("log_start", state.log_start.0)
        .with("log_end", state.next_offset.0)
        .with("last_log_position", state.last_position.0)
        .with("last_size", state.last_size)
        .with("epochs", list(state.epochs.iter().map(epoch).collect()))
        .with("producers", state.producers.len())
        .with("aborted", list(state.aborted.iter().map(aborted).collect()))
        .with("shares", list(state.shares.iter().map(share).collect()))
        .with("time_marks", state.marks.len())
}
