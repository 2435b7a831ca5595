//! Reads `schema/**/*.txt` and writes the Rust of every message into `OUT_DIR`.
//!
//! A line of a schema file that is not understood stops the build with the file and the line.

#[path = "build/emit.rs"]
mod emit;
#[path = "build/emit_read.rs"]
mod emit_read;
#[path = "build/emit_registry.rs"]
mod emit_registry;
#[path = "build/emit_write.rs"]
mod emit_write;
#[path = "build/names.rs"]
mod names;
#[path = "build/parse.rs"]
mod parse;
#[path = "build/schema.rs"]
mod schema;
#[path = "build/size.rs"]
mod size;

use std::path::Path;

/// The folders below `schema/`; each becomes a public module of the crate.
const GROUPS: [&str; 3] = ["messages", "records", "metadata_records"];

fn main() {
    println!("cargo:rerun-if-changed=schema");
    println!("cargo:rerun-if-changed=build");
    println!("cargo:rerun-if-changed=build.rs");
    if let Err(error) = generate() {
        eprintln!("kafka-wire schema: {error}");
        std::process::exit(1);
    }
}

fn generate() -> Result<(), String> {
    let out = std::env::var("OUT_DIR").map_err(|error| format!("OUT_DIR is not set: {error}"))?;
    let mut all = Vec::new();
    for group in GROUPS {
        let messages = parse::parse_folder(&Path::new("schema").join(group))?;
        write(&out, &format!("{group}.rs"), &emit::module(&messages)?)?;
        all.push((group, messages));
    }
    let metadata = &all[2].1;
    write(&out, "metadata_record_enum.rs", &emit_registry::metadata_record_enum(metadata)?)?;
    write(&out, "registry.rs", &emit_registry::registry(&all))
}

fn write(out: &str, name: &str, text: &str) -> Result<(), String> {
    let path = Path::new(out).join(name);
    std::fs::write(&path, text).map_err(|error| format!("cannot write {}: {error}", path.display()))
}
