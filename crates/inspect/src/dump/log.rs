//! Segments, snapshots of the metadata, and commit logs.

use mainstem_record::{BatchHeader, BatchView, Record, TimestampType};
use mainstem_store::formats::commit_log_entry::{EntryHeader, EntryKind};
use mainstem_types::{Offset, TimestampMs};
use serde_json::{Map, Value};

use super::{DumpResult, Dumper};
use crate::internal::{self, Decoded};
use crate::kind::Content;
use crate::line::{Line, bytes_value};
use crate::scan::{Batches, CommitLogEntries, Scan, ScanStep};

/// What one batch may have, once decompressed.
const DECOMPRESSED_BYTES_MAX: usize = 256 << 20;

pub(super) fn batches(dumper: &mut Dumper<'_, '_>, base: Offset, content: Content) -> DumpResult {
    let mut scan = Scan::new(dumper.file.clone(), Batches::from(base))?;
    loop {
        match scan.next() {
            ScanStep::End => return Ok(()),
            ScanStep::Damage(damage) => dumper.damage(damage.from, damage.to, damage.reason)?,
            ScanStep::Entry { position, head } => {
                let Some(header) = head.batch else { continue };
                dumper.show(batch_line(&header, position))?;
                if dumper.wants_records(content) {
                    records(dumper, scan.bytes()?, position, content)?;
                }
            }
        }
    }
}

pub(super) fn commit_log(dumper: &mut Dumper<'_, '_>, start: u64) -> DumpResult {
    let mut scan = Scan::new(dumper.file.clone(), CommitLogEntries)?;
    loop {
        match scan.next() {
            ScanStep::End => return Ok(()),
            ScanStep::Damage(damage) => dumper.damage(damage.from, damage.to, damage.reason)?,
            ScanStep::Entry { position, head } => {
                let bytes = scan.bytes()?;
                let Ok(entry) = EntryHeader::decode(bytes) else { continue };
                let place = Line::new("entry").with("position", position).with("log_position", start + position);
                let place = place.with("size", entry.length);
                let (Some(header), EntryKind::Batch { topic_id, partition }) = (head.batch, entry.kind) else {
                    dumper.show(Line { kind: "blank", ..place })?;
                    continue;
                };
                let place = place.with("topic_id", topic_id.to_string()).with("partition", partition.0);
                let batch = batch_line(&header, position);
                let fields = place.fields.into_iter().chain(batch.fields.into_iter().skip(2)).collect();
                dumper.show(Line { kind: "entry", fields })?;
                if dumper.wants_records(Content::Messages) {
                    records(dumper, &bytes[head.batch_at..], position, Content::Messages)?;
                }
            }
        }
    }
}

fn batch_line(header: &BatchHeader, position: u64) -> Line {
    let attributes = header.attributes;
    let codec = attributes.codec().map_or_else(|| attributes.codec_id().to_string(), |codec| codec.name().to_owned());
    let time = if header.timestamp_type() == TimestampType::LogAppendTime { "append" } else { "create" };
    let line = Line::new("batch")
        .with("position", position)
        .with("size", header.size_in_bytes())
        .with("base_offset", header.base_offset.0)
        .with("last_offset", header.last_offset().0)
        .with("records", header.record_count)
        .with("leader_epoch", header.leader_epoch.0)
        .with("codec", codec)
        .with("timestamp_type", time)
        .with("max_timestamp", header.max_timestamp.0)
        .with("producer_id", header.producer_id.0)
        .with("producer_epoch", header.producer_epoch.0)
        .with("base_sequence", header.base_sequence)
        .with("transactional", attributes.is_transactional())
        .with("control", attributes.is_control())
        .with("crc", format!("{:08x}", header.crc));
    line.with_some("delete_horizon", header.delete_horizon().map(|horizon| horizon.0))
}

fn records(dumper: &mut Dumper<'_, '_>, batch: &[u8], position: u64, content: Content) -> DumpResult {
    let end = position + batch.len() as u64;
    let view = match BatchView::parse(batch) {
        Ok(view) => view,
        Err(error) => return dumper.damage(position, end, error.to_string()),
    };
    let mut scratch = Vec::new();
    let records = match view.records(&mut scratch, DECOMPRESSED_BYTES_MAX) {
        Ok(records) => records,
        Err(error) => return dumper.damage(position, end, error.to_string()),
    };
    for record in records {
        match record {
            Ok(record) if view.header().attributes.is_control() => control(dumper, position, end, &record)?,
            Ok(record) => message(dumper, position, end, &record, content)?,
            Err(error) => dumper.damage(position, end, error.to_string())?,
        }
    }
    Ok(())
}

fn message(dumper: &mut Dumper<'_, '_>, from: u64, to: u64, record: &Record<'_>, content: Content) -> DumpResult {
    let head = Line::new("record").with("offset", record.offset.0);
    let head = head.with("timestamp", (record.timestamp >= TimestampMs(0)).then_some(record.timestamp.0));
    let decoded = match content {
        Content::Metadata => Some(internal::metadata(record.value.unwrap_or_default())),
        Content::Groups if dumper.options.offsets => {
            Some(internal::group(record.key.unwrap_or_default(), record.value))
        }
        Content::Transactions if dumper.options.transactions => {
            Some(internal::transaction(record.key.unwrap_or_default(), record.value))
        }
        Content::Groups | Content::Transactions | Content::Messages => None,
    };
    match decoded {
        Some(Ok(decoded)) => return dumper.show(understood(head, decoded)),
        // The bytes are shown as they are, and why they are not understood.
        Some(Err(reason)) => dumper.damage(from, to, format!("record {}: {reason}", record.offset))?,
        None => {}
    }
    let header = |header: mainstem_record::RecordHeader<'_>| {
        let mut object = Map::new();
        object.insert("key".to_owned(), header.key_text().into());
        object.insert("value".to_owned(), bytes_value(header.value));
        Value::Object(object)
    };
    let line = head.with("key", bytes_value(record.key)).with("value", bytes_value(record.value));
    dumper.show(line.with("headers", record.headers.iter().map(header).collect::<Vec<_>>()))
}

fn control(dumper: &mut Dumper<'_, '_>, from: u64, to: u64, record: &Record<'_>) -> DumpResult {
    match internal::control(record.key.unwrap_or_default(), record.value.unwrap_or_default()) {
        Ok(decoded) => dumper.show(understood(Line::new("control").with("offset", record.offset.0), decoded)),
        Err(reason) => dumper.damage(from, to, format!("record {}: {reason}", record.offset)),
    }
}

fn understood(head: Line, decoded: Decoded) -> Line {
    let line = head.with("type", decoded.kind).with_some("version", decoded.version);
    line.with("data", decoded.data)
}

impl Dumper<'_, '_> {
    /// The file is read for its metadata records.
    fn wants_records(&self, content: Content) -> bool {
        self.options.records
            || match content {
                Content::Metadata => true,
                Content::Groups => self.options.offsets,
                Content::Transactions => self.options.transactions,
                Content::Messages => false,
            }
    }
}
