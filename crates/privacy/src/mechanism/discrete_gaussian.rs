//! The discrete Gaussian on the integers, drawn exactly.

use super::bits::{Bits, Purpose};
use super::source::{NoiseError, NoiseSource};
use super::wide::Wide;
use crate::accounting::InvalidParameter;

/// The law on ℤ with probability ∝ exp(−k² / (2 σ²)), σ² an integer.
///
/// Drawn by rejection from a discrete Laplace law after Canonne, Kamath and Steinke (2020), "The discrete Gaussian for
/// differential privacy", with integers only: the law is exact, not close (INV-8). How long a draw takes depends on what is
/// drawn, never on a vector; releases leave on schedule (INV-9), so that this time does not show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiscreteGaussian {
    /// σ².
    variance: u128,
    /// t = ⌊σ⌋ + 1, the scale of the Laplace law that proposes.
    scale: u64,
    /// 2 σ² t².
    denominator: Wide,
}

impl DiscreteGaussian {
    /// The largest variance, 2^80.
    pub const MAX_VARIANCE: u128 = 1 << 80;

    /// The law with this parameter σ²; its variance is never larger (Canonne, Kamath and Steinke 2020).
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

    /// σ².
    pub fn variance(&self) -> u128 {
        self.variance
    }

    /// `n` independent draws from a round's key of `source`.
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

    /// One draw Y from the Laplace law is kept with probability exp(−(|Y| − σ²/t)² / (2 σ²)).
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

    /// |Y| and whether Y < 0, for Y with probability ∝ exp(−|Y| / t).
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
                return (size, negative); // zero counts once
            }
        }
    }
}

/// True with probability exp(−numerator / denominator).
fn bernoulli_exp(mut numerator: Wide, denominator: Wide, bits: &mut Bits) -> bool {
    while numerator >= denominator {
        if !bernoulli_exp_one(bits) {
            return false;
        }
        numerator = numerator.minus(denominator);
    }
    bernoulli_exp_fraction(|bits| bernoulli(numerator, denominator, bits), bits)
}

/// True with probability exp(−1).
fn bernoulli_exp_one(bits: &mut Bits) -> bool {
    bernoulli_exp_fraction(|_| true, bits)
}

/// True with probability exp(−γ), where `coin` is true with probability γ ≤ 1.
///
/// The first n for which a coin of probability γ/n fails is odd with probability Σ_n (−γ)ⁿ/n! = exp(−γ).
fn bernoulli_exp_fraction(mut coin: impl FnMut(&mut Bits) -> bool, bits: &mut Bits) -> bool {
    let mut n = 1;
    while bits.below(n) == 0 && coin(bits) {
        n += 1;
    }
    n % 2 == 1
}

/// True with probability numerator / denominator < 1: a uniform number is compared with it bit by bit.
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
