//! Nothing unfinished stays: no `todo!`, `unimplemented!`, `dbg!`, `#[ignore]`, no marker comments, no commented-out
//! code.

use super::Finding;
use super::source::Source;
use super::tokens::{Comment, Kind, Token};
use proc_macro2::Delimiter;

const MACROS: [&str; 3] = ["todo", "unimplemented", "dbg"];
const MARKERS: [&str; 4] = ["FIXME", "XXX", "TODO", "HACK"];

pub fn check(source: &Source) -> Vec<Finding> {
    let mut findings: Vec<Finding> = source.tokens.windows(3).filter_map(|three| unfinished(source, three)).collect();
    findings.extend(source.comments.iter().filter_map(|comment| marker(source, comment)));
    findings.extend(commented_out(source));
    findings
}

fn unfinished(source: &Source, three: &[Token]) -> Option<Finding> {
    let [first, second, third] = three else { return None };
    if let Kind::Ident(name) = &first.kind
        && MACROS.contains(&name.as_str())
        && second.is_punct('!')
    {
        let what = format!("`{name}!`");
        return Some(Finding::new(
            &source.path,
            first.line,
            what,
            "nothing unfinished stays",
            "finish it or take it out",
        ));
    }
    let ignored = first.is_punct('#') && second.kind == Kind::Open(Delimiter::Bracket) && third.is_ident("ignore");
    ignored.then(|| {
        let why = "a test that does not run proves nothing";
        Finding::new(&source.path, first.line, "`#[ignore]`", why, "make it run or delete it")
    })
}

fn marker(source: &Source, comment: &Comment) -> Option<Finding> {
    let words = comment.text.split(|c: char| !c.is_ascii_alphanumeric());
    let word = words.into_iter().find(|word| MARKERS.contains(word))?;
    let what = format!("comment says {word}");
    Some(Finding::new(&source.path, comment.line, what, "nothing unfinished stays", "do it, or say plainly what holds"))
}

/// Blocks of comment lines that read as Rust statements.
fn commented_out(source: &Source) -> Vec<Finding> {
    let plain: Vec<&Comment> = source.comments.iter().filter(|comment| !comment.doc).collect();
    let blocks = plain.chunk_by(|a, b| a.alone && b.alone && b.line == a.line + 1);
    let code = blocks.filter(|block| {
        let text: Vec<&str> = block.iter().map(|comment| comment.text.as_str()).collect();
        reads_as_code(&text.join("\n"))
    });
    code.map(|block| {
        let why = "the history keeps old code";
        Finding::new(&source.path, block[0].line, "commented-out code", why, "delete it")
    })
    .collect()
}

fn reads_as_code(text: &str) -> bool {
    if !text.ends_with([';', '}']) {
        return false;
    }
    let Ok(block) = syn::parse_str::<syn::Block>(&format!("{{{text}\n}}")) else { return false };
    block.stmts.iter().any(|statement| match statement {
        syn::Stmt::Local(_) | syn::Stmt::Item(_) | syn::Stmt::Macro(_) => true,
        syn::Stmt::Expr(expression, _) => !matches!(
            expression,
            syn::Expr::Path(_) | syn::Expr::Lit(_) | syn::Expr::Block(_) | syn::Expr::Tuple(_) | syn::Expr::Struct(_)
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whats(text: &str) -> Vec<(usize, String)> {
        let found = check(&Source::parse("crates/a/src/x.rs", text).unwrap());
        found.into_iter().map(|f| (f.line, f.what)).collect()
    }

    #[test]
    fn unfinished_macros_and_ignored_tests_are_found_in_tests_too() {
        let text =
            "#[cfg(test)]\nmod tests {\n #[ignore]\n fn f() {\n  todo!();\n  unimplemented!();\n  dbg!(1);\n }\n}\n";
        assert_eq!(whats(text).iter().map(|(line, _)| *line).collect::<Vec<_>>(), [3, 5, 6, 7]);
        assert_eq!(whats("fn todo() { ignore(); let dbg = 1; }\n"), []);
    }

    #[test]
    fn marker_words_are_found_as_words() {
        assert_eq!(whats("// FIXME: later\nconst A: u8 = 1;\n")[0], (1, "comment says FIXME".into()));
        assert_eq!(whats("/// TODO.\nconst A: u8 = 1;\n").len(), 1);
        assert_eq!(whats("// XXXL sizes, see TODOS\nconst A: &str = \"FIXME\";\n"), []);
    }

    #[test]
    fn commented_out_code_is_found_and_prose_is_not() {
        assert_eq!(whats("fn f() {\n // let a = 1;\n}\n")[0], (2, "commented-out code".into()));
        assert_eq!(whats("fn f() {\n // if a {\n //     b();\n // }\n}\n").len(), 1);
        assert_eq!(whats("// a.b();\nconst A: u8 = 1;\n").len(), 1);
        let prose =
            "// The order matters: first `a`, then `b`;\n// see also {Produce}\n// nothing;\nconst A: u8 = 1; // so;\n";
        assert_eq!(whats(prose), []);
    }
}
