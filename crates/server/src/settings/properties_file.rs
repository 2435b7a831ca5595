//! Java's `.properties` format, so that a Kafka configuration file can be used as it is.
//!
//! Comments begin with `#` or `!`; the key ends at `=`, `:` or a blank; a backslash at the end of a line joins the next
//! one; `\t \n \r \f \uXXXX` are escapes, and a backslash before any other letter is dropped. A line ends at `\n`, `\r`
//! or both; a blank is a space, a tab or a form feed. Of a key that is set twice the last value holds. All this is as
//! in Java (`java.util.Properties.load`). The file is UTF-8; one that is not is ISO 8859-1, which Java takes every file
//! for.

use super::{Entry, FileError};

const BLANKS: [char; 3] = [' ', '\t', '\u{c}'];
/// Written by some editors at the beginning of a UTF-8 file.
const BYTE_ORDER_MARK: char = '\u{feff}';

/// The letters of a file.
pub(super) fn text(bytes: Vec<u8>) -> String {
    let text =
        String::from_utf8(bytes).unwrap_or_else(|error| error.as_bytes().iter().copied().map(char::from).collect());
    text.strip_prefix(BYTE_ORDER_MARK).map(str::to_owned).unwrap_or(text)
}

pub(super) fn parse(text: &str) -> Result<Vec<Entry>, FileError> {
    let mut entries = Vec::new();
    let mut lines = lines(text).enumerate();
    while let Some((index, first)) = lines.next() {
        let first = first.trim_start_matches(BLANKS);
        if first.is_empty() || first.starts_with(['#', '!']) {
            continue;
        }
        let mut logical = first.to_owned();
        while ends_in_open_backslash(&logical) {
            logical.pop();
            match lines.next() {
                Some((_, next)) => logical.push_str(next.trim_start_matches(BLANKS)),
                None => break,
            }
        }
        let line = index + 1;
        let (key, value) = split(&logical);
        entries.push(Entry { key: unescape(key, line)?, value: unescape(value, line)?.trim_end().to_owned(), line });
    }
    Ok(entries)
}

/// Lines, without what ends them.
fn lines(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest?;
        let Some(end) = text.find(['\n', '\r']) else { return rest.take() };
        let after = &text[end..];
        rest = Some(after.strip_prefix("\r\n").unwrap_or(&after[1..]));
        Some(&text[..end])
    })
}

/// An even number of backslashes at the end is that many escaped ones.
fn ends_in_open_backslash(line: &str) -> bool {
    line.bytes().rev().take_while(|byte| *byte == b'\\').count() % 2 == 1
}

/// Key and value of a logical line, still escaped.
fn split(line: &str) -> (&str, &str) {
    let mut escaped = false;
    let end = line.find(|letter: char| {
        let ends = !escaped && (letter == '=' || letter == ':' || BLANKS.contains(&letter));
        escaped = !escaped && letter == '\\';
        ends
    });
    let (key, rest) = line.split_at(end.unwrap_or(line.len()));
    let rest = rest.trim_start_matches(BLANKS);
    let rest = rest.strip_prefix(['=', ':']).unwrap_or(rest);
    (key, rest.trim_start_matches(BLANKS))
}

fn unescape(text: &str, line: usize) -> Result<String, FileError> {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        plain.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let Some(letter) = rest.chars().next() else { return Ok(plain) };
        rest = &rest[letter.len_utf8()..];
        plain.push(match letter {
            't' => '\t',
            'n' => '\n',
            'r' => '\r',
            'f' => '\u{c}',
            'u' => unicode(&mut rest).map_err(|reason| FileError::Syntax { line, reason })?,
            other => other,
        });
    }
    plain.push_str(rest);
    Ok(plain)
}

/// The letter whose four digits `rest` begins with. One beyond 16 bits is a pair of escapes, as Java writes it.
fn unicode(rest: &mut &str) -> Result<char, String> {
    let first =
        four_digits(rest).ok_or_else(|| format!("\\u{} is no character", rest.chars().take(4).collect::<String>()))?;
    *rest = &rest[4..];
    let second = rest.strip_prefix("\\u").and_then(four_digits);
    let mut units = char::decode_utf16([first].into_iter().chain(second));
    let letter = units.next().and_then(Result::ok).ok_or_else(|| format!("\\u{first:04x} is half a character"))?;
    if letter.len_utf16() == 2 {
        *rest = &rest[6..];
    }
    Ok(letter)
}

fn four_digits(text: &str) -> Option<u16> {
    let digits = text.get(..4).filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()))?;
    u16::from_str_radix(digits, 16).ok()
}
