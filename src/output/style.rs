//! Colours: where a person sees them, and nobody asked for none.
//!
//! `--color` decides; `auto` means a terminal, unless `NO_COLOR` is set to anything or `TERM` is `dumb`.

use std::io::IsTerminal;
use std::sync::OnceLock;

use clap::ValueEnum;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum ColorChoice {
    #[default]
    Auto,
    Always,
    Never,
}

static CHOICE: OnceLock<ColorChoice> = OnceLock::new();

/// Said once, before anything is written.
pub fn choose(choice: ColorChoice) {
    let _ = CHOICE.set(choice);
}

/// Whether a stream takes colours.
#[derive(Debug, Clone, Copy)]
pub struct Style {
    colours: bool,
}

pub fn of_stdout() -> Style {
    of(&std::io::stdout())
}

pub fn of_stderr() -> Style {
    of(&std::io::stderr())
}

fn of(stream: &impl IsTerminal) -> Style {
    let choice = CHOICE.get().copied().unwrap_or_default();
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let colours = match choice {
        ColorChoice::Always => true,
        ColorChoice::Never => false,
        ColorChoice::Auto => {
            stream.is_terminal() && set("NO_COLOR").is_none() && set("TERM").is_none_or(|term| term != "dumb")
        }
    };
    Style { colours }
}

impl Style {
    pub fn bold(self, text: &str) -> String {
        self.paint("1", text)
    }

    pub fn red(self, text: &str) -> String {
        self.paint("1;31", text)
    }

    fn paint(self, code: &str, text: &str) -> String {
        if self.colours { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_left_as_it_is_where_there_are_no_colours() {
        assert_eq!(Style { colours: false }.red("lost"), "lost");
        assert_eq!(Style { colours: true }.red("lost"), "\x1b[1;31mlost\x1b[0m");
    }
}
