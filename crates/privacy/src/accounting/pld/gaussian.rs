//! The exact cost of a single Gaussian with little noise, whose lattice of losses would need too
//! many points.

use super::super::composition::MIN_MULTIPLIER;
use super::super::subsampled::{HALF_LN_TWO_PI, Subsampled};
use super::lattice_loss::Rounding;

/// Levels of the continued fraction for Mills' ratio. The error is below 1e−40 for arguments of at
/// least 1.
const DEPTH: u32 = 400;
/// Error of ln δ: exponents of at most a few thousand in double precision.
const LOG_DEFECT: f64 = 1e-11;

/// A release without sampling and with multiplier z = 1/μ. The loss is distributed as N(μ²/2, μ²)
/// in both directions.
///
/// δ = φ(a) (M(a) − M(a + μ)) with a = ε/μ − μ/2, the normal density φ and Mills' ratio
/// M = (1 − Φ)/φ. This equals Φ(−a) − e^ε Φ(−a − μ) (Balle and Wang 2018), but has no terms that
/// overflow. The formula is evaluated only for a ≥ 1.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gaussian {
    mu: f64,
}

impl Gaussian {
    /// Returns the Gaussian equivalent to these releases, if they reduce to a single Gaussian with
    /// little noise.
    pub(super) fn of(parts: &[Subsampled]) -> Option<Self> {
        match parts {
            [part] if part.rate >= 1.0 && part.multiplier < MIN_MULTIPLIER => {
                Some(Self { mu: part.multiplier.recip() })
            }
            _ => None,
        }
    }

    /// Returns a bound on ε at δ; `None` if a would be below 1 (δ above about 0.15).
    pub(super) fn epsilon(self, log_delta: f64, rounding: Rounding) -> Option<f64> {
        if self.log_delta_at(1.0, rounding) < log_delta {
            return None;
        }
        // For a ≥ 1, ln δ ≤ −a²/2, and ln δ decreases in a.
        let (mut low, mut high) = (1.0_f64, (-2.0 * log_delta).max(1.0).sqrt() + 1.0);
        for _ in 0..80 {
            let middle = 0.5 * (low + high);
            if self.log_delta_at(middle, rounding) > log_delta {
                low = middle;
            } else {
                high = middle;
            }
        }
        let epsilon = |a: f64| (0.5 * self.mu + a) * self.mu;
        Some(match rounding {
            Rounding::Up => epsilon(high) * (1.0 + 1e-12),
            Rounding::Down => epsilon(low) * (1.0 - 1e-12),
        })
    }

    /// Returns an upper bound on ln δ at `epsilon`; `None` if a is below 1.
    pub(super) fn log_delta(self, epsilon: f64) -> Option<f64> {
        let position = epsilon / self.mu;
        let a = position - 0.5 * self.mu - 4.0 * f64::EPSILON * (position + self.mu);
        (a >= 1.0).then(|| self.log_delta_at(a, Rounding::Up))
    }

    /// Returns a bound on ln δ at ε = μ²/2 + a μ, for a ≥ 1.
    fn log_delta_at(self, a: f64, rounding: Rounding) -> f64 {
        let (near, far, defect) = match rounding {
            Rounding::Up => (DEPTH, DEPTH + 1, LOG_DEFECT),
            Rounding::Down => (DEPTH + 1, DEPTH, -LOG_DEFECT),
        };
        let share = mills(a, near) - mills(a + self.mu, far);
        -0.5 * a * a - HALF_LN_TWO_PI + share.ln() + defect
    }
}

/// Mills' ratio (1 − Φ(x))/φ(x) = 1/(x + 1/(x + 2/(x + 3/(x + …)))), x ≥ 1, truncated at level
/// `depth`. An even `depth` gives an upper bound, an odd one a lower bound.
fn mills(x: f64, depth: u32) -> f64 {
    let tail = (1..=depth).rev().fold(x, |tail, level| x + f64::from(level) / tail);
    tail.recip()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reference values from scipy.special.erfcx.
    #[test]
    fn mills_ratio_is_bounded_from_both_sides() {
        for (x, exact) in [
            (1.0, 0.655_679_542_418_798_5),
            (4.0, 0.236_652_382_913_560_67),
            (30.0, 0.033_296_419_072_497_26),
        ] {
            let (above, below) = (mills(x, DEPTH), mills(x, DEPTH + 1));
            assert!((above / exact - 1.0).abs() < 1e-14 && (below / exact - 1.0).abs() < 1e-14);
            assert!(mills(x, 2) > exact && mills(x, 3) < exact, "{x}");
        }
    }
}
