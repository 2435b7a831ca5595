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
  mainstem doctor                                     checks the machine and port 9092
  mainstem doctor --data-dir /var/lib/mainstem        also checks the folder and its disk
  mainstem doctor --bootstrap broker-1.example:9092   also checks a broker, as clients of this machine see it

With --data-dir, the command writes a file of 16 MiB in the folder, syncs it and removes it. That takes at most two seconds.

Exit codes:
  0  nothing is wrong; there may be warnings
  1  something is wrong
  2  the command line is wrong";

/// Check the machine, the data folder and the broker, and say how to fix what is wrong.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Doctor {
    /// The broker's data folder (log.dirs); it need not exist yet
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// The broker to check; without this option, 127.0.0.1:9092 is checked if something listens there
    #[arg(long, value_name = "HOST:PORT", alias = "bootstrap-server", value_parser = parse_bootstrap)]
    bootstrap: Option<String>,
    /// Format of the result
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
struct DoctorReport {
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
        let found = DoctorReport { healthy: checks.iter().all(|check| check.status != Status::Wrong), checks };
        match self.output {
            OutputFormat::Json => print_json(&found)?,
            OutputFormat::Text => print(&text(&found))?,
        }
        if found.healthy { Ok(()) } else { Err(Said(1).into()) }
    }
}

fn text(found: &DoctorReport) -> String {
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
