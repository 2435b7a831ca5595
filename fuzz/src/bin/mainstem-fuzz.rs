//! libFuzzer's binary over all targets. The environment variable `FUZZ_TARGET` names the one to run.
#![no_main]

use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use mainstem_fuzz::{TARGETS, Target, target};

static TARGET: OnceLock<Target> = OnceLock::new();

fn chosen() -> Target {
    let name = std::env::var("FUZZ_TARGET").unwrap_or_default();
    target(&name).unwrap_or_else(|| {
        let names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
        eprintln!("FUZZ_TARGET=`{name}` is not a target; one of: {}", names.join(", "));
        std::process::exit(2);
    })
}

fuzz_target!(|data: &[u8]| {
    (TARGET.get_or_init(chosen).run)(data);
});
