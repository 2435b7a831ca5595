//! What the interpreting encoder writes, the generated code reads and writes again byte for byte.

use proptest::prelude::*;

use crate::encode::encode;
use crate::entries::entries;
use crate::model::{Random, all_messages, default_struct, random_struct};

#[test]
fn schema_and_generated_code_name_the_same_messages() {
    let entries = entries();
    assert_eq!(entries.len(), all_messages().len());
    for (entry, (group, message)) in entries.iter().zip(all_messages()) {
        assert_eq!((entry.group, entry.name), (*group, message.name.as_str()));
        assert_eq!((entry.lowest, entry.highest), (message.versions.lowest, message.versions.highest));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..Default::default() })]

    #[test]
    fn every_message_and_version_round_trips(seed: u64) {
        let mut random = Random(seed);
        for (entry, (_, message)) in entries().iter().zip(all_messages()) {
            for version in entry.lowest..=entry.highest {
                let value = random_struct(&mut random, message, &message.structs[0], version);
                let bytes = encode(message, &value, version).unwrap().bytes;
                let recoded = (entry.recode)(&bytes, version, version)
                    .unwrap_or_else(|error| panic!("{} {version}: {error}: {value:?}\n{bytes:02x?}", entry.name));
                prop_assert_eq!(recoded.consumed, bytes.len(), "{} {}", entry.name, version);
                prop_assert_eq!(recoded.encoded, Ok(bytes), "{} {}: {:?}", entry.name, version, value);
            }
        }
    }
}

#[test]
fn defaults_are_those_of_the_schema() {
    for (entry, (_, message)) in entries().iter().zip(all_messages()) {
        for version in entry.lowest..=entry.highest {
            let expected = encode(message, &default_struct(message, &message.structs[0]), version);
            let actual = (entry.encode_default)(version);
            match expected {
                Ok(output) => assert_eq!(actual, Ok(output.bytes), "{} {version}", entry.name),
                // The default is null and this version does not allow null.
                Err(_) => assert!(actual.is_err(), "{} {version}: {actual:?}", entry.name),
            }
        }
    }
}
