//! `mainstem man`: manual pages.

use std::path::PathBuf;

use anyhow::Context;
use clap::{Args, CommandFactory};

use crate::output;

const EXAMPLES: &str = "\
Examples:
  mainstem man /usr/local/share/man/man1
  mainstem man /tmp/man && man -l /tmp/man/mainstem-consume.1";

/// Write the manual pages of all commands into a folder.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Man {
    /// The folder; the command creates it if it does not exist
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

impl Man {
    pub fn run(self) -> anyhow::Result<()> {
        let shown = self.folder.display();
        std::fs::create_dir_all(&self.folder).with_context(|| format!("cannot create the folder {shown}"))?;
        // `help` describes what the other pages do.
        let command = crate::CommandLine::command().disable_help_subcommand(true);
        clap_mangen::generate_to(command, &self.folder).with_context(|| format!("cannot write pages to {shown}"))?;
        output::note(&format!("manual pages written to {shown}: mainstem.1, and one for each command"));
        Ok(())
    }
}
