//! `cargo xtask tidy`: the rules of the house that the compiler does not know.
//!
//! One line for each finding, `file:line: what, why, what to do`, and a closing line with the count.
//! The rules on source text work on parsed syntax; nothing is found by searching text for words, comments apart.

mod circles;
mod columns;
mod documents;
mod layers;
mod leftovers;
mod length;
mod licences;
mod logic;
mod panics;
mod source;
mod tokens;
mod tools;

use anyhow::Result;
use std::fmt;
use std::path::PathBuf;

/// One broken rule; line 1 also stands for the file as a whole.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    pub path: String,
    pub line: usize,
    pub what: String,
    pub why: String,
    pub fix: String,
}

impl Finding {
    pub fn new(
        path: &str,
        line: usize,
        what: impl Into<String>,
        why: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        Self { path: path.to_owned(), line, what: what.into(), why: why.into(), fix: fix.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}, {}, {}", self.path, self.line, self.what, self.why, self.fix)
    }
}

/// Runs every check; true when nothing was found.
pub fn run(arguments: &[String]) -> Result<bool> {
    let with_clippy = match arguments {
        [] => true,
        [flag] if flag == "--no-build" => false,
        _ => anyhow::bail!("tidy takes no argument but --no-build"),
    };
    let root = project_root();
    let sources = source::load(&root)?;
    let mut findings: Vec<Finding> = sources.iter().flat_map(check_source).collect();
    let packages = layers::Packages::read(&root)?;
    findings.extend(layers::check(&packages));
    findings.extend(circles::check(&sources));
    findings.extend(logic::check_dependencies(&packages));
    findings.extend(licences::check(&packages));
    findings.extend(documents::check(&root, &sources)?);
    findings.extend(tools::rustfmt(&root)?);
    if with_clippy {
        findings.extend(tools::clippy(&root)?);
    }
    findings.sort();
    findings.dedup();
    for finding in &findings {
        println!("{finding}");
    }
    let clippy = if with_clippy { "" } else { " (without clippy)" };
    println!(
        "tidy: {} findings in {} Rust files and {} dependencies{clippy}",
        findings.len(),
        sources.len(),
        packages.count_foreign()
    );
    Ok(findings.is_empty())
}

fn check_source(source: &source::Source) -> Vec<Finding> {
    let mut findings = length::check(source);
    findings.extend(panics::check(source));
    findings.extend(leftovers::check(source));
    findings.extend(columns::check(source));
    findings.extend(logic::check_source(source));
    findings
}

/// The checkout this program was built from.
pub fn project_root() -> PathBuf {
    let manifest = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().map_or(manifest.clone(), PathBuf::from)
}
