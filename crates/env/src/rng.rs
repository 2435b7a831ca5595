//! Random numbers: the kernel's, and a seeded generator for tests and simulation.

use std::io;

use parking_lot::Mutex;

/// A source of random numbers.
pub trait Rng: Send + Sync + std::fmt::Debug {
    /// Fills `bytes`. Fails only where the operating system has no randomness to give.
    fn fill(&self, bytes: &mut [u8]) -> io::Result<()>;

    /// One uniformly distributed number.
    fn next_u64(&self) -> io::Result<u64> {
        let mut bytes = [0; 8];
        self.fill(&mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }
}

/// The kernel's generator. Good for ids and secrets.
#[derive(Debug, Default, Clone, Copy)]
pub struct RealRng;

impl Rng for RealRng {
    fn fill(&self, bytes: &mut [u8]) -> io::Result<()> {
        getrandom::fill(bytes).map_err(io::Error::from)
    }
}

/// SplitMix64: the same seed gives the same numbers for ever. For tests and simulation, never for secrets.
#[derive(Debug)]
pub struct SeededRng {
    state: Mutex<u64>,
}

impl SeededRng {
    pub fn new(seed: u64) -> Self {
        SeededRng { state: Mutex::new(seed) }
    }

    /// One number; a seeded generator cannot fail.
    pub fn number(&self) -> u64 {
        let mut state = self.state.lock();
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(*state)
    }

    /// A number in `0..limit`; 0 if `limit` is 0.
    pub fn below(&self, limit: u64) -> u64 {
        if limit == 0 { 0 } else { self.number() % limit }
    }
}

/// The finaliser of SplitMix64: spreads every input bit over all output bits.
fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

impl Rng for SeededRng {
    fn fill(&self, bytes: &mut [u8]) -> io::Result<()> {
        for part in bytes.chunks_mut(8) {
            part.copy_from_slice(&self.number().to_le_bytes()[..part.len()]);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_bytes() {
        let (mut a, mut b) = ([0; 33], [0; 33]);
        SeededRng::new(7).fill(&mut a).unwrap();
        SeededRng::new(7).fill(&mut b).unwrap();
        assert_eq!(a, b);
        SeededRng::new(8).fill(&mut b).unwrap();
        assert_ne!(a, b);
    }

    #[test]
    fn the_real_one_fills_every_byte() {
        let mut bytes = [0; 700];
        RealRng.fill(&mut bytes).unwrap();
        assert!(bytes.chunks(100).all(|part| part.iter().any(|byte| *byte != 0)));
        assert_ne!(RealRng.next_u64().unwrap(), RealRng.next_u64().unwrap());
    }
}
