//! Files of entries of one size: indexes and consume queues.

use mainstem_store::formats::key_index::{self, IndexEntry, IndexHeader};
use mainstem_store::formats::offset_index::{self, OffsetIndexEntry};
use mainstem_store::formats::queue_entry::{self, QueueEntry};
use mainstem_store::formats::time_index::{self, TimeIndexEntry};
use mainstem_store::formats::transaction_index;
use mainstem_types::Offset;

use super::{DumpResult, Dumper};
use crate::key_index_file::slots_of;
use crate::line::Line;

const OUT_OF_ORDER: &str = "an entry that is not above the one before it";
const NEGATIVE: &str = "an entry with a negative field";

pub(super) fn offset_index(dumper: &mut Dumper<'_, '_>, base: Offset) -> DumpResult {
    let mut last = None;
    let end = zeros_begin(dumper, offset_index::ENTRY_SIZE)?;
    let left = dumper.pieces(0, end, offset_index::ENTRY_SIZE, |dumper, at, bytes| {
        let to = at + bytes.len() as u64;
        let Some(entry) = OffsetIndexEntry::decode(bytes, 0) else { return dumper.damage(at, to, NEGATIVE) };
        if !entry.follows(last) {
            dumper.damage(at, to, OUT_OF_ORDER)?;
        }
        last = Some(entry);
        let line = Line::new("entry").with("offset", base.plus(entry.relative_offset.into()).0);
        dumper.show(line.with("position", entry.position))
    })?;
    rest(dumper, left, end)
}

pub(super) fn time_index(dumper: &mut Dumper<'_, '_>, base: Offset) -> DumpResult {
    let mut last = None;
    let end = zeros_begin(dumper, time_index::ENTRY_SIZE)?;
    let left = dumper.pieces(0, end, time_index::ENTRY_SIZE, |dumper, at, bytes| {
        let to = at + bytes.len() as u64;
        let Some(entry) = TimeIndexEntry::decode(bytes, 0) else { return dumper.damage(at, to, NEGATIVE) };
        if !entry.follows(last) {
            dumper.damage(at, to, OUT_OF_ORDER)?;
        }
        last = Some(entry);
        let line = Line::new("entry").with("timestamp", entry.timestamp_ms);
        dumper.show(line.with("offset", base.plus(entry.relative_offset.into()).0))
    })?;
    rest(dumper, left, end)
}

pub(super) fn transaction_index(dumper: &mut Dumper<'_, '_>) -> DumpResult {
    let mut last = None;
    let left = dumper.pieces(0, dumper.len, transaction_index::ENTRY_SIZE, |dumper, at, bytes| {
        let to = at + bytes.len() as u64;
        let entry = match transaction_index::decode(bytes) {
            Ok(entries) => entries.into_iter().next(),
            Err(error) => return dumper.damage(at, to, error.to_string()),
        };
        let Some(entry) = entry else { return Ok(()) };
        if last.is_some_and(|last| entry.last_offset <= last) {
            dumper.damage(at, to, OUT_OF_ORDER)?;
        }
        last = Some(entry.last_offset);
        let line = Line::new("aborted").with("producer_id", entry.producer_id.0);
        let line = line.with("first_offset", entry.first_offset.0).with("last_offset", entry.last_offset.0);
        dumper.show(line.with("last_stable_offset", entry.last_stable_offset.0))
    })?;
    rest(dumper, left, dumper.len)
}

/// One line for the records of a batch, which have the same place.
pub(super) fn consume_queue(dumper: &mut Dumper<'_, '_>, first: Offset) -> DumpResult {
    let mut run: Option<(i64, i64, QueueEntry)> = None;
    let left = dumper.pieces(0, dumper.len, queue_entry::ENTRY_SIZE, |dumper, at, bytes| {
        let offset = first.0 + (at / queue_entry::ENTRY_SIZE as u64) as i64;
        let Some(entry) = QueueEntry::decode(bytes) else { return Ok(()) };
        match &mut run {
            Some((_, last, known)) if *known == entry => *last = offset,
            run => {
                let done = run.replace((offset, offset, entry));
                done.map_or(Ok(()), |done| dumper.show(queue_line(done)))?;
            }
        }
        Ok(())
    })?;
    run.map_or(Ok(()), |run| dumper.show(queue_line(run)))?;
    rest(dumper, left, dumper.len)
}

fn queue_line((first, last, entry): (i64, i64, QueueEntry)) -> Line {
    let kind = if entry.size == 0 { "nothing" } else { "entry" };
    let line = Line::new(kind).with("first_offset", first).with("last_offset", last);
    if entry.size == 0 {
        return line;
    }
    line.with("log_position", entry.position.0).with("size", entry.size).with("tag_hash", entry.tag_hash)
}

pub(super) fn key_index(dumper: &mut Dumper<'_, '_>) -> DumpResult {
    let mut bytes = [0; key_index::HEADER_SIZE];
    let count = dumper.file.read_full_at(&mut bytes, 0)?;
    let header = match IndexHeader::decode(&bytes[..count]) {
        Ok(header) => header,
        Err(error) => return dumper.damage(0, count as u64, error.to_string()),
    };
    let line = Line::new("header").with("begin_timestamp", header.begin_ms).with("end_timestamp", header.end_ms);
    let line = line.with("begin_log_position", header.begin_position).with("end_log_position", header.end_position);
    dumper.show(line.with("used_slots", header.used_slots).with("next_entry", header.count))?;
    let Some(size) = slots_of(dumper.len) else {
        return dumper.damage(count as u64, dumper.len, "a file of this size has no known number of slots");
    };
    let from = size.entry_at(1);
    let to = size.entry_at(header.count.min(size.entries));
    if header.count > size.entries {
        dumper.damage(0, count as u64, format!("the header counts {} entries of {}", header.count, size.entries))?;
    }
    dumper.pieces(from, to, key_index::ENTRY_SIZE, |dumper, at, bytes| {
        let Some(entry) = IndexEntry::decode(bytes) else { return Ok(()) };
        let number = 1 + (at - from) / key_index::ENTRY_SIZE as u64;
        let line = Line::new("entry").with("number", number).with("hash", entry.hash);
        let line = line.with("log_position", entry.position).with("seconds", entry.seconds);
        dumper.show(line.with("previous", entry.previous))
    })?;
    Ok(())
}

/// Where the zeros begin that a Kafka which was killed leaves at the end; they are no entries.
fn zeros_begin(dumper: &mut Dumper<'_, '_>, size: usize) -> Result<u64, super::Ended> {
    let mut end = dumper.len;
    let mut buffer = vec![0; 65_536 / size * size];
    while end > 0 {
        let count = buffer.len().min(end as usize);
        let from = end - count as u64;
        dumper.file.read_exact_at(&mut buffer[..count], from)?;
        match buffer[..count].iter().rposition(|byte| *byte != 0) {
            Some(last) => {
                let used = from + last as u64 + 1;
                return Ok(used.next_multiple_of(size as u64).min(dumper.len));
            }
            None => end = from,
        }
    }
    Ok(0)
}

fn rest(dumper: &mut Dumper<'_, '_>, left: u64, end: u64) -> DumpResult {
    if left < end {
        dumper.damage(left, end, "half an entry at the end")?;
    }
    if end < dumper.len {
        dumper.show(Line::new("zeros").with("position", end).with("bytes", dumper.len - end))?;
    }
    Ok(())
}
