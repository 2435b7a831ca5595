//! rustfmt and clippy, their findings in our form.

use super::Finding;
use anyhow::Result;
use std::path::Path;
use std::process::Command;

pub fn rustfmt(root: &Path) -> Result<Vec<Finding>> {
    let output = Command::new("cargo").args(["fmt", "--all", "--", "--check", "-l"]).current_dir(root).output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let mut findings: Vec<Finding> =
        text.lines().filter(|line| line.ends_with(".rs")).map(|path| unformatted(root, path)).collect();
    if findings.is_empty() && !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        findings.push(Finding::new(
            ".",
            0,
            format!("cargo fmt failed: {}", one_line(&errors)),
            "every file is formatted",
            "mend it",
        ));
    }
    Ok(findings)
}

fn unformatted(root: &Path, path: &str) -> Finding {
    let relative = Path::new(path).strip_prefix(root).unwrap_or(Path::new(path)).to_string_lossy();
    Finding::new(&relative, 1, "not formatted", "every file is as rustfmt leaves it", "run `cargo fmt --all`")
}

pub fn clippy(root: &Path) -> Result<Vec<Finding>> {
    let arguments = [
        "clippy",
        "--workspace",
        "--all-targets",
        "--locked",
        "--quiet",
        "--message-format",
        "short",
        "--",
        "-D",
        "warnings",
    ];
    let output = Command::new("cargo").args(arguments).current_dir(root).output()?;
    if output.status.success() {
        return Ok(Vec::new());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    let mut findings: Vec<Finding> = text.lines().filter_map(clippy_finding).collect();
    if findings.is_empty() {
        findings.push(Finding::new(
            ".",
            0,
            format!("cargo clippy failed: {}", one_line(&text)),
            "it must pass",
            "mend it",
        ));
    }
    Ok(findings)
}

/// `path:line:column: error: message` as a finding.
fn clippy_finding(text: &str) -> Option<Finding> {
    let (path, rest) = text.split_once(".rs:")?;
    let (line, rest) = rest.split_once(':')?;
    let (_, message) = rest.split_once(": ")?;
    let message = message.trim_start_matches("error: ").trim_start_matches("warning: ");
    Some(Finding::new(
        &format!("{path}.rs"),
        line.parse().ok()?,
        message,
        "clippy's warnings are errors",
        "see `cargo clippy`",
    ))
}

fn one_line(text: &str) -> String {
    let last: Vec<&str> = text.lines().rev().filter(|line| !line.trim().is_empty()).take(3).collect();
    last.into_iter().rev().collect::<Vec<_>>().join(" | ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_clippy_becomes_a_finding() {
        let found = clippy_finding("crates/a/src/x.rs:12:5: error: unused variable: `a`").unwrap();
        assert_eq!(
            (found.path.as_str(), found.line, found.what.as_str()),
            ("crates/a/src/x.rs", 12, "unused variable: `a`")
        );
        assert_eq!(clippy_finding("error: could not compile `a` (lib) due to 1 previous error"), None);
    }

    #[test]
    fn an_unformatted_file_is_named_from_the_root() {
        assert_eq!(unformatted(Path::new("/p"), "/p/src/main.rs").path, "src/main.rs");
    }
}
