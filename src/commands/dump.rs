//! `mainstem dump`: what is in the files of a data folder.

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use mainstem_env::RealFs;
use mainstem_inspect::{DumpError, DumpOptions, FileKind, Line, dump};

use crate::Said;
use crate::output::{Output, OutputFormat, note};

const EXAMPLES: &str = "\
Examples:
  mainstem dump /var/lib/mainstem/orders-0/00000000000000000000.log --records
  mainstem dump --offsets /var/lib/mainstem/__consumer_offsets-7
  mainstem dump --transactions /var/lib/mainstem/__transaction_state-3
  mainstem dump --output json /var/lib/mainstem/__cluster_metadata-0 | jq 'select(.type == \"TopicRecord\")'

The command recognizes a file by its name and its folder. A folder stands for all files in it. Files of a Kafka work, \
too. Files of a running broker work, but their last bytes may not be complete.

Output: for each file a line `file`, then its parts. A line `damage` shows where a file is damaged. With --output \
json, each line is one object with `file` and `kind`.

Exit codes:
  0  no damage
  1  a file is damaged or cannot be read
  2  the command line is wrong";

/// Show the content of files in a data folder.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Dump {
    /// Files, or folders of files
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Also show the records of every batch
    #[arg(long)]
    records: bool,
    /// Decode the records of __consumer_offsets: committed offsets and groups
    #[arg(long)]
    offsets: bool,
    /// Decode the records of __transaction_state: transactional ids and their transactions
    #[arg(long)]
    transactions: bool,
    /// Format of the result; JSON is one object a line
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = OutputFormat::Text)]
    output: OutputFormat,
}

impl Dump {
    pub fn run(self) -> anyhow::Result<()> {
        let mut output = Output::new();
        let mut sound = true;
        for path in &self.files {
            if path.is_dir() {
                for file in files_below(path)? {
                    sound &= self.dump(&file, &mut output)?;
                }
            } else {
                sound &= self.dump(path, &mut output)?;
            }
        }
        output.flush()?;
        if sound { Ok(()) } else { Err(Said(1).into()) }
    }

    /// Whether the file is what it should be.
    fn dump(&self, path: &Path, output: &mut Output) -> anyhow::Result<bool> {
        let options = DumpOptions { records: self.records, offsets: self.offsets, transactions: self.transactions };
        let name = path.display().to_string();
        let mut written = Ok(());
        let mut sink = |line: &Line| {
            let text = match self.output {
                OutputFormat::Text if line.kind == "file" => line.to_text(),
                OutputFormat::Text => format!("  {}", line.to_text()),
                OutputFormat::Json => line.to_json(&name).to_string(),
            };
            written = output.write(text.as_bytes()).and_then(|()| output.write(b"\n"));
            written.is_ok()
        };
        let dumped = dump(&RealFs, path, options, &mut sink);
        written?;
        match dumped {
            Ok(dumped) => Ok(dumped.damaged == 0),
            Err(error @ (DumpError::UnknownKind { .. } | DumpError::Io { .. })) => {
                output.flush()?;
                note(&format!("mainstem: {error}"));
                Ok(false)
            }
        }
    }
}

/// The files in a folder and in those below it that have a name which dump knows, in order.
fn files_below(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let failed = || format!("cannot list {}", folder.display());
        for entry in std::fs::read_dir(&folder).with_context(failed)? {
            let entry = entry.with_context(failed)?;
            if entry.file_type().with_context(failed)?.is_dir() {
                folders.push(entry.path());
            } else if FileKind::of(&entry.path()).is_some() {
                files.push(entry.path());
            }
        }
    }
    files.sort_unstable();
    Ok(files)
}
