//! The real binary: brokers that tests start, and commands that they run.

// Each test program uses its own part of this.
#![allow(dead_code)]

pub mod commands;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Long enough for the slowest machine; no test waits for it when all is well.
pub const PATIENCE: Duration = Duration::from_secs(60);

pub fn mainstem(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mainstem"));
    // Variables of whoever runs the tests are no part of them.
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("MAINSTEM_")) {
        command.env_remove(name);
    }
    // Nor are their profiles.
    command.env("XDG_CONFIG_HOME", "/nonexistent").args(arguments);
    command
}

pub fn last_line(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).lines().last().unwrap_or_default().to_owned()
}

/// Runs a command that must fail, and gives its last line on standard error.
pub fn failure(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    last_line(&output)
}

/// A broker that ends with the test, however that ends.
pub struct Server {
    child: Child,
    /// What it said until it was ready.
    pub lines: Vec<String>,
}

impl Server {
    /// Starts a broker on a free port and waits until it says `ready`.
    pub fn start(data: &Path, more: &[&str]) -> Server {
        Server::start_at("127.0.0.1:0", data, more)
    }

    pub fn start_at(address: &str, data: &Path, more: &[&str]) -> Server {
        let mut command = mainstem(&["serve", "--listen", address, "--data-dir"]);
        command.arg(data).args(more);
        Server::start_command(command)
    }

    /// Runs a command that is, or becomes, a broker, and waits until it says `ready`.
    pub fn start_command(mut command: Command) -> Server {
        command.stderr(Stdio::inherit());
        Server::start_saying(command)
    }

    /// As [`Server::start_command`], with the log where the command says.
    pub fn start_saying(mut command: Command) -> Server {
        command.stdout(Stdio::piped());
        let mut server = Server { child: command.spawn().unwrap(), lines: Vec::new() };
        for line in BufReader::new(server.child.stdout.take().unwrap()).lines() {
            server.lines.push(line.unwrap());
            if server.lines.last().is_some_and(|line| line == "ready") {
                return server;
            }
        }
        panic!("it ended with {:?} after {:?}", server.child.wait(), server.lines);
    }

    pub fn address(&self) -> String {
        let line = self.lines.iter().find_map(|line| line.strip_prefix("listening on ")).unwrap();
        line.split(' ').next().unwrap().to_owned()
    }

    /// Of the process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn says(&self, part: &str) -> bool {
        self.lines.iter().any(|line| line.contains(part))
    }

    pub fn signal(&self, name: &str) {
        signal(&self.child, name);
    }

    pub fn exit_code(mut self) -> Option<i32> {
        exit_code(&mut self.child)
    }

    /// As a machine that fails would end it, as far as the process is concerned.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It has ended already when the test is good.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn signal(child: &Child, name: &str) {
    let status = Command::new("kill").args(["-s", name, &child.id().to_string()]).status().unwrap();
    assert!(status.success());
}

/// Waits for the end of a process that was asked to end.
pub fn exit_code(child: &mut Child) -> Option<i32> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code();
        }
        assert!(Instant::now() < deadline, "it does not end");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Waits until something is so.
pub fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < deadline, "not within {PATIENCE:?}: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
