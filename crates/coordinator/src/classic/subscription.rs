//! The topics in a consumer's subscription bytes: `version int16, topics []string`, the prefix of every version.

/// The topics, or `None` if the bytes are not of this form. Allocates no more than the bytes hold.
pub(crate) fn subscribed_topics(metadata: &[u8]) -> Option<Vec<String>> {
    let mut rest = metadata;
    let version = i16::from_be_bytes(take(&mut rest)?);
    let count = i32::from_be_bytes(take(&mut rest)?);
    if version < 0 || count < 0 {
        return None;
    }
    let mut topics = Vec::new();
    for _ in 0..count {
        let length = usize::try_from(i16::from_be_bytes(take(&mut rest)?)).ok()?;
        let (name, after) = rest.split_at_checked(length)?;
        topics.push(std::str::from_utf8(name).ok()?.to_owned());
        rest = after;
    }
    Some(topics)
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (head, tail) = rest.split_first_chunk::<N>()?;
    *rest = tail;
    Some(*head)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encode_subscription(topics: &[&str]) -> Vec<u8> {
        let mut bytes = vec![0, 1];
        bytes.extend((topics.len() as i32).to_be_bytes());
        for topic in topics {
            bytes.extend((topic.len() as i16).to_be_bytes());
            bytes.extend(topic.as_bytes());
        }
        bytes.extend((-1i32).to_be_bytes());
        bytes
    }

    #[test]
    fn topics_of_a_subscription_are_read_and_what_follows_is_ignored() {
        assert_eq!(subscribed_topics(&encode_subscription(&["a", "bc"])), Some(vec!["a".to_owned(), "bc".to_owned()]));
        assert_eq!(subscribed_topics(&encode_subscription(&[])), Some(vec![]));
    }

    #[test]
    fn bytes_of_another_form_are_not_known_and_a_huge_count_costs_nothing() {
        assert_eq!(subscribed_topics(b""), None);
        assert_eq!(subscribed_topics(&[0, 1, 0x7f, 0xff, 0xff, 0xff]), None);
        assert_eq!(subscribed_topics(&[0xff, 0xff, 0, 0, 0, 0]), None);
        assert_eq!(subscribed_topics(&[0, 1, 0, 0, 0, 1, 0, 5, b'a']), None);
    }
}
