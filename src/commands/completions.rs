//! `mainstem completions`: what makes a shell complete the command line.

use clap::{Args, CommandFactory, ValueEnum};
use clap_complete::Shell;

use crate::output;

const EXAMPLES: &str = "\
Examples:
  source <(mainstem completions bash)                                        in ~/.bashrc
  mainstem completions zsh > ~/.zfunc/_mainstem                              in a folder of fpath
  mainstem completions fish > ~/.config/fish/completions/mainstem.fish";

/// Print the completions for a shell.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Completions {
    /// The shell
    #[arg(value_enum)]
    shell: KnownShell,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum KnownShell {
    Bash,
    Zsh,
    Fish,
}

impl Completions {
    pub fn run(self) -> anyhow::Result<()> {
        let shell = match self.shell {
            KnownShell::Bash => Shell::Bash,
            KnownShell::Zsh => Shell::Zsh,
            KnownShell::Fish => Shell::Fish,
        };
        let mut script = Vec::new();
        clap_complete::generate(shell, &mut crate::CommandLine::command(), "mainstem", &mut script);
        output::print(&String::from_utf8_lossy(&script))
    }
}
