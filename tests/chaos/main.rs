//! The real binary under load, killed again and again: everything that was acknowledged is there, once, and nothing
//! else.
//!
//! A seed gives topics of all layouts, settings, producers, consumers, what an administrator does meanwhile, and how
//! each life of the broker ends. After each start everything is read and compared with what was sent and acknowledged.
//! What fails prints seed, life and place, and keeps the folder: the broker's log and `diary.txt` are beside the data.
//!
//! `MAINSTEM_CHAOS_SEED=7` runs one seed, `MAINSTEM_CHAOS_MINUTES=30` new seeds for that long (as does
//! `MAINSTEM_FULL=1`, for five minutes), `MAINSTEM_CHAOS_LIVES=50` says how often the broker starts with each,
//! `MAINSTEM_CHAOS_BINARY` names another binary.

mod broker;
mod connection;
mod model;
mod producers;
mod random;
mod readers;
mod run;
#[path = "../support/mod.rs"]
mod support;

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use run::{Run, Tally, work_folder};

const FIXED_SEEDS: [u64; 2] = [1, 2];
/// Lives of the broker with each of the fixed seeds.
const LIVES: u64 = 4;
const LIVES_OF_LONG_RUNS: u64 = 25;

fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|value| value.parse().unwrap_or_else(|_| panic!("{name} is a number, not {value}")))
}

fn run_seed(seed: u64, lives: u64, until: Option<Instant>) -> Tally {
    let began = Instant::now();
    let work = work_folder(seed);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let outcome = runtime.block_on(Run::new(seed, &work).run(lives, until));
    runtime.shutdown_background();
    match outcome {
        Ok(tally) => {
            println!("seed {seed}: {:.1} s, {tally:?}", began.elapsed().as_secs_f64());
            std::fs::remove_dir_all(&work).unwrap();
            tally
        }
        Err(problem) => panic!("seed {seed}: {problem}\nthe folder is kept: {}", work.display()),
    }
}

fn minutes() -> Option<u64> {
    variable("MAINSTEM_CHAOS_MINUTES").or_else(|| variable("MAINSTEM_FULL").map(|_| 5))
}

/// The fixed seeds at the same time; or in their place one seed of somebody's choice, or new ones for some minutes.
#[test]
fn what_was_acknowledged_survives_every_end_of_any_seed() {
    let lives = variable("MAINSTEM_CHAOS_LIVES");
    if let Some(seed) = variable("MAINSTEM_CHAOS_SEED") {
        run_seed(seed, lives.unwrap_or(LIVES_OF_LONG_RUNS), None);
        return;
    }
    let Some(minutes) = minutes() else {
        std::thread::scope(|scope| {
            for seed in FIXED_SEEDS {
                scope.spawn(move || run_seed(seed, lives.unwrap_or(LIVES), None));
            }
        });
        return;
    };
    let until = Instant::now() + Duration::from_secs(minutes * 60);
    let mut seed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() * 1000;
    while Instant::now() < until {
        seed += 1;
        run_seed(seed, lives.unwrap_or(LIVES_OF_LONG_RUNS), Some(until));
    }
}
