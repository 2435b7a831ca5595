//! The broker's process, and its folder.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::random::Random;
use crate::support::{self, PATIENCE};

pub struct Broker {
    pub folder: PathBuf,
    log: PathBuf,
    address: String,
    pub settings: Vec<String>,
    child: Option<Child>,
}

impl Broker {
    /// `work` is the folder of the run; the broker's is in it.
    pub fn new(work: &Path) -> Broker {
        // Free now: nobody else is likely to take it while the broker is down.
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        Broker {
            folder: work.join("data"),
            log: work.join("broker.log"),
            address: format!("127.0.0.1:{port}"),
            settings: Vec::new(),
            child: None,
        }
    }

    pub fn address(&self) -> &str {
        &self.address
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = support::mainstem(arguments);
        if let Some(binary) = std::env::var_os("MAINSTEM_CHAOS_BINARY") {
            let given = command;
            command = Command::new(binary);
            command.args(given.get_args());
            for (name, _) in given.get_envs().filter(|(_, value)| value.is_none()) {
                command.env_remove(name);
            }
        }
        command
    }

    fn spawn(&mut self) -> BufReader<std::process::ChildStdout> {
        let mut command = self.command(&["serve", "--listen", &self.address, "--data-dir"]);
        command.arg(&self.folder).args(self.settings.iter().map(|setting| format!("--set={setting}")));
        let log = File::options().create(true).append(true).open(&self.log).unwrap();
        command.stderr(log).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        self.child = Some(child);
        output
    }

    /// Starts, and waits until it is ready. Gives what it said.
    pub fn start(&mut self) -> Result<Vec<String>, String> {
        let mut lines = Vec::new();
        for line in self.spawn().lines() {
            let line = line.map_err(|error| error.to_string())?;
            if line == "ready" {
                return Ok(lines);
            }
            lines.push(line);
        }
        let status = self.child.take().unwrap().wait().unwrap();
        Err(format!("the start ended with {status} after {lines:?}: {}", self.last_words()))
    }

    /// Starts, and kills it before, while or soon after it recovers.
    pub fn start_in_vain(&mut self, random: &mut Random) {
        let _output = self.spawn();
        std::thread::sleep(Duration::from_micros(random.between(0, 200_000) as u64));
        self.kill();
    }

    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            child.wait().unwrap();
        }
    }

    /// Ends it after a while, in this way, while others are at work.
    pub fn end_in(&self, wait: Duration, how: End) -> std::thread::JoinHandle<()> {
        let id = self.child.as_ref().unwrap().id().to_string();
        std::thread::spawn(move || {
            std::thread::sleep(wait);
            let signal = if how == End::Kill { "KILL" } else { "TERM" };
            // If it has ended by itself, that is found out by who waits for the end.
            let _ = Command::new("kill").args(["-s", signal, &id]).status();
        })
    }

    /// Waits for the end that was asked for.
    pub fn wait_for_end(&mut self, how: End) -> Result<(), String> {
        let mut child = self.child.take().unwrap();
        let limit = Instant::now() + PATIENCE;
        loop {
            match child.try_wait().unwrap() {
                Some(status) if (status.success(), status.signal()) == how.status() => return Ok(()),
                Some(status) => return Err(format!("it ended with {status}: {}", self.last_words())),
                None if Instant::now() > limit => {
                    let _ = child.kill();
                    child.wait().unwrap();
                    return Err("an orderly stop does not end".to_owned());
                }
                None => std::thread::sleep(Duration::from_millis(3)),
            }
        }
    }

    /// Whether it still runs.
    pub fn is_running(&mut self) -> bool {
        self.child.as_mut().is_some_and(|child| child.try_wait().unwrap().is_none())
    }

    fn last_words(&self) -> String {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        text.lines().last().unwrap_or_default().to_owned()
    }

    /// What a command of the binary says about the folder, when it is not content.
    pub fn complaint(&self, command: &str) -> Option<String> {
        let output = self.command(&[command, "--data-dir"]).arg(&self.folder).output().unwrap();
        if output.status.success() {
            return None;
        }
        let text = String::from_utf8_lossy(&output.stdout);
        let notes = ["note:", "ok ", "warning "];
        let said = text.lines().filter(|line| !notes.iter().any(|note| line.starts_with(note)));
        // A kill may end a write in its middle: what there is of it is cut and kept. The last line is the sum.
        let is_torn_write = |line: &&str| line.starts_with("parked ") && line.contains(".from-");
        let said: Vec<&str> = said.filter(|line| !is_torn_write(line)).collect();
        let is_sum = |line: &str| line.contains(" finding");
        (!said.iter().all(|line| is_sum(line)))
            .then(|| format!("{command} ends with {}: {}", output.status, said.join("\n")))
    }

    /// Deletes what is made from logs. Returns whether log starts may be lost with it, and whether producers may.
    pub fn delete_views(&self, random: &mut Random) -> Lost {
        let mut lost = Lost { log_starts: random.chance(40), producers: random.chance(40) };
        lost.log_starts |= lost.producers;
        walk(&self.folder, &mut |path, is_folder| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let below = path.strip_prefix(&self.folder).unwrap();
            let is_metadata = below.starts_with("__cluster_metadata-0");
            let ends = |endings: &[&str]| endings.iter().any(|ending| name.ends_with(ending));
            let is_view = match is_folder {
                true => ["consumequeue", "index", "key-index"].contains(&&*name),
                false if is_metadata => false,
                false => {
                    ends(&[".index", ".timeindex", ".txnindex"])
                        || lost.log_starts && ends(&["-offset-checkpoint"])
                        || lost.log_starts && below.starts_with("mainstem") && name.starts_with("checkpoint")
                        || lost.producers && (ends(&[".snapshot"]) || name == "leader-epoch-checkpoint")
                }
            };
            if is_view {
                match is_folder {
                    true => std::fs::remove_dir_all(path).unwrap(),
                    false => std::fs::remove_file(path).unwrap(),
                }
            }
            !is_view
        });
        lost
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        self.kill();
    }
}

/// How a broker ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    Kill,
    Orderly,
}

impl End {
    fn status(self) -> (bool, Option<i32>) {
        if self == End::Kill { (false, Some(9)) } else { (true, None) }
    }
}

/// What went with views that were deleted.
#[derive(Debug, Clone, Copy)]
pub struct Lost {
    pub log_starts: bool,
    pub producers: bool,
}

/// Calls `visit` with each path below, and goes into the folders for which it says so.
fn walk(folder: &Path, visit: &mut dyn FnMut(&Path, bool) -> bool) {
    let mut entries: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        let is_folder = path.is_dir();
        if visit(&path, is_folder) && is_folder {
            walk(&path, visit);
        }
    }
}

/// What happens, in order, for whoever looks for a reason later.
pub struct Diary {
    file: Mutex<File>,
    began: Instant,
}

impl Diary {
    pub fn new(path: &Path) -> Diary {
        Diary { file: Mutex::new(File::create(path).unwrap()), began: Instant::now() }
    }

    pub fn note(&self, line: impl AsRef<str>) {
        let mut file = self.file.lock().unwrap();
        writeln!(file, "{:9.3} {}", self.began.elapsed().as_secs_f64(), line.as_ref()).unwrap();
    }
}
