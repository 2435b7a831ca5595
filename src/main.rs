//! The `mainstem` binary.
//!
//! Exit codes: 0 after success, an orderly stop, and when the reader of the output has gone; 1 after an error, whose
//! message is the last line on standard error; 2 for a command line that cannot be understood. `docs/cli.md` has the
//! commands and their JSON.

mod cluster;
mod commands;
mod interrupt;
mod node;
mod output;
mod process;
mod profile;

use std::io::Write;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use output::style::{self, ColorChoice};

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

const EXAMPLES: &str = "\
Examples:
  mainstem serve                      starts a broker on 127.0.0.1:9092
  mainstem topic create orders --partitions 3
  echo 'two of them' | mainstem produce orders --key 42
  mainstem consume orders --from beginning --format json
  mainstem group describe billing     shows members, offsets and lag
  mainstem help produce               explains one command in full

Exit codes:
  0  success, an orderly stop, or the reader of the output has closed it
  1  an error; the last line on standard error says what happened and what to do
  2  the command line is wrong";

/// A message broker for Kafka clients: one binary with the broker and its commands.
#[derive(Debug, Parser)]
#[command(name = "mainstem", version, propagate_version = true, arg_required_else_help = true, after_help = EXAMPLES)]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
    /// When to use colours in text output; auto: on a terminal, unless NO_COLOR is set
    #[arg(long, global = true, value_name = "WHEN", value_enum, default_value_t = ColorChoice::Auto)]
    color: ColorChoice,
}

#[derive(Debug, Subcommand)]
enum Command {
    Serve(commands::serve::Serve),
    Topic(commands::topic::Topic),
    Group(commands::group::Group),
    Config(commands::config::Config),
    Produce(commands::produce::Produce),
    Consume(commands::consume::Consume),
    Dump(commands::dump::Dump),
    Verify(commands::verify::Verify),
    Doctor(commands::doctor::Doctor),
    Bench(commands::bench::Bench),
    Cp(commands::cp::Cp),
    Completions(commands::completions::Completions),
    Man(commands::man::Man),
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

/// All that there is to say was said; the exit code tells the rest.
#[derive(Debug)]
struct Said(u8);

impl std::fmt::Display for Said {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "exit code {}", self.0)
    }
}

impl std::error::Error for Said {}

fn main() -> ExitCode {
    // Debug builds unwind; they are to end as release builds do.
    mainstem_env::abort_on_panic();
    let line = CommandLine::parse();
    style::choose(line.color);
    let result = match line.command {
        Command::Serve(serve) => serve.run(),
        Command::Topic(topic) => topic.run(),
        Command::Group(group) => group.run(),
        Command::Config(config) => config.run(),
        Command::Produce(produce) => produce.run(),
        Command::Consume(consume) => consume.run(),
        Command::Dump(dump) => dump.run(),
        Command::Verify(verify) => verify.run(),
        Command::Doctor(doctor) => doctor.run(),
        Command::Bench(bench) => bench.run(),
        Command::Cp(cp) => cp.run(),
        Command::Completions(completions) => completions.run(),
        Command::Man(man) => man.run(),
    };
    let Err(error) = result else { return ExitCode::SUCCESS };
    if error.is::<output::ReaderGone>() {
        return ExitCode::SUCCESS;
    }
    if let Some(Said(code)) = error.downcast_ref() {
        return ExitCode::from(*code);
    }
    // One line, whatever the error consists of: the last line is what a supervisor shows. Nobody is left to be told
    // when that fails too.
    let name = style::of_stderr().red("mainstem:");
    let _ = writeln!(std::io::stderr(), "{name} {}", format!("{error:#}").replace('\n', " "));
    if error.is::<Usage>() { ExitCode::from(2) } else { ExitCode::FAILURE }
}
