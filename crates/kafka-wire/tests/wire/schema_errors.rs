//! A schema line that is not understood is an error that names file and line.

use crate::parse::parse_text;

fn error_of(text: &str) -> String {
    parse_text("schema/x.txt", text).unwrap_err()
}

#[test]
fn good_lines_parse() {
    let text = "# comment\nmessage 7 A · versions 1-3 · flexible 2+ · latest unstable\n\nB: []C 1+, nullable 2+, default null\n  D: string 1-2, key, ignorable, default \"\"\n";
    let messages = parse_text("schema/x.txt", text).unwrap();
    assert_eq!(messages.len(), 1);
    assert_eq!(messages[0].key, Some(7));
    assert_eq!(messages[0].structs.len(), 2);
    assert_eq!(messages[0].structs[1].fields[0].default.as_deref(), Some(""));
}

#[test]
fn bad_lines_name_file_and_line() {
    let head = "message 7 A · versions 1-3 · flexible 2+\n";
    for (line, problem) in [
        ("B: int33 1+", "unknown type `int33`"),
        ("B int32 1+", "expected `Name: type versions`"),
        ("B: int32", "expected `type versions`"),
        ("B: int32 1+, shiny", "unknown attribute `shiny`"),
        ("B: int32 3-1", "empty version range"),
        ("B: int32 all", "`all` without a tag"),
        ("B: int32 x+", "is not a number"),
        ("B: int32 1+, tag 0", "expected `tag N (versions)`"),
        ("   B: int32 1+", "multiple of two"),
        ("    B: int32 1+", "indented below a field that is not a struct"),
        ("message 7 B · versions 1 · colour blue", "unknown part `colour blue`"),
        ("message 7 B · versions 1", "does not say from where it is flexible"),
    ] {
        let error = error_of(&format!("{head}{line}\n"));
        assert!(error.starts_with("schema/x.txt:2: "), "{error}");
        assert!(error.contains(problem), "{error}");
    }
    assert!(error_of("B: int32 1+\n").contains("a field before the first message"));
    assert!(error_of(&format!("{head}B: int32 1+\nB: int32 1+\n")).contains("schema/x.txt:3: field declared twice"));
}

#[test]
fn what_spans_lines_is_checked() {
    let head = "message 7 A · versions 1-3 · flexible 1+\n";
    for (lines, problem) in [
        ("B: C 1+\n", "struct C has no fields"),
        ("B: int32 1+, tag 0 (1+)\nC: int32 1+, tag 0 (1+)\n", "tag 0 is used twice"),
        ("B: records 1+, tag 0 (1+)\n", "records cannot be tagged"),
        ("B: int32 1+, tag 0 (2+)\n", "tagged in other versions than it exists in"),
        ("B: C 1+\n  D: C 1+\n", "contains itself"),
    ] {
        let error = error_of(&format!("{head}{lines}"));
        assert!(error.contains(problem), "{lines}: {error}");
    }
}
