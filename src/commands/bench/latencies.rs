//! Latencies and their percentiles.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// Longer latencies count as this one.
const LATENCY_MAX_US: u64 = 3_600_000_000;

/// Latencies in microseconds, to three digits.
pub fn histogram() -> Histogram<u64> {
    // reason: these bounds are ones that a histogram can have.
    Histogram::new_with_bounds(1, LATENCY_MAX_US, 3).expect("bounds of a histogram")
}

pub fn record(histogram: &mut Histogram<u64>, latency: Duration) {
    histogram.saturating_record((latency.as_micros() as u64).clamp(1, LATENCY_MAX_US));
}

/// Latencies in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Percentiles {
    pub mean_us: f64,
    pub p50_us: u64,
    pub p90_us: u64,
    pub p99_us: u64,
    pub p999_us: u64,
    pub p9999_us: u64,
    pub max_us: u64,
}

impl Percentiles {
    /// `None`: nothing was measured.
    pub fn of(histogram: &Histogram<u64>) -> Option<Percentiles> {
        let at = |quantile| histogram.value_at_quantile(quantile);
        (!histogram.is_empty()).then(|| Percentiles {
            mean_us: (histogram.mean() * 10.0).round() / 10.0,
            p50_us: at(0.5),
            p90_us: at(0.9),
            p99_us: at(0.99),
            p999_us: at(0.999),
            p9999_us: at(0.9999),
            max_us: histogram.max(),
        })
    }
}

impl Percentiles {
    pub fn text(&self) -> String {
        format!(
            "p50 {}, p90 {}, p99 {}, p99.9 {}, p99.99 {}, max {}",
            time(self.p50_us),
            time(self.p90_us),
            time(self.p99_us),
            time(self.p999_us),
            time(self.p9999_us),
            time(self.max_us)
        )
    }
}

fn time(micros: u64) -> String {
    match micros {
        0..10_000 => format!("{micros} µs"),
        10_000..10_000_000 => format!("{:.1} ms", micros as f64 / 1e3),
        _ => format!("{:.1} s", micros as f64 / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_those_of_what_was_recorded() {
        let mut latencies = histogram();
        assert_eq!(Percentiles::of(&latencies), None);
        (1..=1000).for_each(|ms| record(&mut latencies, Duration::from_millis(ms)));
        let found = Percentiles::of(&latencies).unwrap();
        assert!(found.p50_us.abs_diff(500_000) <= 1000 && found.p99_us.abs_diff(990_000) <= 1000, "{found:?}");
        assert!(found.max_us >= 1_000_000);
    }
}
