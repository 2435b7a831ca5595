//! Names in `README.md`, `CONTRIBUTING.md` and `docs/` must exist in the tree: files, tests, threads, and the targets
//! of links.
//!
//! Only text between backticks counts, outside of code blocks, and what a link points at:
//!
//! - A path that begins with a folder of the project, or a file name of a source (`.rs`, `.py`, `.sh`), is a file or
//!   folder. Parts may be left out: `journal/append.rs` is `crates/journal/src/append.rs`. Kafka's own tools
//!   (`kafka-….sh`) are not ours.
//! - A name of at least four words joined by `_` is one of a function, or another word of a source.
//! - `name-N`, and the first column of a table of threads (`name`, `how many`), is a thread's name in production code.
//! - A link without `://` points at a file or folder, from the page's own folder.

use super::Finding;
use super::source::Source;
use anyhow::{Context, Result};
use std::collections::BTreeSet;
use std::path::Path;

/// Folders that a path from the root of the project begins with.
const TOP_FOLDERS: [&str; 7] = ["crates/", "docs/", "fuzz/", "src/", "tests/", "xtask/", ".ci/"];
const SOURCE_ENDINGS: [&str; 3] = [".rs", ".py", ".sh"];
const WORDS_OF_A_NAME_MIN: usize = 4;
/// Names of other programs that look like ours.
const FOREIGN: [&str; 1] = ["copy_folio_from_iter_atomic"];
/// Stands for the number of a page.
const PLACEHOLDER: &str = "NNNN";
/// How the header of a table of threads begins.
const THREADS_HEADER: &str = "| name | how many |";

/// What there is to name.
struct Tree {
    /// Relative to the root, files and folders.
    paths: BTreeSet<String>,
    words: BTreeSet<String>,
    threads: BTreeSet<String>,
}

pub fn check(root: &Path, sources: &[Source]) -> Result<Vec<Finding>> {
    let tree = Tree::read(root, sources)?;
    let mut findings = Vec::new();
    for path in tree.paths.iter().filter(|path| is_checked(path)) {
        let text = std::fs::read_to_string(root.join(path)).with_context(|| format!("cannot read {path}"))?;
        findings.extend(tree.check_page(path, &text));
    }
    Ok(findings)
}

fn is_checked(path: &str) -> bool {
    path == "README.md" || path == "CONTRIBUTING.md" || path.starts_with("docs/") && path.ends_with(".md")
}

impl Tree {
    fn read(root: &Path, sources: &[Source]) -> Result<Tree> {
        let mut paths = BTreeSet::new();
        collect(root, "", &mut paths)?;
        let mut words: BTreeSet<String> = sources.iter().flat_map(|source| words_of(&source.text)).collect();
        for path in paths.iter().filter(|path| path.ends_with(".py") && path.starts_with("tests/")) {
            words.extend(words_of(&std::fs::read_to_string(root.join(path))?));
        }
        let threads = sources.iter().flat_map(threads_of).collect();
        Ok(Tree { paths, words, threads })
    }

    fn check_page(&self, page: &str, text: &str) -> Vec<Finding> {
        let mut findings = Vec::new();
        let (mut in_code, mut in_threads) = (false, false);
        for (number, line) in (1..).zip(text.lines()) {
            if line.trim_start().starts_with("```") {
                in_code = !in_code;
            }
            if in_code {
                continue;
            }
            in_threads = line.starts_with(THREADS_HEADER) || in_threads && line.starts_with('|');
            let spans: Vec<&str> = line.split('`').skip(1).step_by(2).collect();
            let mut missing: Vec<String> = spans.iter().filter_map(|span| self.missing(span)).collect();
            if in_threads && let Some(name) = spans.first().filter(|_| line.starts_with("| `")) {
                missing.extend(self.missing_thread(name));
            }
            missing.extend(self.missing_links(page, line));
            missing.dedup();
            findings.extend(missing.into_iter().map(|what| {
                Finding::new(page, number, what, "a page names what exists", "name what is there now, or leave it out")
            }));
        }
        findings
    }

    /// What a text between backticks names and the tree does not have.
    fn missing(&self, span: &str) -> Option<String> {
        let is_path = |c: char| c.is_ascii_alphanumeric() || "_./-".contains(c);
        let words = span.split('_').count();
        let is_foreign = span.starts_with("kafka-") || span.contains(PLACEHOLDER);
        if span.chars().all(is_path) && !span.contains("..") && !is_foreign {
            let of_root = TOP_FOLDERS.iter().any(|folder| span.starts_with(folder));
            let is_source = SOURCE_ENDINGS.iter().any(|ending| span.ends_with(ending) && span.len() > ending.len());
            if is_source && !self.has_file(span) || of_root && !is_source && !self.has_path(span) {
                return Some(format!("there is no file `{span}`"));
            }
        }
        let is_name = span.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
        if is_name && words >= WORDS_OF_A_NAME_MIN && !self.words.contains(span) && !FOREIGN.contains(&span) {
            return Some(format!("there is no function `{span}`"));
        }
        if span.ends_with("-N") { self.missing_thread(span) } else { None }
    }

    fn missing_thread(&self, name: &str) -> Option<String> {
        let name_alone = name.strip_suffix("-N").unwrap_or(name);
        (!self.threads.contains(name_alone)).then(|| format!("there is no thread `{name}`"))
    }

    /// Whether the parts of `name` are parts of a file's path, in this order, the last one the file's name.
    fn has_file(&self, name: &str) -> bool {
        self.paths.iter().any(|path| {
            let mut parts = path.split('/');
            let in_order = name.split('/').all(|part| parts.any(|other| other == part));
            in_order && parts.next().is_none()
        })
    }

    /// A path from the root, or from the folder of a crate: `src/lib.rs` stands for any crate's.
    fn has_path(&self, name: &str) -> bool {
        let name = name.trim_end_matches('/');
        self.paths.contains(name) || self.paths.iter().any(|path| path.ends_with(&format!("/{name}")))
    }

    fn missing_links(&self, page: &str, line: &str) -> Vec<String> {
        let folder = page.rsplit_once('/').map_or("", |(folder, _)| folder);
        let targets = line.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(target, _)| target);
        let is_ours = |target: &&str| !target.contains("://") && !target.starts_with('#');
        targets
            .filter(is_ours)
            .filter(|target| !self.paths.contains(&resolve(folder, target.split('#').next().unwrap_or_default())))
            .map(|target| format!("there is no page {target}"))
            .collect()
    }
}

/// The path that a link means, seen from a folder.
fn resolve(folder: &str, target: &str) -> String {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in target.split('/').filter(|part| !part.is_empty() && *part != ".") {
        match part {
            ".." => drop(parts.pop()),
            _ => parts.push(part),
        }
    }
    parts.join("/")
}

fn collect(root: &Path, folder: &str, paths: &mut BTreeSet<String>) -> Result<()> {
    for entry in std::fs::read_dir(root.join(folder)).with_context(|| format!("cannot list {folder}"))? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if matches!(name.as_str(), "target" | "node_modules" | ".git") {
            continue;
        }
        let path = if folder.is_empty() { name } else { format!("{folder}/{name}") };
        if entry.file_type()?.is_dir() {
            collect(root, &path, paths)?;
        }
        paths.insert(path);
    }
    Ok(())
}

/// Words of code: lines that are comments as a whole are left out.
fn words_of(text: &str) -> Vec<String> {
    let is_code = |line: &&str| !line.trim_start().starts_with("//") && !line.trim_start().starts_with('#');
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words = text.lines().filter(is_code).flat_map(|line| line.split(|c: char| !is_word(c)));
    words.filter(|word| word.split('_').count() >= WORDS_OF_A_NAME_MIN).map(str::to_owned).collect()
}

/// Texts of production code that may be threads' names: `"name"`, or `"name-{…}"`.
fn threads_of(source: &Source) -> Vec<String> {
    let is_name = |text: &&str| !text.is_empty() && text.chars().all(|c| c.is_ascii_lowercase() || c == '-');
    let production = (1..).zip(source.text.lines()).filter(|(number, _)| source.is_production(*number));
    production
        .flat_map(|(_, line)| line.split('"').skip(1).step_by(2))
        .map(|text| text.split_once("-{").map_or(text, |(name, _)| name))
        .filter(is_name)
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree() -> Tree {
        let code = "fn the_rule_that_holds() { spawn(\"flush\", format!(\"reactor-{number}\")) }\n// fn the_rule_of_a_comment\n";
        let source = Source::parse("crates/journal/src/append.rs", code).unwrap();
        let paths =
            ["crates", "crates/journal/src/append.rs", "docs", "docs/formats", "docs/formats/a.md", "README.md"];
        Tree {
            paths: paths.iter().map(|path| (*path).to_owned()).collect(),
            words: words_of(code).into_iter().collect(),
            threads: threads_of(&source).into_iter().collect(),
        }
    }

    fn found(text: &str) -> Vec<String> {
        tree().check_page("docs/page.md", text).into_iter().map(|finding| finding.what).collect()
    }

    #[test]
    fn names_that_exist_are_no_findings() {
        let text = "`append.rs`, `journal/append.rs`, `crates/journal/src/append.rs`, `the_rule_that_holds`, `flush.ms`, `a_b`\n\
                    [a page](formats/a.md#part), [another](../README.md), [one of others](https://example.org/x.md)\n\
                    `reactor-N`, `crates/<name>/src`, `row_46_…`, `kafka-topics.sh`, `docs/decisions/NNNN-title.md`\n\
                    | name | how many |\n| --- | --- |\n| `flush` | 1 |\n\
                    ```\ncargo test `gone.rs` the_rule_that_is_gone\n```\n";
        assert_eq!(found(text), Vec::<String>::new());
    }

    #[test]
    fn names_that_do_not_exist_are_found() {
        assert_eq!(found("see `gone.rs`"), ["there is no file `gone.rs`"]);
        assert_eq!(found("see `append.rs/journal.rs`"), ["there is no file `append.rs/journal.rs`"]);
        assert_eq!(found("see `crates/gone`"), ["there is no file `crates/gone`"]);
        assert_eq!(found("`the_rule_that_is_gone`"), ["there is no function `the_rule_that_is_gone`"]);
        assert_eq!(found("`the_rule_of_a_comment`"), ["there is no function `the_rule_of_a_comment`"]);
        assert_eq!(found("on `gone-N`"), ["there is no thread `gone-N`"]);
        assert_eq!(found("| name | how many |\n| `gone` | 1 |"), ["there is no thread `gone`"]);
        assert_eq!(found("[a](formats/gone.md)"), ["there is no page formats/gone.md"]);
    }
}
