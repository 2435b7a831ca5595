//! Which of our crates may depend on which: one table, arrows point down only.

use super::Finding;
use anyhow::{Context, Result};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Each crate and the crates of ours that it may name as a normal or build dependency. Dev-dependencies are free:
/// a test may drive a crate from above.
const ALLOWED: &[(&str, &[&str])] = &[
    ("mainstem-types", &[]),
    ("mainstem-env", &["mainstem-types"]),
    ("mainstem-waits", &["mainstem-env"]),
    ("mainstem-record", &["mainstem-types"]),
    ("mainstem-kafka-wire", &["mainstem-types"]),
    ("mainstem-replica", &["mainstem-types"]),
    ("mainstem-journal", &["mainstem-env", "mainstem-types"]),
    ("mainstem-store", &["mainstem-journal", "mainstem-record", "mainstem-env", "mainstem-types"]),
    ("mainstem-metadata", &["mainstem-kafka-wire", "mainstem-types"]),
    ("mainstem-coordinator", &["mainstem-kafka-wire", "mainstem-types"]),
    (
        "mainstem-broker",
        &[
            "mainstem-store",
            "mainstem-metadata",
            "mainstem-coordinator",
            "mainstem-replica",
            "mainstem-record",
            "mainstem-kafka-wire",
            "mainstem-env",
            "mainstem-waits",
            "mainstem-types",
        ],
    ),
    // What protocols and the server agree on knows none of them: docs/decisions/0041-doors.md.
    ("mainstem-door", &["mainstem-env", "mainstem-waits"]),
    // The door maps requests and errors of the domain directly: docs/decisions/0040-door-uses-domain-types.md.
    (
        "mainstem-kafka",
        &[
            "mainstem-broker",
            "mainstem-door",
            "mainstem-coordinator",
            "mainstem-metadata",
            "mainstem-store",
            "mainstem-kafka-wire",
            "mainstem-waits",
            "mainstem-record",
            "mainstem-env",
            "mainstem-types",
        ],
    ),
    ("mainstem-server", &["mainstem-door", "mainstem-metadata", "mainstem-env", "mainstem-types"]),
    ("mainstem-client", &["mainstem-kafka-wire", "mainstem-record", "mainstem-types"]),
    (
        "mainstem-inspect",
        &[
            "mainstem-store",
            "mainstem-metadata",
            "mainstem-kafka-wire",
            "mainstem-record",
            "mainstem-env",
            "mainstem-types",
        ],
    ),
    ("mainstem-charts", &[]),
    // It contains files of broker, journal and store, and depends on none of them: docs/decisions/0091-models.md.
    ("mainstem-models", &["mainstem-types"]),
    (
        // The simulation plays the broker: it drives the state machines and the store from above.
        "mainstem-sim",
        &[
            "mainstem-store",
            "mainstem-metadata",
            "mainstem-coordinator",
            "mainstem-replica",
            "mainstem-record",
            "mainstem-kafka-wire",
            "mainstem-env",
            "mainstem-types",
        ],
    ),
    (
        "mainstem",
        &[
            "mainstem-broker",
            "mainstem-charts",
            "mainstem-client",
            "mainstem-inspect",
            "mainstem-kafka",
            "mainstem-metadata",
            "mainstem-server",
            "mainstem-env",
            "mainstem-types",
        ],
    ),
    (
        // Fuzzing drives the doors from above, as a test does.
        "mainstem-fuzz",
        &[
            "mainstem-server",
            "mainstem-door",
            "mainstem-kafka",
            "mainstem-broker",
            "mainstem-kafka-wire",
            "mainstem-record",
            "mainstem-journal",
            "mainstem-store",
            "mainstem-metadata",
            "mainstem-coordinator",
            "mainstem-replica",
            "mainstem-env",
            "mainstem-types",
        ],
    ),
    ("xtask", &[]),
];

/// What `cargo metadata` says of the workspace and everything it is built from.
pub struct Packages {
    pub by_id: BTreeMap<String, Package>,
    pub members: BTreeSet<String>,
    /// Normal and build dependencies, by package id.
    edges: BTreeMap<String, Vec<String>>,
}

pub struct Package {
    pub name: String,
    pub version: String,
    pub licence: Option<String>,
    pub manifest: String,
}

impl Packages {
    pub fn read(root: &Path) -> Result<Self> {
        let output = crate::command::output(root, "cargo", &["metadata", "--format-version", "1", "--locked"])?;
        Self::from_json(&output)
    }

    pub fn from_json(json: &str) -> Result<Self> {
        let metadata: Value = serde_json::from_str(json).context("cargo metadata printed no JSON")?;
        let mut by_id = BTreeMap::new();
        for package in array(&metadata["packages"]) {
            let value = Package {
                name: text(&package["name"]),
                version: text(&package["version"]),
                licence: package["license"].as_str().map(str::to_owned),
                manifest: text(&package["manifest_path"]),
            };
            by_id.insert(text(&package["id"]), value);
        }
        let members = array(&metadata["workspace_members"]).iter().map(text).collect();
        let nodes = array(&metadata["resolve"]["nodes"]);
        let edges = nodes.iter().map(|node| (text(&node["id"]), built_with(node))).collect();
        Ok(Self { by_id, members, edges })
    }

    /// The names of the packages that a package is built from, direct or not.
    pub fn below(&self, name: &str) -> BTreeSet<String> {
        let mut open: Vec<&String> = self.by_id.iter().filter(|(_, p)| p.name == name).map(|(id, _)| id).collect();
        let mut seen: BTreeSet<&String> = BTreeSet::new();
        while let Some(id) = open.pop() {
            let below = self.edges.get(id).map(Vec::as_slice).unwrap_or_default();
            open.extend(below.iter().filter(|below| seen.insert(below)));
        }
        seen.into_iter().filter_map(|id| self.by_id.get(id)).map(|package| package.name.clone()).collect()
    }

    pub fn count_foreign(&self) -> usize {
        self.by_id.len() - self.members.len()
    }
}

fn array(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// The dependencies of a node that are more than dev-dependencies.
fn built_with(node: &Value) -> Vec<String> {
    let dependencies = array(&node["deps"]).iter();
    let built = dependencies.filter(|dep| array(&dep["dep_kinds"]).iter().any(|kind| kind["kind"] != "dev"));
    built.map(|dependency| text(&dependency["pkg"])).collect()
}

pub fn check(packages: &Packages) -> Vec<Finding> {
    packages.members.iter().flat_map(|id| check_member(packages, id)).collect()
}

fn check_member(packages: &Packages, id: &str) -> Vec<Finding> {
    let Some(package) = packages.by_id.get(id) else { return Vec::new() };
    let path = relative_manifest(&package.manifest);
    let Some((_, allowed)) = ALLOWED.iter().find(|(name, _)| *name == package.name) else {
        let what = format!("crate `{}` is not in the table", package.name);
        let fix = "add it to `ALLOWED` in xtask/src/tidy/layers.rs";
        return vec![Finding::new(path, 1, what, "the table says who may depend on whom", fix)];
    };
    let ours = packages.edges.get(id).map(Vec::as_slice).unwrap_or_default().iter();
    let ours = ours.filter(|id| packages.members.contains(*id)).filter_map(|id| packages.by_id.get(id));
    ours.filter(|dependency| !allowed.contains(&dependency.name.as_str()))
        .map(|dependency| {
            let what = format!("`{}` depends on `{}`", package.name, dependency.name);
            let fix =
                "move the shared piece down, or change `ALLOWED` in xtask/src/tidy/layers.rs with a decision record";
            Finding::new(path, 1, what, "dependencies between our crates point down only", fix)
        })
        .collect()
}

/// `crates/x/Cargo.toml` out of an absolute manifest path.
fn relative_manifest(manifest: &str) -> &str {
    let at = ["/crates/", "/xtask/", "/fuzz/"].iter().find_map(|folder| manifest.rfind(folder));
    at.map_or("Cargo.toml", |at| &manifest[at + 1..])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workspace(dependency: &str, kind: &str) -> Packages {
        let json = r#"{"packages": [
            {"id": "a", "name": "mainstem-store", "manifest_path": "/p/crates/store/Cargo.toml"},
            {"id": "b", "name": "DEP", "manifest_path": "/p/crates/b/Cargo.toml"}],
          "workspace_members": ["a", "b"],
          "resolve": {"nodes": [{"id": "a", "deps": [{"pkg": "b", "dep_kinds": [{"kind": KIND}]}]}, {"id": "b", "deps": []}]}}"#;
        Packages::from_json(&json.replace("DEP", dependency).replace("KIND", kind)).unwrap()
    }

    #[test]
    fn an_arrow_that_points_up_is_found() {
        let found = check(&workspace("mainstem-broker", "null"));
        assert_eq!(
            found[0].to_string(),
            "crates/store/Cargo.toml:1: `mainstem-store` depends on `mainstem-broker`, dependencies between our crates point down only, move the shared piece down, or change `ALLOWED` in xtask/src/tidy/layers.rs with a decision record"
        );
        assert_eq!(check(&workspace("mainstem-broker", "\"build\"")).len(), 1);
    }

    #[test]
    fn arrows_down_and_dev_dependencies_pass() {
        assert_eq!(check(&workspace("mainstem-journal", "null")), []);
        assert_eq!(check(&workspace("mainstem-broker", "\"dev\"")), []);
    }

    #[test]
    fn a_crate_outside_the_table_is_found() {
        let found = check(&workspace("mainstem-new", "null"));
        assert_eq!(found.len(), 2, "the arrow to it, and the crate itself");
        assert!(found.iter().any(|f| f.what == "crate `mainstem-new` is not in the table"));
    }
}
