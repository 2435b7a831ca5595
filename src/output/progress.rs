//! A line on the terminal that shows how far long work is, once a second; nothing where nobody watches.

use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use mainstem_charts::grouped;

const EVERY: Duration = Duration::from_secs(1);
/// Cells of the bar.
const BAR_WIDTH: u64 = 24;

/// Whether a line of progress stands on the terminal.
static SHOWN: AtomicBool = AtomicBool::new(false);

/// Takes the line away, so that other text can follow; the next tick shows it again.
pub fn make_way() {
    if SHOWN.swap(false, Ordering::Relaxed) {
        overwrite("");
    }
}

pub struct Progress {
    unit: &'static str,
    /// What is to be done, where that is known.
    total: Option<u64>,
    begun: Instant,
    /// When it is shown next; `None` where nobody watches.
    next: Option<Instant>,
}

impl Progress {
    /// `unit` is what is counted, in the plural.
    pub fn new(unit: &'static str, total: Option<u64>) -> Self {
        let watched = io::stderr().is_terminal();
        let begun = Instant::now();
        Progress { unit, total, begun, next: watched.then(|| begun + EVERY) }
    }

    /// Nobody watches.
    pub fn hidden(unit: &'static str) -> Self {
        Progress { next: None, ..Progress::new(unit, None) }
    }

    /// Waits until it is time to show it; for ever where nobody watches.
    pub async fn due(&self) {
        match self.next {
            Some(next) => tokio::time::sleep_until(next.into()).await,
            None => std::future::pending().await,
        }
    }

    /// Shows it if it is time to.
    pub fn tick(&mut self, done: u64) {
        if self.next.is_some_and(|next| Instant::now() >= next) {
            self.show(done);
        }
    }

    pub fn show(&mut self, done: u64) {
        if self.next.is_some() {
            self.next = Some(Instant::now() + EVERY);
            SHOWN.store(true, Ordering::Relaxed);
            overwrite(&self.line(done, self.begun.elapsed()));
        }
    }

    /// Takes the line away, for text that is written another way than by `print` and `note`.
    pub fn clear(&mut self) {
        make_way();
    }

    fn line(&self, done: u64, elapsed: Duration) -> String {
        let rate = done as f64 / elapsed.as_secs_f64().max(0.001);
        let counted = format!("{} {}, {:.0} a second", grouped(done), self.unit, rate);
        let Some(total) = self.total.filter(|total| *total > 0) else { return counted };
        let done = done.min(total);
        let cells = (u128::from(done) * u128::from(BAR_WIDTH) / u128::from(total)) as usize;
        let bar = format!("{}{}", "#".repeat(cells), "-".repeat(BAR_WIDTH as usize - cells));
        let percent = u128::from(done) * 100 / u128::from(total);
        let left = (total - done) as f64 / rate.max(0.001);
        format!("[{bar}] {percent:3} %  {counted}, {} left", in_words(Duration::from_secs_f64(left.min(1e9))))
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        make_way();
    }
}

/// Puts a text in place of the last line of the terminal.
fn overwrite(text: &str) {
    // A terminal that is gone needs no progress.
    let _ = write!(io::stderr(), "\r\x1b[K{text}");
}

/// A time as people say it.
pub fn in_words(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds @ 120..7200 => format!("{} min", seconds / 60),
        seconds => format!("{} h", seconds / 3600),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_tells_share_count_rate_and_what_is_left() {
        let progress = Progress::new("records", Some(40_000));
        let line = progress.line(10_000, Duration::from_secs(10));
        assert_eq!(line, "[######------------------]  25 %  10,000 records, 1000 a second, 30 s left");
        let progress = Progress::new("records", None);
        assert_eq!(progress.line(1_234_567, Duration::from_secs(1)), "1,234,567 records, 1234567 a second");
    }

    #[test]
    fn more_than_all_is_all() {
        let progress = Progress::new("records", Some(1));
        assert!(progress.line(5, Duration::from_secs(1)).starts_with("[########################] 100 %"));
    }
}
