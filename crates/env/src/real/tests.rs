use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;

use super::*;
use crate::FileSlice;

fn file_with(bytes: &[u8]) -> (tempfile::TempDir, Arc<dyn File>) {
    let folder = tempfile::tempdir().unwrap();
    let file = RealFs.open(&folder.path().join("f"), &OpenOptions::create_new()).unwrap();
    file.write_all_at(bytes, 0).unwrap();
    (folder, file)
}

fn connection() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (listener.accept().unwrap().0, client)
}

#[test]
fn many_parts_are_written_in_order() {
    let (_folder, file) = file_with(b"");
    let numbers: Vec<[u8; 4]> = (0..3_000u32).map(u32::to_be_bytes).collect();
    let parts: Vec<IoSlice<'_>> = numbers.iter().map(|number| IoSlice::new(number)).collect();
    file.write_all_vectored_at(&parts, 5).unwrap();
    let mut bytes = vec![0; 12_000];
    file.read_exact_at(&mut bytes, 5).unwrap();
    assert_eq!(bytes, numbers.concat());
    assert_eq!(file.len().unwrap(), 12_005);
}

#[test]
fn reserved_space_is_not_length_and_is_given_back() {
    let (folder, file) = file_with(b"12345");
    file.allocate_keep_size(0, 1 << 20).unwrap();
    assert_eq!(file.len().unwrap(), 5);
    file.set_len(5).unwrap();
    file.sync_data().unwrap();
    let blocks = std::os::unix::fs::MetadataExt::blocks(&fs::metadata(folder.path().join("f")).unwrap());
    assert!(blocks * 512 < 1 << 20, "{blocks} blocks are still reserved");
}

#[test]
fn a_slice_is_sent_whole_also_after_its_file_is_deleted() {
    let bytes: Vec<u8> = (0..300_000u32).map(|i| (i % 251) as u8).collect();
    let (folder, file) = file_with(&bytes);
    RealFs.remove_file(&folder.path().join("f")).unwrap();
    let (sender, mut receiver) = connection();
    let mut slice = FileSlice::new(file, 1_000, 250_000);
    let reader = std::thread::spawn(move || {
        let mut received = Vec::new();
        receiver.read_to_end(&mut received).unwrap();
        received
    });
    while !slice.is_empty() {
        assert!(slice.send_to(sender.as_fd(), 70_000).unwrap() > 0);
    }
    drop(sender);
    assert!(reader.join().unwrap() == bytes[1_000..251_000]);
}

#[test]
fn a_socket_that_takes_nothing_says_would_block() {
    let (_folder, file) = file_with(&vec![7; 8 << 20]);
    let (sender, _receiver) = connection();
    sender.set_nonblocking(true).unwrap();
    let mut slice = FileSlice::new(file, 0, 8 << 20);
    let error = loop {
        match slice.send_to(sender.as_fd(), usize::MAX) {
            Ok(sent) => assert!(sent > 0, "the socket took all 8 MiB"),
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
}

#[test]
fn what_was_just_written_is_read_without_waiting() {
    let (_folder, file) = file_with(b"hello");
    let mut bytes = [0; 9];
    match file.try_read_at_nowait(&mut bytes, 0).unwrap() {
        Some(count) => assert_eq!(&bytes[..count], b"hello"),
        None => assert_eq!(file.residency(0, 5).unwrap(), Residency::Unknown),
    }
    assert_ne!(file.residency(0, 5).unwrap(), Residency::Partial);
    assert_eq!(file.residency(0, 0).unwrap(), Residency::Resident);
    file.start_writeback(0, 5).unwrap();
    for advice in [Advice::Normal, Advice::Sequential, Advice::Random, Advice::WillNeed, Advice::DontNeed] {
        file.advise(0, 5, advice).unwrap();
    }
}

#[test]
fn absent_is_an_answer_and_unreadable_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let absent = folder.path().join("absent");
    assert_eq!(RealFs.metadata(&absent).unwrap(), None);
    assert_eq!(RealFs.read_if_present(&absent).unwrap(), None);
    assert!(RealFs.read_if_present(folder.path()).is_err());
    assert_eq!(RealFs.open(&absent, &OpenOptions::read()).unwrap_err().kind(), io::ErrorKind::NotFound);
    let (free, total) = (RealFs.free_space(folder.path()).unwrap(), RealFs.total_space(folder.path()).unwrap());
    assert!(0 < free && free <= total, "{free} of {total}");
}

#[test]
fn one_handle_alone_has_the_lock() {
    let (folder, file) = file_with(b"");
    let other = RealFs.open(&folder.path().join("f"), &OpenOptions::read_write()).unwrap();
    assert!(file.try_lock().unwrap());
    assert!(!other.try_lock().unwrap());
    drop(file);
    assert!(other.try_lock().unwrap());
}

/// Holds a record lock on a file, as a Java program does, until its standard input ends.
const HOLDER: &str = r#"
import fcntl, sys
file = open(sys.argv[1], "r+b")
try:
    fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    print("locked", flush=True)
except OSError:
    print("refused", flush=True)
sys.stdin.read()
"#;

struct Holder {
    process: std::process::Child,
    said: String,
}

fn hold(path: &Path) -> Holder {
    let mut command = std::process::Command::new("python3");
    command.args(["-c", HOLDER]).arg(path);
    command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
    let mut process = command.spawn().expect("python3, which the tests of real clients need too");
    let mut said = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(process.stdout.as_mut().unwrap()), &mut said).unwrap();
    Holder { process, said }
}

impl Holder {
    fn end(mut self) {
        drop(self.process.stdin.take());
        self.process.wait().unwrap();
    }
}

#[test]
fn a_program_that_locks_with_fcntl_excludes_us_and_we_exclude_it() {
    let (folder, file) = file_with(b"");
    let path = folder.path().join("f");
    let holder = hold(&path);
    assert_eq!(holder.said, "locked\n");
    assert!(!file.try_lock().unwrap());
    assert!(!file.try_lock().unwrap(), "nothing is left of the first try");
    assert!(!portable::try_record_lock(file.as_fd().unwrap()).unwrap());
    holder.end();
    assert!(file.try_lock().unwrap());
    // Reading the file elsewhere in the process, as a second start does to name the holder, does not take the lock
    // away.
    RealFs.read_all(&path).unwrap();
    let holder = hold(&path);
    assert_eq!(holder.said, "refused\n");
    holder.end();
    drop(file);
    let holder = hold(&path);
    assert_eq!(holder.said, "locked\n");
    holder.end();
}

#[test]
fn the_limit_of_open_files_is_raised_to_the_hard_one() {
    let limit = raise_open_files_limit().unwrap();
    assert!(limit >= 1024, "{limit}");
    assert_eq!(raise_open_files_limit().unwrap(), limit);
}

#[test]
fn small_files_are_replaced_and_directories_made_durably() {
    let folder = tempfile::tempdir().unwrap();
    let deep = folder.path().join("a/b/c");
    RealFs.create_dir_all_synced(&deep).unwrap();
    RealFs.create_dir_all_synced(&deep).unwrap();
    RealFs.atomic_write(&deep.join("f"), b"one").unwrap();
    RealFs.atomic_write(&deep.join("f"), b"two").unwrap();
    assert_eq!(RealFs.read_all(&deep.join("f")).unwrap(), b"two");
    let names: Vec<_> = RealFs.read_dir(&deep).unwrap().into_iter().map(|entry| entry.name).collect();
    assert_eq!(names, ["f"]);
}

#[test]
fn the_portable_fallback_sends_the_same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let mut file = fs::File::create_new(folder.path().join("f")).unwrap();
    file.write_all(&[9; 100_000]).unwrap();
    let file = fs::File::open(folder.path().join("f")).unwrap();
    let (sender, mut receiver) = connection();
    let mut sent = 0;
    while sent < 100_000 {
        sent += portable::send(&file, sender.as_fd(), sent as u64, 100_000 - sent).unwrap();
    }
    assert_eq!(portable::send(&file, sender.as_fd(), 100_000, 10).unwrap(), 0);
    drop(sender);
    let mut received = Vec::new();
    receiver.read_to_end(&mut received).unwrap();
    assert!(received == [9; 100_000]);

    let fd = file.as_fd();
    assert_eq!(portable::try_read_at_nowait(fd, &mut [0; 4], 0).unwrap(), None);
    assert_eq!(portable::residency(fd, 0, 4).unwrap(), Residency::Unknown);
    portable::allocate_keep_size(fd, 0, 4).unwrap();
    portable::advise(fd, 0, 4, Advice::Random).unwrap();
    portable::start_writeback(fd, 0, 4).unwrap();
}

#[test]
fn a_file_system_is_synced_where_the_system_tells_of_errors() {
    let file = tempfile::tempfile().unwrap();
    assert!(!portable::sync_file_system(file.as_fd()).unwrap());
    // Whether it can depends on the kernel; that it succeeds does not.
    system::sync_file_system(file.as_fd()).unwrap();
    let other = std::fs::File::open("/proc/self/stat");
    assert!(other.is_err() || !system::sync_file_system(other.unwrap().as_fd()).unwrap(), "a kind that may not tell");
    let folder = tempfile::tempdir().unwrap();
    let id = |path: &Path| RealFs.file_system_id(path).unwrap();
    assert_eq!(id(folder.path()), id(folder.path().parent().unwrap()));
    assert_ne!(id(folder.path()), id(Path::new("/proc")));
}
