//! Comments have at most 120 columns. Rows of tables, drawings of bytes and words that are longer by themselves
//! (addresses) cannot be broken and may be longer.

use super::Finding;
use super::source::Source;
use super::tokens::Comment;
use std::collections::BTreeSet;

const COLUMNS_MAX: usize = 120;

pub fn check(source: &Source) -> Vec<Finding> {
    let all: Vec<&str> = source.text.lines().collect();
    let lines_of = |comment: &Comment| {
        let is_block = all.get(comment.line - 1).is_some_and(|line| line.trim_start().starts_with("/*"));
        comment.line..comment.line + comment.text.lines().count().max(1) + usize::from(is_block)
    };
    let with_comments: BTreeSet<usize> = source.comments.iter().flat_map(lines_of).collect();
    let numbered = (1..).zip(all.iter().copied());
    let long = numbered.filter(|(line, text)| {
        with_comments.contains(line) && text.chars().count() > COLUMNS_MAX && can_be_broken(text)
    });
    long.map(|(line, text)| {
        let what = format!("a comment of {} columns", text.chars().count());
        Finding::new(&source.path, line, what, format!("comments have at most {COLUMNS_MAX}"), "break the line")
    })
    .collect()
}

fn can_be_broken(text: &str) -> bool {
    let comment = text.trim_start().trim_start_matches(['/', '!', '*']).trim();
    !comment.starts_with(['|', '┌', '│', '├', '└']) && comment.contains(' ')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<usize> {
        check(&Source::parse("crates/a/src/x.rs", text).unwrap()).into_iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn a_comment_of_120_columns_passes_and_one_of_121_does_not() {
        let comment = |columns: usize| format!("/// a {}\nconst A: u8 = 1;\n", "ü".repeat(columns - 6));
        assert_eq!(lines(&comment(120)), [0; 0]);
        assert_eq!(lines(&comment(121)), [1]);
        let behind = format!("const A: u8 = 1; // a {}\n", "b".repeat(100));
        assert_eq!(lines(&behind), [1]);
        let inside = format!("/*\nshort\na {}\n*/\nconst A: u8 = 1;\n", "b".repeat(120));
        assert_eq!(lines(&inside), [3]);
    }

    #[test]
    fn tables_addresses_and_code_are_left_alone() {
        assert_eq!(lines(&format!("//! | a | {} |\nconst A: u8 = 1;\n", "b".repeat(120))), [0; 0]);
        assert_eq!(lines(&format!("// https://{}\nconst A: u8 = 1;\n", "b".repeat(120))), [0; 0]);
        assert_eq!(lines(&format!("const A: &str = \"// a {}\";\n", "b".repeat(120))), [0; 0]);
    }
}
