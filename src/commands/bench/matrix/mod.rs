//! `mainstem bench matrix`: which layout wins when. The cells have brokers of their own, of this binary, with empty
//! folders.

mod bed;
mod broker;
mod cell;
mod machine;
mod results;
mod run;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use clap::Args;

use crate::Usage;
use crate::cluster::parse_timeout;
use crate::interrupt::Interrupt;
use crate::output::progress::in_words;
use crate::output::{OutputFormat, note, print};
use bed::Bed;
use cell::{Cell, Limits, ResultLine};
use results::Results;

/// When a quick run takes no further cell.
const QUICK_ENDS: Duration = Duration::from_secs(160);
const RESULTS_FILE: &str = "matrix.jsonl";
const PAGE_FILE: &str = "matrix.html";
const LAYOUTS: [&str; 3] = ["partition", "topic", "shared"];
const DURABILITIES: [&str; 3] = ["os", "disk", "memory"];
/// A run ends when so many cells in a row cannot be measured.
const FAILURES_MAX: u32 = 3;
/// Creating a partition, its first record, and removing its files: what cells share, for each of them.
const PARTITION_TIME: Duration = Duration::from_micros(250);
const BED_TIME: Duration = Duration::from_millis(400);
/// Small records take more on the disk than they have; files are created in blocks.
const DISK_FACTOR: f64 = 1.5;
const DISK_LEAST: u64 = 500_000_000;

const EXAMPLES: &str = "\
Examples:
  mainstem bench matrix --work-dir /var/tmp/bench --quick     takes less than three minutes
  mainstem bench matrix --work-dir /var/tmp/bench             takes half an hour; resumes after an interruption
  mainstem bench matrix --work-dir /var/tmp/bench --layouts shared,partition --partitions 1,1000 --sizes 1024

The command writes two files into the folder. `matrix.jsonl` has a line for each result; the command does not measure \
these cells again. `matrix.html` is a page with charts that needs no other file. The command creates the data folders of \
its brokers there, too, and removes them.";

/// Compare layouts, durabilities, partition counts, record sizes and producer counts.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct BenchMatrix {
    /// Folder for data and results, on the disk to measure
    #[arg(long, value_name = "DIR")]
    work_dir: PathBuf,
    /// Measure a few cells only; takes less than three minutes
    #[arg(long)]
    quick: bool,
    #[arg(long, value_name = "LIST", value_delimiter = ',', help = "[default: partition,topic,shared]")]
    layouts: Vec<String>,
    #[arg(long, value_name = "LIST", value_delimiter = ',', help = "[default: os,disk,memory]")]
    durabilities: Vec<String>,
    #[arg(long, value_name = "LIST", value_delimiter = ',', help = "[default: 1,64,1000,10000; quick: 1,1000]")]
    partitions: Vec<u32>,
    #[arg(long, value_name = "LIST", value_delimiter = ',', help = "[default: 100,1024,10240; quick: 1024]")]
    sizes: Vec<u32>,
    #[arg(long, value_name = "LIST", value_delimiter = ',', help = "[default: 1,8,64; quick: 1,8]")]
    producers: Vec<u32>,
    /// How long each cell produces; the whole cell takes about twice that time
    #[arg(long, value_name = "DURATION", default_value = "1500ms", value_parser = parse_timeout)]
    cell_duration: Duration,
    /// The most that a cell produces, in megabytes
    #[arg(long, value_name = "MB", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    cell_megabytes: u64,
    /// Format of the result; JSON is one object a line
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = OutputFormat::Text)]
    output: OutputFormat,
}

impl BenchMatrix {
    pub async fn run(self) -> anyhow::Result<()> {
        let limits = Limits { duration: self.cell_duration, bytes: self.cell_megabytes * 1_000_000 };
        let all = self.cells()?;
        let work_dir = &self.work_dir;
        std::fs::create_dir_all(work_dir).with_context(|| format!("cannot create {}", work_dir.display()))?;
        check_space(work_dir, limits)?;
        let mut results = Results::open(&work_dir.join(RESULTS_FILE), limits, machine::describe())?;
        broker::remove_leftovers(work_dir);
        let all = self.possible(all).await?;
        let outcome = self.measure(&all, limits, &mut results).await;
        let page = work_dir.join(PAGE_FILE);
        let measured: Vec<_> = results.lines().iter().map(ResultLine::measured).collect();
        std::fs::write(&page, mainstem_charts::render(&measured, results.machine()))
            .with_context(|| format!("cannot write {}", page.display()))?;
        match self.output {
            OutputFormat::Json => print(&results.json()?)?,
            OutputFormat::Text => print(&results.table())?,
        }
        note(&format!("charts: {}", page.display()));
        outcome
    }

    /// Measures what is not measured yet. Cells that fail are left for the next run.
    async fn measure(&self, all: &[Cell], limits: Limits, results: &mut Results) -> anyhow::Result<()> {
        let open: Vec<&Cell> = all.iter().filter(|cell| !results.has(cell)).collect();
        let mut clock = Estimate::new(&open, limits);
        note(&format!(
            "{} cells, {} of them already measured; {} to do, about {}; up to {:.1} GB of disk at a time; {}",
            all.len(),
            all.len() - open.len(),
            open.len(),
            in_words(if self.quick { clock.left().min(QUICK_ENDS) } else { clock.left() }),
            disk_needed(limits) as f64 / 1e9,
            self.work_dir.join(RESULTS_FILE).display()
        ));
        let (begun, mut interrupt) = (Instant::now(), Interrupt::watch()?);
        let (mut bed, mut failed, mut in_a_row) = (None, 0, 0);
        for (number, cell) in open.iter().enumerate() {
            if self.quick && begun.elapsed() > QUICK_ENDS {
                note(&format!("the time is over; {} cells are left for another run", open.len() - number));
                break;
            }
            note(&format!("{}/{}  {cell}  (about {} left)", number + 1, open.len(), in_words(clock.left())));
            let measured = tokio::select! {
                measured = self.measure_cell(&mut bed, cell, limits) => measured,
                () = interrupt.came() => {
                    note("interrupted: the next run continues here");
                    break;
                }
            };
            clock.done(number);
            match measured {
                Ok(lines) => {
                    note(&format!("      {}", summary(&lines)));
                    results.add(lines)?;
                    in_a_row = 0;
                }
                Err(error) => {
                    note(&format!("      failed: {error:#}"));
                    // The next cell begins with a new broker.
                    bed = None;
                    failed += 1;
                    in_a_row += 1;
                    ensure!(in_a_row < FAILURES_MAX, "{in_a_row} cells in a row failed; the last error: {error:#}");
                }
            }
        }
        ensure!(failed == 0, "{failed} cells failed; the next run retries them");
        Ok(())
    }

    async fn measure_cell(
        &self,
        bed: &mut Option<Bed>,
        cell: &Cell,
        limits: Limits,
    ) -> anyhow::Result<Vec<ResultLine>> {
        if !bed.as_ref().is_some_and(|bed| bed.suits(cell)) {
            // Its folder goes before there is another.
            drop(bed.take());
            *bed = Some(Bed::make(&self.work_dir, cell).await?);
        }
        let Some(bed) = bed else { bail!("there is no broker") };
        let outcomes = run::measure(bed, cell, limits).await?;
        Ok(outcomes.into_iter().map(|outcome| ResultLine { cell: cell.clone(), outcome }).collect())
    }

    /// Without the cells that a broker of this program cannot have. Who named them is told so.
    async fn possible(&self, cells: Vec<Cell>) -> anyhow::Result<Vec<Cell>> {
        let mut kinds: Vec<Cell> = Vec::new();
        for cell in &cells {
            if !kinds.iter().any(|kind| kind.config() == cell.config()) {
                kinds.push(cell.clone());
            }
        }
        let mut impossible = Vec::new();
        for (kind, checked) in kinds.iter().zip(bed::possible(&self.work_dir, &kinds).await?) {
            let Err(reason) = checked else { continue };
            let named = self.layouts.contains(&kind.layout) || self.durabilities.contains(&kind.durability);
            if named {
                return Err(Usage(format!("{}, {}: {reason}", kind.layout, kind.durability)).into());
            }
            note(&format!("without {}, {}: {reason}", kind.layout, kind.durability));
            impossible.push(kind.config());
        }
        Ok(cells.into_iter().filter(|cell| !impossible.contains(&cell.config())).collect())
    }

    /// In the order in which they are measured: what is compared most lies close together in time.
    fn cells(&self) -> anyhow::Result<Vec<Cell>> {
        let texts = |given: &[String], default: &[&str]| -> Vec<String> {
            if given.is_empty() { default.iter().map(|&text| text.to_owned()).collect() } else { given.to_vec() }
        };
        let layouts = texts(&self.layouts, &LAYOUTS);
        let durabilities = texts(&self.durabilities, &DURABILITIES);
        let partitions = numbers(&self.partitions, if self.quick { &[1, 1000] } else { &[1, 64, 1000, 10_000] });
        let sizes = numbers(&self.sizes, if self.quick { &[1024] } else { &[100, 1024, 10_240] });
        let producers = numbers(&self.producers, if self.quick { &[1, 8] } else { &[1, 8, 64] });
        for (option, values, most) in
            [("partitions", &partitions, 10_000), ("sizes", &sizes, 10 << 20), ("producers", &producers, 1000)]
        {
            if let Some(wrong) = values.iter().find(|value| !(1..=most).contains(*value)) {
                return Err(Usage(format!("--{option}: give numbers from 1 to {most}, not {wrong}")).into());
            }
        }
        let mut cells = Vec::new();
        for &count in &partitions {
            for durability in &durabilities {
                for layout in &layouts {
                    for (&size, &clients) in sizes.iter().flat_map(|size| producers.iter().map(move |n| (size, n))) {
                        let (layout, durability) = (layout.clone(), durability.clone());
                        let cell = Cell { layout, durability, partitions: count as i32, size, producers: clients };
                        if !cells.contains(&cell) {
                            cells.push(cell);
                        }
                    }
                }
            }
        }
        Ok(cells)
    }
}

fn numbers(given: &[u32], default: &[u32]) -> Vec<u32> {
    if given.is_empty() { default.to_vec() } else { given.to_vec() }
}

fn summary(lines: &[ResultLine]) -> String {
    let mut parts = Vec::new();
    for ResultLine { outcome, .. } in lines {
        parts.push(match (outcome.work.as_str(), outcome.ack_latency) {
            ("ack", Some(latency)) => format!("ack p50 {:.2} ms", latency.p50_us as f64 / 1e3),
            _ => format!("{} {:.1} MB/s", outcome.work, outcome.mb_per_second),
        });
    }
    parts.join(", ")
}

/// What lies on the disk at most at any time.
fn disk_needed(limits: Limits) -> u64 {
    // A cell may be begun just before the bed is full.
    ((bed::BYTES_MAX + 2 * limits.bytes) as f64 * DISK_FACTOR) as u64 + DISK_LEAST
}

fn check_space(folder: &Path, limits: Limits) -> anyhow::Result<()> {
    let found =
        rustix::fs::statvfs(folder).with_context(|| format!("cannot read the free space of {}", folder.display()))?;
    let (free, needed) = (found.f_bavail * found.f_frsize, disk_needed(limits));
    ensure!(
        free >= needed,
        "{} has {:.1} GB free, but up to {:.1} GB are needed; give another --work-dir, or a smaller --cell-megabytes",
        folder.display(),
        free as f64 / 1e9,
        needed as f64 / 1e9
    );
    Ok(())
}

/// How long the rest will take: by what is known before, and by how wrong that was so far.
struct Estimate {
    times: Vec<Duration>,
    begun: Instant,
    done: usize,
}

impl Estimate {
    fn new(open: &[&Cell], limits: Limits) -> Estimate {
        let new_bed = |number: usize| {
            let cell = open[number];
            number == 0 || {
                let before = open[number - 1];
                (&before.layout, &before.durability, before.partitions)
                    != (&cell.layout, &cell.durability, cell.partitions)
            }
        };
        let time = |number: usize| {
            let bed = BED_TIME + PARTITION_TIME * open[number].partitions as u32;
            // Of the cells that share one, every third or so needs another.
            limits.time() + if new_bed(number) { bed } else { bed / 3 }
        };
        Estimate { times: (0..open.len()).map(time).collect(), begun: Instant::now(), done: 0 }
    }

    fn done(&mut self, number: usize) {
        self.done = number + 1;
    }

    fn left(&self) -> Duration {
        let (past, rest) = self.times.split_at(self.done);
        let past: Duration = past.iter().sum();
        let rest: Duration = rest.iter().sum();
        // The first ones say little.
        let weight = Duration::from_secs(20);
        rest.mul_f64((self.begun.elapsed() + weight).as_secs_f64() / (past + weight).as_secs_f64())
    }
}
