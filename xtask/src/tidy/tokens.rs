//! A Rust file as a flat list of tokens, and the comments between them.
//!
//! Comments are found as what lies between tokens, so a `//` inside a string is never taken for one.

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use std::ops::Range;

/// What a token is; groups appear as an opening and a closing token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    Ident(String),
    Punct(char),
    Literal,
    Open(Delimiter),
    Close(Delimiter),
}

/// A token with its place; `line` counts from 1.
#[derive(Debug, Clone)]
pub struct Token {
    pub kind: Kind,
    pub line: usize,
    bytes: Range<usize>,
}

impl Token {
    pub fn is_ident(&self, name: &str) -> bool {
        matches!(&self.kind, Kind::Ident(text) if text == name)
    }

    pub fn is_punct(&self, character: char) -> bool {
        self.kind == Kind::Punct(character)
    }
}

/// One comment: `text` is without its slashes or stars, `alone` says that nothing else stands on its first line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Comment {
    pub line: usize,
    pub text: String,
    pub doc: bool,
    pub alone: bool,
}

/// The tokens of a stream in the order of the text.
pub fn flatten(stream: &TokenStream) -> Vec<Token> {
    let mut tokens = Vec::new();
    push_all(stream, &mut tokens);
    tokens
}

fn push_all(stream: &TokenStream, tokens: &mut Vec<Token>) {
    for tree in stream.clone() {
        let (kind, span) = match &tree {
            TokenTree::Group(group) => {
                let open = group.span_open();
                let close = group.span_close();
                tokens.push(Token {
                    kind: Kind::Open(group.delimiter()),
                    line: open.start().line,
                    bytes: open.byte_range(),
                });
                push_all(&group.stream(), tokens);
                (Kind::Close(group.delimiter()), close)
            }
            TokenTree::Ident(ident) => (Kind::Ident(ident.to_string()), ident.span()),
            TokenTree::Punct(punct) => (Kind::Punct(punct.as_char()), punct.span()),
            TokenTree::Literal(literal) => (Kind::Literal, literal.span()),
        };
        tokens.push(Token { kind, line: span.start().line, bytes: span.byte_range() });
    }
}

/// All comments of a text whose tokens are `tokens`.
pub fn comments(text: &str, tokens: &[Token]) -> Vec<Comment> {
    let mut found = Vec::new();
    let mut end = 0;
    for token in tokens {
        if token.bytes.start > end {
            comments_of_gap(text, end..token.bytes.start, &mut found);
        }
        let source = text.get(token.bytes.clone()).unwrap_or_default();
        if token.is_punct('#') && source.starts_with('/') {
            found.push(comment_at(text, token.bytes.start, source, true));
        }
        end = end.max(token.bytes.end);
    }
    comments_of_gap(text, end..text.len(), &mut found);
    found
}

/// The comments of a stretch that holds nothing but comments and white space.
fn comments_of_gap(text: &str, gap: Range<usize>, found: &mut Vec<Comment>) {
    let mut at = gap.start;
    while let Some(start) = text[at..gap.end].find('/').map(|i| at + i) {
        let rest = &text[start..gap.end];
        let length = if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |i| i + 2)
        } else {
            rest.find('\n').unwrap_or(rest.len())
        };
        found.push(comment_at(text, start, &rest[..length], false));
        at = start + length;
    }
}

fn comment_at(text: &str, start: usize, source: &str, doc: bool) -> Comment {
    let before = &text[..start];
    let line_start = before.rfind('\n').map_or(0, |i| i + 1);
    let body = source.trim_start_matches('/').trim_start_matches(['*', '!']).trim_end_matches("*/");
    Comment {
        line: before.matches('\n').count() + 1,
        text: body.trim().to_owned(),
        doc,
        alone: before[line_start..].trim().is_empty(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn comments_in(text: &str) -> Vec<Comment> {
        comments(text, &flatten(&text.parse().unwrap()))
    }

    #[test]
    fn comments_are_found_between_tokens_and_never_in_strings() {
        let found =
            comments_in("// first\nlet a = \"// no\"; // second\n/* third\n lines */ let b = 1;\n/// doc\nfn f() {}\n");
        let texts: Vec<_> = found.iter().map(|c| (c.line, c.text.as_str(), c.doc, c.alone)).collect();
        assert_eq!(
            texts,
            [
                (1, "first", false, true),
                (2, "second", false, false),
                (3, "third\n lines", false, true),
                (5, "doc", true, true)
            ]
        );
    }

    #[test]
    fn comments_after_letters_of_more_than_one_byte_keep_their_line() {
        let found = comments_in("let a = \"äöü → ß\";\n// näch → ste\nlet b = 1; // dritte\n");
        assert_eq!(found.iter().map(|c| c.line).collect::<Vec<_>>(), [2, 3]);
        assert_eq!(found[0].text, "näch → ste");
    }
}
