pub mod fuzz;
use anyhow::Result;
pub fn run(_: &[String]) -> Result<bool> {
    Ok(true)
}
pub fn prepare_only(_: &[String]) -> Result<bool> {
    Ok(true)
}
