//! The real binary on a small file system that becomes full. Mounting one needs root: without it each test runs itself
//! again in a namespace of users and mounts of its own. Where the system forbids that, too, the tests fail, and say
//! what they need.

#[path = "hostile/wire.rs"]
#[allow(dead_code, reason = "the parts that hostile clients need")]
mod wire;

mod support;

use std::fs::File;
use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use bytes::Bytes;
use mainstem_kafka_wire::messages::*;
use mainstem_record::BatchBuilder;
use mainstem_types::{ProducerEpoch, ProducerId, TimestampMs};
use support::{PATIENCE, Server};
use wire::Client;

const KAFKA_STORAGE_ERROR: i16 = 56;
const VALUE_BYTES: usize = 256 << 10;
const MIB: u64 = 1 << 20;

/// A file system of its own.
struct Disk {
    folder: tempfile::TempDir,
}

impl Disk {
    fn mount(mebibytes: u64) -> Disk {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new("mount");
        command.args(["-t", "tmpfs", "-o", &format!("size={mebibytes}m"), "tmpfs"]).arg(folder.path());
        let output = command.output().unwrap();
        assert!(output.status.success(), "a file system cannot be mounted: {output:?}");
        Disk { folder }
    }

    fn free(&self) -> u64 {
        let stat = rustix::fs::statvfs(self.folder.path()).unwrap();
        stat.f_bavail * stat.f_frsize
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// Takes all the space that is left; gives the file that holds it.
    fn fill(&self) -> PathBuf {
        let path = self.folder.path().join("ballast");
        let mut file = File::create(&path).unwrap();
        for size in [1 << 20, 4096, 1] {
            while file.write(&vec![1; size]).is_ok_and(|written| written > 0) {}
        }
        path
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Lazily: what was killed a moment ago may still hold it.
        let _ = Command::new("umount").arg("-l").arg(self.folder.path()).status();
    }
}

/// Set in the namespace that a test made for itself.
const INSIDE: &str = "MAINSTEM_TEST_NAMESPACE";

/// Runs a test where it may mount.
fn may_mount(test: &str, body: impl FnOnce()) {
    if rustix::process::geteuid().is_root() {
        return body();
    }
    assert!(std::env::var_os(INSIDE).is_none(), "not even root of its own namespace");
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount"]).arg(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture"]).env(INSIDE, "1");
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("1 passed"),
        "this test mounts a file system: run it as root, or where users may have namespaces of their own \
         (kernel.unprivileged_userns_clone, user.max_user_namespaces): {output:?}"
    );
}

/// A broker with small segments, and an idempotent producer.
struct Bed {
    server: Server,
    client: Client,
    sequence: i32,
}

impl Bed {
    fn start(data: &Path, reserve: u64, sequence: i32) -> Bed {
        let settings = [
            format!("mainstem.disk.reserve={reserve}"),
            "log.segment.bytes=1048576".to_owned(),
            // Longer than any test waits: on a full disk the files go all the same.
            "log.segment.delete.delay.ms=3600000".to_owned(),
            "log.retention.check.interval.ms=500".to_owned(),
            "log.initial.task.delay.ms=500".to_owned(),
        ];
        let more: Vec<&str> = settings.iter().flat_map(|setting| ["--set", setting]).collect();
        let server = Server::start(data, &more);
        let address: SocketAddr = server.address().parse().unwrap();
        Bed { server, client: Client::connect(address), sequence }
    }

    fn create(&mut self, topic: &str) {
        let created: CreateTopicsResponse<'_> = self.client.ask(7, &wire::create_topic(topic, 1, &[]));
        assert_eq!(created.topics[0].error_code, 0, "{created:?}");
    }

    /// Sends the batch of a sequence number: error, offset, message.
    fn send(&mut self, topic: &str, sequence: i32) -> (i16, i64, String) {
        let response: ProduceResponse<'_> = self.client.ask(9, &wire::produce(topic, &[(0, &batch(sequence))]));
        let partition = &response.responses[0].partition_responses[0];
        let message = partition.error_message.as_deref().unwrap_or_default().to_owned();
        (partition.error_code, partition.base_offset, message)
    }

    /// Produces until the first refusal, which it gives. Never more than the disk has.
    fn produce_until_refused(&mut self, topic: &str, pause: Duration) -> String {
        for _ in 0..1000 {
            std::thread::sleep(pause);
            let (error, offset, message) = self.send(topic, self.sequence);
            if error == KAFKA_STORAGE_ERROR {
                return message;
            }
            assert_eq!((error, offset), (0, i64::from(self.sequence)), "{message}");
            self.sequence += 1;
        }
        panic!("the disk does not become full");
    }

    fn wait_until_taken(&mut self, topic: &str) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let (error, offset, message) = self.send(topic, self.sequence);
            if error == 0 {
                assert_eq!(offset, i64::from(self.sequence));
                self.sequence += 1;
                return;
            }
            assert!(Instant::now() < deadline, "writes do not come back: {error} {message}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// The records of partition 0 from an offset to the end, each checked.
    fn read(&mut self, topic: &str, from: i32) {
        for expected in from..self.sequence {
            let mut request = wire::fetch(topic, 0..1);
            request.topics[0].partitions[0].fetch_offset = i64::from(expected);
            request.topics[0].partitions[0].partition_max_bytes = 1;
            let response: FetchResponse<'_> = self.client.ask(11, &request);
            let partition = &response.responses[0].partitions[0];
            assert_eq!(partition.error_code, 0, "{expected}");
            let records = partition.records.as_bytes().unwrap_or_default();
            let expected_batch = batch(expected);
            assert_eq!(records[61..], expected_batch[61..], "the record at {expected}");
        }
    }

    fn delete_records(&mut self, topic: &'static str, before: i64) {
        let partition = delete_records_request::DeleteRecordsPartition { partition_index: 0, offset: before };
        let topic = delete_records_request::DeleteRecordsTopic { name: topic.into(), partitions: vec![partition] };
        let request = DeleteRecordsRequest { topics: vec![topic], timeout_ms: 30_000 };
        let response: DeleteRecordsResponse<'_> = self.client.ask(1, &request);
        let partition = &response.topics[0].partitions[0];
        assert_eq!((partition.error_code, partition.low_watermark), (0, before), "{response:?}");
    }
}

/// The same bytes for the same number.
fn batch(sequence: i32) -> Bytes {
    let value = vec![sequence as u8; VALUE_BYTES];
    let mut builder = BatchBuilder::new().producer(ProducerId(7), ProducerEpoch(0), sequence);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs() / 86_400 * 86_400;
    builder.append(TimestampMs(now as i64 * 1000), None, Some(&value), &[]);
    builder.build().unwrap().into()
}

#[test]
fn below_the_reserve_writes_are_refused_and_come_back_by_themselves() {
    may_mount("below_the_reserve_writes_are_refused_and_come_back_by_themselves", || {
        let disk = Disk::mount(64);
        let mut bed = Bed::start(&disk.data(), 24 * MIB, 0);
        bed.create("filled");
        // As fast as it can.
        let refusal = bed.produce_until_refused("filled", Duration::ZERO);
        assert!(refusal.contains("mainstem.disk.reserve"), "{refusal}");
        assert!(bed.sequence > 20, "{} batches were taken", bed.sequence);
        // The broker's own small files may take some of it.
        assert!(disk.free() >= 24 * MIB - (64 << 10), "{} bytes of the reserve are left", disk.free());
        // What is stored already is acknowledged again, as its producer may not know.
        let last = bed.sequence - 1;
        let (error, offset, message) = bed.send("filled", last);
        assert_eq!((error, offset), (0, i64::from(last)), "{message}");
        // Everything else goes on.
        bed.read("filled", 0);
        bed.create("other");
        assert_eq!(bed.send("other", 0).0, KAFKA_STORAGE_ERROR);
        let keep = i64::from(last) - 12;
        bed.delete_records("filled", keep);
        bed.wait_until_taken("filled");
        bed.read("filled", keep as i32);
        bed.server.signal("TERM");
        assert_eq!(bed.server.exit_code(), Some(0));
    });
}

#[test]
fn a_deleted_topic_frees_a_full_disk_whatever_its_delay_says() {
    may_mount("a_deleted_topic_frees_a_full_disk_whatever_its_delay_says", || {
        let disk = Disk::mount(48);
        let mut bed = Bed::start(&disk.data(), 16 * MIB, 0);
        bed.create("filled");
        bed.produce_until_refused("filled", Duration::ZERO);
        let deleted: DeleteTopicsResponse<'_> = bed.client.ask(
            5,
            &DeleteTopicsRequest { topic_names: vec!["filled".into()], timeout_ms: 30_000, ..Default::default() },
        );
        assert_eq!(deleted.responses[0].error_code, 0, "{deleted:?}");
        bed.create("next");
        bed.sequence = 0;
        bed.wait_until_taken("next");
        bed.server.signal("TERM");
        assert_eq!(bed.server.exit_code(), Some(0));
    });
}

#[test]
fn a_disk_without_a_free_byte_refuses_single_writes_and_is_recovered_from() {
    may_mount("a_disk_without_a_free_byte_refuses_single_writes_and_is_recovered_from", || {
        let disk = Disk::mount(48);
        let mut bed = Bed::start(&disk.data(), 0, 0);
        bed.create("filled");
        bed.produce_until_refused("filled", Duration::ZERO);
        let ballast = disk.fill();
        let refusal = bed.send("filled", bed.sequence);
        assert_eq!(refusal.0, KAFKA_STORAGE_ERROR, "{refusal:?}");
        bed.read("filled", 0);
        bed.server.kill();
        let mut bed = Bed::start(&disk.data(), 8 * MIB, bed.sequence);
        bed.read("filled", 0);
        assert_eq!(bed.send("filled", bed.sequence).0, KAFKA_STORAGE_ERROR);
        std::fs::remove_file(ballast).unwrap();
        let keep = bed.sequence - 8;
        bed.delete_records("filled", keep.into());
        bed.wait_until_taken("filled");
        bed.read("filled", keep);
        bed.server.signal("TERM");
        assert_eq!(bed.server.exit_code(), Some(0));
    });
}
