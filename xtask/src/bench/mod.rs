//! `cargo xtask bench`: Mainstem beside a real Kafka, and beside the least work that any broker must do, in one run.
//!
//! Every row runs on the floor (`tests/peers/floor.rs`), on Mainstem, on an earlier Mainstem (`--before BINARY`) and on
//! Kafka in turn, `--rounds` times; a figure is the median of its rounds. The load comes from `mainstem bench`, which
//! measures any Kafka broker. CPU is that of the broker's process alone. Before the first row each broker gets one run
//! that is not counted, so that memory and the Java compiler are warm.
//!
//! Everything is below `target/bench`; data folders are removed at the end. The table is printed, and written to
//! `target/bench/table.md`.

mod load;
mod machine;
mod options;
mod peers;
mod table;

use crate::test::Places;
use anyhow::{Context, Result, ensure};
use load::{Figures, Row};
use options::Options;
use peers::{Floor, Peer};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use table::Table;

/// When a broker's memory is looked at: everything that it does now and then has run once.
const IDLE_AFTER: Duration = Duration::from_secs(4);

/// Where the run keeps its files.
struct Bench {
    root: PathBuf,
    folder: PathBuf,
    binary: PathBuf,
    floor: PathBuf,
}

/// Runs all rows; true when none failed.
pub fn run(arguments: &[String]) -> Result<bool> {
    let options = Options::parse(arguments)?;
    let places = Places::new()?;
    let folder = places.target.join("bench");
    remove(&folder.join("run"))?;
    std::fs::create_dir_all(folder.join("run")).with_context(|| format!("cannot create {}", folder.display()))?;
    let binary = options.binary.clone().unwrap_or_else(|| places.binary.clone());
    let bench = Bench { floor: folder.join("floor"), root: places.root.clone(), binary, folder };
    bench.build(options.binary.is_none())?;
    let outcome = bench.measure(&options, &places);
    remove(&bench.folder.join("run"))?;
    let table = outcome?;
    let text = table.markdown();
    println!("\n{text}");
    let path = bench.folder.join("table.md");
    std::fs::write(&path, &text).with_context(|| format!("cannot write {}", path.display()))?;
    println!("written to {}", path.display());
    Ok(table.is_whole())
}

impl Bench {
    fn build(&self, with_broker: bool) -> Result<()> {
        if with_broker {
            say("building the release binary");
            let status = Command::new("cargo")
                .args(["build", "--release", "--locked", "--package", "mainstem"])
                .current_dir(&self.root)
                .status()?;
            ensure!(status.success(), "the release binary does not build");
        }
        ensure!(self.binary.exists(), "{} does not exist", self.binary.display());
        let source = self.root.join("tests/peers/floor.rs");
        let status =
            Command::new("rustc").args(["--edition", "2024", "-O", "-o"]).arg(&self.floor).arg(&source).status();
        ensure!(status.context("cannot start rustc")?.success(), "{} does not build", source.display());
        Ok(())
    }

    fn measure(&self, options: &Options, places: &Places) -> Result<Table> {
        let mut table = Table::new(machine::describe(&self.root, &self.folder, options)?);
        let run = self.folder.join("run");
        let mut brokers = vec![Peer::mainstem("Mainstem", &self.binary, &run, &options.settings)?];
        if let Some(before) = &options.before {
            brokers.push(Peer::mainstem("before", before, &run, &options.settings)?);
        }
        if options.kafka {
            say("starting Kafka (the first time, its files are fetched)");
            brokers.push(Peer::kafka(places, &run)?);
        }
        for broker in &brokers {
            table.note_start(broker.name, broker.start_ms);
        }
        std::thread::sleep(IDLE_AFTER);
        for broker in &brokers {
            table.note_memory("idle", broker.name, broker.memory()?);
        }
        let rows: Vec<Row> = Row::all().into_iter().filter(|row| options.wants(row.name)).collect();
        let warm = Row::all().into_iter().next().context("there are no rows")?;
        for broker in &brokers {
            say(&format!("warming up {}", broker.name));
            warm.run(&self.binary, broker, options)?;
        }
        for row in &rows {
            for round in 1..=options.rounds {
                say(&format!("{}, round {round} of {}", row.name, options.rounds));
                if let Some(work) = row.floor {
                    let cpu = Floor::start(&self.floor, work, &run, options.bytes())?.measure(options.bytes())?;
                    table.note(row, "floor", Figures::of_cpu(cpu));
                }
                for broker in &brokers {
                    match row.run(&self.binary, broker, options) {
                        Ok(figures) => table.note(row, broker.name, figures),
                        Err(error) => table.note_failure(row, broker.name, &error),
                    }
                }
            }
        }
        for broker in &brokers {
            table.note_memory("after the run", broker.name, broker.memory()?);
        }
        brokers.into_iter().try_for_each(Peer::stop)?;
        Ok(table)
    }
}

fn remove(folder: &Path) -> Result<()> {
    if folder.exists() {
        std::fs::remove_dir_all(folder).with_context(|| format!("cannot remove {}", folder.display()))?;
    }
    Ok(())
}

fn say(text: &str) {
    println!("bench: {text}");
}
