//! Running other programs.

use anyhow::{Context, Result, bail};
use std::path::Path;
use std::process::Command;

/// What a program prints on standard output; an error with the end of its standard error when it fails.
pub fn output(folder: &Path, program: &str, arguments: &[&str]) -> Result<String> {
    let output = Command::new(program)
        .args(arguments)
        .current_dir(folder)
        .output()
        .with_context(|| format!("cannot start `{program}`; is it installed?"))?;
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        let lines: Vec<&str> = errors.lines().collect();
        let tail = lines[lines.len().saturating_sub(10)..].join("\n");
        bail!("`{program} {}` failed with {}:\n{tail}", arguments.join(" "), output.status);
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
