//! No circles between the files of a crate: if `a.rs` uses something of `b.rs`, then `b.rs` uses nothing of `a.rs`, not
//! through others either.
//!
//! What counts as a use: a path of production code that begins with `crate`, `super`, `self` or a module of the file,
//! in an import or elsewhere. It leads to the file that defines the name: a re-export is followed, so that importing
//! from `crate` what `lib.rs` re-exports is a use of the defining file alone. Between a module and the modules inside
//! it nothing counts: `mod.rs` uses its parts, and its parts implement what `mod.rs` declares.
//!
//! [`KNOWN`] holds the circles that are still there. Nothing may be added: a file of it that is in no circle any more
//! is a finding, too. [`APART`] holds folders whose files use none of another folder, not even in one direction.

use super::Finding;
use super::source::{Source, lines_of};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use syn::visit::Visit;

const KNOWN: &str = include_str!("known_circles.txt");
const WHY: &str = "files of a crate use each other in one direction";
const FIX: &str = "move what both need into a file of its own, below the two";
/// The first uses nothing of the second. The two layouts share what lies in `views`, and know nothing of each other.
const APART: [(&str, &str); 4] = [
    ("crates/store/src/partition_log/", "crates/store/src/group_log/"),
    ("crates/store/src/group_log/", "crates/store/src/partition_log/"),
    ("crates/store/src/views/", "crates/store/src/partition_log/"),
    ("crates/store/src/views/", "crates/store/src/group_log/"),
];
/// Re-exports of re-exports that are followed.
const STEPS_MAX: usize = 8;

type ModulePath = Vec<String>;

/// One file of a crate.
#[derive(Default)]
struct Module {
    file: String,
    /// Names that it imports or re-exports, and the paths that they stand for.
    names: BTreeMap<String, ModulePath>,
    uses: Vec<(usize, ModulePath)>,
}

pub fn check(sources: &[Source]) -> Vec<Finding> {
    check_with(sources, KNOWN)
}

fn check_with(sources: &[Source], known: &str) -> Vec<Finding> {
    let known: Vec<Vec<&str>> = known.split("\n\n").map(|circle| circle.lines().collect()).collect();
    let mut crates: BTreeMap<&str, BTreeMap<ModulePath, Module>> = BTreeMap::new();
    for source in sources.iter().filter(|source| !source.is_test) {
        let Some((root, path)) = place(&source.path) else { continue };
        let mut reader = Reader { source, module: Module { file: source.path.clone(), ..Module::default() } };
        reader.visit_file(&source.file);
        crates.entry(root).or_default().insert(path, reader.module);
    }
    let mut findings = Vec::new();
    let mut in_circles: BTreeSet<String> = BTreeSet::new();
    for modules in crates.values() {
        let uses = uses_of(modules);
        findings.extend(uses.iter().flat_map(|(file, used)| not_apart(file, used)));
        for circle in circles(&uses) {
            in_circles.extend(circle.iter().map(|file| (*file).to_owned()));
            if !known.iter().any(|list| circle.iter().all(|file| list.contains(file))) {
                findings.push(finding(&circle, &uses));
            }
        }
    }
    let stale = known.iter().flatten().filter(|file| !in_circles.contains(**file));
    findings.extend(stale.map(|file| {
        let why = "the list of circles may only shrink";
        Finding::new("xtask/src/tidy/known_circles.txt", 1, format!("`{file}` is in no circle"), why, "take it out")
    }));
    findings
}

fn not_apart(file: &str, used: &BTreeMap<&str, usize>) -> Vec<Finding> {
    let is_apart = |used: &str| APART.iter().any(|(from, to)| file.starts_with(from) && used.starts_with(to));
    let wrong = used.iter().filter(|(used, _)| is_apart(used));
    let finding = |(used, line): (&&str, &usize)| {
        let why = "these folders are kept apart";
        Finding::new(file, *line, format!("it uses {used}"), why, "move what both need into `views`, or beside it")
    };
    wrong.map(finding).collect()
}

/// The crate's `src` folder and the path of the file's module.
fn place(path: &str) -> Option<(&str, ModulePath)> {
    let at = if path.starts_with("src/") { 0 } else { path.find("/src/")? + 1 };
    let (root, rest) = (&path[..at], path[at + 4..].strip_suffix(".rs")?);
    let mut parts: ModulePath = rest.split('/').map(str::to_owned).collect();
    let is_root = parts.len() == 1 && matches!(parts[0].as_str(), "lib" | "main");
    if is_root || parts.last().is_some_and(|last| last == "mod") {
        parts.pop();
    }
    Some((root, parts))
}

/// Reads the paths of a file. Those of inline modules are taken as if they stood outside.
struct Reader<'s> {
    source: &'s Source,
    module: Module,
}

impl Reader<'_> {
    fn import(&mut self, tree: &syn::UseTree, before: &[String], line: usize) {
        let with = |name: &syn::Ident| [before, &[name.to_string()]].concat();
        match tree {
            syn::UseTree::Path(path) => self.import(&path.tree, &with(&path.ident), line),
            syn::UseTree::Name(name) if name.ident == "self" => {
                let last = before.last().cloned().unwrap_or_default();
                self.add(last, before.to_vec(), line);
            }
            syn::UseTree::Name(name) => self.add(name.ident.to_string(), with(&name.ident), line),
            syn::UseTree::Rename(rename) => self.add(rename.rename.to_string(), with(&rename.ident), line),
            syn::UseTree::Glob(_) => self.module.uses.push((line, before.to_vec())),
            syn::UseTree::Group(group) => group.items.iter().for_each(|tree| self.import(tree, before, line)),
        }
    }

    fn add(&mut self, name: String, path: ModulePath, line: usize) {
        self.module.uses.push((line, path.clone()));
        self.module.names.insert(name, path);
    }
}

impl<'ast> Visit<'ast> for Reader<'_> {
    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        let line = *lines_of(item).start();
        if self.source.is_production(line) && item.leading_colon.is_none() {
            self.import(&item.tree, &[], line);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let line = *lines_of(path).start();
        if path.segments.len() > 1 && path.leading_colon.is_none() && self.source.is_production(line) {
            let parts = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
            self.module.uses.push((line, parts));
        }
        syn::visit::visit_path(self, path);
    }
}

/// For each file the files that it uses, with the line of the first use.
fn uses_of(modules: &BTreeMap<ModulePath, Module>) -> BTreeMap<&str, BTreeMap<&str, usize>> {
    let mut uses: BTreeMap<&str, BTreeMap<&str, usize>> = BTreeMap::new();
    for (from, module) in modules {
        let used = uses.entry(&module.file).or_default();
        for (line, path) in &module.uses {
            let Some(to) = resolve(modules, from, path, STEPS_MAX) else { continue };
            if !to.starts_with(from) && !from.starts_with(&to) {
                used.entry(&modules[&to].file).or_insert(*line);
            }
        }
    }
    uses
}

/// The module of the crate whose file defines what a path in the module `from` names.
fn resolve(
    modules: &BTreeMap<ModulePath, Module>,
    from: &[String],
    path: &[String],
    steps: usize,
) -> Option<ModulePath> {
    let mut rest = path;
    let mut current = from.to_vec();
    match rest.first()?.as_str() {
        "crate" => (current, rest) = (Vec::new(), &rest[1..]),
        "self" => rest = &rest[1..],
        "super" => {}
        first => {
            let child = [from, &[first.to_owned()]].concat();
            let is_imported = modules.get(from).is_some_and(|module| module.names.contains_key(first));
            if !modules.contains_key(&child) && (!is_imported || path.len() == 1 || steps == 0) {
                return None;
            }
        }
    }
    while let Some((name, after)) = rest.split_first() {
        let child = [&current[..], std::slice::from_ref(name)].concat();
        if name == "super" {
            current.pop();
        } else if modules.contains_key(&child) {
            current = child;
        } else {
            let alias = modules.get(&current).and_then(|module| module.names.get(name)).filter(|_| steps > 0);
            let Some(alias) = alias.filter(|alias| alias.as_slice() != path) else { break };
            let full = [alias, after].concat();
            // A name of another crate is nothing of this one.
            return resolve(modules, &current, &full, steps - 1);
        }
        rest = after;
    }
    modules.contains_key(&current).then_some(current)
}

/// Sets of files that reach each other.
fn circles<'m>(uses: &BTreeMap<&'m str, BTreeMap<&'m str, usize>>) -> Vec<Vec<&'m str>> {
    let reached: BTreeMap<&str, BTreeSet<&str>> = uses.keys().map(|file| (*file, reach(uses, file))).collect();
    let mut found: Vec<Vec<&str>> = Vec::new();
    for (file, reaches) in &reached {
        if reaches.contains(file) && !found.iter().any(|circle| circle.contains(file)) {
            found.push(reaches.iter().copied().filter(|other| reached[other].contains(file)).collect());
        }
    }
    found
}

fn reach<'m>(uses: &BTreeMap<&'m str, BTreeMap<&'m str, usize>>, from: &'m str) -> BTreeSet<&'m str> {
    let mut reached = BTreeSet::new();
    let mut open = vec![from];
    while let Some(file) = open.pop() {
        let next = uses.get(file).into_iter().flat_map(BTreeMap::keys);
        open.extend(next.copied().filter(|next| reached.insert(*next)));
    }
    reached
}

/// Shows the shortest way round.
fn finding(circle: &[&str], uses: &BTreeMap<&str, BTreeMap<&str, usize>>) -> Finding {
    let start = circle[0];
    let mut came_from: BTreeMap<&str, &str> = BTreeMap::new();
    let mut open = VecDeque::from([start]);
    while let Some(file) = open.pop_front().filter(|_| !came_from.contains_key(start)) {
        for next in uses[file].keys().filter(|next| circle.contains(*next)) {
            if !came_from.contains_key(next) {
                came_from.insert(next, file);
                open.push_back(next);
            }
        }
    }
    let mut way = vec![start];
    while way.len() == 1 || way[way.len() - 1] != start {
        way.push(came_from[way[way.len() - 1]]);
    }
    way.reverse();
    let line = uses[way[0]][way[1]];
    let steps: Vec<String> = way.windows(2).map(|pair| format!("{}:{}", pair[0], uses[pair[0]][pair[1]])).collect();
    let what = format!("a circle of {} files: {} → {start}", circle.len(), steps.join(" → "));
    Finding::new(start, line, what, WHY, FIX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whats(files: &[(&str, &str)], known: &str) -> Vec<String> {
        let sources: Vec<Source> = files.iter().map(|(path, text)| Source::parse(path, text).unwrap()).collect();
        check_with(&sources, known).into_iter().map(|finding| finding.what).collect()
    }

    const A: &str = "crates/x/src/a.rs";
    const B: &str = "crates/x/src/b.rs";
    const C: &str = "crates/x/src/c/mod.rs";
    const D: &str = "crates/x/src/c/d.rs";
    const LIB: &str = "crates/x/src/lib.rs";

    #[test]
    fn files_that_use_each_other_are_a_circle() {
        let circle = [(A, "\nuse crate::b::B;\npub struct A;\n"), (B, "pub struct B(crate::a::A);\n")];
        let expected = "a circle of 2 files: crates/x/src/a.rs:2 → crates/x/src/b.rs:1 → crates/x/src/a.rs";
        assert_eq!(whats(&circle, ""), [expected]);
        assert_eq!(whats(&[circle[0], (B, "pub struct B;\n")], ""), [""; 0]);
        let other_crate = ("crates/y/src/b.rs", circle[1].1);
        assert_eq!(whats(&[circle[0], other_crate], ""), [""; 0]);
        let in_tests = "pub struct B;\n#[cfg(test)]\nmod tests {\n    use crate::a::A;\n}\n";
        assert_eq!(whats(&[circle[0], (B, in_tests)], ""), [""; 0]);
    }

    #[test]
    fn a_circle_can_lead_over_many_files_and_re_exports() {
        let lib = (LIB, "mod a; mod b; mod c;\npub use b::B as Bee;\npub(crate) use c::D;\n");
        let c = (C, "mod d;\npub(crate) use self::d::D;\n");
        let files = [lib, c, (A, "use crate::Bee;\npub struct A;"), (B, "use super::D;\npub struct B;")];
        assert_eq!(whats(&[&files[..], &[(D, "pub struct D;")]].concat(), ""), [""; 0]);
        let round = whats(&[&files[..], &[(D, "pub struct D(crate::a::A);")]].concat(), "");
        assert_eq!(round.len(), 1);
        assert!(round[0].starts_with("a circle of 3 files: "), "{round:?}");
    }

    #[test]
    fn a_module_and_its_parts_are_no_circle() {
        let parts = [
            (LIB, "mod c;\nuse c::d::D;\npub struct L;\n"),
            (C, "mod d;\nuse d::D;\npub struct C(crate::L);\n"),
            (D, "use super::C;\nuse crate::L;\npub struct D;\n"),
        ];
        assert_eq!(whats(&parts, ""), [""; 0]);
    }

    #[test]
    fn the_two_layouts_are_kept_apart_in_both_directions() {
        let files = [
            ("crates/store/src/lib.rs", ""),
            ("crates/store/src/partition_log/mod.rs", ""),
            ("crates/store/src/group_log/mod.rs", ""),
            ("crates/store/src/views/mod.rs", ""),
            ("crates/store/src/partition_log/a.rs", "use crate::views::v::V;\npub struct A;\n"),
            ("crates/store/src/group_log/b.rs", "use crate::views::v::V;\npub struct B;\n"),
            ("crates/store/src/views/v.rs", "pub struct V;\n"),
        ];
        assert_eq!(whats(&files, ""), [""; 0]);
        let wrong = ("crates/store/src/group_log/c.rs", "\nuse crate::partition_log::a::A;\n");
        assert_eq!(whats(&[&files[..], &[wrong]].concat(), ""), ["it uses crates/store/src/partition_log/a.rs"]);
        let wrong = ("crates/store/src/views/w.rs", "use crate::group_log::b::B;\n");
        assert_eq!(whats(&[&files[..], &[wrong]].concat(), ""), ["it uses crates/store/src/group_log/b.rs"]);
    }

    #[test]
    fn a_known_circle_may_shrink_and_nothing_else() {
        let files = [(A, "use crate::b::B;\npub struct A;\n"), (B, "use crate::a::A;\npub struct B;\n")];
        assert_eq!(whats(&files, &format!("{A}\n{B}\n")), [""; 0]);
        assert_eq!(whats(&files, &format!("{A}\n{B}\n{D}\n")), ["`crates/x/src/c/d.rs` is in no circle"]);
        assert_eq!(whats(&files, &format!("{A}\n{D}\n\n{B}\n")).len(), 2, "each circle is within one of the lists");
    }
}
