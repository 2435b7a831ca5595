//! Fetching what the client suites need. Done once: each part leaves a stamp with the text of the files that it depends
//! on.

use super::Places;
use super::options::{Against, Options};
use super::process::run_logged;
use super::report::Progress;
use super::suites::{Need, maven};
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(15 * 60);
/// How much of a failed step's output goes into the message.
const SHOWN_LINES: usize = 15;

/// Suites that cannot run, and why.
pub type Failures = BTreeMap<&'static str, anyhow::Error>;

/// Prepares the chosen suites, one need after the other.
pub fn all(places: &Places, options: &Options, progress: &Progress) -> Failures {
    let mut failures = Failures::new();
    for suite in &options.suites {
        let with_kafka = (options.against == Against::Kafka).then_some(Need::KafkaJars);
        for need in suite.needs.iter().copied().chain(with_kafka) {
            if let Err(error) = Part::of(need, places).and_then(|part| part.prepare(places, progress)) {
                failures.insert(suite.name, error);
            }
        }
    }
    failures
}

/// One thing to fetch: the steps, and the files whose change makes them due again. Without such files the steps are
/// cheap when there is nothing to do, and run every time.
struct Part {
    name: &'static str,
    depends_on: Vec<PathBuf>,
    /// Deleted before the steps.
    folder: Option<PathBuf>,
    steps: Vec<Command>,
}

impl Part {
    fn of(need: Need, places: &Places) -> Result<Self> {
        Ok(match need {
            Need::Venv => venv(places),
            Need::Node => node(places)?,
            Need::Go => go(places),
            Need::Java => java(places),
            Need::KafkaJars => kafka_jars(places),
        })
    }

    fn prepare(self, places: &Places, progress: &Progress) -> Result<()> {
        let mut wanted = String::new();
        for path in &self.depends_on {
            wanted += &std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        }
        let stamp = places.clients.join(format!("{}.stamp", self.name));
        if !wanted.is_empty() && std::fs::read_to_string(&stamp).is_ok_and(|done| done == wanted) {
            return Ok(());
        }
        progress.say(&format!("fetching {}", self.name));
        if let Some(folder) = self.folder.filter(|folder| folder.exists()) {
            std::fs::remove_dir_all(&folder).with_context(|| format!("cannot delete {}", folder.display()))?;
        }
        for step in self.steps {
            let log = places.log(&format!("fetch-{}", self.name));
            run_logged(step, &log, LIMIT).map_err(|error| error.context(end_of(&log)))?;
        }
        std::fs::write(&stamp, wanted).with_context(|| format!("cannot write {}", stamp.display()))
    }
}

fn end_of(log: &Path) -> String {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(SHOWN_LINES)..].join("\n")
}

fn venv(places: &Places) -> Part {
    let folder = places.clients.join("venv");
    let requirements = places.root.join("tests/clients/requirements.txt");
    let mut create = Command::new("python3");
    create.args(["-m", "venv"]).arg(&folder);
    let mut install = Command::new(folder.join("bin/python"));
    install.args(["-m", "pip", "install", "--quiet", "--only-binary", ":all:", "-r"]).arg(&requirements);
    Part { name: "venv", depends_on: vec![requirements], folder: Some(folder), steps: vec![create, install] }
}

/// node finds modules beside the sources alone, so the sources are copied to the modules.
fn node(places: &Places) -> Result<Part> {
    let (from, to) = (places.root.join("tests/clients/node"), places.clients.join("node"));
    std::fs::create_dir_all(&to)?;
    for old in files_in(&to)? {
        std::fs::remove_file(&old).with_context(|| format!("cannot delete {}", old.display()))?;
    }
    for path in files_in(&from)? {
        let name = path.file_name().unwrap_or_default();
        std::fs::copy(&path, to.join(name)).with_context(|| format!("cannot copy {}", path.display()))?;
    }
    let mut install = Command::new("npm");
    install.current_dir(&to).args(["ci", "--no-fund", "--no-audit", "--ignore-scripts"]);
    let depends_on = vec![from.join("package.json"), from.join("package-lock.json")];
    Ok(Part { name: "node", depends_on, folder: Some(to.join("node_modules")), steps: vec![install] })
}

fn files_in(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))?;
    let paths: Vec<PathBuf> = entries.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    Ok(paths.into_iter().filter(|path| path.is_file()).collect())
}

fn go(places: &Places) -> Part {
    let folder = places.clients.join("go");
    let mut compile = Command::new("go");
    compile
        .current_dir(places.root.join("tests/clients/go"))
        .args(["test", "-c", "-o"])
        .arg(folder.join("clients.test"));
    compile.env("GOMODCACHE", folder.join("modules")).env("GOCACHE", folder.join("cache"));
    compile.env("GOFLAGS", "-mod=readonly -modcacherw -buildvcs=false");
    Part { name: "go", depends_on: Vec::new(), folder: None, steps: vec![compile] }
}

fn java(places: &Places) -> Part {
    let depends_on = vec![places.root.join("tests/clients/java/pom.xml")];
    Part { name: "java", depends_on, folder: None, steps: vec![maven(places, "test-compile")] }
}

fn kafka_jars(places: &Places) -> Part {
    let mut install = Command::new(places.root.join("tests/peers/kafka.sh"));
    install.arg("install").env("MAINSTEM_CLIENTS_DIR", &places.clients);
    Part {
        name: "kafka-jars",
        depends_on: vec![places.root.join("tests/peers/kafka/pom.xml")],
        folder: None,
        steps: vec![install],
    }
}
