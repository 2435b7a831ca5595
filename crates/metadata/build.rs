//! Reads `settings/*.txt` and writes the tables of settings as Rust into `OUT_DIR`.
//!
//! A line that is not understood stops the build with the file and the line.

#[path = "build/emit.rs"]
mod emit;
#[path = "build/parse.rs"]
mod parse;

use std::path::Path;

fn main() {
    println!("cargo:rerun-if-changed=settings");
    println!("cargo:rerun-if-changed=build");
    println!("cargo:rerun-if-changed=build.rs");
    if let Err(error) = generate() {
        eprintln!("settings: {error}");
        std::process::exit(1);
    }
}

fn generate() -> Result<(), String> {
    let topic = parse::settings("settings/topic.txt", &read("settings/topic.txt")?, parse::Of::Topics)?;
    let server = parse::settings("settings/server.txt", &read("settings/server.txt")?, parse::Of::Servers)?;
    let reasons = parse::reasons("settings/without_effect.txt", &read("settings/without_effect.txt")?)?;
    let tables =
        [emit::table("TOPIC_SETTINGS", &topic), emit::table("SERVER_SETTINGS", &server), emit::reasons(&reasons)];
    let out = std::env::var("OUT_DIR").map_err(|error| format!("OUT_DIR is not set: {error}"))?;
    let path = Path::new(&out).join("settings.rs");
    std::fs::write(&path, tables.concat()).map_err(|error| format!("cannot write {}: {error}", path.display()))
}

fn read(path: &str) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))
}
