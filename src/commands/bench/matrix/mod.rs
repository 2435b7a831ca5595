//! `mainstem bench matrix`: which layout wins when. Every cell has a broker of its own, of this binary, with an empty folder.

mod broker;
mod cell;
mod page;
mod results;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use clap::Args;

use crate::cluster::parse_timeout;
use crate::interrupt::Interrupt;
use crate::output::{OutputFormat, note, print};
use cell::{Cell, Limits};
use results::Results;

/// When a quick run takes no further cell; the last one ends well before two minutes are over.
const QUICK_ENDS: Duration = Duration::from_secs(95);
const RESULTS_FILE: &str = "matrix.jsonl";
const PAGE_FILE: &str = "matrix.html";

const EXAMPLES: &str = "\
Examples:
  mainstem bench matrix --work-dir /var/tmp/bench --quick     less than two minutes
  mainstem bench matrix --work-dir /var/tmp/bench             an hour; may be interrupted and goes on where it was
  mainstem bench matrix --work-dir /var/tmp/bench --layouts shared,partition --partitions 1,1000 --sizes 1024

In the folder: `matrix.jsonl`, a line for each result (cells that are in it are not measured again), and `matrix.html`, one \
page with charts that needs nothing else. Data folders of the brokers are made there and removed.";

/// Measure layouts, durabilities, partitions, sizes and producers against each other.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct BenchMatrix {
    /// Where data and results go: on the disk that is to be measured
    #[arg(long, value_name = "DIR")]
    work_dir: PathBuf,
    /// A few cells, in less than two minutes
    #[arg(long)]
    quick: bool,
    #[arg(long, value_name = "LIST", value_delimiter = ',', help = "[default: partition,topic,shared]")]
    layouts: Vec<String>,
    #[arg(long, value_name = "LIST", value_delimiter = ',', help = "[default: os,disk]")]
    durabilities: Vec<String>,
    #[arg(long, value_name = "LIST", value_delimiter = ',', help = "[default: 1,64,1000,10000; quick: 1,64]")]
    partitions: Vec<i32>,
    #[arg(long, value_name = "LIST", value_delimiter = ',', help = "[default: 100,1024,10240; quick: 1024]")]
    sizes: Vec<u32>,
    #[arg(long, value_name = "LIST", value_delimiter = ',', help = "[default: 1,8,64; quick: 1,8]")]
    producers: Vec<u32>,
    /// How long each cell produces [default: 5s, quick: 1s]
    #[arg(long, value_name = "DURATION", value_parser = parse_timeout)]
    cell_duration: Option<Duration>,
    /// Megabytes that a cell produces at most
    #[arg(long, value_name = "MB", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    cell_megabytes: u64,
    /// How to tell the result; JSON is one object a line
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = OutputFormat::Text)]
    output: OutputFormat,
}

impl BenchMatrix {
    pub async fn run(self) -> anyhow::Result<()> {
        std::fs::create_dir_all(&self.work_dir)
            .with_context(|| format!("{} cannot be created", self.work_dir.display()))?;
        let path = self.work_dir.join(RESULTS_FILE);
        let mut results = Results::open(&path)?;
        let seconds = if self.quick { 1 } else { 5 };
        let duration = self.cell_duration.unwrap_or(Duration::from_secs(seconds));
        let limits = Limits { duration, bytes: self.cell_megabytes * 1_000_000 };
        let all = self.cells()?;
        let open: Vec<&Cell> = all.iter().filter(|cell| !results.has(cell)).collect();
        note(&format!(
            "{} cells, {} of them measured already; results in {}",
            all.len(),
            all.len() - open.len(),
            path.display()
        ));
        let begun = Instant::now();
        let mut interrupt = Interrupt::watch()?;
        for (number, cell) in open.iter().enumerate() {
            if self.quick && begun.elapsed() > QUICK_ENDS {
                note(&format!("the time is over: {} cells are left for another run", open.len() - number));
                break;
            }
            note(&format!("{}/{}  {cell}", number + 1, open.len()));
            let measured = tokio::select! {
                measured = cell::measure(cell, limits, &self.work_dir) => measured,
                () = interrupt.came() => {
                    note("interrupted: the next run goes on here");
                    break;
                }
            };
            for line in measured.with_context(|| format!("{cell}"))? {
                if let Some(reason) = &line.skipped {
                    note(&format!("      left out: {reason}"));
                } else if let Some(outcome) = &line.outcome {
                    note(&format!("      {:<7}  {:9.1} MB/s", outcome.work, outcome.mb_per_second));
                }
                results.add(line)?;
            }
        }
        let page = self.work_dir.join(PAGE_FILE);
        std::fs::write(&page, page::render(results.lines()))
            .with_context(|| format!("{} cannot be written", page.display()))?;
        match self.output {
            OutputFormat::Json => print(&results.json()?)?,
            OutputFormat::Text => print(&results.table())?,
        }
        note(&format!("charts: {}", page.display()));
        Ok(())
    }

    fn cells(&self) -> anyhow::Result<Vec<Cell>> {
        let texts = |given: &[String], default: &[&str]| -> Vec<String> {
            if given.is_empty() { default.iter().map(|&text| text.to_owned()).collect() } else { given.to_vec() }
        };
        let layouts = texts(&self.layouts, &["partition", "topic", "shared"]);
        let durabilities = texts(&self.durabilities, &["os", "disk"]);
        let partitions = numbers(&self.partitions, if self.quick { &[1, 64] } else { &[1, 64, 1000, 10_000] });
        let sizes = numbers(&self.sizes, if self.quick { &[1024] } else { &[100, 1024, 10_240] });
        let producers = numbers(&self.producers, if self.quick { &[1, 8] } else { &[1, 8, 64] });
        ensure!(partitions.iter().all(|count| (1..=10_000).contains(count)), "give from 1 to 10000 partitions");
        ensure!(sizes.iter().all(|size| (1..=10 << 20).contains(size)), "give sizes from 1 byte to 10 MiB");
        ensure!(producers.iter().all(|count| (1..=1000).contains(count)), "give from 1 to 1000 producers");
        let mut cells = Vec::new();
        for &size in &sizes {
            for &count in &partitions {
                for &clients in &producers {
                    for durability in &durabilities {
                        for layout in &layouts {
                            let (layout, durability) = (layout.clone(), durability.clone());
                            cells.push(Cell { layout, durability, partitions: count, size, producers: clients });
                        }
                    }
                }
            }
        }
        Ok(cells)
    }
}

fn numbers<T: Copy>(given: &[T], default: &[T]) -> Vec<T> {
    if given.is_empty() { default.to_vec() } else { given.to_vec() }
}
