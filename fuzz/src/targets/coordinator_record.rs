//! Records of internal topics and control records: one byte chooses the kind among all that are declared, an int16 is
//! the version, the rest is the message.

use mainstem_kafka_wire::read_version;

use super::messages::ENTRIES;

pub fn run(data: &[u8]) {
    let Some((choice, rest)) = data.split_first() else { return };
    let Ok((version, reader)) = read_version(rest) else { return };
    let mut records = ENTRIES.iter().filter(|entry| entry.group == "records");
    if let Some(entry) = records.nth(usize::from(*choice)) {
        (entry.check)(reader.rest(), version);
    }
}
