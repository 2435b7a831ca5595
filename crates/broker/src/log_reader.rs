//! Reading a whole log, batch by batch: how views are rebuilt from it.

use mainstem_record::{BatchView, Batches};
use mainstem_store::{ReadChunk, ReadError, ReadRequest, TopicLog};
use mainstem_types::{Offset, TopicPartition};

/// Bytes that are read at once; a larger batch is read alone.
const STEP_BYTES: u32 = 4 * 1024 * 1024;

/// Records of the broker's own topics are never larger than this when they are decompressed.
pub(crate) const RECORDS_SIZE_MAX: usize = 256 * 1024 * 1024;

/// Why a log could not be read to its end.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error("{partition}: reading at offset {offset} failed: {error}")]
    Io { partition: TopicPartition, offset: Offset, error: std::io::Error },
    #[error("{partition}: the batch at offset {offset} cannot be read: {reason}")]
    Batch { partition: TopicPartition, offset: Offset, reason: String },
    #[error("{partition}: the record at offset {offset} cannot be read: {reason}")]
    Record { partition: TopicPartition, offset: Offset, reason: String },
}

impl ReplayError {
    /// Whether another try finds the same: the bytes themselves are wrong.
    pub(crate) fn is_damage(&self) -> bool {
        matches!(
            self,
            ReplayError::Batch { .. } | ReplayError::Record { .. } | ReplayError::Read(ReadError::Corrupt { .. })
        )
    }
}

/// Visits every whole batch from `from` up to `upper` (exclusive), in order.
pub(crate) fn for_each_batch(
    log: &TopicLog,
    from: Offset,
    upper: Offset,
    mut visit: impl FnMut(&BatchView<'_>) -> Result<(), ReplayError>,
) -> Result<(), ReplayError> {
    let mut next = from;
    while next < upper {
        let reading = log.read(&ReadRequest { from: next, max_bytes: STEP_BYTES, upper, min_one_batch: true })?;
        let bytes = gather(&reading.chunks).map_err(|error| ReplayError::Io {
            partition: log.partition().clone(),
            offset: next,
            error,
        })?;
        let before = next;
        for batch in Batches::new(&bytes) {
            let batch = batch.map_err(|error| ReplayError::Batch {
                partition: log.partition().clone(),
                offset: next,
                reason: error.to_string(),
            })?;
            if !batch.crc_is_valid() {
                let (partition, offset) = (log.partition().clone(), batch.header().base_offset);
                let reason = "its checksum does not match; restore the file from a copy".to_owned();
                return Err(ReplayError::Batch { partition, offset, reason });
            }
            next = batch.header().last_offset().plus(1);
            visit(&batch)?;
        }
        if next == before {
            return Ok(());
        }
    }
    Ok(())
}

fn gather(chunks: &[ReadChunk]) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(chunks.iter().map(ReadChunk::len).sum());
    for chunk in chunks {
        match chunk {
            ReadChunk::Bytes(part) => bytes.extend_from_slice(part),
            ReadChunk::Slice(slice) => bytes.extend_from_slice(&slice.read()?),
        }
    }
    Ok(bytes)
}
