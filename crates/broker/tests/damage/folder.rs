//! A data folder with every kind of file, and what its clients know of it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mainstem_env::{Clock, CrashPolicy, Fs, ManualClock, MemFs};
use mainstem_record::{BatchBuilder, ControlRecord};
use mainstem_store::Origin;
use mainstem_types::{ProducerEpoch, ProducerId};

use crate::support::check::note;
use crate::support::{Client, Ledger, Node, Settings, clock, settings};

pub const ROOT: &str = "/data";
/// The topic that has a key index.
pub const KEYED: &str = "keyed";

/// How the folder was left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Left {
    Orderly,
    Killed,
}

pub struct Folder {
    pub left: Left,
    pub fs: MemFs,
    pub ledger: Ledger,
    pub clock: Arc<ManualClock>,
    pub settings: Settings,
}

impl Folder {
    pub fn make(left: Left) -> Folder {
        Folder::lived(left, live)
    }

    /// One with a key index, whose files are large: of one topic alone.
    pub fn keyed(left: Left) -> Folder {
        Folder::lived(left, |client| {
            client.create(&[(KEYED, 1, &KEYS)]);
            for _ in 0..3 {
                client.produce(KEYED, 0, 4);
                client.node.broker.write_checkpoints().expect("checkpoints");
            }
            client.produce(KEYED, 0, 2);
        })
    }

    fn lived(left: Left, live: impl Fn(&mut Client<'_>)) -> Folder {
        let (fs, clock) = (MemFs::new(), clock());
        let settings = settings(&[("mainstem.commitlog.file.bytes", "1048576"), ("mainstem.shared.groups", "1")]);
        let node = Node::start(&fs, &clock, &settings, 7).expect("a new folder");
        let mut client = Client::new(&node, Ledger::default());
        live(&mut client);
        note(&node, &mut client.ledger);
        let mut ledger = client.ledger;
        let killed = fs.crash(CrashPolicy::Everything);
        drop(node);
        let fs = if left == Left::Killed { killed } else { fs };
        // Members have sessions; time does not stand still between the starts of this test.
        ledger.members.clear();
        Folder { left, fs: fs.crash(CrashPolicy::Everything), ledger, clock, settings }
    }

    pub fn copy(&self) -> MemFs {
        self.fs.crash(CrashPolicy::Everything)
    }
}

const SHARED: (&str, &str) = ("mainstem.layout", "shared");
const TOPIC: [(&str, &str); 2] = [("mainstem.layout", "topic"), ("mainstem.groups", "2")];
const KEYS: [(&str, &str); 1] = [("mainstem.key.index", "all")];
const ROLLING: [(&str, &str); 2] = [("segment.ms", "1000"), ("index.interval.bytes", "1")];

fn live(client: &mut Client<'_>) {
    client.create_offsets_topic();
    client.create(&[
        (KEYED, 1, &KEYS),
        ("rolled", 1, &ROLLING),
        ("plain", 2, &[]),
        ("shared", 2, &[SHARED]),
        ("grouped", 2, &TOPIC),
    ]);
    let mut producer = client.producer().expect("a producer id");
    for round in 0..4 {
        client.produce_as(&mut producer, "rolled", 0, 2);
        client.produce("rolled", 0, 3);
        if round == 1 {
            transaction(client, "rolled");
        }
        for (topic, index) in [("plain", 0), ("plain", 1), ("shared", 0), ("shared", 1), ("grouped", 0), ("grouped", 1)]
        {
            client.produce(topic, index, 1 + round);
        }
        client.commit("group", "plain", 0, 1 + round as i64);
        client.advance(1_500);
        if round < 2 {
            client.node.wait(client.node.broker.snapshot_metadata()).expect("a snapshot");
        }
        if round == 2 {
            client.delete_records("plain", 1, 2);
            client.delete_records("shared", 1, 2);
            client.create(&[("late", 1, &[])]);
            client.node.broker.write_checkpoints().expect("checkpoints");
        }
    }
    client.produce("late", 0, 2);
    client.create(&[("last", 1, &[])]);
    client.produce("last", 0, 1);
}

/// A transaction that is aborted: its records are there, with a mark. The ledger knows them as any others.
fn transaction(client: &mut Client<'_>, topic: &str) {
    let id = client.ledger.topic_named(topic).expect("created");
    let partition = client.node.partition(id, 0).expect("served");
    let now = client.node.clock.wall_ms();
    let producer = |builder: BatchBuilder| builder.producer(ProducerId(77), ProducerEpoch(0), 0).transactional();
    let mut records = producer(BatchBuilder::new());
    records.append(now, None, Some(b"aborted"), &[]);
    let mut marker = BatchBuilder::new().producer(ProducerId(77), ProducerEpoch(0), -1).transactional();
    marker.append_control(now, &ControlRecord::EndTransaction { committed: false, coordinator_epoch: 1 });
    for builder in [&mut records, &mut marker] {
        let batch = std::mem::take(builder).build().expect("a batch");
        partition.append(&batch.into(), Origin::Coordinator, now, true).expect("appended");
    }
}

/// All files below the folder, with their contents.
pub fn files(fs: &MemFs) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![PathBuf::from(ROOT)];
    while let Some(folder) = folders.pop() {
        for entry in fs.read_dir(&folder).expect("a folder") {
            let path = folder.join(&entry.name);
            if entry.is_dir {
                folders.push(path);
            } else {
                let bytes = fs.read_all(&path).expect("a file");
                found.insert(path, bytes);
            }
        }
    }
    found
}

/// What the loss of a file may cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Records of partitions are there alone.
    Records,
    /// The metadata are there alone.
    Metadata,
    /// Whose folder it is.
    Identity,
    /// Log starts are there alone; nothing but numbers, without a checksum.
    LogStarts,
    /// It can be made again from others.
    View,
}

pub fn kind(path: &Path) -> Kind {
    let name = path.file_name().and_then(|name| name.to_str()).expect("a name");
    let text = path.to_str().expect("text");
    let in_metadata = text.contains("/__cluster_metadata-0/");
    match name {
        "meta.properties" => Kind::Identity,
        "log-start-offset-checkpoint" => Kind::LogStarts,
        "checkpoint" | "checkpoint.old" if text.contains("/mainstem/") => Kind::LogStarts,
        _ if in_metadata && (name.ends_with(".log") || name.ends_with(".checkpoint")) => Kind::Metadata,
        _ if name.ends_with(".log") || text.contains("/commitlog/") => Kind::Records,
        _ => Kind::View,
    }
}
