//! Java's `String.hashCode`, which decides where Kafka and RocketMQ put things.

/// `s[0]·31^(n-1) + … + s[n-1]` over UTF-16 code units, wrapping. Kafka places group `g` in partition
/// `abs(hash(g)) % partitions` of `__consumer_offsets`.
pub fn java_string_hash(text: &str) -> i32 {
    text.encode_utf16().fold(0i32, |hash, unit| hash.wrapping_mul(31).wrapping_add(i32::from(unit)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_java_s() {
        assert_eq!(java_string_hash(""), 0);
        assert_eq!(java_string_hash("a"), 97);
        assert_eq!(java_string_hash("hello"), 99_162_322);
        assert_eq!(java_string_hash("polygenelubricants"), i32::MIN);
    }
}
