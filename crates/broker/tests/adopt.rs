//! A folder that a node must not start on is refused, says why, and is left as it was found.

mod support;

use std::path::{Path, PathBuf};

use mainstem_broker::{AdoptError, LoadError, StartError};
use mainstem_env::{Fs, MemFs};
use mainstem_types::NodeId;
use support::{Node, Settings, clock, settings};

fn at(name: &str) -> PathBuf {
    Path::new("/data").join(name)
}

fn text(fs: &MemFs, name: &str) -> String {
    String::from_utf8(fs.read_all(&at(name)).expect("a file")).expect("text")
}

/// A node that was stopped orderly.
fn stopped() -> (MemFs, Settings) {
    let (fs, settings) = (MemFs::new(), settings(&[]));
    let node = Node::start(&fs, &clock(), &settings, 1).expect("a new folder");
    node.broker.shutdown();
    drop(node);
    (fs, settings)
}

/// Tries to start, which must not change anything.
fn refusal(fs: &MemFs, settings: &Settings) -> AdoptError {
    let mark = text(fs, ".kafka_cleanshutdown");
    let Err(StartError::Adopt(refused)) = Node::start(fs, &clock(), settings, 2) else { panic!("it started") };
    assert_eq!(text(fs, ".kafka_cleanshutdown"), mark);
    assert!(!fs.exists(&at("abort")).expect("a look"));
    refused
}

#[test]
fn a_folder_with_other_voters_is_refused() {
    let (fs, settings) = stopped();
    let state = text(&fs, "__cluster_metadata-0/quorum-state");
    let with_others = state.replace("{\"voterId\":1}", "{\"voterId\":1},{\"voterId\":2}");
    assert_ne!(state, with_others);
    fs.atomic_write(&at("__cluster_metadata-0/quorum-state"), with_others.as_bytes()).expect("a write");
    match refusal(&fs, &settings) {
        AdoptError::Load(LoadError::OtherVoters { others, .. }) => assert_eq!(others, [NodeId(2)]),
        other => panic!("{other}"),
    }
    assert_eq!(text(&fs, "__cluster_metadata-0/quorum-state"), with_others);
    fs.atomic_write(&at("__cluster_metadata-0/quorum-state"), state.as_bytes()).expect("a write");
    Node::start(&fs, &clock(), &settings, 3).expect("its own folder");
}

#[test]
fn a_folder_whose_partitions_are_elsewhere_is_refused() {
    let (fs, settings) = stopped();
    let properties = text(&fs, "meta.properties");
    let line = properties.lines().find(|line| line.starts_with("directory.id=")).expect("a directory id");
    let other = properties.replace(line, "directory.id=AAAAAAAAAAAAAAAAAAAAZQ");
    fs.atomic_write(&at("meta.properties"), other.as_bytes()).expect("a write");
    match refusal(&fs, &settings) {
        AdoptError::OtherFolders { own, others, .. } => {
            assert_eq!((own.to_string().as_str(), others.len()), ("AAAAAAAAAAAAAAAAAAAAZQ", 1));
        }
        other => panic!("{other}"),
    }
}

#[test]
fn partitions_without_a_metadata_log_are_not_taken_for_strays() {
    let (fs, settings) = stopped();
    fs.create_dir_all(&at("orders-0")).expect("a folder");
    fs.rename(&at("__cluster_metadata-0"), Path::new("/elsewhere")).expect("a rename");
    assert!(matches!(refusal(&fs, &settings), AdoptError::NoMetadata { partitions: 1, .. }));
    assert!(fs.exists(&at("orders-0")).expect("a look") && !fs.exists(&at("__cluster_metadata-0")).expect("a look"));
}

#[test]
fn commit_logs_without_a_metadata_log_are_not_taken_for_those_of_deleted_topics() {
    let (fs, settings) = stopped();
    fs.create_dir_all(&at("mainstem/shared-0/commitlog")).expect("a folder");
    fs.rename(&at("__cluster_metadata-0"), Path::new("/elsewhere")).expect("a rename");
    assert!(matches!(refusal(&fs, &settings), AdoptError::NoMetadataOfGroups { .. }));
    assert!(fs.exists(&at("mainstem/shared-0")).expect("a look"));
}

#[test]
fn a_folder_of_another_node_is_refused() {
    let (fs, mut settings) = stopped();
    settings.retain(|(key, _)| *key != "node.id");
    settings.push(("node.id", "7"));
    assert!(matches!(refusal(&fs, &settings), AdoptError::NodeId { found: NodeId(1), wanted: NodeId(7), .. }));
}
