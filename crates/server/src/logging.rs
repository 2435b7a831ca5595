//! Log lines for people, on standard error.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

/// The variable with the filter, for example `MAINSTEM_LOG=debug` or `mainstem_server=trace,info`.
pub const FILTER_VARIABLE: &str = "MAINSTEM_LOG";

/// Sends the log lines of this process to standard error: warnings and news by default. A second call changes nothing.
pub fn start() -> Result<(), tracing_subscriber::filter::ParseError> {
    let filter = match std::env::var(FILTER_VARIABLE) {
        Ok(text) if !text.trim().is_empty() => EnvFilter::try_new(text)?,
        _ => EnvFilter::new("info"),
    };
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // An error says that lines go somewhere already, as they may in a test.
    let _ = lines.with_ansi(std::io::stderr().is_terminal()).with_target(false).try_init();
    Ok(())
}
