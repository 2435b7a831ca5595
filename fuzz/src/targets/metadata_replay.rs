//! Records of `__cluster_metadata` in a row, each with its length (two bytes) in front: replayed into an image. The
//! records that an image makes of itself make the same image again.

use mainstem_kafka_wire::metadata_records::MetadataRecord;
use mainstem_metadata::image::{ClusterImage, ImageDelta};
use mainstem_types::{LeaderEpoch, Offset};

pub fn run(mut data: &[u8]) {
    let mut image = ClusterImage::default();
    let mut delta = ImageDelta::default();
    let mut next = Offset::ZERO;
    while let Some((length, rest)) = data.split_first_chunk::<2>() {
        let (record, rest) = rest.split_at(usize::from(u16::from_be_bytes(*length)).min(rest.len()));
        data = rest;
        let Ok(record) = MetadataRecord::decode_framed(record) else { continue };
        let before = image.clone();
        if image.replay(&record, next, LeaderEpoch(1), &mut delta).is_err() {
            assert_eq!(before, image, "an error leaves the image as it was");
        }
        next = next.plus(1);
    }
    if image.in_transaction() {
        return;
    }
    // reason: the target exists to find this.
    let again = ClusterImage::from_snapshot(image.to_records(), image.offset, image.epoch).expect("own records");
    assert_eq!(image.to_records(), again.to_records());
}
