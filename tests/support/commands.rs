//! Commands that talk to a broker of their own.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, ChildStdout, Output, Stdio};

use serde_json::Value;

use super::{PATIENCE, Server, last_line, mainstem};

/// A broker with an empty folder, and commands that talk to it.
pub struct Broker {
    pub server: Server,
    pub folder: tempfile::TempDir,
}

impl Broker {
    pub fn start() -> Broker {
        let folder = tempfile::tempdir().unwrap();
        Broker { server: Server::start(folder.path(), &[]), folder }
    }

    pub fn data(&self) -> &Path {
        self.folder.path()
    }

    /// Runs a command with this input.
    pub fn run_with(&self, input: impl Into<Vec<u8>>, arguments: &[&str]) -> Output {
        run_with(&self.server.address(), input, arguments)
    }

    /// Runs a command that must succeed, and gives what it wrote to standard output.
    pub fn run(&self, arguments: &[&str]) -> String {
        stdout(&self.run_with("", arguments))
    }

    pub fn json(&self, arguments: &[&str]) -> Value {
        serde_json::from_str(&self.run(&[arguments, &["--output", "json"]].concat())).unwrap()
    }

    /// Sends lines, which must succeed, and gives the summary.
    pub fn produce(&self, input: impl Into<Vec<u8>>, arguments: &[&str]) -> String {
        let output = self.run_with(input, &[&["produce"], arguments].concat());
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        last_line(&output)
    }

    /// All records as JSON, with their timestamps taken out.
    pub fn records(&self, arguments: &[&str]) -> Vec<Value> {
        let text = self.run(&[&["consume", "--format", "json"], arguments].concat());
        let mut records: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        for record in &mut records {
            assert!(record.as_object_mut().unwrap().remove("timestamp").unwrap().as_i64().unwrap() > 1_700_000_000_000);
        }
        records
    }

    /// Runs a command that must fail with exit code 1, and gives its last line on standard error.
    pub fn failure(&self, arguments: &[&str]) -> String {
        let output = self.run_with("x\n", arguments);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        last_line(&output)
    }

    /// Starts a command whose output is read while it runs.
    pub fn spawn(&self, arguments: &[&str]) -> (Child, BufReader<ChildStdout>) {
        let mut command = mainstem(arguments);
        command.env("MAINSTEM_BOOTSTRAP", self.server.address());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        (child, output)
    }
}

pub fn run_with(address: &str, input: impl Into<Vec<u8>>, arguments: &[&str]) -> Output {
    let mut command = assert_cmd::Command::from_std(mainstem(arguments));
    command.env("MAINSTEM_BOOTSTRAP", address).write_stdin(input).timeout(PATIENCE).output().unwrap()
}

pub fn stdout(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

pub fn stderr(child: &mut Child) -> String {
    let mut text = String::new();
    child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
    text
}

pub fn read_line(output: &mut BufReader<ChildStdout>) -> String {
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    line
}
