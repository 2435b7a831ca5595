//! The checkpoint of compaction in the data folder, and folders that go away.

use super::*;
use crate::data_folder::{DataFolder, FolderEntry};
use crate::partition_log::tests::{env_on, partition};
use mainstem_env::{CrashPolicy, Fs, MemFs};
use mainstem_types::{TopicId, TopicPartition};
use std::path::Path;
use std::time::Duration;

const DATA: &str = "/data";
const FILE: &str = "/data/cleaner-offset-checkpoint";

fn create(fs: &MemFs) -> (DataFolder, Arc<PartitionLog>) {
    let (folder, _) = DataFolder::open(&env_on(fs), Path::new(DATA)).unwrap();
    let log = folder.create_log(&partition(), TopicId([7; 16]), Arc::new(compacted())).unwrap();
    (folder, log)
}

fn fill(log: &PartitionLog) {
    for n in 0..20 {
        put(log, &[(&format!("key {}", n % 3), Some(&format!("value {n} {}", "x".repeat(40))))]);
    }
}

fn compact_in(folder: &DataFolder, log: &PartitionLog) -> Compaction {
    log.flush_blocking().unwrap();
    folder.write_checkpoint_of(log, log.log_end()).unwrap();
    let work = log.cleanable(NOW, log.log_end()).unwrap().unwrap();
    let done = log.compact(&work, &LIMITS, NOW, &mut Unthrottled).unwrap();
    folder.write_checkpoint_of(log, log.log_end()).unwrap();
    done
}

fn reopen(fs: &MemFs) -> (DataFolder, Arc<PartitionLog>) {
    let (folder, report) = DataFolder::open(&env_on(fs), Path::new(DATA)).unwrap();
    let entry: &FolderEntry = &report.partitions[0];
    let (log, recovery) = folder.open_log(entry, Arc::new(compacted())).unwrap();
    assert_eq!(recovery.segments_parked, 0);
    (folder, log)
}

#[test]
fn the_checkpoint_is_kafka_s_and_a_restart_goes_on_from_it() {
    let fs = MemFs::new();
    let (folder, log) = create(&fs);
    fill(&log);
    assert_eq!(log.checkpointed_end(), Offset(0));
    let done = compact_in(&folder, &log);
    assert!(done.to > Offset(10) && log.checkpointed_end() == Offset(20));
    let text = String::from_utf8(fs.read_all(Path::new(FILE)).unwrap()).unwrap();
    assert_eq!(text, format!("0\n1\norders 0 {}\n", done.to));
    drop((folder, log));
    let fs = fs.crash(CrashPolicy::Nothing);
    let (folder, log) = reopen(&fs);
    assert_eq!(log.cleanable(NOW, log.log_end()).unwrap().unwrap().first_dirty, done.to);
    // The general checkpoint keeps it, an orderly stop too.
    folder.write_checkpoints(&[(Arc::clone(&log), log.log_end())], &|| true).unwrap();
    folder.close(&[(Arc::clone(&log), log.log_end())], 1).unwrap();
    drop((folder, log));
    let (_folder, log) = reopen(&fs);
    assert_eq!(log.cleanable(NOW, log.log_end()).unwrap().unwrap().first_dirty, done.to);
    assert_eq!(fs.read_all(Path::new(FILE)).unwrap(), text.as_bytes());
}

#[test]
fn a_topic_of_the_same_name_begins_without_it() {
    let fs = MemFs::new();
    let (folder, log) = create(&fs);
    fill(&log);
    compact_in(&folder, &log);
    folder.delete_log(&log, Duration::ZERO).unwrap();
    let log = folder.create_log(&partition(), TopicId([8; 16]), Arc::new(compacted())).unwrap();
    assert_eq!(fs.read_all(Path::new(FILE)).unwrap(), b"0\n0\n");
    fill(&log);
    assert_eq!(log.cleanable(NOW, log.log_end()).unwrap().unwrap().first_dirty, Offset(0));
}

#[test]
fn a_log_that_is_deleted_meanwhile_is_let_go_of() {
    let fs = MemFs::new();
    let (folder, log) = create(&fs);
    fill(&log);
    folder.write_checkpoint_of(&log, log.log_end()).unwrap();
    checkpoint(&log);
    let work = log.cleanable(NOW, log.log_end()).unwrap().unwrap();

    /// Deletes the topic, and creates it again, when the compaction has begun to read.
    struct Deletes<'a>(&'a DataFolder, &'a PartitionLog, usize);
    impl CleaningControl for Deletes<'_> {
        fn proceed(&mut self, _: u64) -> bool {
            self.2 = self.2.saturating_sub(1);
            if self.2 == 1 {
                self.0.delete_log(self.1, Duration::ZERO).unwrap();
                let name: &TopicPartition = self.1.partition();
                self.0.create_log(name, TopicId([9; 16]), Arc::new(compacted())).unwrap();
            }
            true
        }
    }
    let outcome = log.compact(&work, &LIMITS, NOW, &mut Deletes(&folder, &log, 8));
    assert!(outcome.is_err(), "{outcome:?}");
    // The new folder has the files of a new log, and nothing of the old one.
    let mut names: Vec<_> =
        fs.read_dir(Path::new("/data/orders-0")).unwrap().into_iter().map(|e| e.name.into_string().unwrap()).collect();
    names.retain(|name| !name.ends_with(".metadata"));
    names.sort();
    let zero = "0".repeat(20);
    assert_eq!(names, [format!("{zero}.index"), format!("{zero}.log"), format!("{zero}.timeindex")]);
    folder.write_checkpoint_of(&log, Offset(0)).unwrap();
    folder.remove_due();
}
