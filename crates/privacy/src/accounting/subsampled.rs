//! The dominating pair of a subsampled Gaussian release, and its privacy loss.

/// Releases with the same rate q and multiplier z.
///
/// Dominating pair: P = (1 − q) N(0, z²) + q N(1, z²) against Q = N(0, z²), in both directions (`ACCOUNTING.md`).
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Subsampled {
    /// q.
    pub(super) rate: f64,
    /// z.
    pub(super) multiplier: f64,
    /// Number of releases.
    pub(super) count: f64,
}

/// The distribution of the pair from which the outcome is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    /// P, with loss ln(P/Q). The neighbouring dataset lacks the agent's vectors.
    Remove,
    /// Q, with loss ln(Q/P). The neighbouring dataset has the agent's vectors.
    Add,
}

impl Direction {
    pub(super) const BOTH: [Self; 2] = [Self::Remove, Self::Add];

    /// Returns +1 or −1, the factor by which ln(P/Q) is multiplied to give the loss.
    pub(super) fn sign(self) -> f64 {
        match self {
            Self::Remove => 1.0,
            Self::Add => -1.0,
        }
    }
}

impl Subsampled {
    /// v(x) = ln(P/Q)(x) = ln(1 − q + q exp((2x − 1)/(2z²))), increasing in x.
    pub(super) fn log_ratio(&self, x: f64) -> f64 {
        let (q, u) = (self.rate, (x - 0.5) / (self.multiplier * self.multiplier));
        if q >= 1.0 {
            return u;
        }
        if u > 700.0 {
            return u + q.ln() + ((1.0 - q) / q * (-u).exp()).ln_1p();
        }
        let rise = q * u.exp_m1();
        if rise > -0.5 { rise.ln_1p() } else { ((1.0 - q) + q * u.exp()).ln() }
    }

    /// Returns the x for which v(x) = `log_ratio`; −∞ if all values of v are larger.
    pub(super) fn position(&self, log_ratio: f64) -> f64 {
        let (q, v) = (self.rate, log_ratio);
        let u = if q >= 1.0 {
            v
        } else if v > 1.0 {
            v + (-(1.0 - q) * (-v).exp()).ln_1p() - q.ln()
        } else {
            let rise = v.exp_m1() / q;
            if rise <= -1.0 {
                return f64::NEG_INFINITY;
            }
            rise.ln_1p()
        };
        0.5 + u * self.multiplier * self.multiplier
    }

    /// Returns an interval such that the outcome lies beyond each end with probability at most
    /// exp(−reach²/2).
    pub(super) fn within(&self, direction: Direction, reach: f64) -> (f64, f64) {
        let tail = reach * self.multiplier;
        match direction {
            Direction::Remove if self.rate >= 1.0 => (1.0 - tail, 1.0 + tail),
            Direction::Remove => (-tail, 1.0 + tail),
            Direction::Add => (-tail, tail),
        }
    }

    /// Returns the log density of Q at x.
    pub(super) fn log_density(&self, x: f64) -> f64 {
        let scaled = x / self.multiplier;
        -0.5 * scaled * scaled - self.multiplier.ln() - HALF_LN_TWO_PI
    }
}

/// ½ ln 2π.
pub(super) const HALF_LN_TWO_PI: f64 = 0.918_938_533_204_672_8;

/// Returns ln Σ exp(terms); −∞ for no terms.
pub(super) fn log_sum_exp(terms: &[f64]) -> f64 {
    let largest = terms.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if largest == f64::NEG_INFINITY {
        return largest;
    }
    largest + terms.iter().map(|t| (t - largest).exp()).sum::<f64>().ln()
}
