//! From the names of the pages to Rust names.

/// `TopicData` → `topic_data`, `KRaftVersion` → `kraft_version`. Words of Rust get `r#`.
pub fn snake(name: &str) -> String {
    let name = name.replace("KRaft", "Kraft");
    let letters: Vec<char> = name.chars().collect();
    let mut out = String::new();
    for (index, letter) in letters.iter().enumerate() {
        let after_lower = index > 0 && !letters[index - 1].is_uppercase();
        let before_lower = letters.get(index + 1).is_some_and(|next| next.is_lowercase());
        if letter.is_uppercase() && index > 0 && (after_lower || before_lower) {
            out.push('_');
        }
        out.extend(letter.to_lowercase());
    }
    match out.as_str() {
        "type" | "match" => format!("r#{out}"),
        _ => out,
    }
}
