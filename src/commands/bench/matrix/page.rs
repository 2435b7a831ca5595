//! One page with all charts: lines over the number of partitions, one for each layout. It needs nothing but itself.

use std::collections::BTreeSet;
use std::fmt::Write;

use super::cell::ResultLine;
use crate::commands::bench::measure::Outcome;

const COLOURS: [&str; 4] = ["#0b7285", "#e8590c", "#5f3dc4", "#2b8a3e"];
const WIDTH: f64 = 330.0;
const HEIGHT: f64 = 210.0;
const LEFT: f64 = 52.0;
const BOTTOM: f64 = 26.0;
const TOP: f64 = 26.0;
const RIGHT: f64 = 10.0;
const STYLE: &str = "body{font:14px/1.45 system-ui,sans-serif;margin:2rem auto;max-width:1440px;padding:0 1rem;color:#212529;background:#fff}
h1{font-size:1.5rem}h2{font-size:1.15rem;margin-top:2rem}.charts{display:flex;flex-wrap:wrap;gap:12px}
svg{border:1px solid #dee2e6;border-radius:6px}table{border-collapse:collapse;font-variant-numeric:tabular-nums;font-size:13px}
td,th{padding:3px 10px;border-bottom:1px solid #dee2e6;text-align:right}td:first-child,th:first-child,td:nth-child(2),th:nth-child(2){text-align:left}
.key span{display:inline-block;width:12px;height:12px;border-radius:3px;margin:0 6px 0 16px;vertical-align:-1px}p{max-width:70ch}";

/// What a chart shows of an outcome.
struct Measure {
    title: &'static str,
    work: &'static str,
    unit: &'static str,
    of: fn(&Outcome) -> Option<f64>,
}

const MEASURES: [Measure; 4] = [
    Measure { title: "Producing", work: "produce", unit: "MB/s", of: |outcome| Some(outcome.mb_per_second) },
    Measure { title: "Consuming", work: "consume", unit: "MB/s", of: |outcome| Some(outcome.mb_per_second) },
    Measure {
        title: "Acknowledgement of a producer that sends all it can, 99 of 100",
        work: "produce",
        unit: "ms",
        of: |outcome| outcome.ack_latency.map(|latency| latency.p99_us as f64 / 1e3),
    },
    Measure {
        title: "CPU of the broker for each GB produced",
        work: "produce",
        unit: "s",
        of: |outcome| outcome.broker_cpu_s_per_gb,
    },
];

pub fn render(lines: &[ResultLine]) -> String {
    let layouts: BTreeSet<&str> = lines.iter().map(|line| line.cell.layout.as_str()).collect();
    let layouts: Vec<&str> = layouts.into_iter().collect();
    let mut page = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>Mainstem: bench matrix</title><style>{STYLE}</style>\n\
         <h1>Mainstem: bench matrix</h1>\n<p>{} Every point is a broker of its own with an empty folder; producers send batches \
         of at most 128 KiB. Lines over the number of partitions, one for each layout.</p>\n<p class=\"key\">",
        escape(&machine())
    );
    for (index, layout) in layouts.iter().enumerate() {
        let _ = write!(page, "<span style=\"background:{}\"></span>{}", colour(index), escape(layout));
    }
    page.push_str("</p>\n");
    for measure in &MEASURES {
        section(&mut page, measure, lines, &layouts);
    }
    table(&mut page, lines);
    page.push_str("</html>\n");
    page
}

fn colour(index: usize) -> &'static str {
    COLOURS[index % COLOURS.len()]
}

fn section(page: &mut String, measure: &Measure, lines: &[ResultLine], layouts: &[&str]) {
    let kinds: BTreeSet<(&str, u32, u32)> =
        lines.iter().map(|line| (line.cell.durability.as_str(), line.cell.size, line.cell.producers)).collect();
    let _ = writeln!(page, "<h2>{}, {}</h2>\n<div class=\"charts\">", measure.title, measure.unit);
    for (durability, size, producers) in kinds {
        let of_layout = |layout: &&str| -> Vec<(i32, f64)> {
            let mine = lines.iter().filter(|line| {
                let cell = &line.cell;
                cell.layout == **layout
                    && (cell.durability.as_str(), cell.size, cell.producers) == (durability, size, producers)
            });
            let outcomes = mine.filter_map(|line| Some((line.cell.partitions, line.outcome.as_ref()?)));
            let of_work = outcomes.filter(|(_, outcome)| outcome.work == measure.work);
            let mut points: Vec<_> =
                of_work.filter_map(|(count, outcome)| Some((count, (measure.of)(outcome)?))).collect();
            points.sort_by_key(|(count, _)| *count);
            points
        };
        let series: Vec<_> = layouts.iter().map(of_layout).collect();
        if series.iter().any(|points| !points.is_empty()) {
            let title = format!("{durability}, {size} bytes, {producers} producers");
            chart(page, &title, &series, layouts);
        }
    }
    page.push_str("</div>\n");
}

fn chart(page: &mut String, title: &str, series: &[Vec<(i32, f64)>], layouts: &[&str]) {
    let columns: BTreeSet<i32> = series.iter().flatten().map(|(count, _)| *count).collect();
    let columns: Vec<i32> = columns.into_iter().collect();
    let top = round_up(series.iter().flatten().map(|(_, value)| *value).fold(0.0, f64::max));
    let x = |count: i32| {
        let place = columns.iter().position(|one| *one == count).unwrap_or(0) as f64;
        let steps = columns.len().saturating_sub(1).max(1) as f64;
        let middle = if columns.len() == 1 { 0.5 } else { place / steps };
        LEFT + 14.0 + middle * (WIDTH - LEFT - RIGHT - 28.0)
    };
    let y = |value: f64| HEIGHT - BOTTOM - value / top * (HEIGHT - BOTTOM - TOP);
    let _ = write!(
        page,
        "<svg width=\"{WIDTH}\" height=\"{HEIGHT}\" role=\"img\" aria-label=\"{0}\" font-family=\"system-ui,sans-serif\" font-size=\"11\" fill=\"#495057\">\
         <text x=\"10\" y=\"16\" font-size=\"12\" fill=\"#212529\">{0}</text>",
        escape(title)
    );
    for part in 0..=4 {
        let value = top * f64::from(part) / 4.0;
        let _ = write!(
            page,
            "<line x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{1:.1}\" y2=\"{1:.1}\" stroke=\"#e9ecef\"/><text x=\"{2:.1}\" y=\"{3:.1}\" text-anchor=\"end\">{4}</text>",
            WIDTH - RIGHT,
            y(value),
            LEFT - 6.0,
            y(value) + 4.0,
            number(value)
        );
    }
    for count in &columns {
        let _ = write!(
            page,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{count}</text>",
            x(*count),
            HEIGHT - 8.0
        );
    }
    for (index, points) in series.iter().enumerate() {
        let line: Vec<String> =
            points.iter().map(|(count, value)| format!("{:.1},{:.1}", x(*count), y(*value))).collect();
        let _ = write!(
            page,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\"/>",
            line.join(" "),
            colour(index)
        );
        for (count, value) in points {
            let _ = write!(
                page,
                "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"3\" fill=\"{}\"><title>{}, {count} partitions: {}</title></circle>",
                x(*count),
                y(*value),
                colour(index),
                escape(layouts[index]),
                number(*value)
            );
        }
    }
    page.push_str("</svg>\n");
}

/// The next of 1, 2, 2.5, 5, 10, …
fn round_up(value: f64) -> f64 {
    if value <= 0.0 {
        return 1.0;
    }
    let power = 10f64.powf(value.log10().floor());
    [1.0, 2.0, 2.5, 5.0, 10.0].iter().map(|step| step * power).find(|top| *top >= value).unwrap_or(10.0 * power)
}

fn number(value: f64) -> String {
    match value {
        0.0 => "0".to_owned(),
        value if value < 10.0 => format!("{value:.2}"),
        value if value < 100.0 => format!("{value:.1}"),
        value => format!("{value:.0}"),
    }
}

fn table(page: &mut String, lines: &[ResultLine]) {
    page.push_str("<h2>All figures</h2>\n<table><tr><th>layout<th>durability<th>partitions<th>bytes<th>producers<th>work<th>MB/s<th>records/s<th>ack p50 ms<th>ack p99 ms<th>client CPU s/GB<th>broker CPU s/GB</tr>\n");
    for ResultLine { cell, outcome, skipped } in lines {
        let _ = write!(
            page,
            "<tr><td>{}<td>{}<td>{}<td>{}<td>{}",
            escape(&cell.layout),
            escape(&cell.durability),
            cell.partitions,
            cell.size,
            cell.producers
        );
        let Some(outcome) = outcome else {
            let _ =
                writeln!(page, "<td colspan=\"7\">left out: {}</tr>", escape(skipped.as_deref().unwrap_or_default()));
            continue;
        };
        let ms = |us: Option<u64>| us.map_or(String::new(), |us| format!("{:.2}", us as f64 / 1e3));
        let cpu = |value: Option<f64>| value.map_or(String::new(), |value| format!("{value:.3}"));
        let _ = writeln!(
            page,
            "<td>{}<td>{:.1}<td>{:.0}<td>{}<td>{}<td>{}<td>{}</tr>",
            escape(&outcome.work),
            outcome.mb_per_second,
            outcome.records_per_second,
            ms(outcome.ack_latency.map(|latency| latency.p50_us)),
            ms(outcome.ack_latency.map(|latency| latency.p99_us)),
            cpu(outcome.client_cpu_s_per_gb),
            cpu(outcome.broker_cpu_s_per_gb)
        );
    }
    page.push_str("</table>\n");
}

/// What the figures were measured on.
fn machine() -> String {
    let cpus = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpus.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    let model = model.map_or("unknown processor", |(_, model)| model.trim());
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let system = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!(
        "{model}, {cores} cores, {} {}, mainstem {}.",
        std::env::consts::OS,
        system.trim(),
        env!("CARGO_PKG_VERSION")
    )
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::super::cell::Cell;
    use super::*;
    use crate::commands::bench::measure::Cpu;
    use std::time::Duration;

    #[test]
    fn the_page_has_a_line_for_each_layout_and_fetches_nothing() {
        let line = |layout: &str, partitions| ResultLine {
            cell: Cell { layout: layout.to_owned(), durability: "os".to_owned(), partitions, size: 100, producers: 1 },
            outcome: Some(Cpu::watch(None).outcome("produce", 10, 1_000_000, Duration::from_secs(1))),
            skipped: None,
        };
        let page = render(&[line("partition", 1), line("partition", 64), line("<shared>", 1)]);
        assert_eq!(page.matches("<polyline").count(), 2, "{page}");
        assert!(page.contains("&lt;shared&gt;") && !page.contains("<shared>"));
        for fetched in ["http:", "https:", "<script", "src=", "@import", "url("] {
            assert!(!page.contains(fetched), "{fetched}");
        }
    }

    #[test]
    fn the_top_of_a_chart_is_a_round_number_above_all() {
        assert_eq!([0.0, 0.7, 1.0, 230.0, 260.0].map(round_up), [1.0, 1.0, 1.0, 250.0, 500.0]);
    }
}
