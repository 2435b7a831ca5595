//! What commands write to standard output, and what they tell beside it on standard error.

pub mod progress;
pub mod style;

use std::io::{self, BufWriter, IsTerminal, Stdout, Write};

use anyhow::Context;
use clap::ValueEnum;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::Serialize;

const BUFFER_SIZE: usize = 64 * 1024;

/// How a command tells its results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OutputFormat {
    /// For people
    Text,
    /// One JSON document, for programs
    Json,
}

/// Nobody reads the output any more, as after `mainstem consume … | head`: no error, and nothing is left to do.
#[derive(Debug)]
pub struct ReaderGone;

impl std::fmt::Display for ReaderGone {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the reader of the output has closed it")
    }
}

impl std::error::Error for ReaderGone {}

/// Standard output, buffered. All errors of it that are a gone reader's are [`ReaderGone`].
pub struct Output {
    buffer: BufWriter<Stdout>,
}

impl Output {
    pub fn new() -> Self {
        Output { buffer: BufWriter::with_capacity(BUFFER_SIZE, io::stdout()) }
    }

    pub fn write(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        self.buffer.write_all(bytes).map_err(explain)
    }

    pub fn flush(&mut self) -> anyhow::Result<()> {
        self.buffer.flush().map_err(explain)
    }

    /// Whether the other end of a pipe is closed: found without writing, so that a command that waits for something to
    /// write does not wait for nobody.
    pub fn check_reader(&self) -> anyhow::Result<()> {
        let stdout = io::stdout();
        if stdout.is_terminal() {
            return Ok(());
        }
        let mut watched = [PollFd::new(&stdout, PollFlags::empty())];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        // What cannot be watched is found out by writing.
        let found = poll(&mut watched, Some(&now)).unwrap_or(0);
        if found > 0 && watched[0].revents().contains(PollFlags::ERR) { Err(ReaderGone.into()) } else { Ok(()) }
    }
}

fn explain(error: io::Error) -> anyhow::Error {
    if error.kind() == io::ErrorKind::BrokenPipe {
        return ReaderGone.into();
    }
    anyhow::Error::new(error).context("cannot write to standard output")
}

/// Writes a text as it is.
pub fn print(text: &str) -> anyhow::Result<()> {
    progress::make_way();
    let mut output = Output::new();
    output.write(text.as_bytes())?;
    output.flush()
}

/// Writes one JSON document, indented.
pub fn print_json(document: &impl Serialize) -> anyhow::Result<()> {
    let text = serde_json::to_string_pretty(document).context("cannot write the result as JSON")?;
    print(&format!("{text}\n"))
}

/// A note for people, on standard error: what happened beside the results. Lost when nobody reads it.
pub fn note(text: &str) {
    progress::make_way();
    let _ = writeln!(io::stderr(), "{text}");
}

/// Columns of text: as wide as needed, two spaces apart.
pub struct Table {
    has_head: bool,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub fn new(head: &[&str]) -> Self {
        Table { has_head: true, rows: vec![head.iter().map(|&cell| cell.to_owned()).collect()] }
    }

    /// One whose first row is like the others.
    pub fn without_head() -> Self {
        Table { has_head: false, rows: Vec::new() }
    }

    pub fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// Every line begins with `indent` and ends without spaces. The head stands out where standard output has colours.
    pub fn render(&self, indent: &str) -> String {
        let style = style::of_stdout();
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width =
            |column: usize| self.rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
        let widths: Vec<_> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
        let mut text = String::new();
        for (i, row) in self.rows.iter().enumerate() {
            let cells: Vec<_> = row.iter().zip(&widths).map(|(cell, &width)| format!("{cell:width$}")).collect();
            let line = cells.join("  ");
            let line = line.trim_end();
            text.push_str(indent);
            text.push_str(&if i == 0 && self.has_head { style.bold(line) } else { line.to_owned() });
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut table = Table::new(&["TOPIC", "N"]);
        table.row(vec!["a-long-name".to_owned(), "1".to_owned()]);
        table.row(vec!["ü".to_owned(), String::new()]);
        assert_eq!(table.render("> "), "> TOPIC        N\n> a-long-name  1\n> ü\n");
    }
}
