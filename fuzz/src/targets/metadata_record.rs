//! The value of a record of `__cluster_metadata`, in its frame.

use mainstem_kafka_wire::Writer;
use mainstem_kafka_wire::metadata_records::MetadataRecord;

pub fn run(data: &[u8]) {
    let Ok((record, version)) = MetadataRecord::decode_framed_versioned(data) else { return };
    let mut first = Writer::new();
    assert_eq!(record.encode_framed(&mut first, version), Ok(()), "{record:?} was read and cannot be written");
    // reason: the target exists to find this.
    let again = MetadataRecord::decode_framed(first.as_bytes()).expect("what was written can be read");
    let mut second = Writer::new();
    assert_eq!(again.encode_framed(&mut second, version), Ok(()));
    assert_eq!(first.as_bytes(), second.as_bytes());
}
