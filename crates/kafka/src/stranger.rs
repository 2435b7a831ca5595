//! Clients of other protocols: recognized by their first bytes, so that the client or the log gets a hint.

/// Looked at: where Kafka's clients send the length of their first frame.
const BEGINNING_BYTES: usize = 4;

/// A protocol that is none of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Stranger {
    #[error("HTTP")]
    Http,
    #[error("the beginning of TLS (is security.protocol=SSL set in the client?)")]
    Tls,
}

/// The first bytes of HTTP requests.
const METHODS: [&[u8; BEGINNING_BYTES]; 9] =
    [b"GET ", b"POST", b"HEAD", b"PUT ", b"DELE", b"OPTI", b"PATC", b"CONN", b"TRAC"];
/// The type of a TLS record with a hello, and the major version of all that are in use.
const TLS_HANDSHAKE: [u8; 2] = [22, 3];

const HTTP_ANSWER: &[u8] =
    b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nContent-Length: 45\r\nConnection: close\r\n\r\n\
This port speaks Kafka's protocol, not HTTP.\n";

impl Stranger {
    /// The protocol that begins with these bytes. As the length of a frame they are too much.
    pub fn of(prefix: [u8; BEGINNING_BYTES]) -> Option<Stranger> {
        match prefix {
            http if METHODS.contains(&&http) => Some(Stranger::Http),
            [kind, major, ..] if [kind, major] == TLS_HANDSHAKE => Some(Stranger::Tls),
            _ => None,
        }
    }

    /// An answer in the client's own protocol, for the protocols that have a short one.
    pub fn answer(self) -> &'static [u8] {
        match self {
            Stranger::Http => HTTP_ANSWER,
            Stranger::Tls => b"",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_are_known_by_their_first_bytes() {
        assert_eq!(Stranger::of(*b"GET "), Some(Stranger::Http));
        assert_eq!(Stranger::of([22, 3, 1, 2]), Some(Stranger::Tls));
        assert_eq!(Stranger::of([0x7f, 0xff, 0xff, 0xff]), None);
    }

    #[test]
    fn the_answer_is_as_long_as_it_says() {
        let text = std::str::from_utf8(HTTP_ANSWER).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("Content-Length: {}", body.len())), "{}", body.len());
    }
}
