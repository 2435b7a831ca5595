//! The results: lines in a file, each written as soon as it is known.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::path::Path;

use anyhow::{Context, Result};

use super::cell::{Cell, ResultLine};
use crate::output::Table;

pub struct Results {
    file: File,
    lines: Vec<ResultLine>,
}

impl Results {
    pub fn open(path: &Path) -> Result<Results> {
        let failed = || format!("{} cannot be used", path.display());
        let mut file = OpenOptions::new().read(true).append(true).create(true).open(path).with_context(failed)?;
        let mut text = String::new();
        file.read_to_string(&mut text).with_context(failed)?;
        if !text.is_empty() && !text.ends_with('\n') {
            // Half a line of a run that was killed: what follows begins anew.
            file.write_all(b"\n").with_context(failed)?;
        }
        let lines = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        Ok(Results { file, lines })
    }

    pub fn lines(&self) -> &[ResultLine] {
        &self.lines
    }

    /// Whether a cell was measured: producing and consuming, or found to be impossible.
    pub fn has(&self, cell: &Cell) -> bool {
        let found: Vec<_> = self.lines.iter().filter(|line| line.cell == *cell).collect();
        found.len() >= 2 || found.iter().any(|line| line.skipped.is_some())
    }

    pub fn add(&mut self, line: ResultLine) -> Result<()> {
        let mut text = serde_json::to_string(&line)?;
        text.push('\n');
        self.file.write_all(text.as_bytes()).context("a result cannot be written")?;
        self.lines.push(line);
        Ok(())
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
        for ResultLine { cell, outcome, .. } in &self.lines {
            let Some(outcome) = outcome else { continue };
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_that_are_in_the_file_are_known_and_half_a_line_costs_only_itself() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("matrix.jsonl");
        let cell = |layout: &str| Cell {
            layout: layout.to_owned(),
            durability: "os".to_owned(),
            partitions: 1,
            size: 100,
            producers: 1,
        };
        let mut results = Results::open(&path).unwrap();
        let skipped = ResultLine { cell: cell("shared"), outcome: None, skipped: Some("no such layout".to_owned()) };
        results.add(skipped.clone()).unwrap();
        drop(results);
        OpenOptions::new().append(true).open(&path).unwrap().write_all(b"{\"layout\":\"to").unwrap();
        let mut results = Results::open(&path).unwrap();
        assert_eq!(results.lines(), [skipped]);
        assert!(results.has(&cell("shared")) && !results.has(&cell("topic")));
        results.add(ResultLine { cell: cell("topic"), outcome: None, skipped: Some("none".to_owned()) }).unwrap();
        assert!(Results::open(&path).unwrap().has(&cell("topic")));
    }
}
