//! `mainstem doctor`: whether machine, folder and broker are fit, and what to do where they are not.

mod broker;
mod disk;
mod machine;

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use serde::Serialize;

use crate::Said;
use crate::cluster::{ClusterOptions, parse_bootstrap};
use crate::output::{OutputFormat, print, print_json, style};

/// How long a broker may take to answer whoever wants to know how it is.
const TIMEOUT: Duration = Duration::from_secs(5);
const BOOTSTRAP_DEFAULT: &str = "127.0.0.1:9092";

const EXAMPLES: &str = "\
Examples:
  mainstem doctor                                     the machine, and port 9092
  mainstem doctor --data-dir /var/lib/mainstem        also the folder, and the disk that it is on
  mainstem doctor --bootstrap broker-1.example:9092   also a broker, from here

With --data-dir a file of 16 MiB is written there, synced, and removed; it takes two seconds at most.

Exit codes: 0 nothing is wrong, though there may be warnings; 1 something is; 2 for a wrong command line.";

/// Look at machine, folder and broker, and say what to do where something is wrong.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Doctor {
    /// The folder of a broker, there or to be (log.dirs)
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// A broker; without it, whoever listens on 127.0.0.1:9092
    #[arg(long, value_name = "HOST:PORT", alias = "bootstrap-server", value_parser = parse_bootstrap)]
    bootstrap: Option<String>,
    /// How to tell the result
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = OutputFormat::Text)]
    output: OutputFormat,
}

/// How something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Status {
    Ok,
    Warning,
    Wrong,
}

/// One thing that was looked at.
#[derive(Debug, Serialize)]
struct Check {
    check: &'static str,
    status: Status,
    detail: String,
    /// What to do; nothing where all is well.
    advice: Option<String>,
}

impl Check {
    fn ok(check: &'static str, detail: impl Into<String>) -> Check {
        Check { check, status: Status::Ok, detail: detail.into(), advice: None }
    }

    fn warning(check: &'static str, detail: impl Into<String>, advice: impl Into<String>) -> Check {
        Check { check, status: Status::Warning, detail: detail.into(), advice: Some(advice.into()) }
    }

    fn wrong(check: &'static str, detail: impl Into<String>, advice: impl Into<String>) -> Check {
        Check { check, status: Status::Wrong, detail: detail.into(), advice: Some(advice.into()) }
    }
}

#[derive(Debug, Serialize)]
struct Found {
    healthy: bool,
    checks: Vec<Check>,
}

impl Doctor {
    pub fn run(self) -> anyhow::Result<()> {
        let mut checks = machine::look();
        if let Some(folder) = &self.data_dir {
            checks.extend(disk::look(folder));
        } else {
            checks.extend(machine::look_at_kernel(&std::env::temp_dir()));
        }
        let address = self.bootstrap.as_deref().unwrap_or(BOOTSTRAP_DEFAULT);
        let port = broker::look_at_port(address, self.bootstrap.is_some());
        let answers = port.status == Status::Ok && (self.bootstrap.is_some() || broker::is_somebody_there(address));
        checks.push(port);
        if answers {
            let cluster = ClusterOptions::of(Some(address.to_owned()), None, Some(TIMEOUT));
            checks.extend(super::runtime()?.block_on(broker::look(&cluster)));
        }
        let found = Found { healthy: checks.iter().all(|check| check.status != Status::Wrong), checks };
        match self.output {
            OutputFormat::Json => print_json(&found)?,
            OutputFormat::Text => print(&text(&found))?,
        }
        if found.healthy { Ok(()) } else { Err(Said(1).into()) }
    }
}

fn text(found: &Found) -> String {
    let style = style::of_stdout();
    let mut text = String::new();
    for Check { check, status, detail, advice } in &found.checks {
        let status = match status {
            Status::Ok => "ok     ".to_owned(),
            Status::Warning => style.bold("warning"),
            Status::Wrong => style.red("wrong  "),
        };
        text.push_str(&format!("{status}  {check:<12}  {detail}\n"));
        if let Some(advice) = advice {
            text.push_str(&format!("{:23}→ {advice}\n", ""));
        }
    }
    text
}
