//! A broker under attack, and the client that must not notice.

use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use mainstem_kafka_wire::messages::{CreateTopicsResponse, ProduceResponse};

use crate::support::{PATIENCE, Server, mainstem};
use crate::wire::{self, Client};

/// The longest that a well-behaved client waits for one answer, on a busy machine and with an unoptimised broker.
/// Without the attackers it waits a millisecond.
const CALM_LATENCY_MAX: Duration = Duration::from_secs(3);
const CALM_TOPIC: &str = "calm";
const CALM_PAUSE: Duration = Duration::from_millis(5);

pub const MIB: u64 = 1 << 20;

pub struct Bed {
    server: Server,
    _folder: tempfile::TempDir,
    pub address: SocketAddr,
    memory_at_start: u64,
    log: PathBuf,
    /// Answers that the well-behaved client has got.
    calm_requests: Arc<AtomicUsize>,
}

impl Bed {
    pub fn start(settings: &[&str]) -> Bed {
        Bed::start_command(mainstem(&["serve"]), settings)
    }

    /// The broker may have so many files and connections open at a time.
    pub fn start_with_descriptors(descriptors: u64) -> Bed {
        let mut command = Command::new("prlimit");
        command.arg(format!("--nofile={descriptors}:{descriptors}")).arg(mainstem(&[]).get_program()).arg("serve");
        Bed::start_command(command, &[])
    }

    fn start_command(mut command: Command, settings: &[&str]) -> Bed {
        let folder = tempfile::tempdir().unwrap();
        command.args(["--listen", "127.0.0.1:0", "--data-dir"]).arg(folder.path());
        // One reactor, so that whoever holds it up holds up everybody.
        let settings = [&["num.network.threads=1"], settings].concat();
        command.args(settings.iter().flat_map(|setting| ["--set", setting]));
        let log = folder.path().with_extension("log");
        command.stderr(std::fs::File::create(&log).unwrap());
        let server = Server::start_saying(command);
        let address = server.address().parse().unwrap();
        let mut bed = Bed { server, _folder: folder, address, memory_at_start: 0, log, calm_requests: Arc::default() };
        bed.create_topic(CALM_TOPIC, 1, &[]);
        bed.memory_at_start = bed.memory("VmHWM:");
        bed
    }

    pub fn create_topic(&self, name: &str, partitions: i32, configs: &[(&str, &str)]) {
        let mut client = self.connect();
        let response: CreateTopicsResponse<'_> = client.ask(7, &wire::create_topic(name, partitions, configs));
        assert_eq!(response.topics[0].error_code, 0, "{response:?}");
    }

    pub fn connect(&self) -> Client {
        Client::connect(self.address)
    }

    pub fn socket(&self) -> TcpStream {
        wire::socket(self.address)
    }

    /// Runs an attack while a client goes on producing. At the end the broker lives, the client was always served soon,
    /// and the memory of the broker never grew by more than `memory_max`.
    pub fn endure(&self, what: &str, memory_max: u64, attack: impl FnOnce(&Bed)) {
        let began = Instant::now();
        let over = Arc::new(AtomicBool::new(false));
        let (served, is_served) = std::sync::mpsc::channel();
        let calm = {
            let (address, over, requests) = (self.address, Arc::clone(&over), Arc::clone(&self.calm_requests));
            std::thread::spawn(move || behave(address, &over, &served, &requests))
        };
        is_served.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("{what}: not even the first request was served"));
        let guard = SetOnDrop(over);
        attack(self);
        drop(guard);
        let waits = calm.join().unwrap_or_else(|_| panic!("{what}: the well-behaved client failed"));
        let longest = waits.iter().max().copied().unwrap_or_default();
        let grown = self.grown();
        println!(
            "{what}: {:.1} s, memory grew by {:.1} MiB, {} calm requests, the longest waited {} ms",
            began.elapsed().as_secs_f64(),
            grown as f64 / MIB as f64,
            waits.len(),
            longest.as_millis()
        );
        assert!(!waits.is_empty(), "{what}: nobody was served");
        assert!(longest < CALM_LATENCY_MAX, "{what}: a well-behaved client waited {longest:?}");
        assert!(grown < memory_max, "{what}: the broker's memory grew by {grown} bytes, more than {memory_max}");
    }

    /// Waits until the well-behaved client has got so many more answers.
    pub fn wait_for_calm_requests(&self, count: usize) {
        let (began, until) = (Instant::now(), self.calm_requests.load(Ordering::SeqCst) + count);
        while self.calm_requests.load(Ordering::SeqCst) < until {
            assert!(began.elapsed() < PATIENCE, "the well-behaved client is not served any more");
            std::thread::sleep(CALM_PAUSE);
        }
    }

    /// The most memory that the broker ever had since it started, without what it had then.
    pub fn grown(&self) -> u64 {
        self.memory("VmHWM:").saturating_sub(self.memory_at_start)
    }

    /// What the broker said so far.
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap()
    }

    pub fn log_lines(&self, with: &str) -> usize {
        self.log().lines().filter(|line| line.contains(with)).count()
    }

    /// Of the broker, all threads together.
    pub fn processor_time(&self) -> Duration {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.server.id())).unwrap();
        let fields: Vec<&str> = stat.rsplit(") ").next().unwrap().split(' ').collect();
        // User and system time, in hundredths of a second.
        let ticks: u64 = fields[11..13].iter().map(|field| field.parse::<u64>().unwrap()).sum();
        Duration::from_millis(ticks * 10)
    }

    fn memory(&self, field: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.server.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the broker said:\n{}", self.log());
        }
        let _ = std::fs::remove_file(&self.log);
    }
}

struct SetOnDrop(Arc<AtomicBool>);

impl Drop for SetOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Produces one record after the other until it is over; gives how long each took.
fn behave(address: SocketAddr, over: &AtomicBool, served: &Sender<()>, requests: &AtomicUsize) -> Vec<Duration> {
    let mut client = Client::connect(address);
    let batch = wire::batch(mainstem_record::Codec::None, &[&[7; 1024]]);
    let mut waits = Vec::new();
    let mut next = None;
    while !over.load(Ordering::SeqCst) {
        let began = Instant::now();
        let response: ProduceResponse<'_> = client.ask(9, &wire::produce(CALM_TOPIC, &[(0, &batch)]));
        waits.push(began.elapsed());
        let partition = &response.responses[0].partition_responses[0];
        let expected = next.unwrap_or(partition.base_offset);
        assert_eq!((partition.error_code, partition.base_offset), (0, expected), "{response:?}");
        next = Some(expected + 1);
        // Only the first time somebody listens.
        let _ = served.send(());
        requests.fetch_add(1, Ordering::SeqCst);
        std::thread::sleep(CALM_PAUSE);
    }
    waits
}
