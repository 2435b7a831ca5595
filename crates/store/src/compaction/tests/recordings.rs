//! The same input as a real Kafka had: the same batches and records stay, in the same segments.
//!
//! `tests/peers/record_cleaner.py` makes the recordings anew.

use std::collections::HashMap;
use std::fmt::Write;
use std::path::Path;

use super::*;
use crate::partition_log::OpenFacts;
use crate::partition_log::tests::{FOLDER, open};
use mainstem_env::{Fs, MemFs};
use mainstem_record::{BatchView, ControlKind, TimestampType};

struct Recording {
    fs: MemFs,
    facts: HashMap<String, i64>,
    kept: String,
}

fn load(name: &str) -> Recording {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("recordings/cleaner").join(name);
    let fs = MemFs::new();
    fs.create_dir_all(Path::new(FOLDER)).unwrap();
    for entry in std::fs::read_dir(folder.join("input")).unwrap() {
        let entry = entry.unwrap();
        fs.atomic_write(&Path::new(FOLDER).join(entry.file_name()), &std::fs::read(entry.path()).unwrap()).unwrap();
    }
    let facts = std::fs::read_to_string(folder.join("facts")).unwrap();
    let fact = |line: &str| line.split_once(' ').map(|(name, value)| (name.to_owned(), value.parse().unwrap()));
    let kept = std::fs::read_to_string(folder.join("kept")).unwrap();
    Recording { fs, facts: facts.lines().map(|line| fact(line).unwrap()).collect(), kept }
}

/// In the words of the recordings.
fn show(fs: &MemFs) -> String {
    let mut shown = String::new();
    for entry in fs.read_dir(Path::new(FOLDER)).unwrap() {
        let name = entry.name.to_str().unwrap();
        let Some(base) = name.strip_suffix(".log") else { continue };
        writeln!(shown, "segment {}", base.parse::<i64>().unwrap()).unwrap();
        let bytes = fs.read_all(&Path::new(FOLDER).join(name)).unwrap();
        for batch in Batches::new(&bytes) {
            show_batch(&batch.unwrap(), &mut shown);
        }
    }
    shown
}

fn show_batch(batch: &BatchView<'_>, out: &mut String) {
    assert!(batch.crc_is_valid());
    let h = batch.header();
    let time = match h.timestamp_type() {
        TimestampType::CreateTime => "CreateTime",
        TimestampType::LogAppendTime => "LogAppendTime",
    };
    writeln!(
        out,
        "batch baseOffset={} lastOffset={} count={} baseSequence={} lastSequence={} producerId={} producerEpoch={} \
         partitionLeaderEpoch={} isTransactional={} isControl={} compresscodec={} {time}={} deleteHorizonMs={}",
        h.base_offset,
        h.last_offset(),
        h.record_count,
        h.base_sequence,
        h.last_sequence(),
        h.producer_id,
        h.producer_epoch,
        h.leader_epoch,
        h.attributes.is_transactional(),
        h.attributes.is_control(),
        batch.codec().unwrap(),
        h.max_timestamp.0,
        h.delete_horizon().map_or("none".to_owned(), |horizon| horizon.0.to_string()),
    )
    .unwrap();
    let mut scratch = Vec::new();
    for record in batch.records(&mut scratch, 1 << 20).unwrap() {
        let record = record.unwrap();
        write!(out, "record offset={} {time}={}", record.offset, record.timestamp.0).unwrap();
        let key = record.key.unwrap_or_default();
        if h.attributes.is_control() {
            let kind = ControlKind::of_key(key).unwrap().unwrap();
            writeln!(out, " marker={}", if kind == ControlKind::Commit { "COMMIT" } else { "ABORT" }).unwrap();
            continue;
        }
        let text =
            |bytes: Option<&[u8]>| bytes.map_or("none".into(), |bytes| String::from_utf8_lossy(bytes).into_owned());
        writeln!(out, " key={} value={}", text(record.key), text(record.value)).unwrap();
    }
}

fn compare(name: &str) {
    let Recording { fs, facts, kept } = load(name);
    let config = LogConfig {
        cleanup_compact: true,
        cleanup_delete: false,
        delete_retention_ms: facts["delete_retention_ms"],
        file_delete_delay_ms: 0,
        ..LogConfig::default()
    };
    let known = OpenFacts {
        recovery_point: Some(Offset(i64::MAX)),
        cleaned_to: Some(Offset(facts["cleaned_to"])).filter(|to| *to >= Offset::ZERO),
        ..crate::partition_log::tests::clean()
    };
    let (log, _) = open(&fs, known, config);
    let before = show(&fs);
    let now = TimestampMs(facts["now"]);
    let work = log.cleanable(now, log.log_end()).unwrap().unwrap();
    let limits = CleanerLimits { io_buffer_bytes: 512 << 10, ..LIMITS };
    log.compact(&work, &limits, now, &mut Unthrottled).unwrap();
    log.remove_due_files();
    assert_ne!(before, kept, "{name}: Kafka changed something");
    let ours = show(&fs);
    for (line, (ours, kafkas)) in ours.lines().zip(kept.lines()).enumerate() {
        assert_eq!(ours, kafkas, "{name}, line {} of `kept`", line + 1);
    }
    assert_eq!(ours.lines().count(), kept.lines().count(), "{name}");
}

#[test]
fn what_kafka_kept_of_batches_of_every_kind_is_kept() {
    (1..=5).for_each(|pass| compare(&format!("created-{pass}")));
}

#[test]
fn what_kafka_kept_of_batches_with_append_times_is_kept() {
    (1..=5).for_each(|pass| compare(&format!("appended-{pass}")));
}
