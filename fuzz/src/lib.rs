//! Fuzz targets: each is a plain function over bytes, so that the same code runs under libFuzzer and as a test over the
//! corpus.
//!
//! A target may do anything but panic, hang, or allocate without bound. How to run them: `fuzz/README.md`.
//!
//! To add a target:
//! 1. a file `src/targets/<name>.rs` with `pub fn run(data: &[u8])`, declared in `src/targets/mod.rs`;
//! 2. a line in [`TARGETS`];
//! 3. some small inputs in `corpus/<name>/` (at least one; a test reads them all);
//! 4. the crate under test in `Cargo.toml`.

pub mod targets;

/// What the fuzzer, the tests and `xtask` can run.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// Name on the command line and of the corpus folder.
    pub name: &'static str,
    pub run: fn(&[u8]),
}

/// All targets. `xtask` runs each of them for some seconds.
pub const TARGETS: &[Target] = &[
    Target { name: "kafka_request", run: targets::kafka_request::run },
    Target { name: "kafka_response", run: targets::kafka_response::run },
    Target { name: "frame_reader", run: targets::frame_reader::run },
    Target { name: "kafka_handler", run: targets::kafka_handler::run },
    Target { name: "group_replay", run: targets::group_replay::run },
    Target { name: "metadata_replay", run: targets::metadata_replay::run },
    Target { name: "coordinator_record", run: targets::coordinator_record::run },
    Target { name: "metadata_record", run: targets::metadata_record::run },
    Target { name: "record_batch", run: targets::record_batch::run },
    Target { name: "decompress_gzip", run: targets::decompress_gzip::run },
    Target { name: "decompress_snappy", run: targets::decompress_snappy::run },
    Target { name: "decompress_lz4", run: targets::decompress_lz4::run },
    Target { name: "decompress_zstd", run: targets::decompress_zstd::run },
    // On-disk structures: one line each here, in this order.
    Target { name: "disk_checkpoint", run: targets::disk_checkpoint::run },
    Target { name: "disk_clean_shutdown", run: targets::disk_clean_shutdown::run },
    Target { name: "disk_commit_log_entry", run: targets::disk_commit_log_entry::run },
    Target { name: "disk_epoch_checkpoint", run: targets::disk_epoch_checkpoint::run },
    Target { name: "disk_group_checkpoint", run: targets::disk_group_checkpoint::run },
    Target { name: "disk_key_index", run: targets::disk_key_index::run },
    Target { name: "disk_log_segment", run: targets::disk_log_segment::run },
    Target { name: "disk_metadata_log", run: targets::disk_metadata_log::run },
    Target { name: "disk_metadata_snapshot", run: targets::disk_metadata_snapshot::run },
    Target { name: "disk_meta_properties", run: targets::disk_meta_properties::run },
    Target { name: "disk_names", run: targets::disk_names::run },
    Target { name: "disk_offset_checkpoint", run: targets::disk_offset_checkpoint::run },
    Target { name: "disk_offset_index", run: targets::disk_offset_index::run },
    Target { name: "disk_partition_metadata", run: targets::disk_partition_metadata::run },
    Target { name: "disk_producer_snapshot", run: targets::disk_producer_snapshot::run },
    Target { name: "disk_quorum_state", run: targets::disk_quorum_state::run },
    Target { name: "disk_time_index", run: targets::disk_time_index::run },
    Target { name: "disk_transaction_index", run: targets::disk_transaction_index::run },
];

/// The target of this name.
pub fn target(name: &str) -> Option<Target> {
    TARGETS.iter().copied().find(|target| target.name == name)
}

#[cfg(test)]
mod corpus_tests;

#[cfg(test)]
mod tests {
    use super::*;

    /// A target that starts a whole broker for each input is tried less often.
    fn step(target: &Target) -> usize {
        if ["kafka_handler", "disk_metadata_log"].contains(&target.name) { 16 } else { 1 }
    }

    #[test]
    fn every_target_survives_its_corpus_cut_and_with_bits_flipped() {
        for target in TARGETS {
            let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target.name);
            let mut inputs = 0;
            for entry in std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
                let data = std::fs::read(entry.unwrap().path()).unwrap();
                (target.run)(&data);
                for length in (0..data.len().min(256)).step_by(step(target)) {
                    (target.run)(&data[..length]);
                    let mut flipped = data.clone();
                    flipped[length] ^= 1 << (length % 8);
                    (target.run)(&flipped);
                }
                inputs += 1;
            }
            assert!(inputs > 0, "{} has no corpus", target.name);
            (target.run)(&[]);
        }
    }

    #[test]
    fn targets_are_found_by_name() {
        assert!(target("kafka_request").is_some());
        assert!(target("nothing").is_none());
    }
}
