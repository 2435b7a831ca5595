//! `mainstem verify`: whether everything in a data folder is as it should be.

use std::path::PathBuf;

use clap::Args;
use mainstem_env::RealFs;
use mainstem_inspect::{Event, Line, Summary, verify};
use serde_json::Value;

use crate::Said;
use crate::output::progress::Progress;
use crate::output::{Output, OutputFormat, note, style};

const EXAMPLES: &str = "\
Examples:
  mainstem verify --data-dir /var/lib/mainstem
  mainstem verify --data-dir /mnt/snapshot --output json | jq 'select(.kind == \"finding\")'

The command reads every log, rebuilds in memory every file that is derived from logs, and compares. It changes nothing. \
The broker must be stopped; for a running broker, check a snapshot of the file system. The folder of a stopped Kafka \
works, too.

Output: a line for each finding, with the damaged or missing offsets. A note names something that the next start repairs. \
With --output json, each line is one object: `finding`, `note`, and a `summary` as the last line.

Exit codes:
  0  the folder is sound
  1  there are findings
  2  the folder could not be checked or is in use, or the command line is wrong";

/// Check a data folder and report damaged and missing offsets of each topic.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Verify {
    /// The folder of a stopped broker (log.dirs)
    #[arg(long, value_name = "DIR")]
    data_dir: PathBuf,
    /// Format of the result; JSON is one object a line
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = OutputFormat::Text)]
    output: OutputFormat,
}

impl Verify {
    pub fn run(self) -> anyhow::Result<()> {
        let mut output = Output::new();
        let mut written = Ok(());
        let mut progress = Progress::new("bytes", None);
        let mut sink = |event: Event<'_>| match event {
            Event::Read(bytes) => progress.tick(bytes),
            Event::Found(line) if written.is_ok() => {
                progress.clear();
                written = self.tell(&mut output, line);
            }
            Event::Found(_) => {}
        };
        let verified = verify(&RealFs, &self.data_dir, &mut sink);
        progress.clear();
        written?;
        let summary = match verified {
            Ok(summary) => summary,
            Err(error) => {
                output.flush()?;
                note(&format!("{} {error}", style::of_stderr().red("mainstem:")));
                return Err(Said(2).into());
            }
        };
        self.tell(&mut output, &summary_line(&summary))?;
        output.flush()?;
        if summary.findings == 0 { Ok(()) } else { Err(Said(1).into()) }
    }

    fn tell(&self, output: &mut Output, line: &Line) -> anyhow::Result<()> {
        let text = match (self.output, line.kind) {
            (OutputFormat::Json, _) => line.to_json(&self.data_dir.display().to_string()).to_string(),
            (OutputFormat::Text, "summary") => summary_text(line),
            (OutputFormat::Text, _) => finding_text(line),
        };
        output.write(text.as_bytes())?;
        output.write(b"\n")
    }
}

/// `offsets-damaged  orders-0  offsets 3 to 7  path: what is wrong`.
fn finding_text(line: &Line) -> String {
    let style = style::of_stdout();
    let field = |name: &str| line.get(name).map(text_of);
    let problem = field("problem").unwrap_or_default();
    let mut text = if line.kind == "finding" { style.red(&problem) } else { format!("note: {problem}") };
    if let (Some(topic), Some(partition)) = (field("topic"), field("partition")) {
        text.push_str(&format!("  {topic}-{partition}"));
    }
    match (field("first_offset"), field("last_offset")) {
        (Some(first), Some(last)) if first == last => text.push_str(&format!("  offset {first}")),
        (Some(first), Some(last)) => text.push_str(&format!("  offsets {first} to {last}")),
        _ => {}
    }
    if let Some(path) = field("path") {
        text.push_str(&format!("  {path}"));
    }
    format!("{text}: {}", field("detail").unwrap_or_default())
}

fn text_of(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn summary_line(summary: &Summary) -> Line {
    Line::new("summary")
        .with("sound", summary.findings == 0)
        .with("findings", summary.findings)
        .with("notes", summary.notes)
        .with("partitions", summary.partitions)
        .with("files", summary.files)
        .with("batches", summary.batches)
        .with("bytes", summary.bytes)
}

fn summary_text(line: &Line) -> String {
    let number = |name: &str| line.get(name).and_then(Value::as_u64).unwrap_or(0);
    let style = style::of_stdout();
    let verdict = match number("findings") {
        0 => style.bold("sound"),
        1 => style.red("1 finding"),
        many => style.red(&format!("{many} findings")),
    };
    format!(
        "{verdict}: {} partitions, {} files, {} batches, {} bytes read",
        number("partitions"),
        number("files"),
        number("batches"),
        number("bytes")
    )
}
