//! Lengths and counts that lie. For each message and version, every length or count set to its maximum must cost
//! less than 1 MiB and next to no time, whatever stands behind it.

use std::time::{Duration, Instant};

use mainstem_kafka_wire::messages::{FetchRequest, MetadataRequest};
use mainstem_kafka_wire::{DecodeError, DecodeErrorKind, Message, Reader};

use crate::alloc::peak_of;
use crate::encode::{Output, Site, Width, encode};
use crate::entries::entries;
use crate::model::{Random, all_messages, random_struct};

const MEMORY_LIMIT: usize = 1 << 20;
/// A millisecond is the aim; a busy machine may take a thread away for longer, so the least of some tries counts.
const TIME_LIMIT: Duration = Duration::from_millis(1);
const TRIES: usize = 20;

/// The bytes with another number at the site.
fn with_number(output: &Output, site: Site, number: u64) -> Vec<u8> {
    let (width, replacement) = match site.width {
        Width::Int16 => (2, (number as u16).to_be_bytes().to_vec()),
        Width::Int32 => (4, (number as u32).to_be_bytes().to_vec()),
        Width::Varint(width) => (width, varint(number)),
    };
    let mut bytes = output.bytes[..site.position].to_vec();
    bytes.extend(replacement);
    bytes.extend(&output.bytes[site.position + width..]);
    bytes
}

fn varint(mut number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
    bytes
}

/// Lies of each width: the largest values, and large ones that look reasonable.
fn lies(width: Width) -> &'static [u64] {
    match width {
        Width::Int16 => &[0x7fff, 0x8000, 0xfffe],
        Width::Int32 => &[0x7fff_ffff, 0x7fff_fffe, 0x00ff_ffff, 0x8000_0000, 0xffff_fffe],
        Width::Varint(_) => &[0xffff_ffff, 0x8000_0000, 0x7fff_ffff, 0x00ff_ffff, 0x7_ffff_ffff, u64::MAX],
    }
}

/// Only the cost matters here: a lie may also be a valid message (no tags, a shorter string).
fn check(name: &str, version: i16, bytes: &[u8], decode: fn(&[u8], i16) -> Result<(), DecodeError>) {
    let mut fastest = Duration::MAX;
    for _ in 0..TRIES {
        let start = Instant::now();
        let (_, peak) = peak_of(|| decode(bytes, version));
        fastest = fastest.min(start.elapsed());
        assert!(peak < MEMORY_LIMIT, "{name} {version}: {peak} bytes of memory for {bytes:02x?}");
        if fastest <= TIME_LIMIT {
            return;
        }
    }
    panic!("{name} {version}: {fastest:?} for {bytes:02x?}");
}

#[test]
fn every_length_or_count_at_its_maximum_costs_nothing() {
    let mut random = Random(3);
    let mut sites = 0;
    for (entry, (_, message)) in entries().iter().zip(all_messages()) {
        for version in entry.lowest..=entry.highest {
            for _ in 0..6 {
                let value = random_struct(&mut random, message, &message.structs[0], version);
                let output = encode(message, &value, version).unwrap();
                for site in &output.sites {
                    sites += 1;
                    for lie in lies(site.width) {
                        let mut bytes = with_number(&output, *site, *lie);
                        check(entry.name, version, &bytes, entry.decode);
                        // The same at the end of the frame: nothing at all follows.
                        bytes.truncate(site.position + 5);
                        check(entry.name, version, &bytes, entry.decode);
                    }
                }
            }
        }
    }
    assert!(sites > 20_000, "{sites} sites only: the schema or the generator lost something");
}

#[test]
fn five_bytes_do_not_reserve_gigabytes() {
    // Metadata 9: a compact array of 2^32 - 2 topics, and not one byte behind it.
    let bytes = [0xff, 0xff, 0xff, 0xff, 0x0f];
    let (result, peak) = peak_of(|| MetadataRequest::decode(&mut Reader::new(&bytes), 9));
    let error = result.unwrap_err();
    assert_eq!(error.field, "MetadataRequest.Topics");
    assert_eq!(error.position, 5);
    assert!(matches!(error.kind, DecodeErrorKind::CountTooLarge { count: 0xffff_fffe, remaining: 0, .. }), "{error}");
    assert!(peak < 1024, "{peak}");
}

#[test]
fn a_count_that_fits_into_the_frame_reserves_little_ahead() {
    // 16 MiB of zeros behind a count that they could hold; the first element fails at once.
    let mut bytes = vec![0u8; 16 << 20];
    bytes[..4].copy_from_slice(&(2u32 << 20).to_be_bytes());
    bytes[4..6].copy_from_slice(&[0x80, 0]);
    let (result, peak) = peak_of(|| MetadataRequest::decode(&mut Reader::new(&bytes), 1));
    assert!(matches!(result.unwrap_err().kind, DecodeErrorKind::NegativeLength(-32768)));
    assert!(peak < MEMORY_LIMIT, "{peak}");
}

#[test]
fn all_arrays_together_stay_below_the_memory_limit() {
    // Each element is two bytes on the wire (an empty name) and many times that in memory.
    let count = 100_000u32;
    let mut bytes = count.to_be_bytes().to_vec();
    bytes.resize(4 + 2 * count as usize, 0);
    assert!(MetadataRequest::decode(&mut Reader::new(&bytes), 1).is_ok());
    let mut reader = Reader::with_memory_limit(&bytes, 1 << 20);
    let (result, peak) = peak_of(|| MetadataRequest::decode(&mut reader, 1));
    assert_eq!(result.unwrap_err().kind, DecodeErrorKind::MemoryLimit { limit: 1 << 20 });
    assert!(peak <= 1 << 20, "{peak}");
}

#[test]
fn the_memory_limit_counts_nested_arrays() {
    // Fetch 4: one topic with more and more partitions behind it.
    let mut bytes = vec![0; 4 * 4 + 1];
    bytes.extend(1000u32.to_be_bytes());
    for _ in 0..1000 {
        bytes.extend([0, 0]);
        bytes.extend(100u32.to_be_bytes());
        bytes.extend([0; 100 * 16]);
    }
    assert!(FetchRequest::decode(&mut Reader::new(&bytes), 4).is_ok());
    let result = FetchRequest::decode(&mut Reader::with_memory_limit(&bytes, 1 << 20), 4);
    assert_eq!(result.unwrap_err().kind, DecodeErrorKind::MemoryLimit { limit: 1 << 20 });
}
