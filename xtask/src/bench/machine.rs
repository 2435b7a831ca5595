//! What the figures belong to: machine, system, versions, and how much else the machine did.

use super::options::Options;
use crate::command;
use anyhow::Result;
use std::path::Path;

/// Lines of facts, each `what: value`.
pub fn describe(root: &Path, folder: &Path, options: &Options) -> Result<Vec<String>> {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let field = |text: &str, name: &str| {
        let line = text.lines().find(|line| line.starts_with(name));
        line.and_then(|line| line.split_once(':')).map_or("unknown".to_owned(), |(_, value)| value.trim().to_owned())
    };
    let of = |program: &str, arguments: &[&str]| {
        command::output(root, program, arguments).map_or("unknown".to_owned(), |text| text.trim().to_owned())
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let place = folder.to_string_lossy();
    let file_system = of("stat", &["--file-system", "--format=%T", &place]);
    Ok(vec![
        format!("processor: {cores} x {}", field(&read("/proc/cpuinfo"), "model name")),
        format!("memory: {}", field(&read("/proc/meminfo"), "MemTotal")),
        format!("system: {}, file system of target/bench: {file_system}", of("uname", &["-sr"])),
        format!("load average at the start: {}", read("/proc/loadavg").trim()),
        format!("Mainstem: commit {}", of("git", &["describe", "--always", "--dirty"])),
        format!(
            "{} rounds; {} GB a throughput row; {} s a latency row; settings: {}",
            options.rounds,
            options.gigabytes,
            options.seconds,
            if options.settings.is_empty() { "none".to_owned() } else { options.settings.join(" ") }
        ),
    ])
}
