//! The suites with real clients: what each needs and how its own runner is called.

use super::Places;
use super::counts::Runner;
use std::process::Command;
use std::time::Duration;

/// What has to be fetched before a suite can run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Need {
    Venv,
    Node,
    Go,
    Java,
    KafkaJars,
}

#[derive(Debug)]
pub struct Suite {
    pub name: &'static str,
    pub needs: &'static [Need],
    pub runner: Runner,
    limit_seconds: u64,
    /// The suite starts (and kills) brokers itself.
    pub starts_its_broker: bool,
}

/// In the order in which they start: the long ones first.
pub const SUITES: &[Suite] = &[
    Suite { name: "go", needs: &[Need::Go], runner: Runner::Go, limit_seconds: 600, starts_its_broker: false },
    Suite {
        name: "tools",
        needs: &[Need::Venv, Need::KafkaJars],
        runner: Runner::Pytest,
        limit_seconds: 600,
        starts_its_broker: false,
    },
    Suite {
        name: "process",
        needs: &[Need::Venv],
        runner: Runner::Pytest,
        limit_seconds: 900,
        starts_its_broker: true,
    },
    Suite {
        name: "python",
        needs: &[Need::Venv],
        runner: Runner::Pytest,
        limit_seconds: 600,
        starts_its_broker: false,
    },
    Suite { name: "java", needs: &[Need::Java], runner: Runner::Maven, limit_seconds: 600, starts_its_broker: false },
    Suite { name: "kcat", needs: &[Need::Venv], runner: Runner::Pytest, limit_seconds: 300, starts_its_broker: false },
    Suite { name: "node", needs: &[Need::Node], runner: Runner::Node, limit_seconds: 300, starts_its_broker: false },
];

impl Suite {
    pub fn named(name: &str) -> Option<&'static Self> {
        SUITES.iter().find(|suite| suite.name == name)
    }

    pub fn full_name(&self) -> String {
        format!("clients/{}", self.name)
    }

    pub fn limit(&self) -> Duration {
        Duration::from_secs(self.limit_seconds)
    }

    /// The runner's command line. `environment` says where the broker is.
    pub fn command(&self, places: &Places, environment: &[(String, String)]) -> Command {
        let mut command = match self.runner {
            Runner::Go => go(places),
            Runner::Maven => maven(places, "test"),
            Runner::Node => node(places),
            _ => pytest(places, self.name),
        };
        command.envs(environment.iter().cloned()).env("MAINSTEM_CLIENTS_DIR", &places.clients);
        command
    }
}

fn pytest(places: &Places, suite: &str) -> Command {
    let folder = places.root.join("tests/clients");
    let mut command = Command::new(places.clients.join("venv/bin/python"));
    command
        .current_dir(folder)
        .args(["-m", "pytest", "-v", "--durations=5", suite])
        .env("PYTHONDONTWRITEBYTECODE", "1");
    let scratch = places.clients.join(format!("pytest-{suite}"));
    command.arg("--basetemp").arg(scratch);
    command
}

fn node(places: &Places) -> Command {
    let mut command = Command::new("node");
    command.current_dir(places.clients.join("node")).args(["--test", "--test-concurrency=1", "--test-reporter=tap"]);
    command
}

fn go(places: &Places) -> Command {
    let mut command = Command::new(places.clients.join("go/clients.test"));
    command.current_dir(places.root.join("tests/clients/go")).args(["-test.v", "-test.timeout=9m"]);
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
