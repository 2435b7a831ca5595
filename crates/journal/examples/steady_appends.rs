//! How long appends and syncs take at a steady rate on a real disk, with and without write-back in steps:
//! `cargo run -p mainstem-journal --example steady_appends -- <folder> [MB/s] [seconds] [sync every ms, 0: never]`.
//!
//! Appends of 16 KiB to segments of 256 MiB; nothing is deleted before the end, so that all of it has to be written.

use std::io::IoSlice;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use mainstem_env::{RealClock, RealFs};
use mainstem_journal::{EntryScanner, Journal, JournalHost, JournalOptions, Location, RecoverFrom, Scan, SegmentBase};

type Failure = Box<dyn std::error::Error>;

const ENTRY_BYTES: usize = 16 << 10;
const SEGMENT_BYTES: u64 = 256 << 20;

/// Opens nothing but new journals.
struct Nothing;

impl EntryScanner for Nothing {
    fn begin_segment(&mut self, _: Location) -> bool {
        true
    }

    fn scan(&mut self, _: Location, _: &[u8]) -> Scan {
        Scan::Corrupt { reason: "a new journal is empty" }
    }
}

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |index: usize, usual: u64| arguments.get(index).map_or(Ok(usual), |text| text.parse());
    let folder = Path::new(arguments.first().ok_or("which folder?")?);
    let (rate, seconds, sync_ms) = (number(1, 200)?, number(2, 20)?, number(3, 1000)?);
    println!("{rate} MB/s for {seconds} s, a sync every {sync_ms} ms; milliseconds");
    for writeback_bytes in [0, 4 << 20] {
        let dir = folder.join(format!("steady-{writeback_bytes}"));
        run(&dir, writeback_bytes, rate << 20, Duration::from_secs(seconds), Duration::from_millis(sync_ms))?;
        std::fs::remove_dir_all(&dir)?;
    }
    Ok(())
}

fn run(dir: &Path, writeback_bytes: u64, rate: u64, length: Duration, sync_every: Duration) -> Result<(), Failure> {
    let host = Arc::new(JournalHost::new(Arc::new(RealFs), Arc::new(RealClock::new()), 0));
    host.writeback.start()?;
    let options = JournalOptions { segment_bytes: SEGMENT_BYTES, writeback_bytes, ..JournalOptions::default() };
    let journal = Journal::open(&host, dir, options, RecoverFrom::Start, &mut Nothing)?.0;
    journal.roll(SegmentBase(0))?;
    let (stop, mut syncs) = (AtomicBool::new(false), Vec::new());
    let appends = std::thread::scope(|scope| {
        let syncer = scope.spawn(|| {
            let mut times = Vec::new();
            while !sync_every.is_zero() && !stop.load(Ordering::Relaxed) {
                std::thread::sleep(sync_every);
                let start = Instant::now();
                if journal.flush().is_err() {
                    break;
                }
                times.push(start.elapsed());
            }
            times
        });
        let appends = append(&journal, rate, length);
        stop.store(true, Ordering::Relaxed);
        syncs = syncer.join().unwrap_or_default();
        appends
    })?;
    println!("write-back every {:>2} MiB: appends {}", writeback_bytes >> 20, quantiles(appends));
    println!("                         syncs   {}   {:?}", quantiles(syncs), host.writeback.stats());
    Ok(())
}

/// Appends on time; a wait is counted from when the entry was due.
fn append(journal: &Journal, rate: u64, length: Duration) -> Result<Vec<Duration>, Failure> {
    let (entry, begin) = (vec![7; ENTRY_BYTES], Instant::now());
    let mut times = Vec::new();
    loop {
        let due = Duration::from_secs_f64((times.len() * ENTRY_BYTES) as f64 / rate as f64);
        if due >= length {
            return Ok(times);
        }
        std::thread::sleep(due.saturating_sub(begin.elapsed()));
        if journal.needs_roll(ENTRY_BYTES as u64) {
            journal.roll(SegmentBase(times.len() as u64))?;
        }
        journal.append(&[IoSlice::new(&entry)])?;
        times.push(begin.elapsed().saturating_sub(due));
    }
}

fn quantiles(mut times: Vec<Duration>) -> String {
    times.sort_unstable();
    let at = |part: f64| times.get(((times.len() as f64 * part) as usize).min(times.len().saturating_sub(1)));
    let shown = |part| at(part).map_or(0.0, |time| time.as_secs_f64() * 1e3);
    format!("p50 {:.2}  p99 {:.1}  p99.9 {:.1}  largest {:.1}", shown(0.5), shown(0.99), shown(0.999), shown(1.0))
}
