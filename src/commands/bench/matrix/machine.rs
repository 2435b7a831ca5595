//! What the figures are measured on.

/// Processor, system and version.
pub fn describe() -> String {
    let cpus = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpus.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    let model = model.map_or("unknown processor", |(_, model)| model.trim());
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let system = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!(
        "{model}, {cores} cores, {} {}, mainstem {}.",
        std::env::consts::OS,
        system.trim(),
        env!("CARGO_PKG_VERSION")
    )
}
