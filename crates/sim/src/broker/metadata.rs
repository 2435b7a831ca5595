//! Following the metadata log: the image, and what it makes of each replica.

use bytes::Bytes;
use mainstem_kafka_wire::metadata_records::MetadataRecord;
use mainstem_metadata::image::{ClusterImage, ImageDelta};
use mainstem_record::Batches;
use mainstem_types::{Offset, PartitionIndex, TopicPartition};

use super::{Out, Process};
use crate::fact::Fact;
use crate::message::{Address, Message};
use crate::scenario::Mutation;
use crate::stored::{self, Checked, failed};
use crate::{OFFSETS_TOPIC, TOPIC};

/// The controller answers at once when there is something; this is how long an empty answer is waited for.
const ASK_AGAIN_MS: u64 = 60;

/// Replays the records of some batches. `skip` says which offsets are left out: never set in a correct run.
pub(crate) fn replay(image: &mut ClusterImage, bytes: &[u8], skip: impl Fn(Offset) -> bool) -> Checked {
    for batch in Batches::new(bytes) {
        let batch = batch.map_err(failed("split metadata batches"))?;
        let header = *batch.header();
        if header.attributes.is_control() {
            continue;
        }
        let mut scratch = Vec::new();
        let records = batch.records(&mut scratch, 1 << 20).map_err(failed("read a metadata batch"))?;
        for record in records {
            let record = record.map_err(failed("read a metadata record"))?;
            let decoded = MetadataRecord::decode_framed(record.value.unwrap_or_default());
            let decoded = decoded.map_err(failed("decode a metadata record"))?;
            if skip(record.offset) {
                continue;
            }
            let replayed = image.replay(&decoded, record.offset, header.leader_epoch, &mut ImageDelta::default());
            replayed.map_err(failed("replay a metadata record"))?;
        }
    }
    Ok(())
}

impl Process {
    pub(super) fn load_metadata(&mut self, now_ms: u64, out: &mut Out) -> Checked {
        let log = self.metadata.clone();
        for part in stored::read_all(&log, log.log_start(), log.log_end())? {
            self.replay(&part)?;
        }
        out.facts.push(Fact::Image { node: Address::Broker(self.id), image: self.image.clone() });
        self.ask_for_metadata(now_ms, true, out);
        // Until the controller has said what is newest, nobody is led and nobody followed.
        Ok(())
    }

    fn replay(&mut self, bytes: &[u8]) -> Checked {
        let lossy = self.settings.is_mutated(Mutation::LossyMetadata);
        replay(&mut self.image, bytes, |offset| lossy && offset.0 > 40 && offset.0 % 7 == 0)
    }

    pub(super) fn ask_for_metadata(&mut self, now_ms: u64, at_once: bool, out: &mut Out) {
        if at_once || now_ms >= self.metadata_asked_ms + ASK_AGAIN_MS {
            self.metadata_asked_ms = now_ms;
            out.send(Address::Controller, Message::MetadataFetch { from: self.metadata.log_end() });
        }
    }

    pub(super) fn take_metadata(&mut self, from: Offset, bytes: &Bytes, now_ms: u64, out: &mut Out) -> Checked {
        if from != self.metadata.log_end() || bytes.is_empty() {
            return Ok(());
        }
        self.metadata.append_stamped(bytes, self.wall()).map_err(failed("copy metadata"))?;
        self.replay(bytes)?;
        out.facts.push(Fact::Image { node: Address::Broker(self.id), image: self.image.clone() });
        self.ask_for_metadata(now_ms, true, out);
        self.follow_image(now_ms, out)
    }

    /// Makes each replica what the image says. A broker that is not registered yet knows an image of its past.
    fn follow_image(&mut self, now_ms: u64, out: &mut Out) -> Checked {
        let Some(broker_epoch) = self.broker_epoch else { return Ok(()) };
        if self.image.broker(self.id).is_none_or(|broker| broker.epoch() != broker_epoch) {
            return Ok(());
        }
        let mut changed = Vec::new();
        for name in [TOPIC, OFFSETS_TOPIC] {
            let Some(topic) = self.image.topic(name) else { continue };
            for (number, image) in &topic.partitions {
                let partition = TopicPartition::new(name, PartitionIndex(*number));
                changed.push((partition, topic.id, image.clone()));
            }
        }
        for (partition, topic_id, image) in changed {
            if !self.replicas.contains_key(&partition) {
                self.host(&partition, topic_id, &image.replicas, out)?;
            }
            self.follow_partition(&partition, &image, now_ms, out)?;
        }
        Ok(())
    }
}
