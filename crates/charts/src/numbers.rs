//! Numbers as people write them.

/// `1234567` → `1,234,567`.
pub fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number of things: `1 byte`, `1,024 bytes`.
pub fn count(number: u32, thing: &str) -> String {
    format!("{} {thing}{}", grouped(u64::from(number)), if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped_and_things_are_counted() {
        assert_eq!([0, 999, 1_000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"].map(str::to_owned));
        assert_eq!([count(1, "byte"), count(0, "byte"), count(1024, "byte")], ["1 byte", "0 bytes", "1,024 bytes"]);
    }
}
