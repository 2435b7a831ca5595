//! The fuzz targets under libFuzzer, as fuzz/README.md describes: built apart with the coverage flags, one run a
//! target.

use super::Places;
use super::counts::Runner;
use super::process::{run_logged, two_at_a_time};
use super::report::{self, Progress, Report};
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// How long each target runs as a part of `cargo xtask test`.
pub const SECONDS_IN_TESTS: u64 = 10;
const SECONDS_MAX: u64 = 24 * 3600;
const BUILD_LIMIT: Duration = Duration::from_secs(20 * 60);
/// Beyond its own limit a target may take this long to start and stop.
const MARGIN: Duration = Duration::from_secs(120);

/// Coverage that libFuzzer reads, on the stable compiler.
const RUSTFLAGS: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares -Cdebug-assertions -Ccodegen-units=1";

/// `cargo xtask fuzz [--seconds N] [TARGET…]`
pub fn run(arguments: &[String]) -> Result<bool> {
    let (mut seconds, mut named) = (SECONDS_IN_TESTS, Vec::new());
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--seconds" => {
                let number = words.next().and_then(|number| number.parse().ok());
                seconds = number
                    .filter(|n| (1..=SECONDS_MAX).contains(n))
                    .context("--seconds takes a number from 1 to 86400")?;
            }
            name => named.push(name.to_owned()),
        }
    }
    let reports = all(&Places::new()?, seconds, &named, &Progress::start());
    Ok(report::close(&reports))
}

/// Builds, then runs the named targets or all, two at a time.
pub fn all(places: &Places, seconds: u64, named: &[String], progress: &Progress) -> Vec<Report> {
    let planned = targets(places).and_then(|targets| choose(targets, named)).and_then(|targets| Ok((targets, host()?)));
    let (targets, host) = match planned {
        Ok(planned) => planned,
        Err(error) => return vec![Report::broken("fuzz", format!("{error:#}"))],
    };
    let build = progress.run("fuzz/build", Runner::None, build(places, &host), &places.log("fuzz-build"), BUILD_LIMIT);
    if !build.is_good() {
        return vec![build];
    }
    progress.say(&format!("fuzzing {} targets for {seconds} s each", targets.len()));
    let binary = places.target.join("fuzz").join(host).join("release/mainstem-fuzz");
    let work = targets.iter().map(|name| || fuzz_one(places, &binary, name, seconds));
    two_at_a_time(work.collect())
}

/// Every target has a folder of inputs.
fn targets(places: &Places) -> Result<Vec<String>> {
    let folder = places.root.join("fuzz/corpus");
    let mut names = Vec::new();
    for entry in std::fs::read_dir(&folder).with_context(|| format!("cannot list {}", folder.display()))? {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names)
}

fn choose(targets: Vec<String>, named: &[String]) -> Result<Vec<String>> {
    if let Some(unknown) = named.iter().find(|name| !targets.contains(name)) {
        bail!("`{unknown}` is no fuzz target; there are {}", targets.join(", "));
    }
    Ok(if named.is_empty() { targets } else { named.to_vec() })
}

fn host() -> Result<String> {
    let version = crate::command::output(Path::new("."), "rustc", &["-vV"])?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("`rustc -vV` names no host")?.to_owned())
}

/// With `--target`, build scripts and macros are compiled without the flags.
fn build(places: &Places, host: &str) -> Command {
    let mut command = Command::new("cargo");
    command.current_dir(&places.root).env("RUSTFLAGS", RUSTFLAGS);
    command.args([
        "build",
        "--release",
        "--locked",
        "-p",
        "mainstem-fuzz",
        "--features",
        "libfuzzer",
        "--target",
        host,
    ]);
    command.arg("--target-dir").arg(places.target.join("fuzz"));
    command
}

fn fuzz_one(places: &Places, binary: &Path, name: &str, seconds: u64) -> Report {
    let full_name = format!("fuzz/{name}");
    let artifacts = places.target.join("fuzz/artifacts").join(name);
    let log = places.log(&full_name);
    let limit = Duration::from_secs(seconds) + MARGIN;
    let outcome =
        command(places, binary, name, seconds, &artifacts).and_then(|command| run_logged(command, &log, limit));
    if let Err(error) = outcome {
        return Report::broken(
            &full_name,
            format!("{error:#}; see {}, inputs are in {}", log.display(), artifacts.display()),
        );
    }
    let mut report = Report { name: full_name, counts: Default::default(), problems: Vec::new() };
    let text = std::fs::read_to_string(&log).unwrap_or_default();
    match text.lines().rev().find(|line| line.starts_with("Done ")) {
        Some(line) => {
            report.counts.passed = 1;
            report.counts.closing.push(line.to_owned());
        }
        None => report.add_problem(format!("it ended without a closing line; see {}", log.display())),
    }
    report
}

/// New inputs go below `target`; the checked-in corpus is only read.
fn command(places: &Places, binary: &Path, name: &str, seconds: u64, artifacts: &PathBuf) -> Result<Command> {
    let found = places.target.join("fuzz/corpus").join(name);
    for folder in [&found, artifacts] {
        std::fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    }
    let mut command = Command::new(binary);
    command
        .current_dir(&places.root)
        .env("FUZZ_TARGET", name)
        .arg(found)
        .arg(places.root.join("fuzz/corpus").join(name));
    command.arg(format!("-max_total_time={seconds}")).arg(format!("-artifact_prefix={}/", artifacts.display()));
    command.args(["-timeout=5", "-rss_limit_mb=1024", "-max_len=4096"]);
    Ok(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_target_is_refused() {
        let targets = vec!["a".to_owned(), "b".to_owned()];
        assert_eq!(choose(targets.clone(), &[]).unwrap(), targets);
        assert_eq!(choose(targets.clone(), &["b".to_owned()]).unwrap(), ["b"]);
        assert!(choose(targets, &["c".to_owned()]).is_err());
    }
}
