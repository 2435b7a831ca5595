//! Log lines for people, on standard error, and the levels of their loggers.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::sync::OnceLock;

use tracing_subscriber::filter::{LevelFilter, ParseError, Targets};
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Registry, reload};

/// The variable with the filter, for example `MAINSTEM_LOG=debug` or `mainstem_server=trace,info`.
pub const FILTER_VARIABLE: &str = "MAINSTEM_LOG";

/// The logger that stands for all that have no level of their own.
pub const ROOT: &str = "root";

/// The loggers: all crates that write lines.
pub const LOGGERS: [&str; 5] = ["mainstem", "mainstem_broker", "mainstem_kafka", "mainstem_server", "mainstem_store"];

/// The filter of this process and how it is exchanged. None is there if lines go somewhere else, as they may in a test.
static FILTER: OnceLock<reload::Handle<Targets, Registry>> = OnceLock::new();

/// Sends the log lines of this process to standard error: warnings and news by default. A second call changes nothing.
pub fn start() -> Result<(), ParseError> {
    let filter: Targets = match std::env::var(FILTER_VARIABLE) {
        Ok(text) if !text.trim().is_empty() => text.parse()?,
        _ => Targets::new().with_default(LevelFilter::INFO),
    };
    let filter = match filter.default_level() {
        Some(_) => filter,
        None => filter.with_default(LevelFilter::ERROR),
    };
    let (filter, handle) = reload::Layer::new(filter);
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let lines = lines.with_ansi(std::io::stderr().is_terminal()).with_target(false);
    // An error says that lines go somewhere already.
    if tracing_subscriber::registry().with(lines.with_filter(filter)).try_init().is_ok() {
        let _ = FILTER.set(handle);
    }
    Ok(())
}

/// The levels of this process by logger, as far as they were set.
pub fn levels() -> BTreeMap<String, &'static str> {
    let current = FILTER.get().and_then(|handle| handle.clone_current()).unwrap_or_default();
    let mut levels: BTreeMap<String, &'static str> =
        current.iter().map(|(target, level)| (target.to_owned(), name_of(level))).collect();
    if let Some(level) = current.default_level() {
        levels.insert(ROOT.to_owned(), name_of(level));
    }
    levels
}

/// Exchanges all levels.
pub fn set_levels(levels: &BTreeMap<String, &'static str>) {
    let Some(handle) = FILTER.get() else { return };
    let named = levels.iter().filter(|(name, _)| *name != ROOT);
    let root = levels.get(ROOT).map_or(LevelFilter::INFO, |level| level_of(level));
    let targets = Targets::new().with_targets(named.map(|(name, level)| (name.clone(), level_of(level))));
    if let Err(error) = handle.reload(targets.with_default(root)) {
        tracing::error!("cannot change the log levels: {error}");
    }
}

fn name_of(level: LevelFilter) -> &'static str {
    match level.into_level() {
        None => "FATAL",
        Some(tracing::Level::ERROR) => "ERROR",
        Some(tracing::Level::WARN) => "WARN",
        Some(tracing::Level::INFO) => "INFO",
        Some(tracing::Level::DEBUG) => "DEBUG",
        Some(tracing::Level::TRACE) => "TRACE",
    }
}

fn level_of(name: &str) -> LevelFilter {
    match name {
        "FATAL" => LevelFilter::OFF,
        "ERROR" => LevelFilter::ERROR,
        "WARN" => LevelFilter::WARN,
        "DEBUG" => LevelFilter::DEBUG,
        "TRACE" => LevelFilter::TRACE,
        _ => LevelFilter::INFO,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_level_has_a_name_and_comes_back_from_it() {
        for level in ["FATAL", "ERROR", "WARN", "INFO", "DEBUG", "TRACE"] {
            assert_eq!(name_of(level_of(level)), level);
        }
    }

    #[test]
    fn levels_that_are_exchanged_hold_at_once() {
        start().unwrap();
        let store = || tracing::enabled!(target: "mainstem_store::flush", tracing::Level::TRACE);
        for (level, holds) in [("WARN", false), ("TRACE", true), ("FATAL", false)] {
            let all = BTreeMap::from([(ROOT.to_owned(), "INFO"), ("mainstem_store".to_owned(), level)]);
            set_levels(&all);
            assert_eq!((levels(), store()), (all, holds));
        }
    }
}
