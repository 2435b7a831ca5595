//! The project's Rust files, parsed, with the stretches that are test code.

use super::tokens::{self, Comment, Token};
use anyhow::{Context, Result, anyhow};
use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use syn::spanned::Spanned;
use syn::visit::Visit;

/// A parsed file. `path` is relative to the project's root, with forward slashes.
pub struct Source {
    pub path: String,
    pub text: String,
    pub tokens: Vec<Token>,
    pub comments: Vec<Comment>,
    pub file: syn::File,
    /// The whole file is test code: `tests/`, `benches/`, `fuzz/`, `tests.rs`, `x_tests.rs`, or declared under
    /// `#[cfg(test)]`.
    pub is_test: bool,
    /// Lines of items marked `#[cfg(test)]` or `#[test]`.
    pub test_lines: Vec<RangeInclusive<usize>>,
}

impl Source {
    pub fn parse(path: &str, text: &str) -> Result<Self> {
        let stream: proc_macro2::TokenStream =
            text.parse().map_err(|error| anyhow!("{path} is not readable as Rust: {error}"))?;
        let tokens = tokens::flatten(&stream);
        let comments = tokens::comments(text, &tokens);
        let file: syn::File = syn::parse2(stream).with_context(|| format!("{path} is not readable as Rust"))?;
        let mut finder = TestItems::default();
        finder.visit_file(&file);
        let is_test = is_test_path(path) || has_test_attribute(&file.attrs);
        Ok(Self {
            path: path.to_owned(),
            text: text.to_owned(),
            tokens,
            comments,
            file,
            is_test,
            test_lines: finder.lines,
        })
    }

    /// Whether a line is production code.
    pub fn is_production(&self, line: usize) -> bool {
        !self.is_test && !self.test_lines.iter().any(|lines| lines.contains(&line))
    }

    /// The crate's folder name (`types` for `crates/types/src/lib.rs`), or the first folder.
    pub fn crate_folder(&self) -> &str {
        let mut parts = self.path.split('/');
        match parts.next() {
            Some("crates") => parts.next().unwrap_or_default(),
            first => first.unwrap_or_default(),
        }
    }
}

/// Reads every Rust file below `root` that belongs to the project.
pub fn load(root: &Path) -> Result<Vec<Source>> {
    let mut paths = Vec::new();
    for folder in ["src", "crates", "xtask", "fuzz", "tests", "benches"] {
        collect(&root.join(folder), &mut paths)?;
    }
    paths.sort();
    let mut sources = Vec::new();
    for path in paths {
        let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let relative = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().replace('\\', "/");
        sources.push(Source::parse(&relative, &text)?);
    }
    mark_declared_tests(&mut sources);
    Ok(sources)
}

fn collect(folder: &Path, paths: &mut Vec<PathBuf>) -> Result<()> {
    if !folder.is_dir() {
        return Ok(());
    }
    for entry in std::fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() {
            if name != "target" && name != "node_modules" && !name.starts_with('.') {
                collect(&path, paths)?;
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            paths.push(path);
        }
    }
    Ok(())
}

/// A file that another one declares with `#[cfg(test)] mod name;` is test code.
pub fn mark_declared_tests(sources: &mut [Source]) {
    let declared: BTreeSet<String> = sources.iter().flat_map(declared_tests).collect();
    for source in sources {
        let inside =
            |module: &String| source.path == format!("{module}.rs") || source.path.starts_with(&format!("{module}/"));
        source.is_test = source.is_test || declared.iter().any(inside);
    }
}

/// The module paths (without `.rs`) that a file declares as test modules.
fn declared_tests(source: &Source) -> Vec<String> {
    let path = source.path.trim_end_matches(".rs");
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    let base = if matches!(name, "lib" | "main" | "mod" | "build") { folder.to_owned() } else { path.to_owned() };
    let test_modules = source.file.items.iter().filter_map(|item| match item {
        syn::Item::Mod(module) if module.content.is_none() && has_test_attribute(&module.attrs) => Some(module),
        _ => None,
    });
    test_modules
        .map(|module| match path_attribute(&module.attrs) {
            Some(file) => format!("{folder}/{}", file.trim_end_matches(".rs")),
            None => format!("{base}/{}", module.ident),
        })
        .collect()
}

fn path_attribute(attributes: &[syn::Attribute]) -> Option<String> {
    attributes.iter().find_map(|attribute| match &attribute.meta {
        syn::Meta::NameValue(pair) if pair.path.is_ident("path") => match &pair.value {
            syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) => Some(text.value()),
            _ => None,
        },
        _ => None,
    })
}

fn is_test_path(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let in_test_folder = path.split('/').rev().skip(1).any(|part| matches!(part, "tests" | "benches" | "fuzz"));
    in_test_folder || name == "tests.rs" || name.ends_with("_tests.rs") || name.ends_with("_test.rs")
}

#[derive(Default)]
struct TestItems {
    lines: Vec<RangeInclusive<usize>>,
}

impl TestItems {
    fn note(&mut self, attributes: &[syn::Attribute], item: &impl Spanned) -> bool {
        let is_test = has_test_attribute(attributes);
        if is_test {
            self.lines.push(lines_of(item));
        }
        is_test
    }
}

impl<'ast> Visit<'ast> for TestItems {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        if !self.note(attributes_of(item), item) {
            syn::visit::visit_item(self, item);
        }
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if !self.note(&item.attrs, item) {
            syn::visit::visit_impl_item_fn(self, item);
        }
    }

    fn visit_stmt_macro(&mut self, statement: &'ast syn::StmtMacro) {
        self.note(&statement.attrs, statement);
    }
}

fn attributes_of(item: &syn::Item) -> &[syn::Attribute] {
    match item {
        syn::Item::Const(i) => &i.attrs,
        syn::Item::Enum(i) => &i.attrs,
        syn::Item::Fn(i) => &i.attrs,
        syn::Item::Impl(i) => &i.attrs,
        syn::Item::Macro(i) => &i.attrs,
        syn::Item::Mod(i) => &i.attrs,
        syn::Item::Static(i) => &i.attrs,
        syn::Item::Struct(i) => &i.attrs,
        syn::Item::Trait(i) => &i.attrs,
        syn::Item::Type(i) => &i.attrs,
        syn::Item::Use(i) => &i.attrs,
        _ => &[],
    }
}

/// The first and last line of a piece of syntax.
pub fn lines_of(item: &impl Spanned) -> RangeInclusive<usize> {
    let span = item.span();
    span.start().line..=span.end().line
}

/// `#[test]` (also `#[tokio::test]`), or a `cfg` that holds in tests alone.
fn has_test_attribute(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let named_test = attribute.path().segments.last().is_some_and(|segment| segment.ident == "test");
        let test_cfg = attribute.path().is_ident("cfg")
            && attribute.parse_args::<syn::Meta>().is_ok_and(|condition| only_in_tests(&condition));
        named_test || test_cfg
    })
}

fn only_in_tests(condition: &syn::Meta) -> bool {
    match condition {
        syn::Meta::Path(path) => path.is_ident("test"),
        syn::Meta::List(list) if list.path.is_ident("all") => {
            let parser = syn::punctuated::Punctuated::<syn::Meta, syn::Token![,]>::parse_terminated;
            list.parse_args_with(parser).is_ok_and(|parts| parts.iter().any(only_in_tests))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_code_is_recognised_by_path_attribute_and_declaration() {
        assert!(Source::parse("crates/a/tests/x.rs", "fn f() {}").unwrap().is_test);
        assert!(Source::parse("crates/a/src/x_tests.rs", "fn f() {}").unwrap().is_test);
        assert!(!Source::parse("crates/a/src/x.rs", "fn f() {}").unwrap().is_test);
        let mixed =
            "fn f() {}\n#[cfg(all(test, unix))]\nmod tests {\n    fn g() {}\n}\n#[cfg(any(test, unix))]\nfn h() {}\n";
        let source = Source::parse("crates/a/src/x.rs", mixed).unwrap();
        let production: Vec<_> = (1..=7).filter(|line| source.is_production(*line)).collect();
        assert_eq!(production, [1, 6, 7]);
    }

    #[test]
    fn a_module_declared_under_cfg_test_is_test_code() {
        let mut sources = vec![
            Source::parse("crates/a/src/x.rs", "#[cfg(test)]\nmod model;\n").unwrap(),
            Source::parse("crates/a/src/x/model.rs", "fn f() {}").unwrap(),
            Source::parse("crates/a/src/x/other.rs", "fn f() {}").unwrap(),
        ];
        mark_declared_tests(&mut sources);
        assert_eq!(sources.iter().map(|s| s.is_test).collect::<Vec<_>>(), [false, true, false]);
    }
}
