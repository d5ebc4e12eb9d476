//! A stream of random draws, with one concrete generator so that traits that take a stream stay
//! object-safe.

use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha12Rng;
use rand_distr::{ChiSquared, Distribution, StandardNormal};

/// Draws from a labelled stream (ChaCha with 12 rounds).
#[derive(Clone, Debug)]
pub struct Stream(ChaCha12Rng);

impl Stream {
    pub(crate) fn from_key(key: [u8; 32]) -> Self {
        Self(ChaCha12Rng::from_seed(key))
    }

    /// Draws a uniform number in [0, 1).
    pub fn uniform(&mut self) -> f64 {
        self.0.random::<f64>()
    }

    /// Draws a standard normal number.
    pub fn normal(&mut self) -> f64 {
        StandardNormal.sample(&mut self.0)
    }

    /// Draws `n` independent standard normal numbers.
    pub fn normals(&mut self, n: usize) -> Vec<f64> {
        (0..n).map(|_| self.normal()).collect()
    }

    /// Draws a chi-squared number with `degrees` > 0 degrees of freedom.
    ///
    /// # Panics
    /// If `degrees` is not positive.
    pub fn chi_squared(&mut self, degrees: f64) -> f64 {
        let law = ChiSquared::new(degrees)
            .unwrap_or_else(|_| panic!("chi-squared with {degrees} degrees of freedom"));
        law.sample(&mut self.0)
    }

    /// Returns true with probability `p`: never for p ≤ 0 or NaN, always for p ≥ 1.
    pub fn bernoulli(&mut self, p: f64) -> bool {
        self.uniform() < p
    }

    /// Draws a uniform integer in 0..n.
    ///
    /// # Panics
    /// If `n` is 0.
    pub fn below(&mut self, n: usize) -> usize {
        assert!(n > 0, "no number lies below 0");
        self.0.random_range(0..n)
    }

    /// Draws 32 uniform bits, for example to scramble a Sobol sequence.
    pub fn bits(&mut self) -> u32 {
        self.0.next_u32()
    }

    /// Draws an index with probability proportional to its weight. Returns `None` if no weight is
    /// positive.
    ///
    /// Negative and non-finite weights count as 0.
    pub fn choose(&mut self, weights: &[f64]) -> Option<usize> {
        let usable = |w: f64| if w.is_finite() && w > 0.0 { w } else { 0.0 };
        let largest = weights.iter().copied().map(usable).fold(0.0, f64::max);
        if largest <= 0.0 {
            return None;
        }
        let scaled: Vec<f64> = weights.iter().map(|w| usable(*w) / largest).collect(); // so that the sum cannot overflow
        let mut rest = self.uniform() * scaled.iter().sum::<f64>();
        let mut last = None;
        for (index, weight) in scaled.iter().enumerate().filter(|(_, w)| **w > 0.0) {
            last = Some(index);
            if rest < *weight {
                break;
            }
            rest -= weight;
        }
        last
    }

    /// Shuffles `items` uniformly.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{Purpose, Seed};

    fn stream(index: u64) -> crate::Stream {
        Seed::new(7).stream(Purpose::TEST, index, 0)
    }

    #[test]
    fn equal_labels_agree_and_different_labels_do_not() {
        let draw = |seed: Seed, purpose, a, b| seed.stream(purpose, a, b).normals(4);
        let reference = draw(Seed::new(7), Purpose::TEST, 1, 2);
        assert_eq!(reference, draw(Seed::new(7), Purpose::TEST, 1, 2));
        for other in [
            draw(Seed::new(8), Purpose::TEST, 1, 2),
            draw(Seed::new(7), Purpose::PROPOSAL, 1, 2),
            draw(Seed::new(7), Purpose::TEST, 2, 1),
            draw(Seed::new(7).child(Purpose::RUN, 0), Purpose::TEST, 1, 2),
        ] {
            assert_ne!(reference, other);
        }
    }

    /// Golden values. A change of the generator or of the label derivation changes every result and
    /// must fail this test.
    #[test]
    fn the_first_draws_of_a_known_stream_stay_what_they_are() {
        let mut s = Seed::new(1).stream(Purpose::TEST, 0, 0);
        let drawn = [s.bits(), s.bits(), s.bits()];
        assert_eq!(drawn, GOLDEN);
    }
    const GOLDEN: [u32; 3] = [1_119_971_926, 4_141_783_521, 3_648_065_233];

    /// Checks that the mean and variance of 200,000 draws are within five standard errors of 0
    /// and 1.
    #[test]
    fn normals_have_the_right_moments() {
        let n = 200_000;
        let draws = stream(0).normals(n);
        let mean = draws.iter().sum::<f64>() / 200_000.0;
        let variance = draws.iter().map(|z| z * z).sum::<f64>() / 200_000.0;
        assert!(mean.abs() < 5.0 / 200_000_f64.sqrt(), "{mean}");
        assert!((variance - 1.0).abs() < 5.0 * (2.0 / 200_000_f64).sqrt(), "{variance}");
    }

    #[test]
    fn choose_follows_the_weights_and_skips_the_rest() {
        let weights = [0.0, 3.0, f64::NAN, 1.0, -2.0];
        let mut counts = [0_u32; 5];
        let mut s = stream(3);
        for _ in 0..40_000 {
            counts[s.choose(&weights).unwrap()] += 1;
        }
        assert_eq!((counts[0], counts[2], counts[4]), (0, 0, 0));
        let share = f64::from(counts[1]) / 40_000.0;
        assert!((share - 0.75).abs() < 5.0 * (0.75_f64 * 0.25 / 40_000.0).sqrt(), "{share}");
        assert_eq!(s.choose(&[0.0, f64::NAN]), None);
        assert_eq!(s.choose(&[]), None);
        assert!(s.choose(&[1e308, 1e308]).is_some());
    }
}
