//! `cargo xtask sim`: runs seeds, reports the first failing one small.

use std::process::ExitCode;

use mainstem_sim::{Mutation, Scenario, run, shrink};

const HELP: &str = "\
cargo xtask sim [--seeds N] [--from SEED]     run N seeds (1000) from SEED (1) on; stop at the first violation
cargo xtask sim --seed SEED [--keep A,B,…]    run one seed, with these items of it only (none: no item)
    --trace                                   print the whole trace
    --whole                                   do not shrink a failing seed
    --mutation NAME                           break a rule on purpose, to see which invariant notices; `all`: each in turn";

/// Runs that shrinking may take.
const TRIES_MAX: usize = 400;
/// Lines of the trace that are shown around a violation.
const TAIL_LINES: usize = 60;

#[derive(Debug, Default)]
struct Options {
    seeds: u64,
    from: u64,
    seed: Option<u64>,
    keep: Option<Vec<usize>>,
    trace: bool,
    whole: bool,
    mutation: Option<String>,
}

fn main() -> ExitCode {
    if std::env::args().any(|argument| argument == "--help") {
        println!("{HELP}");
        return ExitCode::SUCCESS;
    }
    match options(std::env::args().skip(1)) {
        Err(reason) => {
            eprintln!("{reason}\n\n{HELP}");
            ExitCode::from(2)
        }
        Ok(options) => match carry_out(&options) {
            Ok(true) => ExitCode::SUCCESS,
            Ok(false) => ExitCode::FAILURE,
            Err(reason) => {
                eprintln!("{reason}");
                ExitCode::from(2)
            }
        },
    }
}

fn options(arguments: impl Iterator<Item = String>) -> Result<Options, String> {
    let mut options = Options { seeds: 1_000, from: 1, ..Options::default() };
    let mut arguments = arguments;
    while let Some(name) = arguments.next() {
        let mut value = || arguments.next().ok_or_else(|| format!("{name} needs a value"));
        let number = |text: String| text.parse::<u64>().map_err(|_| format!("{name}: `{text}` is no number"));
        match name.as_str() {
            "--seeds" => options.seeds = number(value()?)?,
            "--from" => options.from = number(value()?)?,
            "--seed" => options.seed = Some(number(value()?)?),
            "--keep" => options.keep = Some(items(&value()?)?),
            "--trace" => options.trace = true,
            "--whole" => options.whole = true,
            "--mutation" => options.mutation = Some(value()?),
            _ => return Err(format!("`{name}` is unknown")),
        }
    }
    Ok(options)
}

fn items(text: &str) -> Result<Vec<usize>, String> {
    if text == "none" {
        return Ok(Vec::new());
    }
    text.split(',').map(|part| part.parse().map_err(|_| format!("--keep: `{part}` is no number"))).collect()
}

fn mutation(name: &str) -> Result<Mutation, String> {
    let found = Mutation::ALL.into_iter().find(|mutation| format!("{mutation:?}") == name);
    found.ok_or_else(|| {
        let names: Vec<String> = Mutation::ALL.iter().map(|mutation| format!("{mutation:?}")).collect();
        format!("there is no mutation `{name}`; there are: {}", names.join(", "))
    })
}

/// True: nothing was violated.
fn carry_out(options: &Options) -> Result<bool, String> {
    match options.mutation.as_deref() {
        Some("all") => {
            for mutation in Mutation::ALL {
                report_mutation(options, mutation);
            }
            return Ok(true);
        }
        None => {}
        Some(name) if options.seed.is_none() => {
            report_mutation(options, mutation(name)?);
            return Ok(true);
        }
        Some(_) => {}
    }
    if let Some(seed) = options.seed {
        let broken = options.mutation.as_deref().map(mutation).transpose()?;
        let mut scenario = Scenario::of(seed).with(broken);
        if let Some(keep) = &options.keep {
            scenario = scenario.keeping(keep);
        }
        return Ok(one(&scenario, options));
    }
    let (mut events, mut acknowledged, mut elections, mut truncations) = (0, 0, 0, 0);
    for seed in options.from..options.from.saturating_add(options.seeds) {
        let scenario = Scenario::of(seed);
        let run = run(&scenario);
        if run.violation.is_some() {
            println!("seed {seed} fails");
            return Ok(one(&scenario, options));
        }
        events += run.events;
        acknowledged += run.acknowledged;
        elections += run.elections;
        truncations += run.truncations;
    }
    println!(
        "{} seeds from {} on: {events} events, {acknowledged} acknowledged batches, {elections} elections, {truncations} truncations, no violation",
        options.seeds, options.from
    );
    Ok(true)
}

fn one(scenario: &Scenario, options: &Options) -> bool {
    let first = run(scenario);
    if options.trace {
        print!("{}", first.trace.text());
    }
    if first.violation.is_none() {
        println!(
            "seed {}: {} events, {} lines of trace, no violation",
            scenario.seed,
            first.events,
            first.trace.lines()
        );
        return true;
    }
    let shrunk = if options.whole { None } else { shrink(scenario, TRIES_MAX) };
    let (small, run, tries) = match shrunk {
        Some(shrunk) => (shrunk.scenario, shrunk.run, shrunk.tries),
        None => (scenario.clone(), first, 1),
    };
    println!("the trace before the violation:\n{}\n", run.trace.tail(TAIL_LINES));
    println!("{} of {} items are left after {tries} runs:", small.items.len(), scenario.items.len());
    small.items.iter().for_each(|item| println!("{item}"));
    if let Some(violation) = &run.violation {
        println!("\n{violation}");
    }
    println!("\ndurability {:?}; run it again: {}", small.durability, small.command());
    false
}

/// Which rule notices a broken one, and after how many seeds.
fn report_mutation(options: &Options, mutation: Mutation) {
    for seed in options.from..options.from.saturating_add(options.seeds) {
        let run = run(&Scenario::of(seed).with(Some(mutation)));
        if let Some(violation) = run.violation {
            println!("{mutation:?}: seed {seed} ({} seeds): {}", seed - options.from + 1, violation.invariant);
            return;
        }
    }
    println!("{mutation:?}: not noticed in {} seeds", options.seeds);
}
