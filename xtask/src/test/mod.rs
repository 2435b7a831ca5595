//! `cargo xtask test`: every test of the project, real clients included, and what they need.
//!
//! Everything fetched or written lives below `target/`: `target/clients` (virtual environment, node modules, Go and
//! Maven caches, Kafka's jars), `target/test-logs` (the whole output of every suite and broker). Each client suite has
//! a broker of its own on a free port of 127.0.0.1, with an empty data folder. Two client suites, and two fuzz targets,
//! run at a time.

pub mod broker;
mod counts;
pub mod fuzz;
mod options;
mod packages;
mod prepare;
pub mod process;
mod report;
mod suites;

use crate::tidy::project_root;
use anyhow::{Context, Result};
use counts::Runner;
use options::Options;
use report::{Progress, Report};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;
use suites::Suite;

/// Where the property tests begin unless the environment says otherwise: the same tree gives the same outcome
/// everywhere.
const PROPERTY_SEED: &str = "20260101";
const PROPERTY_SEED_VARIABLE: &str = "PROPTEST_RNG_SEED";

const RUST_LIMIT: Duration = Duration::from_secs(30 * 60);
const BUILD_LIMIT: Duration = Duration::from_secs(20 * 60);

/// Where things are.
#[derive(Clone)]
pub struct Places {
    pub root: PathBuf,
    pub target: PathBuf,
    pub clients: PathBuf,
    pub logs: PathBuf,
    /// The broker that the client suites start.
    pub binary: PathBuf,
}

impl Places {
    pub fn new() -> Result<Self> {
        let root = project_root();
        let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), |dir| root.join(dir));
        let places = Self {
            clients: target.join("clients"),
            logs: target.join("test-logs"),
            binary: target.join("release/mainstem"),
            target,
            root,
        };
        for folder in [&places.clients, &places.logs] {
            std::fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
        }
        Ok(places)
    }

    pub fn log(&self, name: &str) -> PathBuf {
        self.logs.join(format!("{}.log", name.replace('/', "-")))
    }
}

/// Runs what the arguments ask for; true when every test passed.
pub fn run(arguments: &[String]) -> Result<bool> {
    let options = Options::parse(arguments)?;
    let mut places = Places::new()?;
    if let Some(binary) = &options.binary {
        places.binary.clone_from(binary);
    }
    let progress = Progress::start();
    packages::ensure(&options)?;
    let mut reports = Vec::new();
    let prepared = std::thread::scope(|scope| {
        let preparing = scope.spawn(|| prepare::all(&places, &options, &progress));
        if options.rust {
            reports.push(rust_tests(&places, &options, &progress));
        }
        preparing.join()
    });
    // reason: the thread ends with an error instead of a panic; if it panics all the same, so do we
    let failures = prepared.expect("the preparation panicked");
    if !options.suites.is_empty() {
        reports.extend(client_suites(&places, &options, &failures, &progress));
    }
    if options.fuzz {
        reports.extend(fuzz::all(&places, fuzz::SECONDS_IN_TESTS, &[], &progress));
    }
    Ok(report::close(&reports))
}

/// Fetches what the client suites need, without running them.
pub fn prepare_only(arguments: &[String]) -> Result<bool> {
    let names: Vec<String> = std::iter::once("clients".to_owned()).chain(arguments.iter().cloned()).collect();
    let options = Options::parse(&names)?;
    packages::ensure(&options)?;
    let failures = prepare::all(&Places::new()?, &options, &Progress::start());
    for (suite, failure) in &failures {
        println!("{suite}: {failure:#}");
    }
    Ok(failures.is_empty())
}

fn rust_tests(places: &Places, options: &Options, progress: &Progress) -> Report {
    let mut command = Command::new("cargo");
    command.current_dir(&places.root).args(["test", "--locked", "--no-fail-fast"]);
    if std::env::var_os(PROPERTY_SEED_VARIABLE).is_none() {
        command.env(PROPERTY_SEED_VARIABLE, PROPERTY_SEED);
    }
    match options.cargo.as_slice() {
        [] => command.arg("--workspace"),
        chosen => command.args(chosen),
    };
    progress.run("rust", Runner::Cargo, command, &places.log("rust"), RUST_LIMIT)
}

/// Builds the binary and runs the suites, two at a time.
fn client_suites(places: &Places, options: &Options, failures: &prepare::Failures, progress: &Progress) -> Vec<Report> {
    if options.needs_binary() {
        let mut command = Command::new("cargo");
        command.current_dir(&places.root).args(["build", "--release", "--locked", "--bin", "mainstem"]);
        let build = progress.run("build", Runner::None, command, &places.log("build"), BUILD_LIMIT);
        if !build.is_good() {
            return vec![build];
        }
    }
    let work = options.suites.iter().map(|suite| move || client_suite(places, options, suite, failures, progress));
    process::two_at_a_time(work.collect())
}

fn client_suite(
    places: &Places,
    options: &Options,
    suite: &'static Suite,
    failures: &prepare::Failures,
    progress: &Progress,
) -> Report {
    let name = suite.full_name();
    if let Some(failure) = failures.get(suite.name) {
        return Report::broken(&name, format!("could not be prepared: {failure:#}"));
    }
    let mut broker = match broker::Broker::start(places, options, suite) {
        Ok(broker) => broker,
        Err(error) => return Report::broken(&name, format!("{error:#}")),
    };
    let command = suite.command(places, &broker.environment);
    let mut report = progress.run(&name, suite.runner, command, &places.log(&name), suites::LIMIT);
    if let Err(error) = broker.stop() {
        report.add_problem(format!("the broker: {error:#}"));
    }
    report
}
