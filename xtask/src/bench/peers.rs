//! The processes that are measured: the floor, Mainstem, and a real Kafka.

use crate::test::Places;
use crate::test::broker::free_port;
use crate::test::process::{end_group, spawn_logged, wait};
use anyhow::{Context, Result, bail, ensure};
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const START_LIMIT: Duration = Duration::from_secs(180);
/// Of a Kafka that still removes the folders of tens of thousands of partitions.
const STOP_LIMIT: Duration = Duration::from_secs(600);
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(1);
/// Linux counts a process's time in hundredths of a second.
const TICKS_PER_SECOND: f64 = 100.0;
/// What librdkafka and `mainstem bench` put into a Produce request by default, about.
const FRAME_BYTES: u64 = 128 << 10;
/// What consumers ask a partition for by default.
const PIECE_BYTES: u64 = 1 << 20;

/// A broker that runs.
pub struct Peer {
    pub name: &'static str,
    /// From the start of the process to the first connection that it accepts.
    pub start_ms: f64,
    port: u16,
    child: Child,
}

impl Peer {
    /// Mainstem under a name of the table; its data folder has that name, too.
    pub fn mainstem(name: &'static str, binary: &Path, run: &Path, settings: &[String]) -> Result<Peer> {
        let port = free_port()?;
        let mut command = Command::new(binary);
        command.args(["serve", "--listen", &format!("127.0.0.1:{port}"), "--data-dir"]).arg(run.join(name));
        command.args(settings.iter().map(|setting| format!("--set={setting}")));
        Peer::start(name, command, port, &run.join(format!("{name}.log")))
    }

    /// Kafka as `tests/peers/kafka.sh` starts it. Its folder is formatted, and its files are fetched, before the clock
    /// starts.
    pub fn kafka(places: &Places, run: &Path) -> Result<Peer> {
        let (port, controller) = (free_port()?, free_port()?);
        let of = |what: &str| {
            let mut command = Command::new(places.root.join("tests/peers/kafka.sh"));
            command.arg(what).arg(run.join("kafka")).arg(port.to_string());
            command.env("CONTROLLER_PORT", controller.to_string()).env("MAINSTEM_CLIENTS_DIR", &places.clients);
            command.env("HEAP", "1g");
            command
        };
        let formatted = of("format").stdin(Stdio::null()).status().context("cannot start tests/peers/kafka.sh")?;
        ensure!(formatted.success(), "tests/peers/kafka.sh cannot format a folder");
        Peer::start("Kafka", of("serve"), port, &run.join("kafka.log"))
    }

    fn start(name: &'static str, command: Command, port: u16, log: &Path) -> Result<Peer> {
        let begun = Instant::now();
        let mut child = spawn_logged(command, log)?;
        while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
            let ended = child.try_wait()?;
            if ended.is_some() || begun.elapsed() > START_LIMIT {
                end_group(&child, "KILL");
                child.wait()?;
                let text = std::fs::read_to_string(log).unwrap_or_default();
                bail!("{name} did not start: {}", text.lines().last().unwrap_or_default());
            }
            std::thread::sleep(LOOK_AGAIN_AFTER);
        }
        Ok(Peer { name, start_ms: begun.elapsed().as_secs_f64() * 1e3, port, child })
    }

    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn memory(&self) -> Result<Memory> {
        Memory::of(&std::fs::read_to_string(format!("/proc/{}/status", self.pid()))?)
    }

    pub fn stop(mut self) -> Result<()> {
        end_group(&self.child, "TERM");
        ensure!(wait(&mut self.child, STOP_LIMIT)?.is_some(), "{} did not stop", self.name);
        Ok(())
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            end_group(&self.child, "KILL");
            // A process that was killed ends; there is nobody to tell that it could not be waited for.
            let _ = self.child.wait();
        }
    }
}

/// What a process has in memory, in MB (1e6 bytes).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Memory {
    /// With pages of files, its program among them, which the system can take back at any time.
    pub resident_mb: f64,
    /// What the process itself filled.
    pub own_mb: f64,
}

impl Memory {
    fn of(status: &str) -> Result<Memory> {
        let megabytes = |key: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(key)).with_context(|| format!("no {key}"))?;
            let kib: f64 = line.trim().trim_end_matches(" kB").parse()?;
            anyhow::Ok(kib * 1024.0 / 1e6)
        };
        Ok(Memory { resident_mb: megabytes("VmRSS:")?, own_mb: megabytes("RssAnon:")? })
    }
}

/// Which work the floor does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// Receive, checksum, write, acknowledge.
    Produce,
    /// Receive a request, `sendfile`.
    Consume,
}

/// A server of `tests/peers/floor.rs` that runs.
pub struct Floor {
    program: PathBuf,
    work: Work,
    address: String,
    child: Child,
    file: PathBuf,
}

impl Floor {
    /// For [`Work::Consume`] the file has `bytes` bytes, which are in the page cache.
    pub fn start(program: &Path, work: Work, run: &Path, bytes: u64) -> Result<Floor> {
        let file = run.join("floor.dat");
        let word = match work {
            Work::Produce => "produce",
            Work::Consume => {
                let piece = vec![7; PIECE_BYTES as usize];
                let mut out = std::fs::File::create(&file)?;
                for _ in 0..(bytes / PIECE_BYTES).max(1) {
                    std::io::Write::write_all(&mut out, &piece)?;
                }
                "consume"
            }
        };
        let mut child =
            Command::new(program).arg(word).arg(&file).stdout(Stdio::piped()).spawn().context("cannot start floor")?;
        let output = child.stdout.take().context("the floor has no output")?;
        let mut address = String::new();
        BufReader::new(output).read_line(&mut address)?;
        Ok(Floor { program: program.to_owned(), work, address: address.trim().to_owned(), child, file })
    }

    /// CPU seconds of the server for each GB.
    pub fn measure(self, bytes: u64) -> Result<f64> {
        let (word, size) = match self.work {
            Work::Produce => ("send", FRAME_BYTES),
            Work::Consume => ("read", PIECE_BYTES),
        };
        let count = (bytes / size).max(1);
        let before = self.cpu_seconds()?;
        let status = Command::new(&self.program)
            .args([word, &self.address, &size.to_string(), &count.to_string()])
            .status()
            .context("cannot start the floor's client")?;
        ensure!(status.success(), "the floor's client failed with {status}");
        Ok((self.cpu_seconds()? - before) / (count * size) as f64 * 1e9)
    }

    fn cpu_seconds(&self) -> Result<f64> {
        let text = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        cpu_seconds(&text).context("/proc has no CPU time of the floor")
    }
}

/// User and system time of a `/proc/PID/stat`; the program's name in it may hold anything.
fn cpu_seconds(stat: &str) -> Option<f64> {
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?;
    Some(ticks as f64 / TICKS_PER_SECOND)
}

impl Drop for Floor {
    fn drop(&mut self) {
        // Both fail only if it is gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_file(&self.file);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_told_apart() {
        let memory = Memory::of("VmRSS:\t    2000 kB\nRssAnon:\t    1000 kB\n").unwrap();
        assert_eq!(memory, Memory { resident_mb: 2.048, own_mb: 1.024 });
        assert!(Memory::of("VmRSS:\t    2000 kB\n").is_err());
    }

    #[test]
    fn cpu_time_is_found_behind_any_name() {
        let stat = "42 (a) b c) S 1 2 3 4 5 6 7 8 9 10 150 50 0 0 20 0 1 0";
        assert_eq!(cpu_seconds(stat), Some(2.0));
        assert_eq!(cpu_seconds("42 (x) S 1"), None);
    }
}
