//! An approximation of all losses, which locates the window before the bound is computed.

use super::super::subsampled::{Direction, Subsampled};

/// Spacing of the nodes, relative to the length over which densities and losses change.
const SPACING: f64 = 0.125;

/// Losses within reach, as sums over the nodes of the trapezoid rule. Losses beyond the reach are
/// omitted, because they can dominate the moments of large orders without affecting δ. The
/// accountant later counts them as infinite.
pub(super) struct Sketch {
    kinds: Vec<Kind>,
    n_releases: f64,
    pub(super) direction: Direction,
}

/// One kind of release.
struct Kind {
    count: f64,
    /// (loss, ln of its probability).
    nodes: Vec<(f64, f64)>,
}

/// ln E exp(θ L), and the mean and variance of L under the distribution tilted by exp(θ L).
#[derive(Clone, Copy, Default)]
pub(super) struct Moment {
    pub(super) log: f64,
    pub(super) mean: f64,
    pub(super) variance: f64,
}

impl Sketch {
    pub(super) fn new(parts: &[Subsampled], direction: Direction, reach: f64) -> Self {
        let kind = |part: &Subsampled| {
            let z = part.multiplier;
            let spacing = SPACING * z.min(2.0 * z * z);
            let (lowest, highest) = part.within(direction, reach);
            let n = ((highest - lowest) / spacing).ceil();
            let step = (highest - lowest) / n;
            #[expect(
                clippy::cast_possible_truncation,
                reason = "a few thousand nodes: z is at least 0.05 or q is 1"
            )]
            let nodes = (0..=n as u32).map(|k| {
                let x = lowest + f64::from(k) * step;
                let v = part.log_ratio(x);
                let density = part.log_density(x) + step.ln();
                match direction {
                    Direction::Remove => (v, density + v),
                    Direction::Add => (-v, density),
                }
            });
            Kind { count: part.count, nodes: nodes.collect() }
        };
        Self {
            kinds: parts.iter().map(kind).collect(),
            n_releases: parts.iter().map(|part| part.count).sum(),
            direction,
        }
    }

    pub(super) fn n_releases(&self) -> f64 {
        self.n_releases
    }

    /// Returns the moment of the sum of all losses.
    pub(super) fn moment(&self, theta: f64) -> Moment {
        let mut total = Moment::default();
        for Kind { count, nodes } in &self.kinds {
            let exponents = nodes.iter().map(|(loss, log_mass)| log_mass + theta * loss);
            let largest = exponents.fold(f64::NEG_INFINITY, f64::max);
            let (mut sum, mut first, mut second) = (0.0, 0.0, 0.0);
            for &(loss, log_mass) in nodes {
                let weight = (log_mass + theta * loss - largest).exp();
                sum += weight;
                first += weight * loss;
                second += weight * loss * loss;
            }
            let mean = first / sum;
            total.log += count * (sum.ln() + largest);
            total.mean += count * mean;
            total.variance += count * (second / sum - mean * mean).max(0.0);
        }
        total
    }
}
