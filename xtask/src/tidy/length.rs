//! Functions have at most 70 lines, production files at most 400, or 600 with a reason at the top.

use super::Finding;
use super::source::{Source, lines_of};
use syn::visit::Visit;

const FUNCTION_LINES_MAX: usize = 70;
const FILE_LINES_MAX: usize = 400;
const FILE_LINES_MAX_WITH_REASON: usize = 600;
/// The comment that allows the longer file stands within this many lines from the top.
const REASON_WITHIN_LINES: usize = 10;

pub fn check(source: &Source) -> Vec<Finding> {
    let mut functions = LongFunctions { path: &source.path, findings: Vec::new() };
    functions.visit_file(&source.file);
    let mut findings = functions.findings;
    findings.extend(check_file(source));
    findings
}

fn check_file(source: &Source) -> Option<Finding> {
    let total = source.text.lines().count();
    let lines = (1..=total).filter(|line| source.is_production(*line)).count();
    let has_reason = source.comments.iter().any(|comment| {
        comment.line <= REASON_WITHIN_LINES
            && !comment.doc
            && comment.text.strip_prefix("long:").is_some_and(|reason| !reason.trim().is_empty())
    });
    let (max, fix) = if has_reason {
        (FILE_LINES_MAX_WITH_REASON, "split it by topic")
    } else {
        (FILE_LINES_MAX, "split it by topic, or say `// long: <reason>` at the top (up to 600 lines)")
    };
    (lines > max).then(|| {
        Finding::new(&source.path, 1, format!("{lines} production lines"), format!("a file has at most {max}"), fix)
    })
}

struct LongFunctions<'a> {
    path: &'a str,
    findings: Vec<Finding>,
}

impl LongFunctions<'_> {
    fn measure(&mut self, signature: &syn::Signature, body: &syn::Block) {
        let first = *lines_of(&signature.fn_token).start();
        let lines = lines_of(body).end() + 1 - first;
        if lines > FUNCTION_LINES_MAX {
            let what = format!("function `{}` has {lines} lines", signature.ident);
            let why = format!("a function has at most {FUNCTION_LINES_MAX}");
            self.findings.push(Finding::new(self.path, first, what, why, "take a named step out of it"));
        }
    }
}

impl<'ast> Visit<'ast> for LongFunctions<'_> {
    fn visit_item_fn(&mut self, function: &'ast syn::ItemFn) {
        self.measure(&function.sig, &function.block);
        syn::visit::visit_item_fn(self, function);
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        self.measure(&function.sig, &function.block);
        syn::visit::visit_impl_item_fn(self, function);
    }

    fn visit_trait_item_fn(&mut self, function: &'ast syn::TraitItemFn) {
        if let Some(body) = &function.default {
            self.measure(&function.sig, body);
        }
        syn::visit::visit_trait_item_fn(self, function);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(text: &str) -> Vec<Finding> {
        check(&Source::parse("crates/a/src/x.rs", text).unwrap())
    }

    fn function(lines: usize) -> String {
        format!("/// Doc.\n#[inline]\nfn f() {{\n{}}}\n", "    g();\n".repeat(lines - 2))
    }

    #[test]
    fn a_function_of_70_lines_passes_and_one_of_71_does_not() {
        assert_eq!(findings(&function(70)), []);
        let found = findings(&function(71));
        assert_eq!((found[0].line, found[0].what.as_str()), (3, "function `f` has 71 lines"));
        let method = format!("impl A {{\n{}}}\ntrait B {{\n{}}}\n", function(71), function(71));
        assert_eq!(findings(&method).len(), 2);
    }

    #[test]
    fn a_file_of_400_production_lines_passes_and_one_of_401_does_not() {
        let tests = format!("#[cfg(test)]\nmod tests {{\n{}}}\n", "    const A: u8 = 1;\n".repeat(300));
        let file = |lines: usize| format!("{}{tests}", "const A: u8 = 1;\n".repeat(lines));
        assert_eq!(findings(&file(400)), []);
        assert_eq!(findings(&file(401))[0].what, "401 production lines");
    }

    #[test]
    fn a_stated_reason_allows_600_lines_and_no_more() {
        let file = |reason: &str, lines: usize| format!("{reason}\n{}", "const A: u8 = 1;\n".repeat(lines - 1));
        assert_eq!(findings(&file("// long: one table", 600)), []);
        assert_eq!(findings(&file("// long: one table", 601)).len(), 1);
        assert_eq!(findings(&file("// long:", 500)).len(), 1, "an empty reason is none");
        assert_eq!(findings(&file("// because", 500)).len(), 1);
    }
}
