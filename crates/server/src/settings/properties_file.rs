//! Java's `.properties` format, so that a Kafka configuration file can be used as it is.
//!
//! Comments begin with `#` or `!`; the key ends at `=`, `:` or a blank; a backslash at the end of a line joins the next one;
//! `\t \n \r \f \uXXXX` are escapes. Of a key that is set twice the last value holds, as in Java. The file is UTF-8.

use super::{Entry, FileError};

pub(super) fn parse(text: &str) -> Result<Vec<Entry>, FileError> {
    let mut entries = Vec::new();
    let mut lines = text.lines().enumerate();
    while let Some((index, first)) = lines.next() {
        let first = first.trim_start();
        if first.is_empty() || first.starts_with(['#', '!']) {
            continue;
        }
        let mut logical = first.to_owned();
        while ends_in_open_backslash(&logical) {
            logical.pop();
            match lines.next() {
                Some((_, next)) => logical.push_str(next.trim_start()),
                None => break,
            }
        }
        let line = index + 1;
        let (key, value) = split(&logical);
        entries.push(Entry { key: unescape(key, line)?, value: unescape(value, line)?.trim_end().to_owned(), line });
    }
    Ok(entries)
}

/// An even number of backslashes at the end is that many escaped ones.
fn ends_in_open_backslash(line: &str) -> bool {
    line.bytes().rev().take_while(|byte| *byte == b'\\').count() % 2 == 1
}

/// Key and value of a logical line, still escaped.
fn split(line: &str) -> (&str, &str) {
    let mut escaped = false;
    let end = line.find(|letter: char| {
        let ends = !escaped && (letter == '=' || letter == ':' || letter.is_whitespace());
        escaped = !escaped && letter == '\\';
        ends
    });
    let (key, rest) = line.split_at(end.unwrap_or(line.len()));
    let rest = rest.trim_start();
    let rest = rest.strip_prefix(['=', ':']).unwrap_or(rest);
    (key, rest.trim_start())
}

fn unescape(text: &str, line: usize) -> Result<String, FileError> {
    let mut plain = String::with_capacity(text.len());
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        if letter != '\\' {
            plain.push(letter);
            continue;
        }
        match letters.next() {
            Some('t') => plain.push('\t'),
            Some('n') => plain.push('\n'),
            Some('r') => plain.push('\r'),
            Some('f') => plain.push('\u{c}'),
            Some('u') => {
                let digits: String = letters.by_ref().take(4).collect();
                let code = u32::from_str_radix(&digits, 16).ok().filter(|_| digits.len() == 4).and_then(char::from_u32);
                let reason = || FileError::Syntax { line, reason: format!("\\u{digits} is no character") };
                plain.push(code.ok_or_else(reason)?);
            }
            Some(other) => plain.push(other),
            None => {}
        }
    }
    Ok(plain)
}
