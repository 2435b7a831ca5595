//! A value read in one version, written in another: fields that the other version does not carry are left out when
//! they are ignorable or hold their default, and refused otherwise; and so is null where it is not allowed.

use mainstem_kafka_wire::EncodeError;
use proptest::prelude::*;

use crate::encode::encode;
use crate::entries::{entries, entry};
use crate::model::{Random, all_messages, random_struct};

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, failure_persistence: None, ..Default::default() })]

    #[test]
    fn every_pair_of_versions_agrees_with_the_schema(seed: u64) {
        let mut random = Random(seed);
        for (entry, (_, message)) in entries().iter().zip(all_messages()) {
            for read in entry.lowest..=entry.highest {
                let value = random_struct(&mut random, message, &message.structs[0], read);
                let bytes = encode(message, &value, read).unwrap().bytes;
                for write in entry.lowest..=entry.highest {
                    let expected = encode(message, &value, write);
                    let actual = (entry.recode)(&bytes, read, write).unwrap().encoded;
                    match expected {
                        Ok(output) => prop_assert_eq!(actual, Ok(output.bytes), "{} {}->{}", entry.name, read, write),
                        Err(_) => prop_assert!(actual.is_err(), "{} {}->{}", entry.name, read, write),
                    }
                }
            }
        }
    }
}

#[test]
fn versions_outside_the_range_are_errors_both_ways() {
    for entry in entries() {
        for version in [entry.lowest - 1, entry.highest + 1, i16::MIN, i16::MAX] {
            assert!((entry.decode)(&[0; 64], version).is_err(), "{} {version}", entry.name);
            let unsupported = EncodeError::UnsupportedVersion { message: entry.name, version };
            assert_eq!((entry.encode_default)(version), Err(unsupported));
        }
    }
}

#[test]
fn a_field_that_the_version_does_not_carry_is_named() {
    // ListTransactions 1: DurationFilter is not ignorable.
    let bytes = [1, 1, 0, 0, 0, 0, 0, 0, 0, 5, 0];
    let recoded = (entry("ListTransactionsRequest").recode)(&bytes, 1, 0).unwrap();
    let field = "ListTransactionsRequest.DurationFilter";
    assert_eq!(recoded.encoded, Err(EncodeError::FieldNotInVersion { field, version: 0 }));
    // Metadata 1: a null list means all topics; version 0 cannot say that.
    let recoded = (entry("MetadataRequest").recode)(&[0xff, 0xff, 0xff, 0xff], 1, 0).unwrap();
    let field = "MetadataRequest.Topics";
    assert_eq!(recoded.encoded, Err(EncodeError::NullNotAllowed { field, version: 0 }));
}
