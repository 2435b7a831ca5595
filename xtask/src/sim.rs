//! `cargo xtask sim`: the simulation of the crate `sim`, built with optimisations because it is to play many seeds.

use anyhow::{Context, Result};
use std::path::Path;
use std::process::Command;

/// True: no rule was violated.
pub fn run(arguments: &[String]) -> Result<bool> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("xtask lies in no workspace")?;
    let mut command = Command::new("cargo");
    command.current_dir(root).args(["run", "--quiet", "--release", "--locked", "-p", "mainstem-sim", "--"]);
    Ok(command.args(arguments).status()?.success())
}
