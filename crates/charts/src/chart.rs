//! One chart: lines over a few columns, as SVG that takes its colours from the page and as much room as there is.

use std::fmt::Write;

const WIDTH: f64 = 360.0;
const HEIGHT: f64 = 230.0;
const LEFT: f64 = 54.0;
const RIGHT: f64 = 14.0;
const TOP: f64 = 14.0;
const BOTTOM: f64 = 40.0;
/// Distance of the outer columns from the edges.
const INSET: f64 = 14.0;
const STEPS: u32 = 4;

/// How values are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// From zero.
    Linear,
    /// Each line is ten times the one below.
    Log,
}

/// One line. `colour` is a number of the page's.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    pub name: String,
    pub colour: usize,
    /// For each column.
    pub values: Vec<Option<f64>>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Chart {
    /// What is the same for all of it.
    pub title: String,
    pub unit: &'static str,
    /// What the columns are.
    pub across: &'static str,
    pub columns: Vec<u32>,
    pub series: Vec<Series>,
    pub scale: Scale,
}

/// From values to places.
struct Axis {
    scale: Scale,
    bottom: f64,
    top: f64,
}

impl Axis {
    fn of(scale: Scale, values: &[f64]) -> Axis {
        let most = values.iter().copied().fold(0.0, f64::max);
        let least = values.iter().copied().filter(|value| *value > 0.0).fold(f64::INFINITY, f64::min);
        match scale {
            Scale::Log if least.is_finite() => {
                let bottom = 10f64.powf(least.log10().floor());
                let top = 10f64.powf(most.log10().ceil()).max(bottom * 10.0);
                Axis { scale, bottom, top }
            }
            _ => Axis { scale: Scale::Linear, bottom: 0.0, top: round_up(most) },
        }
    }

    fn place(&self, value: f64) -> f64 {
        let share = match self.scale {
            Scale::Linear => value / self.top,
            Scale::Log => (value.max(self.bottom) / self.bottom).log10() / (self.top / self.bottom).log10(),
        };
        HEIGHT - BOTTOM - share * (HEIGHT - BOTTOM - TOP)
    }

    fn marks(&self) -> Vec<f64> {
        match self.scale {
            Scale::Linear => (0..=STEPS).map(|step| self.top * f64::from(step) / f64::from(STEPS)).collect(),
            Scale::Log => {
                let decades = (self.top / self.bottom).log10().round() as i32;
                (0..=decades).map(|decade| self.bottom * 10f64.powi(decade)).collect()
            }
        }
    }
}

impl Chart {
    pub fn is_empty(&self) -> bool {
        self.series.iter().flat_map(|series| &series.values).all(Option::is_none)
    }

    /// The chart with its title, its key, and what it says in words.
    pub fn render(&self, page: &mut String) {
        let title = escape(&self.title);
        let _ = write!(page, "<figure><figcaption><strong>{title}</strong><span class=\"key\">");
        for series in &self.series {
            let _ = write!(page, "<span><i class=\"c{}\"></i>{}</span>", series.colour, escape(&series.name));
        }
        let _ = writeln!(page, "</span></figcaption>");
        self.drawing(page, &title);
        let _ = writeln!(page, "<p>{}</p></figure>", escape(&self.words()));
    }

    fn drawing(&self, page: &mut String, title: &str) {
        let values: Vec<f64> = self.series.iter().flat_map(|series| &series.values).flatten().copied().collect();
        let axis = Axis::of(self.scale, &values);
        let steps = self.columns.len().saturating_sub(1).max(1) as f64;
        let x = |column: usize| {
            let share = if self.columns.len() == 1 { 0.5 } else { column as f64 / steps };
            LEFT + INSET + share * (WIDTH - LEFT - RIGHT - 2.0 * INSET)
        };
        let _ = write!(page, "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{title}\">");
        for mark in axis.marks() {
            let y = axis.place(mark);
            let _ = write!(
                page,
                "<line x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/><text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                WIDTH - RIGHT,
                LEFT - 6.0,
                y + 4.0,
                number(mark)
            );
        }
        for (column, value) in self.columns.iter().enumerate() {
            let (x, y) = (x(column), HEIGHT - BOTTOM + 16.0);
            let _ = write!(page, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"middle\">{value}</text>");
        }
        let (middle, bottom) = ((LEFT + WIDTH - RIGHT) / 2.0, HEIGHT - 6.0);
        let _ = write!(
            page,
            "<text x=\"{middle:.1}\" y=\"{bottom:.1}\" text-anchor=\"middle\">{}; up: {}</text>",
            self.across, self.unit
        );
        for series in &self.series {
            let points: Vec<(usize, f64)> =
                series.values.iter().enumerate().filter_map(|(column, value)| Some((column, (*value)?))).collect();
            let line: Vec<String> =
                points.iter().map(|(column, value)| format!("{:.1},{:.1}", x(*column), axis.place(*value))).collect();
            let _ = write!(page, "<polyline class=\"c{}\" points=\"{}\"/>", series.colour, line.join(" "));
            for (column, value) in points {
                let _ = write!(
                    page,
                    "<circle class=\"c{}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"3.5\"><title>{}, {} {}: {} {}</title></circle>",
                    series.colour,
                    x(column),
                    axis.place(value),
                    escape(&series.name),
                    self.columns[column],
                    self.across,
                    number(value),
                    self.unit
                );
            }
        }
        page.push_str("</svg>\n");
    }

    /// Where each line begins and ends.
    fn words(&self) -> String {
        let of = |series: &Series| {
            let known: Vec<(usize, f64)> =
                series.values.iter().enumerate().filter_map(|(column, value)| Some((column, (*value)?))).collect();
            let ((_, first), (_, last)) = (*known.first()?, *known.last()?);
            let change = if known.len() > 1 && first > 0.0 {
                format!(" to {} ({:.0} %)", number(last), last / first * 100.0)
            } else {
                String::new()
            };
            Some(format!("{} {}{change}", series.name, number(first)))
        };
        let parts: Vec<String> = self.series.iter().filter_map(of).collect();
        format!("{} {}.", parts.join("; "), self.unit)
    }
}

/// The next of 1, 2, 2.5, 5, 10, …
fn round_up(value: f64) -> f64 {
    if value <= 0.0 {
        return 1.0;
    }
    let power = 10f64.powf(value.log10().floor());
    [1.0, 2.0, 2.5, 5.0, 10.0].iter().map(|step| step * power).find(|top| *top >= value).unwrap_or(10.0 * power)
}

pub fn number(value: f64) -> String {
    match value {
        0.0 => "0".to_owned(),
        value if value < 0.1 => format!("{value:.3}"),
        value if value < 10.0 => format!("{value:.2}"),
        value if value < 100.0 => format!("{value:.1}"),
        value => format!("{value:.0}"),
    }
}

pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_top_of_a_chart_is_a_round_number_above_all() {
        assert_eq!([0.0, 0.7, 1.0, 230.0, 260.0].map(round_up), [1.0, 1.0, 1.0, 250.0, 500.0]);
        let axis = Axis::of(Scale::Log, &[0.03, 4.0]);
        assert_eq!((axis.marks().len(), axis.place(10.0), axis.place(0.01)), (4, TOP, HEIGHT - BOTTOM));
    }

    #[test]
    fn all_points_lie_within_the_drawing_whatever_is_missing() {
        for scale in [Scale::Linear, Scale::Log] {
            for values in
                [vec![None, None], vec![Some(0.0), None], vec![Some(3.0), Some(30_000.0)], vec![Some(1e-9), Some(1e12)]]
            {
                let series = Series { name: "a<b".to_owned(), colour: 0, values };
                let chart = Chart {
                    title: "t".to_owned(),
                    unit: "s",
                    across: "partitions",
                    columns: vec![1, 64],
                    series: vec![series],
                    scale,
                };
                let mut page = String::new();
                chart.render(&mut page);
                assert!(!page.contains("NaN") && !page.contains("inf") && !page.contains("a<b"), "{page}");
                for point in page.split("cy=\"").skip(1) {
                    let y: f64 = point.split('"').next().unwrap().parse().unwrap();
                    assert!((TOP - 0.1..=HEIGHT - BOTTOM + 0.1).contains(&y), "{scale:?} {y}: {page}");
                }
            }
        }
    }

    #[test]
    fn words_tell_what_remains() {
        let series =
            |name: &str, values: [Option<f64>; 2]| Series { name: name.to_owned(), colour: 0, values: values.into() };
        let chart = Chart {
            title: String::new(),
            unit: "MB/s",
            across: "partitions",
            columns: vec![1, 1000],
            series: vec![series("partition", [Some(800.0), Some(400.0)]), series("shared", [None, Some(5.0)])],
            scale: Scale::Linear,
        };
        assert_eq!(chart.words(), "partition 800 to 400 (50 %); shared 5.00 MB/s.");
    }
}
