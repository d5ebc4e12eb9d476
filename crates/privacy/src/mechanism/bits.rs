//! Uniform bits from a cryptographic generator, drawn a few at a time.

use chacha20::ChaCha20Rng;
use rand::{Rng, SeedableRng};
use zeroize::Zeroize;

/// The purpose of a stream derived from a round's key. Streams for different purposes are
/// independent.
#[derive(Clone, Copy)]
pub(crate) enum Purpose {
    /// The coins that decide participation.
    Coins = 1,
    /// The added noise.
    Noise = 2,
    /// The sample of the paper's mechanism.
    PaperSample = 3,
    /// The normal variates of the paper's mechanism.
    PaperNoise = 4,
    /// Draws by [`super::DiscreteGaussian::draws`].
    Draws = 5,
    /// The noise of a secure sum's leader.
    Leader = 6,
    /// The noise of a secure sum's helper.
    Helper = 7,
}

/// Bits from ChaCha20, cleared on drop (the generator clears its own state).
pub(crate) struct Bits {
    generator: ChaCha20Rng,
    pool: u64,
    n_left: u32,
}

impl Bits {
    pub(crate) fn new(key: &[u8; 32], purpose: Purpose) -> Self {
        let mut generator = ChaCha20Rng::from_seed(*key);
        generator.set_stream(purpose as u64);
        Self { generator, pool: 0, n_left: 0 }
    }

    /// Draws an integer with `n` uniform bits, n ≤ 64.
    pub(crate) fn take(&mut self, n: u32) -> u64 {
        debug_assert!(n <= 64);
        if n == 0 {
            return 0;
        }
        if self.n_left < n {
            self.pool = self.generator.next_u64();
            self.n_left = 64;
        }
        let taken = self.pool & (u64::MAX >> (64 - n));
        self.pool = self.pool.checked_shr(n).unwrap_or(0);
        self.n_left -= n;
        taken
    }

    /// Draws one uniform bit.
    pub(crate) fn bit(&mut self) -> bool {
        self.take(1) == 1
    }

    /// Draws a uniform integer in 0..n, for n ≥ 1, by rejection.
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        let n_bits = u64::BITS - (n - 1).leading_zeros();
        loop {
            let drawn = self.take(n_bits);
            if drawn < n {
                return drawn;
            }
        }
    }

    /// Returns the generator, for callers that draw whole words.
    pub(crate) fn generator(&mut self) -> &mut ChaCha20Rng {
        &mut self.generator
    }

    /// Returns the number of 32-bit words drawn from the generator.
    pub(crate) fn n_words(&self) -> u128 {
        self.generator.get_word_pos()
    }
}

impl Drop for Bits {
    fn drop(&mut self) {
        self.pool.zeroize();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_below_n_are_uniform() {
        let mut bits = Bits::new(&[7; 32], Purpose::Draws);
        for n in [1, 2, 3, 5, 64] {
            let draws = 20_000 * n;
            let mut counts = vec![0_i64; usize::try_from(n).unwrap()];
            for _ in 0..draws {
                counts[usize::try_from(bits.below(n)).unwrap()] += 1;
            }
            for count in counts {
                assert!((count - 20_000).abs() < 800, "{count} of 20,000"); // 5.6 standard deviations
            }
        }
        assert_eq!(bits.take(0), 0);
        assert!((0..200).any(|_| bits.take(64) >> 63 == 1));
        assert!(bits.below(u64::MAX) < u64::MAX);
    }
}
