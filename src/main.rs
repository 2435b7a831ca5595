//! The `mainstem` binary.
//!
//! Exit codes: 0 after success and after an orderly stop; 1 after an error, whose message is the last line on standard error;
//! 2 for a command line that cannot be understood.

mod commands;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// A message broker for Kafka clients, in one binary.
#[derive(Debug, Parser)]
#[command(name = "mainstem", version, propagate_version = true, arg_required_else_help = true)]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Serve(commands::serve::Serve),
}

fn main() -> ExitCode {
    let result = match CommandLine::parse().command {
        Command::Serve(serve) => serve.run(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // One line, whatever the error consists of: the last line is what a supervisor shows.
            eprintln!("mainstem: {}", format!("{error:#}").replace('\n', " "));
            ExitCode::FAILURE
        }
    }
}
