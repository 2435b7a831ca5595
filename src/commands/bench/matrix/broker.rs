//! A broker of this binary, with a folder of its own.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, bail};

/// What the names of their folders begin with.
const PREFIX: &str = "broker-";

/// Ends with its folder when it is dropped.
pub struct Broker {
    child: Child,
    folder: PathBuf,
    pub address: String,
}

impl Broker {
    /// Starts it in a new folder and waits until it is ready.
    pub fn start(work_dir: &Path) -> anyhow::Result<Broker> {
        let folder = work_dir.join(format!("{PREFIX}{}", std::process::id()));
        fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
        let log = fs::File::create(work_dir.join("broker.log")).context("cannot create the broker's log file")?;
        let program = std::env::current_exe().context("cannot find the file of this program")?;
        let mut command = Command::new(program);
        command.args(["serve", "--listen", "127.0.0.1:0", "--set", "mainstem.memory.force=true", "--end-with"]);
        command.arg(std::process::id().to_string()).arg("--data-dir").arg(&folder);
        // Settings of whoever runs this are no part of it.
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("MAINSTEM_")) {
            command.env_remove(name);
        }
        // Ctrl-C is for this program, which ends the broker itself.
        command.process_group(0);
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log).spawn();
        let mut broker = Broker { child: child.context("cannot start the broker")?, folder, address: String::new() };
        let Some(output) = broker.child.stdout.take() else { bail!("the broker has no output") };
        for line in BufReader::new(output).lines() {
            let line = line.context("cannot read the broker's output")?;
            if let Some(rest) = line.strip_prefix("listening on ") {
                broker.address = rest.split(' ').next().unwrap_or(rest).to_owned();
            }
            if line == "ready" {
                return Ok(broker);
            }
        }
        bail!("the broker did not become ready; the reason is in {}", work_dir.join("broker.log").display())
    }

    pub fn process(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        // Nobody needs what it has: an orderly stop would write it to the disk.
        let _ = self.child.kill();
        let _ = self.child.wait();
        // What cannot be removed is removed by the next start.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Removes the folders of brokers whose run was killed.
pub fn remove_leftovers(work_dir: &Path) {
    let entries = fs::read_dir(work_dir).into_iter().flatten().filter_map(Result::ok);
    for entry in entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(PREFIX)) {
        if entry.path().is_dir() {
            // Whatever stays costs space, not figures.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}
