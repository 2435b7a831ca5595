//! The results: a file whose first line says how they were measured; then a line for each, written as soon as it is
//! known.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use super::cell::{Cell, Limits, ResultLine, WORKS};
use crate::output::{Table, note};

/// The version of the file; another one is refused.
const FORMAT: u32 = 2;
/// How every first line begins.
const BEGINNING: &str = "{\"mainstem_";

/// The first line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Head {
    mainstem_bench_matrix: u32,
    cell_ms: u64,
    cell_megabytes: u64,
    machine: String,
    /// When the program was built, as far as its file tells: seconds since 1970.
    program: u64,
}

pub struct Results {
    /// Locked: nobody else works in the folder.
    file: File,
    head: Head,
    lines: Vec<ResultLine>,
}

impl Results {
    pub fn open(path: &Path, limits: Limits, machine: String) -> Result<Results> {
        let failed = || format!("cannot use {}", path.display());
        let mut file = OpenOptions::new().read(true).append(true).create(true).open(path).with_context(failed)?;
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            bail!("{} is in use by another `bench matrix`; give another --work-dir", path.display());
        }
        let mut text = String::new();
        file.read_to_string(&mut text).with_context(failed)?;
        let head = Head {
            mainstem_bench_matrix: FORMAT,
            cell_ms: limits.duration.as_millis() as u64,
            cell_megabytes: limits.bytes / 1_000_000,
            machine,
            program: program(),
        };
        let (first, rest) = text.split_once('\n').unwrap_or((&text, ""));
        let found = serde_json::from_str::<Head>(first);
        let is_ours = found.as_ref().is_ok_and(|found| found.mainstem_bench_matrix == FORMAT);
        // Half a first line is all that a run left that was killed at once.
        let is_half = !text.contains('\n') && text.starts_with(BEGINNING);
        ensure!(is_ours || text.is_empty() || is_half, "{}", strange(path));
        let Some(found) = found.ok().filter(|_| !rest.is_empty()) else {
            file.set_len(0).with_context(failed)?;
            let mut results = Results { file, head: head.clone(), lines: Vec::new() };
            results.write(&head)?;
            return Ok(results);
        };
        ensure!(
            (found.cell_ms, found.cell_megabytes) == (head.cell_ms, head.cell_megabytes),
            "{} has cells of {} ms and at most {} MB: give --cell-duration {}ms --cell-megabytes {} to go on with it, or \
             another --work-dir",
            path.display(),
            found.cell_ms,
            found.cell_megabytes,
            found.cell_ms,
            found.cell_megabytes
        );
        for (what, same) in [("machine", found.machine == head.machine), ("build", found.program == head.program)] {
            if !same {
                note(&format!(
                    "the figures in {} come from another {what}; new figures are added to them",
                    path.display()
                ));
            }
        }
        if !rest.is_empty() && !rest.ends_with('\n') {
            // Half a line of a run that was killed: what follows begins anew.
            file.write_all(b"\n").with_context(failed)?;
        }
        let mut results = Results { file, head: found, lines: Vec::new() };
        rest.lines().filter_map(|line| serde_json::from_str(line).ok()).for_each(|line| results.take(line));
        Ok(results)
    }

    pub fn lines(&self) -> &[ResultLine] {
        &self.lines
    }

    pub fn machine(&self) -> &str {
        &self.head.machine
    }

    /// Whether all of a cell was measured.
    pub fn has(&self, cell: &Cell) -> bool {
        WORKS.iter().all(|work| self.lines.iter().any(|line| line.cell == *cell && line.outcome.work == *work))
    }

    /// Adds all results of a cell.
    pub fn add(&mut self, lines: Vec<ResultLine>) -> Result<()> {
        for line in lines {
            self.write(&line)?;
            self.take(line);
        }
        Ok(())
    }

    /// In place of what a run left of the cell that was killed before it had all of it.
    fn take(&mut self, line: ResultLine) {
        self.lines.retain(|old| old.cell != line.cell || old.outcome.work != line.outcome.work);
        self.lines.push(line);
    }

    fn write(&mut self, line: &impl Serialize) -> Result<()> {
        let mut text = serde_json::to_string(line)?;
        text.push('\n');
        self.file.write_all(text.as_bytes()).context("cannot write a result")
    }

    pub fn json(&self) -> Result<String> {
        let lines: Result<Vec<String>, _> = self.lines.iter().map(serde_json::to_string).collect();
        Ok(lines?.iter().map(|line| format!("{line}\n")).collect())
    }

    pub fn table(&self) -> String {
        let head = [
            "LAYOUT",
            "DURABILITY",
            "PARTITIONS",
            "BYTES",
            "PRODUCERS",
            "WORK",
            "MB/S",
            "RECORDS/S",
            "ACK P50 MS",
            "ACK P99 MS",
            "BROKER CPU S/GB",
        ];
        let mut table = Table::new(&head);
        for ResultLine { cell, outcome } in &self.lines {
            let ms = |us: Option<u64>| us.map_or(String::new(), |us| format!("{:.2}", us as f64 / 1e3));
            let latency = outcome.ack_latency;
            table.row(vec![
                cell.layout.clone(),
                cell.durability.clone(),
                cell.partitions.to_string(),
                cell.size.to_string(),
                cell.producers.to_string(),
                outcome.work.clone(),
                format!("{:.1}", outcome.mb_per_second),
                format!("{:.0}", outcome.records_per_second),
                ms(latency.map(|latency| latency.p50_us)),
                ms(latency.map(|latency| latency.p99_us)),
                outcome.broker_cpu_s_per_gb.map_or(String::new(), |cpu| format!("{cpu:.2}")),
            ]);
        }
        table.render("")
    }
}

fn strange(path: &Path) -> String {
    format!(
        "{} does not come from this version of `bench matrix`; give another --work-dir, or remove the file",
        path.display()
    )
}

fn program() -> u64 {
    let changed = std::env::current_exe().and_then(std::fs::metadata).and_then(|metadata| metadata.modified());
    changed.ok().and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok()).map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::bench::measure::Usage;
    use std::time::Duration;

    const LIMITS: Limits = Limits { duration: Duration::from_millis(1500), bytes: 10_000_000 };

    fn open(path: &Path) -> Result<Results> {
        Results::open(path, LIMITS, "a machine".to_owned())
    }

    fn lines(layout: &str) -> Vec<ResultLine> {
        let (layout, durability) = (layout.to_owned(), "os".to_owned());
        let cell = Cell { layout, durability, partitions: 1, size: 100, producers: 1 };
        let outcome = |work: &&str| Usage::watch(None).outcome(work, 1, 100, Duration::from_secs(1));
        WORKS.iter().map(|work| ResultLine { cell: cell.clone(), outcome: outcome(work) }).collect()
    }

    #[test]
    fn cells_that_are_in_the_file_are_known_and_half_a_line_costs_only_its_cell() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("matrix.jsonl");
        let (shared, topic) = (lines("shared"), lines("topic"));
        let mut results = open(&path).unwrap();
        results.add(shared.clone()).unwrap();
        results.add(topic[..2].to_vec()).unwrap();
        assert!(open(&path).is_err_and(|error| error.to_string().contains("in use")), "one at a time");
        drop(results);
        OpenOptions::new().append(true).open(&path).unwrap().write_all(b"{\"layout\":\"to").unwrap();
        let mut results = open(&path).unwrap();
        assert_eq!(results.lines(), [shared.clone(), topic[..2].to_vec()].concat());
        assert!(results.has(&shared[0].cell) && !results.has(&topic[0].cell));
        results.add(topic.clone()).unwrap();
        let all = [shared, topic.clone()].concat();
        assert_eq!(results.lines(), all, "nothing is there twice");
        drop(results);
        let again = open(&path).unwrap();
        assert!(again.has(&topic[0].cell) && again.lines() == all);
    }

    #[test]
    fn figures_that_do_not_belong_together_are_not_mixed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("matrix.jsonl");
        let other = Limits { duration: Duration::from_secs(5), ..LIMITS };
        drop(open(&path).unwrap());
        drop(Results::open(&path, other, String::new()).expect("there are no figures yet"));
        open(&path).unwrap().add(lines("topic")).unwrap();
        let refused = Results::open(&path, other, String::new()).err().unwrap().to_string();
        assert!(refused.contains("--cell-duration 1500ms --cell-megabytes 10 "), "{refused}");
        for strange in [
            "{\"layout\":\"topic\",\"outcome\":null,\"skipped\":\"no\"}\n",
            "a,b\n",
            "text",
            "{\"mainstem_bench_matrix\":1}\n",
        ] {
            std::fs::write(&path, strange).unwrap();
            let refused = open(&path).err().unwrap().to_string();
            assert!(refused.contains("this version"), "{refused}");
        }
        std::fs::write(&path, "{\"mainstem_ben").unwrap();
        assert!(open(&path).is_ok(), "a run that was killed at once");
    }
}
