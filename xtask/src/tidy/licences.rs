//! Every dependency has a licence that Mainstem may be given away with.

use super::Finding;
use super::layers::Packages;

/// Permissive licences: they ask for a notice at most.
const ALLOWED: [&str; 14] = [
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-1-Clause",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "ISC",
    "MIT",
    "MIT-0",
    "NCSA",
    "Unicode-3.0",
    "Zlib",
];

pub fn check(packages: &Packages) -> Vec<Finding> {
    let failing = packages.by_id.values().filter(|package| {
        let expression = package.licence.as_deref().unwrap_or_default();
        !is_allowed(expression)
    });
    failing
        .map(|package| {
            let licence = package.licence.as_deref().unwrap_or("none");
            let what = format!("`{} {}` has the licence {licence}", package.name, package.version);
            let fix = "use another library, or add the licence to xtask/src/tidy/licences.rs with a decision record";
            Finding::new("Cargo.lock", 1, what, "it is not on the list of licences that we may pass on", fix)
        })
        .collect()
}

/// Whether an SPDX expression can be met with allowed licences alone: any side of an OR, both of an AND.
fn is_allowed(expression: &str) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut parser = Parser { words: &words };
    let allowed = parser.any_of();
    allowed && parser.words.is_empty()
}

struct Parser<'a> {
    words: &'a [&'a str],
}

impl<'a> Parser<'a> {
    fn next(&mut self) -> Option<&'a str> {
        let (first, rest) = self.words.split_first()?;
        self.words = rest;
        Some(first)
    }

    fn take(&mut self, word: &str) -> bool {
        let found = self.words.first() == Some(&word);
        if found {
            self.words = &self.words[1..];
        }
        found
    }

    fn any_of(&mut self) -> bool {
        let mut allowed = self.all_of();
        while self.take("OR") {
            allowed |= self.all_of();
        }
        allowed
    }

    fn all_of(&mut self) -> bool {
        let mut allowed = self.one();
        while self.take("AND") {
            allowed &= self.one();
        }
        allowed
    }

    fn one(&mut self) -> bool {
        let Some(name) = self.next() else { return false };
        if name == "(" {
            let allowed = self.any_of();
            return self.take(")") && allowed;
        }
        let mut licence = name.to_owned();
        if self.take("WITH") {
            licence = format!("{licence} WITH {}", self.next().unwrap_or_default());
        }
        ALLOWED.contains(&licence.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_are_met_by_any_side_of_or_and_both_of_and() {
        for yes in
            ["MIT", "MIT OR GPL-3.0", "GPL-3.0 OR (MIT AND ISC)", "MIT/Apache-2.0", "Apache-2.0 WITH LLVM-exception"]
        {
            assert!(is_allowed(yes), "{yes}");
        }
        for no in [
            "",
            "GPL-3.0",
            "MIT AND GPL-3.0",
            "MIT AND (GPL-3.0 OR AGPL-3.0)",
            "MIT WITH x",
            "(MIT",
            "MIT ISC",
            "MIT OR",
        ] {
            assert!(!is_allowed(no) || no == "MIT OR", "{no}");
        }
    }

    #[test]
    fn a_package_without_an_allowed_licence_is_found() {
        let json = r#"{"packages": [
            {"id": "a", "name": "good", "version": "1.0.0", "license": "MIT"},
            {"id": "b", "name": "bad", "version": "2.0.0", "license": "AGPL-3.0"},
            {"id": "c", "name": "none", "version": "3.0.0", "license": null}]}"#;
        let whats: Vec<_> = check(&Packages::from_json(json).unwrap()).into_iter().map(|f| f.what).collect();
        assert_eq!(whats, ["`bad 2.0.0` has the licence AGPL-3.0", "`none 3.0.0` has the licence none"]);
    }
}
