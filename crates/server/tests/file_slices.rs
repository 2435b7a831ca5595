//! Replies with parts of files: sendfile, its fallback, and disks that are slow or fail.

mod support;

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

use mainstem_env::{Advice, File, FileSlice, Residency};
use support::*;

/// Slices below and above each threshold, with odd positions.
const SLICES_OF: [(u64, u64); 7] =
    [(0, 1), (1, 100), (7, 32 << 10), (9, (32 << 10) + 1), (11, 1 << 20), (3, (3 << 20) + 77), (5, 0)];

fn expected(content: &[u8]) -> Vec<u8> {
    SLICES_OF
        .iter()
        .flat_map(|(position, len)| [&content[*position as usize..][..*len as usize], b"|"].concat())
        .collect()
}

fn check(file: Arc<dyn File>, content: &[u8]) {
    let (server, door) = start(config());
    *door.slices.lock().unwrap() =
        SLICES_OF.iter().map(|(position, len)| FileSlice::new(Arc::clone(&file), *position, *len)).collect();
    let mut client = Client::connect(&server);
    for id in 0..3 {
        client.send(SLICES, id, b"");
        let (correlation, body) = client.receive();
        assert_eq!(correlation, id);
        assert!(body == expected(content), "the content of reply {id}");
        client.echo(100 + id);
    }
}

#[test]
fn slices_of_real_files_are_sent_whole() {
    let content = pattern(4 << 20);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("slices");
    std::fs::write(&path, &content).unwrap();
    let fs = mainstem_env::RealFs;
    let file = mainstem_env::Fs::open(&fs, &path, &mainstem_env::OpenOptions::read()).unwrap();
    check(file, &content);
}

#[test]
fn slices_of_files_in_memory_are_sent_whole() {
    let content = pattern(4 << 20);
    let fs = mainstem_env::MemFs::new();
    let path = std::path::Path::new("/slices");
    let file = mainstem_env::Fs::open(&fs, path, &mainstem_env::OpenOptions::create_new()).unwrap();
    file.write_all_at(&content, 0).unwrap();
    check(file, &content);
}

#[test]
fn cold_slices_are_read_off_the_reactor_and_sent_whole() {
    let content = pattern(4 << 20);
    let file = ColdFile::new(content.clone());
    file.gate.open();
    check(file, &content);
}

#[test]
fn a_slow_disk_delays_no_other_connection() {
    for len in [1000, 2 << 20] {
        let file = ColdFile::new(pattern(2 << 20));
        let (server, door) = start(config());
        *door.slices.lock().unwrap() = vec![FileSlice::new(file.clone(), 0, len)];
        let mut slow = Client::connect(&server);
        slow.send(SLICES, 1, b"");
        eventually("the read hangs", || file.gate.arrived.load(SeqCst) == 1);
        let mut client = Client::connect(&server);
        for id in 0..100 {
            client.echo(id);
        }
        assert!(server.totals().slow_reads >= 1);
        file.gate.open();
        let (_, body) = slow.receive();
        assert!(body[..len as usize] == pattern(2 << 20)[..len as usize]);
        slow.echo(2);
    }
}

#[test]
fn a_client_that_leaves_during_a_slow_read_frees_its_connection() {
    let file = ColdFile::new(pattern(1000));
    let (server, door) = start(config());
    *door.slices.lock().unwrap() = vec![FileSlice::new(file.clone(), 0, 1000)];
    let mut slow = Client::connect(&server);
    slow.send(SLICES, 1, b"");
    eventually("the read hangs", || file.gate.arrived.load(SeqCst) == 1);
    socket2::SockRef::from(&slow.socket).set_linger(Some(std::time::Duration::ZERO)).unwrap();
    drop(slow);
    eventually("the connection is gone", || server.totals().connections == 0);
    file.gate.open();
}

#[test]
fn a_disk_error_or_a_file_too_short_ends_the_connection_alone() {
    for len in [1000, 100_000] {
        let failing = ColdFile { content: pattern(200_000), gate: Gate::default(), fail: true };
        let short = ColdFile { content: pattern(10), gate: Gate::default(), fail: false };
        for file in [failing, short] {
            file.gate.open();
            let (server, door) = start(config());
            *door.slices.lock().unwrap() = vec![FileSlice::new(Arc::new(file), 0, len)];
            let mut client = Client::connect(&server);
            let mut bystander = Client::connect(&server);
            client.send(SLICES, 1, b"");
            eventually("the connection is gone", || server.totals().requests > 0 && server.totals().connections == 1);
            bystander.echo(2);
        }
    }
}

/// Bytes of a file that are in memory.
fn resident(file: &Arc<dyn File>, len: u64) -> u64 {
    let step = 64 << 10;
    let is_resident = |position: &u64| matches!(file.residency(*position, step), Ok(Residency::Resident));
    (0..len).step_by(step as usize).filter(is_resident).count() as u64 * step
}

#[test]
fn who_reads_old_records_does_not_fill_the_memory_and_takes_nothing_from_who_reads_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let (old_len, end_len) = (48 << 20, 2 << 20);
    let open = |name: &str, len: usize| {
        let options = mainstem_env::OpenOptions::create_new();
        let file = mainstem_env::Fs::open(&mainstem_env::RealFs, &folder.path().join(name), &options).unwrap();
        file.write_all_at(&pattern(len), 0).unwrap();
        file.sync_data().unwrap();
        file
    };
    let (old, end) = (open("old", old_len), open("end", end_len));
    old.advise(0, old_len as u64, Advice::DontNeed).unwrap();
    if resident(&old, old_len as u64) > 0 {
        return eprintln!("not tested: the file system of {} keeps files in memory", folder.path().display());
    }
    let (server, door) = start(config());
    let (mut behind, mut tail) = (Client::connect(&server), Client::connect(&server));
    let content = pattern(old_len);
    let fetch = |client: &mut Client, file: &Arc<dyn File>, position: usize, len: usize, id: i32| {
        *door.slices.lock().unwrap() = vec![FileSlice::new(Arc::clone(file), position as u64, len as u64)];
        client.send(SLICES, id, b"");
        let (_, body) = client.receive();
        assert!(body[..len] == content[position..][..len], "reply {id}");
    };
    let mut slow = 0;
    for (id, position) in (0..old_len).step_by(3 << 20).enumerate() {
        fetch(&mut behind, &old, position, 3 << 20, id as i32);
        slow = server.totals().slow_reads;
        fetch(&mut tail, &end, 0, end_len, id as i32);
        assert_eq!(server.totals().slow_reads, slow, "the end is in memory");
    }
    assert!(slow > 0);
    let left = resident(&old, old_len as u64);
    assert!(left <= 12 << 20, "{left} bytes of {old_len} are still in memory");
    let totals = server.totals();
    assert!(totals.quick_reads + totals.slow_reads >= 48 + 16 * 2, "{totals:?}");
    assert!(totals.memory_share() > 0.3, "{totals:?}");
}
