//! The image of every node is a replay of the committed metadata up to its offset.

use std::collections::BTreeMap;

use mainstem_metadata::image::ClusterImage;
use mainstem_types::Offset;

use super::Invariant;
use crate::broker::replay;
use crate::fact::Fact;
use crate::stored;

#[derive(Debug, Default)]
pub struct MetadataReplay {
    image: ClusterImage,
    /// The checksum of each committed batch, by its offset.
    batches: BTreeMap<Offset, u32>,
    /// By the offset of the last record of a batch.
    images: BTreeMap<Offset, ClusterImage>,
}

impl Invariant for MetadataReplay {
    fn name(&self) -> &'static str {
        "every image is a replay of the committed metadata"
    }

    fn observe(&mut self, fact: &Fact) -> Result<(), String> {
        match fact {
            Fact::MetadataCommitted { bytes } => {
                let mut at = 0;
                for batch in stored::facts(bytes)? {
                    let size = mainstem_record::BatchView::parse(&bytes[at..]).map_err(|error| error.to_string())?;
                    let size = size.size_in_bytes();
                    let part = &bytes[at..at + size];
                    at += size;
                    match self.batches.insert(batch.base, batch.crc) {
                        Some(known) if known == batch.crc => continue,
                        Some(_) => return Err(format!("the metadata batch at {} was replaced", batch.base)),
                        None => {}
                    }
                    replay(&mut self.image, part, |_| false)?;
                    self.images.insert(batch.last, self.image.clone());
                }
                Ok(())
            }
            Fact::Image { node, image } => match self.images.get(&image.offset) {
                Some(expected) if expected == image => Ok(()),
                None if image.offset == Offset::NONE => Ok(()),
                Some(_) => Err(format!("{node}: the image at offset {} is not what a replay gives", image.offset)),
                None => Err(format!("{node}: no committed batch ends at offset {}", image.offset)),
            },
            _ => Ok(()),
        }
    }
}
