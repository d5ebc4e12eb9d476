//! Moments of the privacy loss, ln E exp(θ L), by the trapezoid rule.
//!
//! For an integrand that is analytic in a strip around the real line, the error decreases as
//! exp(−2πa/h), with step h and strip height a (Trefethen and Weideman, 2014). About fifty nodes
//! give full precision. `ACCOUNTING.md`, "Moments", derives the bound.

use std::f64::consts::{LN_2, PI};

use super::subsampled::{Direction, Subsampled};

/// Maximum number of nodes.
const MAX_NODES: f64 = 50_000.0;

/// ln E exp(θ L) for the loss L of one release, and the variance of L under the distribution tilted
/// by exp(θ L).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Moment {
    /// K(θ) = ln E exp(θ L), rounded up: (α − 1) times the Rényi divergence of order α = θ + 1.
    pub(super) log: f64,
    /// K''(θ), estimated.
    pub(super) variance: f64,
}

/// Returns the moment of the sum of all losses.
pub(super) fn total(parts: &[Subsampled], direction: Direction, theta: f64) -> Moment {
    let mut sum = Moment::default();
    for part in parts {
        let one = moment(part, direction, theta);
        sum.log += part.count * one.log;
        sum.variance += part.count * one.variance;
    }
    sum
}

/// Returns K(θ) for one release: ln E_Q[(P/Q)^β] with β = θ + 1 for [`Direction::Remove`]
/// and β = −θ for [`Direction::Add`].
pub(super) fn moment(part: &Subsampled, direction: Direction, theta: f64) -> Moment {
    let (q, z) = (part.rate, part.multiplier);
    let beta = match direction {
        Direction::Remove => theta + 1.0,
        Direction::Add => -theta,
    };
    let precision = 1.0 / (z * z);
    // Logarithm of the moment for q = 1.
    let unsampled = 0.5 * theta * (theta + 1.0) * precision;
    if q >= 1.0 {
        return Moment { log: unsampled * (1.0 + 4.0 * f64::EPSILON), variance: precision };
    }
    // The error must be small relative to the moment's excess over 1, which is estimated here.
    let mut digits = 44.0
        - (0.5 * theta * (theta + 1.0) * q * q * precision.min(600.0).exp_m1())
            .abs()
            .clamp(1e-290, 1.0)
            .ln();
    loop {
        let grid = Grid::new(part, beta, unsampled, digits);
        if grid.n_nodes() > MAX_NODES {
            return by_convexity(q, theta, unsampled, precision);
        }
        let (found, excess) = grid.sum(part, direction, theta);
        // Error from the rule and the omitted tails, relative to the excess.
        let missed = (grid.log_missed - excess.abs().clamp(1e-300, 1.0).ln()).exp();
        if missed < 1e-13 || missed.is_nan() || digits > 2000.0 {
            let rounding = 1e-13 + missed;
            let log = if excess < 1.0 {
                (excess + excess.abs() * rounding).ln_1p()
            } else {
                found.log + rounding + 8.0 * f64::EPSILON * found.log.abs()
            };
            return Moment { log, ..found };
        }
        digits += (missed / 1e-13).ln() + 4.0;
    }
}

/// Bounds the moment by convexity of x^β: r^β ≤ 1 − q + q e^{βu}, hence
/// ln E r^β ≤ ln(1 − q + q e^G), where G is the logarithm of the moment without sampling. Used if
/// the order is so large, or the noise so small, that the integral would need too many nodes.
fn by_convexity(q: f64, theta: f64, unsampled: f64, precision: f64) -> Moment {
    let log = if (-1.0..=0.0).contains(&theta) {
        0.0 // E r^β ≤ (E r)^β for β between 0 and 1
    } else if unsampled < 600.0 {
        (q * unsampled.exp_m1()).ln_1p()
    } else {
        unsampled + q.ln() + ((1.0 - q) / q * (-unsampled).exp()).ln_1p()
    };
    Moment { log: log + 8.0 * f64::EPSILON * (1.0 + unsampled.abs()), variance: precision }
}

/// The nodes of the trapezoid rule: multiples of a step within intervals around 0, 1 and β. The
/// integrand is negligible elsewhere.
struct Grid {
    step: f64,
    intervals: Vec<(f64, f64)>,
    /// Logarithm of the error of the sum.
    log_missed: f64,
}

impl Grid {
    fn new(part: &Subsampled, beta: f64, unsampled: f64, digits: f64) -> Self {
        let (q, z) = (part.rate, part.multiplier);
        // Logarithm of the integral of |integrand| along a line in the strip, relative to the
        // moment.
        let size = (3.0 + 3.0 * beta.abs()).ln();
        let below_zero = (-beta).max(0.0);
        // Logarithm of the largest ratio between the tails around 0 and β and the moment.
        let spread = if beta > 1.0 {
            unsampled.min(-beta * q.ln())
        } else {
            // r stays near 1 − q for x below −z s, where s = z ln(|β| q/(1 − q)). Use the
            // probability of that tail.
            let s = (z * (below_zero * q / (1.0 - q)).ln()).max(0.0);
            let near_least = 0.5 * s * s + 3.0 + s.ln_1p();
            unsampled.min(below_zero * -(-q).ln_1p()).min(near_least).max(0.0)
        };
        // Height of the strip divided by z²: below π for a positive power, which is largest on the
        // real line. A negative power grows by at most cos(height/2)^β, or as if x moved by z² ln
        // cos(height).
        let (highest, turned) = if below_zero > 0.0 {
            let one = (4.0 / below_zero.sqrt()).min(PI / 2.0);
            let sigmas = (2.0 * (digits + size + spread + 60.0)).sqrt();
            let other = (1.0 / (sigmas * z).sqrt()).min(PI / 4.0);
            if one > other {
                (one, -below_zero * (one / 2.0).cos().ln())
            } else {
                (other, -sigmas * z * other.cos().ln() + LN_2)
            }
        } else {
            (PI, 0.0)
        };
        let wanted = digits + size + turned;
        let height = z * z * highest;
        // exp(a²/(2z²) − 2πa/h) at the optimal a, or at the largest a.
        let free = z * PI * (2.0 / wanted).sqrt();
        let step = if 2.0 * PI * z * z / free <= height {
            free
        } else {
            2.0 * PI * height / (wanted + 0.5 * height * highest)
        };
        let reach = z * (2.0 * (wanted + spread)).sqrt();
        // For negative β, the integrand is at most (1 − q)^β times the density around 0, unless the
        // peak around β is within reach.
        let mut centres = [0.0, 1.0, if beta < -reach { 0.0 } else { beta }];
        centres.sort_by(f64::total_cmp);
        let mut intervals: Vec<(f64, f64)> = Vec::with_capacity(3);
        for centre in centres {
            match intervals.last_mut() {
                Some(last) if centre - reach <= last.1 => last.1 = centre + reach,
                _ => intervals.push((centre - reach, centre + reach)),
            }
        }
        Self { step, intervals, log_missed: 2.0 * LN_2 + size + turned - wanted }
    }

    fn n_nodes(&self) -> f64 {
        let length: f64 = self.intervals.iter().map(|(from, to)| to - from).sum();
        length / self.step
    }

    fn nodes(&self) -> impl Iterator<Item = f64> {
        self.intervals.iter().flat_map(move |&(from, to)| {
            let (first, last) = ((from / self.step).ceil(), (to / self.step).floor());
            #[expect(clippy::cast_possible_truncation, reason = "a count of nodes, at least 0")]
            let n = (last - first + 1.0).max(0.0) as u64;
            (0..n).map(move |k| (first + k as f64) * self.step)
        })
    }

    /// Returns the moment and its excess over 1, computed as a sum of non-negative terms: E[r^β − 1
    /// − β(r − 1)] with r = P/Q and E r = 1.
    fn sum(&self, part: &Subsampled, direction: Direction, theta: f64) -> (Moment, f64) {
        // r^β Q is exp(θ L) times the outcome's distribution.
        let power = match direction {
            Direction::Remove => theta + 1.0,
            Direction::Add => -theta,
        };
        let node = |x: f64| (part.log_density(x), part.log_ratio(x));
        let nodes: Vec<(f64, f64)> = self.nodes().map(node).collect();
        let log_weights = nodes.iter().map(|&(density, v)| density + power * v);
        let largest = log_weights.fold(f64::NEG_INFINITY, f64::max);
        let (mut sum, mut first, mut second, mut excess) = (0.0, 0.0, 0.0, 0.0);
        let moderate = largest < 100.0;
        for &(density, v) in &nodes {
            let weight = (density + power * v - largest).exp();
            sum += weight;
            first += weight * v;
            second += weight * v * v;
            if moderate {
                excess += weighted_excess(density, v, direction, theta);
            }
        }
        let mean = first / sum;
        let log = (sum * self.step).ln() + largest;
        let found = Moment { log, variance: (second / sum - mean * mean).max(0.0) };
        let excess = if moderate { excess * self.step } else { f64::INFINITY };
        (found, excess)
    }
}

/// Returns e^l (r^β − 1 − β(r − 1)) for r = e^v, without cancellation or overflow; at least 0 for β
/// outside `[0, 1]`.
fn weighted_excess(l: f64, v: f64, direction: Direction, theta: f64) -> f64 {
    let beta = match direction {
        Direction::Remove => theta + 1.0,
        Direction::Add => -theta,
    };
    if v.abs() * beta.abs().max(1.0) < 0.05 {
        // Σ_{n≥2} (β^n − β) v^n / n!
        let second = theta * (theta + 1.0);
        let (mut coefficient, mut power, mut sum) = (second, 0.5 * v * v, 0.0);
        for n in 3..12 {
            sum += coefficient * power;
            coefficient = beta * coefficient + second;
            power *= v / f64::from(n);
        }
        return l.exp() * sum;
    }
    let exponent = theta * v;
    match direction {
        Direction::Remove if exponent > 1.0 => {
            (l + v + exponent).exp() - (1.0 + theta) * (l + v).exp() + theta * l.exp()
        }
        Direction::Remove => (l + v).exp() * (exponent.exp_m1() + theta * (-v).exp_m1()),
        Direction::Add if exponent < -1.0 => {
            (l - exponent).exp() + l.exp() * (theta * v.exp_m1() - 1.0)
        }
        Direction::Add => l.exp() * (-exponent).exp_m1() - (l + v).exp() * theta * (-v).exp_m1(),
    }
}
