//! What `cargo xtask bench` takes on its command line.

use anyhow::{Context, Result, bail};
use std::path::PathBuf;

pub struct Options {
    pub rounds: usize,
    /// Payload of each throughput row, in GB (1e9 bytes).
    pub gigabytes: f64,
    /// How long each latency row sends.
    pub seconds: u32,
    pub kafka: bool,
    /// The broker to measure, instead of a release build.
    pub binary: Option<PathBuf>,
    /// An earlier Mainstem to measure in the same run.
    pub before: Option<PathBuf>,
    /// Settings of Mainstem's broker.
    pub settings: Vec<String>,
    /// Words that a row's name must contain one of; none: all rows.
    only: Vec<String>,
}

impl Options {
    pub fn parse(arguments: &[String]) -> Result<Self> {
        let mut options = Options {
            rounds: 3,
            gigabytes: 1.0,
            seconds: 10,
            kafka: true,
            binary: None,
            before: None,
            settings: Vec::new(),
            only: Vec::new(),
        };
        let mut rest = arguments.iter();
        while let Some(option) = rest.next() {
            let mut value = || rest.next().with_context(|| format!("{option} needs a value"));
            match option.as_str() {
                "--rounds" => options.rounds = value()?.parse().context("--rounds needs a number")?,
                "--gb" => options.gigabytes = value()?.parse().context("--gb needs a number")?,
                "--seconds" => options.seconds = value()?.parse().context("--seconds needs a number")?,
                "--no-kafka" => options.kafka = false,
                "--binary" => options.binary = Some(PathBuf::from(value()?)),
                "--before" => options.before = Some(PathBuf::from(value()?)),
                "--set" => options.settings.push(value()?.clone()),
                "--only" => options.only = value()?.split(',').map(str::to_owned).collect(),
                other => bail!("bench does not know {other}; `cargo xtask help` lists its options"),
            }
        }
        let is_sound = options.rounds > 0 && options.seconds > 0 && (0.01..=100.0).contains(&options.gigabytes);
        anyhow::ensure!(is_sound, "--rounds and --seconds must be at least 1, --gb from 0.01 to 100");
        Ok(options)
    }

    /// Whether the row of this name is to be measured.
    pub fn wants(&self, row: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|word| row.contains(word.as_str()))
    }

    /// Payload of a throughput row.
    pub fn bytes(&self) -> u64 {
        (self.gigabytes * 1e9) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::load::Row;

    fn parse(line: &str) -> Result<Options> {
        Options::parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn options_have_defaults_and_refuse_what_cannot_be_measured() {
        let options = parse("").unwrap();
        assert_eq!((options.rounds, options.bytes(), options.kafka), (3, 1_000_000_000, true));
        let options = parse("--rounds 1 --gb 0.5 --only consume --no-kafka").unwrap();
        assert_eq!((options.rounds, options.bytes(), options.kafka), (1, 500_000_000, false));
        let chosen: Vec<_> = Row::all().into_iter().filter(|row| options.wants(row.name)).map(|row| row.name).collect();
        assert!(!chosen.is_empty() && chosen.iter().all(|name| name.contains("consume")), "{chosen:?}");
        for wrong in ["--rounds 0", "--gb 0", "--gb", "--fast"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
