//! Numbers from the seed.

use mainstem_env::SeededRng;

/// One stream of numbers.
#[derive(Debug)]
pub struct Random(SeededRng);

impl Random {
    /// Stream `stream` of `seed`: streams do not influence each other.
    pub fn new(seed: u64, stream: u64) -> Random {
        let start = SeededRng::new(seed ^ stream.wrapping_mul(0xd605_bbb5_8c8a_bbfd)).number();
        Random(SeededRng::new(start))
    }

    pub fn number(&self) -> u64 {
        self.0.number()
    }

    /// A number in `from..to`.
    pub fn between(&self, from: u64, to: u64) -> u64 {
        from + self.0.below(to.saturating_sub(from))
    }

    pub fn percent(&self, chance: u64) -> bool {
        self.0.below(100) < chance
    }

    /// One of `choices`, which must not be empty.
    pub fn pick<T: Copy>(&self, choices: &[T]) -> T {
        choices[self.0.below(choices.len() as u64) as usize]
    }
}
