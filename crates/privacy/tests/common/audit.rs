//! Statistical inference from an adversary's success rates in an audit.

use super::float;

/// Returns the interval of probabilities p with n · KL(k/n ‖ p) ≤ ln(1/α). Each end fails with
/// probability at most α (Chernoff).
fn interval(hits: u64, tries: u64, alpha: f64) -> (f64, f64) {
    let (found, limit) = (float(hits) / float(tries), (1.0 / alpha).ln() / float(tries));
    let inside = |p: f64| {
        let part = |found: f64, p: f64| {
            if found > 0.0 { found * (found / p).ln() } else { 0.0 }
        };
        part(found, p) + part(1.0 - found, 1.0 - p) <= limit
    };
    let end = |mut outside: f64| {
        let mut within = found;
        for _ in 0..100 {
            let middle = 0.5 * (within + outside);
            if inside(middle) {
                within = middle;
            } else {
                outside = middle;
            }
        }
        outside
    };
    (end(0.0), end(1.0))
}

/// Counts of the adversary's guesses that the slot is present: right guesses in runs with the slot,
/// and wrong guesses in runs without it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AttackRecord {
    pub(crate) tries: u64,
    pub(crate) right: u64,
    pub(crate) wrong: u64,
}

impl AttackRecord {
    /// Counts the guesses that a threshold on a statistic gives, from equally many runs with and
    /// without the slot.
    pub(crate) fn above(threshold: f64, with: &[f64], without: &[f64]) -> Self {
        assert_eq!(with.len(), without.len());
        let count = |runs: &[f64]| runs.iter().filter(|t| **t > threshold).count() as u64;
        Self { tries: with.len() as u64, right: count(with), wrong: count(without) }
    }

    /// Returns a lower bound on ε at δ, too high with probability at most 2α:
    /// ln((P(right) − δ) / P(wrong)).
    pub(crate) fn epsilon(self, delta: f64, alpha: f64) -> f64 {
        let right = interval(self.right, self.tries, alpha).0;
        let wrong = interval(self.wrong, self.tries, alpha).1;
        ((right - delta).max(0.0) / wrong).ln()
    }

    /// Returns a lower bound on μ of Gaussian differential privacy, too high with probability at
    /// most 2α: Φ⁻¹(P(right)) − Φ⁻¹(P(wrong)).
    pub(crate) fn mu(self, alpha: f64) -> f64 {
        let right = interval(self.right, self.tries, alpha).0;
        let wrong = interval(self.wrong, self.tries, alpha).1;
        normal_quantile(right) - normal_quantile(wrong)
    }
}

/// Computes Φ⁻¹ by bisection.
fn normal_quantile(probability: f64) -> f64 {
    let (mut low, mut high) = (-40.0, 40.0);
    for _ in 0..80 {
        let middle = 0.5 * (low + high);
        if fedbo_testkit::statistics::normal_cdf(middle) < probability {
            low = middle;
        } else {
            high = middle;
        }
    }
    0.5 * (low + high)
}
