//! Production code does not panic without saying why it cannot: `unwrap`, `expect`, `panic!`, `unreachable!` need a
//! `// reason: …` on the same line, or in the comment right above the line or above its statement.

use super::Finding;
use super::source::{Source, lines_of};
use super::tokens::{Kind, Token};
use proc_macro2::Delimiter;
use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use syn::visit::Visit;

const METHODS: [&str; 4] = ["unwrap", "expect", "unwrap_err", "expect_err"];
const MACROS: [&str; 2] = ["panic", "unreachable"];

pub fn check(source: &Source) -> Vec<Finding> {
    let places = source.tokens.windows(3).filter_map(panicking).filter(|(line, _)| source.is_production(*line));
    let mut places = places.peekable();
    if places.peek().is_none() {
        return Vec::new();
    }
    let reasons = Reasons::of(source);
    let unexplained = places.filter(|(line, _)| !reasons.explain(*line));
    unexplained
        .map(|(line, what)| {
            let why = "production code does not panic";
            Finding::new(&source.path, line, what, why, "return an error, or add `// reason: <why it cannot happen>`")
        })
        .collect()
}

fn panicking(three: &[Token]) -> Option<(usize, String)> {
    let [before, name, after] = three else { return None };
    let Kind::Ident(text) = &name.kind else { return None };
    let called = after.kind == Kind::Open(Delimiter::Parenthesis);
    if METHODS.contains(&text.as_str()) && before.is_punct('.') && called {
        return Some((name.line, format!("`.{text}()`")));
    }
    (MACROS.contains(&text.as_str()) && after.is_punct('!')).then(|| (name.line, format!("`{text}!`")))
}

/// Where the comments with a reason stand, and which lines each statement covers.
struct Reasons {
    lines: BTreeSet<usize>,
    comment_lines: BTreeSet<usize>,
    statements: Vec<RangeInclusive<usize>>,
}

impl Reasons {
    fn of(source: &Source) -> Self {
        let mut statements = Statements::default();
        statements.visit_file(&source.file);
        let plain = || source.comments.iter().filter(|comment| !comment.doc);
        Self {
            lines: plain().filter(|c| gives_reason(&c.text)).map(|c| c.line).collect(),
            comment_lines: plain().filter(|c| c.alone).map(|c| c.line).collect(),
            statements: statements.lines,
        }
    }

    fn explain(&self, line: usize) -> bool {
        let statement =
            self.statements.iter().filter(|lines| lines.contains(&line)).min_by_key(|l| l.end() - l.start());
        self.lines.contains(&line) || self.above(line) || statement.is_some_and(|lines| self.above(*lines.start()))
    }

    /// Whether the block of comment lines that ends right above the line holds a reason.
    fn above(&self, line: usize) -> bool {
        let block = (1..line).rev().take_while(|above| self.comment_lines.contains(above));
        block.into_iter().any(|above| self.lines.contains(&above))
    }
}

fn gives_reason(comment: &str) -> bool {
    comment.split_once("reason:").is_some_and(|(_, reason)| !reason.trim().is_empty())
}

#[derive(Default)]
struct Statements {
    lines: Vec<RangeInclusive<usize>>,
}

impl<'ast> Visit<'ast> for Statements {
    fn visit_stmt(&mut self, statement: &'ast syn::Stmt) {
        self.lines.push(lines_of(statement));
        syn::visit::visit_stmt(self, statement);
    }

    fn visit_item(&mut self, item: &'ast syn::Item) {
        if matches!(item, syn::Item::Const(_) | syn::Item::Static(_)) {
            self.lines.push(lines_of(item));
        }
        syn::visit::visit_item(self, item);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: [usize; 0] = [];

    fn lines(text: &str) -> Vec<usize> {
        check(&Source::parse("crates/a/src/x.rs", text).unwrap()).iter().map(|f| f.line).collect()
    }

    #[test]
    fn every_way_to_panic_is_found_in_macros_too() {
        let text =
            "fn f() {\n a.unwrap();\n a.expect(\"b\");\n panic!();\n unreachable!();\n assert!(a.unwrap_err());\n}\n";
        assert_eq!(lines(text), [2, 3, 4, 5, 6]);
    }

    #[test]
    fn relatives_strings_and_comments_are_left_alone() {
        assert_eq!(lines("fn f() {\n a.unwrap_or(1); // unwrap()\n b(\"x.unwrap()\"); self::expect(1);\n}\n"), NONE);
    }

    #[test]
    fn tests_may_panic() {
        assert_eq!(
            lines("#[cfg(test)]\nmod tests {\n fn f() { a.unwrap(); }\n}\n#[test]\nfn g() { panic!() }\n"),
            NONE
        );
        let file = Source::parse("crates/a/tests/x.rs", "fn f() { a.unwrap(); }\n").unwrap();
        assert_eq!(check(&file), []);
    }

    #[test]
    fn a_reason_on_the_line_above_it_or_above_the_statement_is_enough() {
        assert_eq!(lines("fn f() {\n a.unwrap(); // reason: checked above\n}\n"), NONE);
        assert_eq!(lines("fn f() {\n // reason: checked\n // above\n a.unwrap();\n}\n"), NONE);
        assert_eq!(lines("fn f() {\n // reason: checked above\n a\n  .b()\n  .unwrap();\n}\n"), NONE);
        assert_eq!(lines("fn f() {\n // reason: checked above\n\n a.unwrap();\n}\n"), [4], "a gap ends the comment");
        assert_eq!(lines("fn f() {\n a.unwrap(); // reason:\n}\n"), [2], "an empty reason is none");
        assert_eq!(lines("fn f() {\n // reason: this one\n a.unwrap();\n b.unwrap();\n}\n"), [4]);
    }
}
