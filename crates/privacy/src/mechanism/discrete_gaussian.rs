//! The discrete Gaussian on the integers, sampled exactly.

use super::bits::{Bits, Purpose};
use super::source::{NoiseError, NoiseSource};
use super::wide::Wide;
use crate::accounting::InvalidParameter;

/// The distribution on ℤ in which k has probability ∝ exp(−k² / (2 σ²)), for an integer σ².
///
/// Draws are sampled by rejection from a discrete Laplace distribution (Canonne, Kamath and Steinke
/// (2020), "The discrete Gaussian for differential privacy"). Only integers are used, so the
/// distribution is exact, not approximate (INV-8). The duration of a draw depends on its value,
/// never on a vector. Releases are sent on schedule (INV-9), which hides the duration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiscreteGaussian {
    /// σ².
    variance: u128,
    /// t = ⌊σ⌋ + 1, the scale of the Laplace proposal distribution.
    scale: u64,
    /// 2 σ² t².
    denominator: Wide,
}

impl DiscreteGaussian {
    /// The largest variance, 2^80.
    pub const MAX_VARIANCE: u128 = 1 << 80;

    /// Creates the distribution with parameter σ². The variance of a draw is at most σ² (Canonne,
    /// Kamath and Steinke 2020).
    ///
    /// # Errors
    /// If σ² is 0 or above [`Self::MAX_VARIANCE`].
    pub fn new(variance: u128) -> Result<Self, InvalidParameter> {
        let scale = u64::try_from(variance.isqrt() + 1)
            .ok()
            .filter(|_| (1..=Self::MAX_VARIANCE).contains(&variance))
            .ok_or(InvalidParameter {
                name: "variance of discrete Gaussian noise",
                value: variance.to_string(),
                expected: "between 1 and 2^80",
            })?;
        let t = u128::from(scale);
        Ok(Self { variance, scale, denominator: Wide::product(2 * variance, t * t) })
    }

    /// Returns σ².
    pub fn variance(&self) -> u128 {
        self.variance
    }

    /// Returns `n` independent draws, generated from the key that `source` provides for the round.
    ///
    /// # Errors
    /// If the source fails.
    pub fn draws<S: NoiseSource>(
        &self,
        n: usize,
        round: u64,
        source: &mut S,
    ) -> Result<Vec<i64>, NoiseError> {
        let key = source.key(round)?;
        let mut bits = Bits::new(&key, Purpose::Draws);
        let draws = (0..n).map(|_| self.sample(&mut bits)).collect();
        source.count(bits.n_words());
        Ok(draws)
    }

    /// Returns one draw. A proposal Y from the Laplace distribution is accepted with probability
    /// exp(−(|Y| − σ²/t)² / (2 σ²)).
    ///
    /// # Panics
    /// If |Y| reaches 2^61, at least 2^20 standard deviations: the process stops before anything is sent.
    pub(crate) fn sample(&self, bits: &mut Bits) -> i64 {
        loop {
            let (size, negative) = self.laplace(bits);
            let distance = (size * u128::from(self.scale)).abs_diff(self.variance);
            if !bernoulli_exp(Wide::product(distance, distance), self.denominator, bits) {
                continue;
            }
            assert!(size < 1 << 61, "the noise does not fit the sum"); // INV-7
            let size = i64::try_from(size).unwrap_or(i64::MAX);
            return if negative { -size } else { size };
        }
    }

    /// Draws Y with probability ∝ exp(−|Y| / t), and returns |Y| and whether Y < 0.
    fn laplace(&self, bits: &mut Bits) -> (u128, bool) {
        loop {
            let rest = bits.below(self.scale);
            if !bernoulli_exp_fraction(|bits| bits.below(self.scale) < rest, bits) {
                continue;
            }
            let mut whole: u64 = 0;
            while bernoulli_exp_one(bits) {
                whole += 1;
            }
            let size = u128::from(whole) * u128::from(self.scale) + u128::from(rest);
            let negative = bits.bit();
            if !(negative && size == 0) {
                return (size, negative); // count zero only once
            }
        }
    }
}

/// Returns true with probability exp(−numerator / denominator).
fn bernoulli_exp(mut numerator: Wide, denominator: Wide, bits: &mut Bits) -> bool {
    while numerator >= denominator {
        if !bernoulli_exp_one(bits) {
            return false;
        }
        numerator = numerator.minus(denominator);
    }
    bernoulli_exp_fraction(|bits| bernoulli(numerator, denominator, bits), bits)
}

/// Returns true with probability exp(−1).
fn bernoulli_exp_one(bits: &mut Bits) -> bool {
    bernoulli_exp_fraction(|_| true, bits)
}

/// Returns true with probability exp(−γ), where `coin` is true with probability γ ≤ 1.
///
/// The index of the first coin that fails, where coin n succeeds with probability γ/n, is odd with
/// probability Σ_n (−γ)ⁿ/n! = exp(−γ).
fn bernoulli_exp_fraction(mut coin: impl FnMut(&mut Bits) -> bool, bits: &mut Bits) -> bool {
    let mut n = 1;
    while bits.below(n) == 0 && coin(bits) {
        n += 1;
    }
    n % 2 == 1
}

/// Returns true with probability numerator / denominator < 1, by comparing with a uniform number
/// bit by bit.
fn bernoulli(mut numerator: Wide, denominator: Wide, bits: &mut Bits) -> bool {
    loop {
        numerator = numerator.doubled();
        let digit = numerator >= denominator;
        if digit {
            numerator = numerator.minus(denominator);
        }
        if bits.bit() != digit {
            return digit;
        }
    }
}
