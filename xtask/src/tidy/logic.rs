//! The crates that hold logic do no IO: no tokio below them, no files, sockets, threads or clocks in them.

use super::Finding;
use super::layers::Packages;
use super::source::{Source, lines_of};
use super::tokens::{Kind, Token};
use syn::visit::Visit;

pub const LOGIC_CRATES: [&str; 5] = ["types", "record", "coordinator", "replica", "metadata"];

/// Standard library paths that logic may not touch.
const FORBIDDEN_PATHS: [&str; 7] =
    ["std::fs", "std::net", "std::thread", "std::process", "std::os", "std::time::Instant", "std::time::SystemTime"];

/// Foreign crates that do IO, own threads or read clocks.
const FORBIDDEN_CRATES: [&str; 9] =
    ["tokio", "mio", "socket2", "rustix", "rayon", "jiff", "chrono", "memmap2", "crossbeam-channel"];

const FIX: &str = "move the IO into the shell (`broker`, `store`, `server`) and pass in what it learned";

pub fn check_source(source: &Source) -> Vec<Finding> {
    // A build script is no part of the crate: it reads the tables that the crate is made of.
    let in_crate = source.path.strip_prefix("crates/").and_then(|path| path.split_once('/'));
    let is_logic = LOGIC_CRATES.contains(&source.crate_folder()) && in_crate.is_some();
    if !is_logic || in_crate.is_some_and(|(_, path)| path == "build.rs" || path.starts_with("build/")) {
        return Vec::new();
    }
    let mut uses = Uses::default();
    uses.visit_file(&source.file);
    let mut found = uses.paths;
    found.extend(source.tokens.iter().enumerate().filter_map(|(i, _)| path_at(&source.tokens[i..])));
    let forbidden = found.into_iter().filter(|(line, path)| source.is_production(*line) && is_forbidden(path));
    forbidden
        .map(|(line, path)| {
            let why = format!("the crate `{}` holds logic and does no IO", source.crate_folder());
            Finding::new(&source.path, line, format!("`{path}`"), why, FIX)
        })
        .collect()
}

/// Dependencies of the logic crates, direct or not, that do IO.
pub fn check_dependencies(packages: &Packages) -> Vec<Finding> {
    let mut findings = Vec::new();
    for name in LOGIC_CRATES {
        let below = packages.below(&format!("mainstem-{name}"));
        for dependency in below.iter().filter(|dependency| FORBIDDEN_CRATES.contains(&dependency.as_str())) {
            let why = format!("the crate `{name}` holds logic and does no IO");
            let path = format!("crates/{name}/Cargo.toml");
            findings.push(Finding::new(&path, 1, format!("depends on `{dependency}`"), why, FIX));
        }
    }
    findings
}

fn is_forbidden(path: &str) -> bool {
    let inside = |forbidden: &str| path == forbidden || path.starts_with(&format!("{forbidden}::"));
    // A module imported whole hides what is used of it.
    FORBIDDEN_PATHS.iter().any(|forbidden| inside(forbidden)) || path == "std::time" || path.starts_with("tokio")
}

/// The `std::…` path that starts at the first token, as far as it is written out.
fn path_at(tokens: &[Token]) -> Option<(usize, String)> {
    let first = tokens.first().filter(|token| token.is_ident("std"))?;
    let mut path = "std".to_owned();
    let mut rest = &tokens[1..];
    while let [a, b, name, after @ ..] = rest {
        let Kind::Ident(text) = &name.kind else { break };
        if !(a.is_punct(':') && b.is_punct(':')) {
            break;
        }
        path = format!("{path}::{text}");
        rest = after;
    }
    // `std::time` followed by a group is a use tree, which is taken apart elsewhere.
    (path != "std::time").then_some((first.line, path))
}

/// Every path that a `use` brings in, written out.
#[derive(Default)]
struct Uses {
    paths: Vec<(usize, String)>,
}

impl Uses {
    fn walk(&mut self, tree: &syn::UseTree, prefix: &str) {
        let join = |name: &dyn std::fmt::Display| {
            if prefix.is_empty() { name.to_string() } else { format!("{prefix}::{name}") }
        };
        let line = *lines_of(tree).start();
        match tree {
            syn::UseTree::Path(path) => self.walk(&path.tree, &join(&path.ident)),
            syn::UseTree::Name(name) if name.ident == "self" => self.paths.push((line, prefix.to_owned())),
            syn::UseTree::Name(name) => self.paths.push((line, join(&name.ident))),
            syn::UseTree::Rename(rename) => self.paths.push((line, join(&rename.ident))),
            syn::UseTree::Glob(_) => self.paths.push((line, prefix.to_owned())),
            syn::UseTree::Group(group) => group.items.iter().for_each(|item| self.walk(item, prefix)),
        }
    }
}

impl<'ast> Visit<'ast> for Uses {
    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.walk(&item.tree, "");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: [usize; 0] = [];

    fn lines(path: &str, text: &str) -> Vec<usize> {
        let mut lines: Vec<_> = check_source(&Source::parse(path, text).unwrap()).iter().map(|f| f.line).collect();
        lines.sort();
        lines.dedup();
        lines
    }

    #[test]
    fn files_sockets_threads_and_clocks_are_found_however_they_are_named() {
        let text = "use std::fs::File;\nuse std::{io, net::{self, TcpStream}};\nuse std::time::{Duration, Instant};\n\
                    fn f() { std::thread::sleep(a); }\nfn g() { m!(std::time::SystemTime::now()); }\nuse std::time;\nuse tokio::sync::Notify;\n";
        let found = lines("crates/replica/src/x.rs", text);
        assert_eq!(found, [1, 2, 3, 4, 5, 6, 7]);
    }

    #[test]
    fn durations_tests_and_other_crates_are_free() {
        let text = "use std::time::Duration;\nuse std::collections::BTreeMap;\nfn f(_: std::time::Duration) {}\n\
                    #[cfg(test)]\nmod tests {\n use std::fs;\n}\n";
        assert_eq!(lines("crates/replica/src/x.rs", text), NONE);
        assert_eq!(lines("crates/store/src/x.rs", "use std::fs;\n"), NONE);
    }

    #[test]
    fn a_dependency_that_does_io_is_found_at_any_depth() {
        let json = r#"{"packages": [
            {"id": "r", "name": "mainstem-replica", "manifest_path": "/p/crates/replica/Cargo.toml", "dependencies": []},
            {"id": "x", "name": "between", "manifest_path": "/x/Cargo.toml", "dependencies": []},
            {"id": "t", "name": "tokio", "manifest_path": "/t/Cargo.toml", "dependencies": []}],
          "workspace_members": ["r"],
          "resolve": {"nodes": [
            {"id": "r", "deps": [{"pkg": "x", "dep_kinds": [{"kind": null}]}]},
            {"id": "x", "deps": [{"pkg": "t", "dep_kinds": [{"kind": null}]}]},
            {"id": "t", "deps": []}]}}"#;
        let packages = Packages::from_json(json).unwrap();
        assert_eq!(check_dependencies(&packages)[0].what, "depends on `tokio`");
        let dev = json.replace(
            r#"[{"pkg": "x", "dep_kinds": [{"kind": null}]}]"#,
            r#"[{"pkg": "x", "dep_kinds": [{"kind": "dev"}]}]"#,
        );
        assert_eq!(check_dependencies(&Packages::from_json(&dev).unwrap()), []);
    }
}
