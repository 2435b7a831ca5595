//! One page with all charts, each the answer to a question. It needs nothing but itself, and no script.

use std::collections::BTreeSet;
use std::fmt::Write;

use crate::chart::{Chart, Scale, Series, escape};
use crate::numbers::count;

/// What one kind of work gave in one combination of settings.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured<'a> {
    pub layout: &'a str,
    pub durability: &'a str,
    pub partitions: u32,
    /// Bytes of a record's value.
    pub size: u32,
    pub producers: u32,
    /// `ack` (one record at a time), `produce` or `consume`.
    pub work: &'a str,
    /// Millions of bytes.
    pub mb_per_second: f64,
    pub records_per_second: f64,
    pub ack_p50_us: Option<u64>,
    pub ack_p99_us: Option<u64>,
    /// CPU seconds for each GB (1e9 bytes) of values.
    pub client_cpu_s_per_gb: Option<f64>,
    pub broker_cpu_s_per_gb: Option<f64>,
}

const STYLE: &str = "
:root{color-scheme:light dark;--ground:#fff;--text:#212529;--soft:#495057;--line:#dee2e6;--c0:#0b7285;--c1:#d9480f;--c2:#5f3dc4;--c3:#2b8a3e}
@media (prefers-color-scheme:dark){:root{--ground:#16191d;--text:#e9ecef;--soft:#adb5bd;--line:#343a40;--c0:#3bc9db;--c1:#ff922b;--c2:#b197fc;--c3:#69db7c}}
body{font:16px/1.45 system-ui,sans-serif;margin:0 auto;max-width:1180px;padding:1rem;color:var(--text);background:var(--ground)}
h1{font-size:1.5rem}h2{font-size:1.2rem;margin:2rem 0 .4rem}p{max-width:75ch;margin:.3rem 0}
.charts{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,330px),1fr));gap:14px;margin-top:.6rem}
figure{margin:0;border:1px solid var(--line);border-radius:8px;padding:8px 10px;min-width:0}
figure p,figcaption{font-size:.85rem;color:var(--soft)}figcaption strong{color:var(--text);display:block}
.key span{margin-right:12px;white-space:nowrap}.key i{display:inline-block;width:11px;height:11px;border-radius:3px;margin-right:5px;background:currentColor}
svg{width:100%;height:auto;display:block}svg text{font-size:11px;fill:var(--soft)}svg line{stroke:var(--line)}
polyline{fill:none;stroke:currentColor;stroke-width:2}circle{fill:currentColor}
.c0{color:var(--c0)}.c1{color:var(--c1)}.c2{color:var(--c2)}.c3{color:var(--c3)}
summary{cursor:pointer;margin-top:2rem;font-weight:600}.wide{overflow-x:auto}
table{border-collapse:collapse;font-variant-numeric:tabular-nums;font-size:.8rem;margin-top:.6rem}
td,th{padding:3px 9px;border-bottom:1px solid var(--line);text-align:right;white-space:nowrap}
td:nth-child(-n+2),th:nth-child(-n+2){text-align:left}
";

/// What is looked at, where not all is: the nearest that was measured.
const SIZE: u32 = 1024;
const PRODUCERS: u32 = 8;

/// A figure of a result.
#[derive(Clone, Copy)]
struct Measure {
    work: &'static str,
    unit: &'static str,
    scale: Scale,
    of: fn(&Measured<'_>) -> Option<f64>,
}

const PRODUCE_RATE: Measure =
    Measure { work: "produce", unit: "MB/s", scale: Scale::Linear, of: |line| Some(line.mb_per_second) };
const CONSUME_RATE: Measure = Measure { work: "consume", ..PRODUCE_RATE };
const PRODUCE_CPU: Measure =
    Measure { work: "produce", unit: "CPU s/GB", scale: Scale::Linear, of: |line| line.broker_cpu_s_per_gb };
const CONSUME_CPU: Measure = Measure { work: "consume", ..PRODUCE_CPU };
const ACK_P50: Measure =
    Measure { work: "ack", unit: "ms", scale: Scale::Log, of: |line| line.ack_p50_us.map(milliseconds) };
const ACK_P99: Measure = Measure { of: |line| line.ack_p99_us.map(milliseconds), ..ACK_P50 };
const ACK_RATE: Measure =
    Measure { work: "ack", unit: "records/s", scale: Scale::Log, of: |line| Some(line.records_per_second) };

/// What lies across a chart.
#[derive(Clone, Copy)]
struct Across {
    what: &'static str,
    of: fn(&Measured<'_>) -> u32,
}

const PARTITIONS: Across = Across { what: "partitions", of: |line| line.partitions };
const BY_PRODUCERS: Across = Across { what: "producers", of: |line| line.producers };
const SIZES: Across = Across { what: "bytes a record", of: |line| line.size };

type NameOf = for<'a> fn(&Measured<'a>) -> &'a str;

/// What a line is drawn for.
const LAYOUT: NameOf = |line| line.layout;
const DURABILITY: NameOf = |line| line.durability;

struct Page<'a> {
    lines: &'a [Measured<'a>],
    text: String,
}

pub fn render(lines: &[Measured<'_>], machine: &str) -> String {
    let head = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
         <title>Mainstem: bench matrix</title><style>{STYLE}</style></head><body>\n<h1>Mainstem: when does which layout win?</h1>\n\
         <p>{}</p>\n<p>Broker and clients share the machine. Batches have at most 128 KiB; a consumer reads what was produced just \
         before. Under each chart: the first and the last column of each line, and the last as a part of the first.</p>\n",
        escape(machine)
    );
    let mut page = Page { lines, text: head };
    page.questions();
    page.all();
    page.table();
    page.text.push_str("</body></html>\n");
    page.text
}

impl Page<'_> {
    fn questions(&mut self) {
        let (size, producers) = (self.nearest(SIZE, SIZES), self.nearest(PRODUCERS, BY_PRODUCERS));
        let (one, few) = (self.nearest(1, BY_PRODUCERS), self.nearest(1, PARTITIONS));
        let durabilities = self.names(DURABILITY);
        let layouts = self.names(LAYOUT);
        let by_durability = |page: &Self, measure: Measure, producers: u32| -> Vec<Chart> {
            let chart = |name: &String| {
                let title = format!("{}, {name}, {}", measure.work, load(size, producers));
                let mine = |line: &Measured<'_>| {
                    (line.durability, line.size, line.producers) == (name.as_str(), size, producers)
                };
                page.chart(title, measure, PARTITIONS, LAYOUT, mine)
            };
            durabilities.iter().map(chart).collect()
        };
        let rates = by_durability(self, PRODUCE_RATE, producers);
        self.section("Does producing slow down with the number of partitions?", rates);
        let rates = by_durability(self, CONSUME_RATE, producers);
        self.section("Does consuming slow down with the number of partitions?", rates);
        self.section("What does a gigabyte cost the broker?", self.costs(size, producers, few));
        let mut acks = by_durability(self, ACK_P50, one);
        acks.iter_mut().for_each(|chart| chart.title = format!("half of them within: {}", chart.title));
        let mut slow = by_durability(self, ACK_P99, one);
        slow.iter_mut().for_each(|chart| chart.title = format!("99 of 100 within: {}", chart.title));
        acks.append(&mut slow);
        self.section("How long does a producer wait if it sends one record at a time?", acks);
        let mut costs = Vec::new();
        for (measure, how) in [(ACK_RATE, "one record at a time"), (PRODUCE_RATE, "all they can")] {
            for layout in &layouts {
                let title = format!("{how}, {layout}, {}, {}", count(few, "partition"), count(size, "byte"));
                let mine =
                    |line: &Measured<'_>| (line.layout, line.partitions, line.size) == (layout.as_str(), few, size);
                costs.push(self.chart(title, measure, BY_PRODUCERS, DURABILITY, mine));
            }
        }
        self.section("What does durability cost, and how much do producers share?", costs);
    }

    fn costs(&self, size: u32, producers: u32, few: u32) -> Vec<Chart> {
        let durability = self.names(DURABILITY).into_iter().next().unwrap_or_default();
        let mut charts = Vec::new();
        for measure in [PRODUCE_CPU, CONSUME_CPU] {
            let title = format!("{}, {durability}, {}", measure.work, load(size, producers));
            let mine = |line: &Measured<'_>| {
                (line.durability, line.size, line.producers) == (durability.as_str(), size, producers)
            };
            charts.push(self.chart(title, measure, PARTITIONS, LAYOUT, mine));
            let title = format!(
                "{}, {durability}, {}, {}",
                measure.work,
                count(few, "partition"),
                count(producers, "producer")
            );
            let of = |line: &Measured<'_>| (line.partitions, line.producers) == (few, producers);
            let mine = |line: &Measured<'_>| line.durability == durability && of(line);
            charts.push(self.chart(title, measure, SIZES, LAYOUT, mine));
        }
        charts
    }

    /// Everything over the number of partitions, for who wants to look closer.
    fn all(&mut self) {
        let kinds: BTreeSet<(&str, u32, u32)> =
            self.lines.iter().map(|line| (line.durability, line.size, line.producers)).collect();
        self.text.push_str("<details><summary>Every combination, over the number of partitions</summary>\n");
        for (question, measure) in [
            ("Producing", PRODUCE_RATE),
            ("Consuming", CONSUME_RATE),
            ("Acknowledgements of one record at a time, 99 of 100", ACK_P99),
            ("CPU of the broker for each GB produced", PRODUCE_CPU),
            ("CPU of the broker for each GB consumed", CONSUME_CPU),
        ] {
            let chart = |kind: &(&str, u32, u32)| {
                let (durability, size, producers) = *kind;
                let title = format!("{durability}, {}", load(size, producers));
                let mine = move |line: &Measured<'_>| {
                    (line.durability, line.size, line.producers) == (durability, size, producers)
                };
                self.chart(title, measure, PARTITIONS, LAYOUT, mine)
            };
            let charts = kinds.iter().map(chart).collect();
            self.section(question, charts);
        }
        self.text.push_str("</details>\n");
    }

    fn section(&mut self, question: &str, charts: Vec<Chart>) {
        let charts: Vec<Chart> = charts.into_iter().filter(|chart| !chart.is_empty()).collect();
        if charts.is_empty() {
            return;
        }
        let _ = writeln!(self.text, "<section><h2>{question}</h2>\n<div class=\"charts\">");
        charts.iter().for_each(|chart| chart.render(&mut self.text));
        self.text.push_str("</div></section>\n");
    }

    /// A line for each name among the cells that are `mine`.
    fn chart(
        &self,
        title: String,
        measure: Measure,
        across: Across,
        name_of: NameOf,
        mine: impl Fn(&Measured<'_>) -> bool,
    ) -> Chart {
        let mine: Vec<(&Measured<'_>, f64)> = self
            .lines
            .iter()
            .filter(|line| mine(line) && line.work == measure.work)
            .filter_map(|line| Some((line, (measure.of)(line)?)))
            .collect();
        let columns: BTreeSet<u32> = mine.iter().map(|(line, _)| (across.of)(line)).collect();
        let columns: Vec<u32> = columns.into_iter().collect();
        // A name has the same colour in all charts.
        let series = self.names(name_of).into_iter().enumerate().map(|(number, name)| {
            let value = |column: &u32| {
                let of = |line: &Measured<'_>| name_of(line) == name && (across.of)(line) == *column;
                mine.iter().find(|(line, _)| of(line)).map(|(_, value)| *value)
            };
            Series { colour: number % 4, values: columns.iter().map(value).collect(), name }
        });
        let series = series.filter(|series| series.values.iter().any(Option::is_some)).collect();
        Chart { title, unit: measure.unit, across: across.what, columns, series, scale: measure.scale }
    }

    /// In the order in which they were measured first.
    fn names(&self, name_of: NameOf) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for line in self.lines {
            if !names.iter().any(|name| name == name_of(line)) {
                names.push(name_of(line).to_owned());
            }
        }
        names
    }

    fn nearest(&self, wanted: u32, across: Across) -> u32 {
        let values = self.lines.iter().map(|line| (across.of)(line));
        values.min_by_key(|value| value.abs_diff(wanted)).unwrap_or(wanted)
    }

    fn table(&mut self) {
        self.text.push_str(
            "<details><summary>All figures</summary><div class=\"wide\"><table><thead><tr><th>layout</th><th>durability</th>\
             <th>partitions</th><th>bytes</th><th>producers</th><th>work</th><th>MB/s</th><th>records/s</th><th>ack p50 ms</th>\
             <th>ack p99 ms</th><th>client CPU s/GB</th><th>broker CPU s/GB</th></tr></thead><tbody>\n",
        );
        for line in self.lines {
            let ms = |us: Option<u64>| us.map_or(String::new(), |us| format!("{:.2}", milliseconds(us)));
            let cpu = |value: Option<f64>| value.map_or(String::new(), |value| format!("{value:.3}"));
            let figures = [
                escape(line.layout),
                escape(line.durability),
                line.partitions.to_string(),
                line.size.to_string(),
                line.producers.to_string(),
                escape(line.work),
                format!("{:.1}", line.mb_per_second),
                format!("{:.0}", line.records_per_second),
                ms(line.ack_p50_us),
                ms(line.ack_p99_us),
                cpu(line.client_cpu_s_per_gb),
                cpu(line.broker_cpu_s_per_gb),
            ];
            let _ = writeln!(self.text, "<tr><td>{}</td></tr>", figures.join("</td><td>"));
        }
        self.text.push_str("</tbody></table></div></details>\n");
    }
}

/// What producers do.
fn load(size: u32, producers: u32) -> String {
    format!("{}, {}", count(size, "byte"), count(producers, "producer"))
}

fn milliseconds(microseconds: u64) -> f64 {
    microseconds as f64 / 1e3
}

#[cfg(test)]
#[path = "page_tests.rs"]
mod tests;
