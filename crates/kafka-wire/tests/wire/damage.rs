//! Damaged bytes: cut anywhere, flipped anywhere, or never a message at all. An error, never a panic.

use mainstem_kafka_wire::metadata_records::MetadataRecord;
use mainstem_kafka_wire::{Reader, decode_request_header};
use proptest::prelude::*;

use crate::encode::encode;
use crate::entries::entries;
use crate::model::{Random, all_messages, random_struct};

#[test]
fn cut_at_every_byte_is_an_error() {
    let mut random = Random(5);
    for (entry, (_, message)) in entries().iter().zip(all_messages()) {
        for version in entry.lowest..=entry.highest {
            let value = random_struct(&mut random, message, &message.structs[0], version);
            let bytes = encode(message, &value, version).unwrap().bytes;
            for length in 0..bytes.len() {
                let result = (entry.decode)(&bytes[..length], version);
                assert!(result.is_err(), "{} {version}: {length} of {bytes:02x?} was read", entry.name);
            }
        }
    }
}

#[test]
fn bytes_behind_a_message_stay_unread() {
    let mut random = Random(6);
    for (entry, (_, message)) in entries().iter().zip(all_messages()) {
        for version in entry.lowest..=entry.highest {
            let value = random_struct(&mut random, message, &message.structs[0], version);
            let bytes = encode(message, &value, version).unwrap().bytes;
            let longer = [bytes.as_slice(), &[0xff; 9]].concat();
            let recoded = (entry.recode)(&longer, version, version).unwrap();
            assert_eq!(recoded.consumed, bytes.len(), "{} {version}", entry.name);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..Default::default() })]

    #[test]
    fn one_changed_byte_never_panics_and_what_is_read_can_be_written(seed: u64) {
        let mut random = Random(seed);
        for (entry, (_, message)) in entries().iter().zip(all_messages()) {
            for version in entry.lowest..=entry.highest {
                let value = random_struct(&mut random, message, &message.structs[0], version);
                let mut bytes = encode(message, &value, version).unwrap().bytes;
                if bytes.is_empty() {
                    continue;
                }
                for _ in 0..4 {
                    let position = random.below(bytes.len() as u64) as usize;
                    bytes[position] = random.next() as u8;
                    if let Ok(recoded) = (entry.recode)(&bytes, version, version) {
                        prop_assert!(recoded.encoded.is_ok(), "{} {}: {:?}", entry.name, version, recoded.encoded);
                    }
                }
            }
        }
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        for entry in entries() {
            for version in entry.lowest..=entry.highest {
                let _ = (entry.decode)(&bytes, version);
            }
        }
        let _ = decode_request_header(&mut Reader::new(&bytes));
        let _ = MetadataRecord::decode_framed(&bytes);
    }
}
