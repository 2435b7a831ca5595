//! The table: medians of the rounds, and ratios.

use super::load::{Figures, Row};
use super::peers::Memory;

type Read = fn(&Figures) -> Option<f64>;

/// The figures that a throughput row has.
const OF_THROUGHPUT: [(&str, Read); 2] =
    [("broker's CPU, s/GB", |figures| figures.cpu_s_per_gb), ("MB/s", |figures| figures.mb_per_second)];
const OF_CREATION: [(&str, Read); 1] = [("s", |figures| figures.seconds)];
/// The figures that a latency row has.
const OF_LATENCY: [(&str, Read); 4] = [
    ("ack p50, µs", |figures| figures.ack_us.map(|[p50, _]| p50)),
    ("ack p99, µs", |figures| figures.ack_us.map(|[_, p99]| p99)),
    ("end to end p50, µs", |figures| figures.end_to_end_us.map(|[p50, _]| p50)),
    ("end to end p99, µs", |figures| figures.end_to_end_us.map(|[_, p99]| p99)),
];

struct Line {
    what: String,
    of: &'static str,
    values: Vec<f64>,
}

pub struct Table {
    machine: Vec<String>,
    lines: Vec<Line>,
    failures: Vec<String>,
}

impl Table {
    pub fn new(machine: Vec<String>) -> Table {
        Table { machine, lines: Vec::new(), failures: Vec::new() }
    }

    pub fn note_start(&mut self, of: &'static str, milliseconds: f64) {
        self.add("start to first accept, ms".to_owned(), of, milliseconds);
    }

    pub fn note_memory(&mut self, when: &str, of: &'static str, memory: Memory) {
        self.add(format!("resident, {when}, MB"), of, memory.resident_mb);
        self.add(format!("of it its own, {when}, MB"), of, memory.own_mb);
    }

    pub fn note(&mut self, row: &Row, of: &'static str, figures: Figures) {
        let measures: &[(&str, Read)] = match row {
            row if row.is_creation() => &OF_CREATION,
            row if row.is_latency() => &OF_LATENCY,
            _ => &OF_THROUGHPUT,
        };
        for (measure, read) in measures {
            if let Some(value) = read(&figures) {
                self.add(format!("{}: {measure}", row.name), of, value);
            }
        }
    }

    pub fn note_failure(&mut self, row: &Row, of: &str, error: &anyhow::Error) {
        self.failures.push(format!("{} on {of} failed: {error:#}", row.name));
    }

    /// Whether every row was measured.
    pub fn is_whole(&self) -> bool {
        self.failures.is_empty()
    }

    fn add(&mut self, what: String, of: &'static str, value: f64) {
        match self.lines.iter_mut().find(|line| line.what == what && line.of == of) {
            Some(line) => line.values.push(value),
            None => self.lines.push(Line { what, of, values: vec![value] }),
        }
    }

    fn median(&self, what: &str, of: &str) -> Option<f64> {
        let line = self.lines.iter().find(|line| line.what == what && line.of == of)?;
        let mut values = line.values.clone();
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied()
    }

    pub fn markdown(&self) -> String {
        let peers: Vec<&str> = ["floor", "before", "Kafka"]
            .into_iter()
            .filter(|peer| self.lines.iter().any(|line| line.of == *peer))
            .collect();
        let mut text: String = self.machine.iter().map(|line| format!("- {line}\n")).collect();
        let heads: String = peers.iter().map(|peer| format!(" {peer} | to {peer} |")).collect();
        let rule = " --- | --- |".repeat(peers.len());
        text.push_str(&format!("\n| row | Mainstem |{heads}\n| --- | --- |{rule}\n"));
        let mut told: Vec<&str> = Vec::new();
        for line in &self.lines {
            if !told.contains(&line.what.as_str()) {
                told.push(&line.what);
                text.push_str(&self.row(&line.what, &peers));
            }
        }
        for failure in &self.failures {
            text.push_str(&format!("\n{failure}\n"));
        }
        text
    }

    /// What Mainstem reached; what each peer reached, and the ratio to it.
    fn row(&self, what: &str, peers: &[&str]) -> String {
        let ours = self.median(what, "Mainstem");
        let shown = |value: Option<f64>| value.map(show).unwrap_or_default();
        let of_peer = |peer: &&str| {
            let theirs = self.median(what, peer);
            let ratio = ours.zip(theirs).filter(|(_, theirs)| *theirs > 0.0).map(|(ours, theirs)| ours / theirs);
            let ratio = ratio.map(|ratio| format!("{ratio:.2}")).unwrap_or_default();
            format!(" {} | {ratio} |", shown(theirs))
        };
        let of_peers: String = peers.iter().map(of_peer).collect();
        format!("| {what} | {} |{of_peers}\n", shown(ours))
    }
}

fn show(value: f64) -> String {
    match value {
        100.0.. => format!("{value:.0}"),
        10.0.. => format!("{value:.1}"),
        _ => format!("{value:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_ratios_stand_side_by_side() {
        let mut table = Table::new(vec!["processor: 2 x some".to_owned()]);
        let row = Row::all()[0];
        for (ours, kafka) in [(0.4, 2.0), (9.0, 4.0), (0.5, 1.0)] {
            table.note(&row, "Mainstem", Figures::of_cpu(ours));
            table.note(&row, "Kafka", Figures::of_cpu(kafka));
        }
        table.note(&row, "floor", Figures::of_cpu(0.25));
        table.note_memory("idle", "Mainstem", Memory { resident_mb: 4.5, own_mb: 2.5 });
        let text = table.markdown();
        assert!(text.starts_with("- processor: 2 x some\n"), "{text}");
        assert!(
            text.contains("| produce 1 KiB: broker's CPU, s/GB | 0.500 | 0.250 | 2.00 | 2.000 | 0.25 |\n"),
            "{text}"
        );
        assert!(text.contains("| resident, idle, MB | 4.500 |  |  |  |  |\n"), "{text}");
        assert!(!text.contains("before"), "{text}");
        table.note(&row, "before", Figures::of_cpu(0.4));
        let text = table.markdown();
        let line = "| produce 1 KiB: broker's CPU, s/GB | 0.500 | 0.250 | 2.00 | 0.400 | 1.25 | 2.000 | 0.25 |\n";
        assert!(text.contains(line), "{text}");
        assert!(table.is_whole());
        table.note_failure(&row, "Kafka", &anyhow::anyhow!("no room"));
        assert!(!table.is_whole() && table.markdown().contains("produce 1 KiB on Kafka failed: no room"));
    }
}
