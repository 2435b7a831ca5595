//! The `mainstem` binary.
//!
//! Exit codes: 0 after success, an orderly stop, and when the reader of the output has gone; 1 after an error, whose message
//! is the last line on standard error; 2 for a command line that cannot be understood.

mod cluster;
mod commands;
mod interrupt;
mod output;

use std::io::Write;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

const EXAMPLES: &str = "\
Examples:
  mainstem serve                      a broker on 127.0.0.1:9092
  mainstem topic create orders --partitions 3
  echo 'two of them' | mainstem produce orders --key 42
  mainstem consume orders --from beginning --format json
  mainstem help produce               everything about one command

Exit codes:
  0  success, an orderly stop, or the reader of the output has gone
  1  an error; the last line on standard error says what happened and what to do
  2  the command line could not be understood";

/// A message broker for Kafka clients, in one binary: the broker, and the commands that work with it.
#[derive(Debug, Parser)]
#[command(name = "mainstem", version, propagate_version = true, arg_required_else_help = true, after_help = EXAMPLES)]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Serve(commands::serve::Serve),
    Topic(commands::topic::Topic),
    Produce(commands::produce::Produce),
    Consume(commands::consume::Consume),
}

/// A command line that clap could not refuse, because what is wrong with it lies between options.
#[derive(Debug)]
struct Usage(String);

impl std::fmt::Display for Usage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

fn main() -> ExitCode {
    let result = match CommandLine::parse().command {
        Command::Serve(serve) => serve.run(),
        Command::Topic(topic) => topic.run(),
        Command::Produce(produce) => produce.run(),
        Command::Consume(consume) => consume.run(),
    };
    let Err(error) = result else { return ExitCode::SUCCESS };
    if error.is::<output::ReaderGone>() {
        return ExitCode::SUCCESS;
    }
    // One line, whatever the error consists of: the last line is what a supervisor shows. Nobody is left to be told when
    // that fails too.
    let _ = writeln!(std::io::stderr(), "mainstem: {}", format!("{error:#}").replace('\n', " "));
    if error.is::<Usage>() { ExitCode::from(2) } else { ExitCode::FAILURE }
}
