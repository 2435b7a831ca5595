//! Random ids from the environment.

use mainstem_env::Rng;
use mainstem_types::TopicId;

/// A random uuid (version 4). Kafka avoids those whose text begins with a dash, because command line tools stumble
/// there.
pub(crate) fn random_id(rng: &dyn Rng) -> TopicId {
    loop {
        let mut bytes = random_bytes(rng);
        bytes[6] = bytes[6] & 0x0f | 0x40;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        let id = TopicId(bytes);
        if !id.to_string().starts_with('-') {
            return id;
        }
    }
}

pub(crate) fn random_bytes(rng: &dyn Rng) -> [u8; 16] {
    let mut bytes = [0; 16];
    // reason: the system's random source does not fail once it is seeded, and nothing could be done without it.
    rng.fill(&mut bytes).expect("random bytes from the system");
    bytes
}
