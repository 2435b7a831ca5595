//! The project's own checks and its test runner.
//!
//! `cargo xtask tidy` checks the rules that the compiler does not know (see [`tidy`]);
//! `cargo xtask test` runs every test, real clients included (see [`mod@test`]);
//! `cargo xtask fuzz` runs the fuzz targets (see [`test::fuzz`]);
//! `cargo xtask bench` compares Mainstem with a real Kafka and with the limit of the machine (see [`bench`]).
//! `cargo xtask sim` runs the deterministic simulation (see [`sim`]).
//! The exit code is 0 when nothing was found and every test passed, else 1; 2 for a wrong command line.

mod bench;
mod command;
mod sim;
mod test;
mod tidy;

use std::process::ExitCode;

const HELP: &str = "\
cargo xtask tidy [--no-build]          check the project's rules, rustfmt, clippy, licences; --no-build leaves clippy out
cargo xtask test [SUITE…]              run every test, or the named suites: rust fuzz clients
                                       clients NAME…: one or more of the client suites, for example `clients java kcat`
    --binary FILE                      run the client suites with this binary, for example target/debug/mainstem, instead of a release build
    --against kafka                    run the client suites against a real Kafka (to check the suites themselves)
    --binary PATH                      start this binary instead of building one
    --set KEY=VALUE                    a setting of the brokers that are started for suites
    --against HOST:PORT                run the client suites against a broker that runs already
cargo xtask fuzz [--seconds N] [TARGET…]   run the fuzz targets for N seconds each (10)
cargo xtask bench                      measure Mainstem, a real Kafka and the limit of the machine; writes target/bench/table.md
    --rounds N                         rounds of each row; a figure is their median (3)
    --gb N                             payload of each throughput row, in GB (1)
    --seconds N                        how long each latency row sends (10)
    --only WORD[,WORD…]                only rows whose name contains one of the words: produce, consume, latency, 100 B, …
    --no-kafka                         do not start Kafka
    --before BINARY                    measure an earlier Mainstem, too
    --binary FILE                      measure this binary instead of a release build
    --set KEY=VALUE                    a setting of Mainstem's broker, for example mainstem.layout=shared
cargo xtask sim [--seeds N]            simulate a cluster, N seeds (1000); `cargo xtask sim --help` has more
cargo xtask prepare [NAME…]            fetch what the client suites need, run nothing";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let rest = arguments.get(1..).unwrap_or_default();
    let outcome = match arguments.first().map(String::as_str) {
        Some("tidy") => tidy::run(rest),
        Some("test") => test::run(rest),
        Some("fuzz") => test::fuzz::run(rest),
        Some("bench") => bench::run(rest),
        Some("sim") => sim::run(rest),
        Some("prepare") => test::prepare_only(rest),
        Some("help" | "--help" | "-h") => {
            println!("{HELP}");
            return ExitCode::SUCCESS;
        }
        _ => {
            eprintln!("{HELP}");
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}
