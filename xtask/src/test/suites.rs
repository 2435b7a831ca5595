//! The suites with real clients: what each needs and how its own runner is called.

use super::Places;
use super::counts::Runner;
use std::process::Command;
use std::time::Duration;

/// How long a suite may take.
pub const LIMIT: Duration = Duration::from_secs(15 * 60);

/// What has to be fetched before a suite can run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Need {
    Venv,
    Node,
    Go,
    Java,
    KafkaJars,
}

/// Where the broker of a suite comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Brokers {
    /// One is started for the suite, of whatever kind is under test.
    Given,
    /// The suite starts and kills brokers of the kind under test itself.
    StartedBySuite,
    /// The suite starts Mainstem and a real Kafka in turns.
    BothBySuite,
}

#[derive(Debug)]
pub struct Suite {
    /// As in `cargo xtask test clients NAME`.
    pub name: &'static str,
    /// From the project's root.
    folder: &'static str,
    pub needs: &'static [Need],
    pub runner: Runner,
    pub brokers: Brokers,
    /// Of its broker, beside those of every broker under test; `KEY=VALUE`.
    pub settings: &'static [&'static str],
}

const fn suite(
    name: &'static str,
    folder: &'static str,
    runner: Runner,
    needs: &'static [Need],
    brokers: Brokers,
) -> Suite {
    Suite { name, folder, needs, runner, brokers, settings: &[] }
}

/// Every topic in the broker's common commit logs.
const SHARED: &[&str] = &["mainstem.layout=shared"];

/// In the order in which they start: the long ones first.
pub const SUITES: &[Suite] = &[
    suite("journey", "tests/journey", Runner::Pytest, &[Need::Venv, Need::KafkaJars], Brokers::BothBySuite),
    suite("go", "tests/clients/go", Runner::Go, &[Need::Go], Brokers::Given),
    suite("tools", "tests/clients/tools", Runner::Pytest, &[Need::Venv, Need::KafkaJars], Brokers::Given),
    suite("process", "tests/clients/process", Runner::Pytest, &[Need::Venv, Need::KafkaJars], Brokers::StartedBySuite),
    suite("python", "tests/clients/python", Runner::Pytest, &[Need::Venv], Brokers::Given),
    suite("java", "tests/clients/java", Runner::Maven, &[Need::Java], Brokers::Given),
    suite("cli", "tests/clients/cli", Runner::Pytest, &[Need::Venv], Brokers::Given),
    suite("kcat", "tests/clients/kcat", Runner::Pytest, &[Need::Venv], Brokers::Given),
    Suite {
        settings: SHARED,
        ..suite("shared", "tests/clients/python", Runner::Pytest, &[Need::Venv], Brokers::Given)
    },
    suite("node", "tests/clients/node", Runner::Node, &[Need::Node], Brokers::Given),
];

impl Suite {
    pub fn named(name: &str) -> Option<&'static Self> {
        SUITES.iter().find(|suite| suite.name == name)
    }

    pub fn full_name(&self) -> String {
        format!("clients/{}", self.name)
    }

    /// The runner's command line. `environment` says where the broker is.
    pub fn command(&self, places: &Places, environment: &[(String, String)]) -> Command {
        let mut command = match self.runner {
            Runner::Go => go(places, self.folder),
            Runner::Maven => maven(places, "test"),
            Runner::Node => node(places),
            _ => pytest(places, self),
        };
        command.envs(environment.iter().cloned()).env("MAINSTEM_CLIENTS_DIR", &places.clients);
        // The suite of our own command line, whatever broker it is tested with.
        command.env("MAINSTEM_COMMAND", &places.binary);
        command
    }
}

fn pytest(places: &Places, suite: &Suite) -> Command {
    let mut command = Command::new(places.clients.join("venv/bin/python"));
    command.current_dir(&places.root).args(["-m", "pytest", "-v", "--durations=5", suite.folder]);
    command.arg("--basetemp").arg(places.clients.join(format!("pytest-{}", suite.name)));
    command.env("PYTHONDONTWRITEBYTECODE", "1");
    command
}

fn node(places: &Places) -> Command {
    let mut command = Command::new("node");
    command.current_dir(places.clients.join("node")).args(["--test", "--test-concurrency=1", "--test-reporter=tap"]);
    command
}

fn go(places: &Places, folder: &str) -> Command {
    let mut command = Command::new(places.clients.join("go/clients.test"));
    command.current_dir(places.root.join(folder)).args(["-test.v", "-test.timeout=9m"]);
    command
}

/// Maven with its repository and its output below `target/`.
pub fn maven(places: &Places, goal: &str) -> Command {
    let mut command = Command::new("mvn");
    command.args(["-B", "-ntp", "-f"]).arg(places.root.join("tests/clients/java/pom.xml"));
    command.arg(format!("-Dmaven.repo.local={}", places.clients.join("maven").display()));
    command.arg(format!("-Dmainstem.target={}", places.clients.join("java").display()));
    command.arg(goal);
    command
}
