//! Transforms of outputs that make them easier to model by a stationary Gaussian process.

use std::fmt;

use serde::{Serialize, Serializer};

use crate::Standardizer;

/// Number of equal steps into which the range of powers is divided.
const N_POWERS: u32 = 60;
/// Distance, in steps, between the powers that are tried first. This suffices because the
/// likelihood has a single maximum.
const STRIDE: usize = 5;

/// A family of strictly increasing maps of standardized outputs z. The parameters are fitted to the
/// outputs. Except for [`Warping::SignedLog`], penalties are compressed first
/// ([`Standardizer::robust`]).
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Warping {
    /// The power transform of Yeo & Johnson (2000), with λ between two bounds:
    ///
    /// ψ(z) = ((1 + z)^λ − 1)/λ for z ≥ 0,   ψ(z) = −((1 − z)^(2−λ) − 1)/(2 − λ) for z < 0
    ///
    /// If the exponent of a branch is 0, the branch is a logarithm. λ = 1 is the identity. A larger
    /// λ compresses bad outputs that are far below the rest, which would otherwise determine the
    /// model's scale for the good outputs (Cowen-Rivers et al. 2022).
    Power {
        /// The smallest λ.
        low: f64,
        /// The largest λ.
        high: f64,
    },
    /// The logarithm of the gap to a value slightly above the best output:
    ///
    /// ψ(z) = −ln(z* + δ − z),   z* = max z,   δ = the q-quantile of the gaps z* − z
    ///
    /// The map separates the best outputs, no matter how many decades lie between them and the
    /// rest. δ is at least the smallest positive gap, so that ties at the best output do not make δ
    /// vanish, and at least 1e-12 of a standard deviation.
    LogGap {
        /// q, above 0 and at most 1.
        quantile: f64,
    },
    /// The logarithm of the magnitude on both sides of 0, for outputs with a meaningful sign
    /// (Eriksson & Poloczek 2021, who use s = 1):
    ///
    /// ψ(y) = sign(y) ln(1 + |y|/s)
    ///
    /// up to |y| = 1e4 s. Beyond that, the magnitude is ln(1 + u₀) + 1 − (1 + u₀)/(1 + |y|/s) with
    /// u₀ = 1e4, which approaches a bound. Values near 0 therefore stay separate however large a
    /// penalty is. s is the median of the positive magnitudes |y|, but at most four times their
    /// lower quartile.
    SignedLog,
}

impl Warping {
    /// No map other than the affine standardization.
    pub const AFFINE: Self = Self::Power { low: 1.0, high: 1.0 };
    /// The power transform with λ in `[0, 2]`, for which all maps are surjective.
    pub const YEO_JOHNSON: Self = Self::Power { low: 0.0, high: 2.0 };
}

/// A warping with its parameters.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Warp {
    Power(f64),
    /// z* + δ.
    LogGap(f64),
    /// s.
    SignedLog(f64),
}

/// A map that standardizes outputs, applies a [`Warping`], and standardizes the result again. The
/// map is strictly increasing, so it preserves the order of the outputs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OutputTransform {
    before: Standardizer,
    warp: Warp,
    after: Standardizer,
}

impl OutputTransform {
    /// Fits the transform to these finite outputs. For powers, λ maximizes the likelihood of the
    /// outputs as a normal sample:
    ///
    /// max_λ −n/2 ln var ψ(z) + (λ − 1) Σ_i sign(z_i) ln(1 + |z_i|)
    ///
    /// A power or a logarithm of gaps is the identity for fewer than three outputs and for constant
    /// outputs. A signed logarithm is the identity if all outputs are 0. Cost: O(n), or O(n log n)
    /// for a logarithm of gaps.
    ///
    /// # Panics
    /// If the bounds of a power are not in order.
    pub fn new(y: &[f64], warping: Warping) -> Self {
        let before = match warping {
            Warping::SignedLog => Standardizer::RAW, // keeps the zero of the outputs
            _ => Standardizer::robust(y),
        };
        let z: Vec<f64> = y.iter().map(|v| before.standardize(*v)).collect();
        let warp = match warping {
            Warping::Power { low, high } => {
                assert!(low <= high, "bounds {low} and {high} of a power");
                Warp::Power(if z.len() < 3 { 1.0 } else { most_likely_power(&z, (low, high)) })
            }
            Warping::LogGap { quantile } => log_gap(&z, quantile),
            Warping::SignedLog => signed_log(&z),
        };
        let warped: Vec<f64> = z.iter().map(|v| warp.apply(*v)).collect();
        Self { before, warp, after: Standardizer::new(&warped) }
    }

    /// Returns λ if this is a power transform.
    pub fn power(&self) -> Option<f64> {
        match self.warp {
            Warp::Power(power) => Some(power),
            Warp::LogGap(_) | Warp::SignedLog(_) => None,
        }
    }

    /// Returns the transformed output. The logarithm of gaps is undefined above z* + δ, where the
    /// result is the value just below that point.
    pub fn apply(&self, y: f64) -> f64 {
        self.after.standardize(self.warp.apply(self.before.standardize(y)))
    }

    /// Returns the output that has z as its transformed value. With λ in `[0, 2]` or a logarithm of
    /// gaps, every z has such an output. Otherwise, if z is outside the range of ψ, returns the
    /// output for a value at the end of the range, which is far from the outputs.
    pub fn restore(&self, z: f64) -> f64 {
        self.before.restore(self.warp.invert(self.after.restore(z)))
    }

    /// Returns the logarithm of the derivative of the transformed output with respect to the
    /// standardized output (for [`Warping::SignedLog`], with respect to the output itself) at y.
    /// Adding the sum over all observations makes likelihoods under different transforms of
    /// standardized outputs comparable.
    pub fn ln_slope(&self, y: f64) -> f64 {
        self.warp.ln_slope(self.before.standardize(y)) - self.after.restore_std(1.0).ln()
    }
}

impl fmt::Display for OutputTransform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.warp {
            Warp::Power(power) => write!(f, "Yeo-Johnson with λ = {power:.2}"),
            Warp::LogGap(_) => f.write_str("logarithm of the gap to the best value"),
            Warp::SignedLog(_) => f.write_str("logarithm of the size on both sides of 0"),
        }
    }
}

impl Serialize for OutputTransform {
    /// Serializes a description.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Warp {
    fn apply(self, z: f64) -> f64 {
        match self {
            Self::Power(power) => yeo_johnson(z, power),
            Self::LogGap(top) => -ln_gap(top, z),
            Self::SignedLog(size) => bounded_log(z.abs() / size).copysign(z),
        }
    }

    fn invert(self, value: f64) -> f64 {
        match self {
            Self::Power(power) => inverse_yeo_johnson(value, power),
            Self::LogGap(top) => top - (-value).exp(),
            Self::SignedLog(size) => {
                (inverse_bounded_log(value.abs()) * size).min(f64::MAX).copysign(value)
            }
        }
    }

    fn ln_slope(self, z: f64) -> f64 {
        match self {
            Self::Power(power) => (power - 1.0) * z.signum() * z.abs().ln_1p(),
            Self::LogGap(top) => -ln_gap(top, z),
            Self::SignedLog(size) => {
                let log = (z.abs() / size).min(f64::MAX).ln_1p();
                -size.ln() - log - (log - LOG_END.ln_1p()).max(0.0)
            }
        }
    }
}

/// Returns ln(z* + δ − z).
fn ln_gap(top: f64, z: f64) -> f64 {
    (top - z).max(f64::EPSILON * top.abs().max(f64::MIN_POSITIVE)).ln()
}

/// Returns the logarithm of gaps with δ at a quantile of the gaps. δ is at least the smallest
/// positive gap, so that a tie with the best output cannot make δ 0. Returns the identity for fewer
/// than three outputs or for constant outputs.
fn log_gap(z: &[f64], quantile: f64) -> Warp {
    const LEAST_OFFSET: f64 = 1e-12;
    let best = z.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let mut gaps: Vec<f64> = z.iter().map(|v| best - v).collect();
    gaps.sort_unstable_by(f64::total_cmp);
    let smallest = gaps.iter().copied().find(|gap| *gap > 0.0);
    match smallest {
        Some(smallest) if z.len() >= 3 => {
            let offset = gaps[place(quantile, gaps.len()).max(1)].max(smallest);
            Warp::LogGap(best + offset.max(LEAST_OFFSET))
        }
        _ => Warp::Power(1.0),
    }
}

/// Returns the signed logarithm with s set to a typical magnitude, or the identity if all outputs
/// are 0.
fn signed_log(y: &[f64]) -> Warp {
    let mut sizes: Vec<f64> = y.iter().map(|v| v.abs()).filter(|size| *size > 0.0).collect();
    sizes.sort_unstable_by(f64::total_cmp);
    let quantile = |share: f64| sizes.get(place(share, sizes.len())).copied();
    match quantile(0.5).zip(quantile(0.25)) {
        Some((median, quartile)) => {
            Warp::SignedLog(median.min(4.0 * quartile).max(f64::MIN_POSITIVE))
        }
        None => Warp::Power(1.0),
    }
}

/// u₀ of [`Warping::SignedLog`].
const LOG_END: f64 = 1e4;

/// Returns ln(1 + u) up to u₀ and ln(1 + u₀) + 1 − (1 + u₀)/(1 + u) beyond. Both have the same
/// slope at u₀.
fn bounded_log(u: f64) -> f64 {
    if u <= LOG_END { u.ln_1p() } else { LOG_END.ln_1p() + 1.0 - (1.0 + LOG_END) / (1.0 + u) }
}

fn inverse_bounded_log(value: f64) -> f64 {
    let beyond = value - LOG_END.ln_1p();
    if beyond <= 0.0 {
        value.exp_m1()
    } else {
        (1.0 + LOG_END) / (1.0 - beyond).max(f64::MIN_POSITIVE) - 1.0
    }
}

/// Returns the index, below n, of a quantile in a sorted list of n numbers.
fn place(quantile: f64, n: usize) -> usize {
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "an index of an observation"
    )]
    let index = (quantile * n as f64).ceil() as usize;
    index.min(n.saturating_sub(1))
}

/// Returns the most likely of [`N_POWERS`] + 1 evenly spaced powers. Tries every [`STRIDE`]-th
/// power, then the neighbours of the best one.
fn most_likely_power(z: &[f64], (low, high): (f64, f64)) -> f64 {
    let logs: Vec<(f64, f64)> = z.iter().map(|v| (v.signum(), v.abs().ln_1p())).collect();
    let slope: f64 = logs.iter().map(|(sign, log)| sign * log).sum();
    #[expect(clippy::cast_precision_loss, reason = "numbers of observations are far below 2^53")]
    let n = z.len() as f64;
    let power = |step: u32| low + (high - low) * f64::from(step) / f64::from(N_POWERS);
    let mut values = vec![0.0; z.len()];
    let mut likelihood = |step: u32| {
        let power = power(step);
        for (value, (sign, log)) in values.iter_mut().zip(&logs) {
            *value = powered(*sign, *log, power);
        }
        let mean = values.iter().sum::<f64>() / n;
        let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / n;
        let likelihood = -0.5 * n * variance.ln() + (power - 1.0) * slope;
        if likelihood.is_finite() { likelihood } else { f64::NEG_INFINITY }
    };
    let mut best = (f64::NEG_INFINITY, 0);
    let mut consider = |step: u32| {
        let value = likelihood(step);
        if value > best.0 {
            best = (value, step);
        }
        best
    };
    let (mut value, mut coarse) = (f64::NEG_INFINITY, 0);
    for step in (0..=N_POWERS).step_by(STRIDE) {
        (value, coarse) = consider(step);
    }
    if value.is_infinite() {
        return 1.0;
    }
    let reach = u32::try_from(STRIDE).unwrap_or(1) - 1;
    for step in coarse.saturating_sub(reach)..=(coarse + reach).min(N_POWERS) {
        if step != coarse {
            consider(step);
        }
    }
    power(best.1)
}

fn yeo_johnson(z: f64, power: f64) -> f64 {
    powered(if z >= 0.0 { 1.0 } else { -1.0 }, z.abs().ln_1p(), power)
}

/// Computes ψ(z) from the sign of z and ln(1 + |z|).
fn powered(sign: f64, log: f64, power: f64) -> f64 {
    let exponent = if sign >= 0.0 { power } else { 2.0 - power };
    if exponent.abs() < 1e-9 { sign * log } else { sign * (exponent * log).exp_m1() / exponent }
}

fn inverse_yeo_johnson(value: f64, power: f64) -> f64 {
    let (exponent, sign) = if value >= 0.0 { (power, 1.0) } else { (2.0 - power, -1.0) };
    let size = value.abs();
    if exponent.abs() < 1e-9 {
        sign * size.exp_m1()
    } else {
        let scaled = (exponent * size).max(-1.0 + 1e-12);
        sign * (scaled.ln_1p() / exponent).exp_m1()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares with the definition, evaluated term by term.
    #[test]
    fn the_power_transform_is_the_published_one() {
        for (z, power, expected) in [
            (3.0, 2.0, 7.5),
            (3.0, 0.0, 4.0_f64.ln()),
            (-3.0, 2.0, -(4.0_f64.ln())),
            (-3.0, 0.0, -7.5),
            (-3.0, 3.0, -0.75),
            (0.7, 1.0, 0.7),
            (-0.7, 1.0, -0.7),
        ] {
            let value = yeo_johnson(z, power);
            assert!((value - expected).abs() < 1e-12, "{z} {power}");
            assert!((inverse_yeo_johnson(value, power) - z).abs() < 1e-12);
        }
    }

    /// The power is above 1 for outputs with a long lower tail, below 1 for outputs with a long
    /// upper tail, and about 1 for symmetric outputs. The transformed outputs have mean 0, variance
    /// 1 and the same order.
    #[test]
    fn a_tail_is_drawn_in() {
        let quantiles: Vec<f64> = (1..200).map(|i| f64::from(i) / 200.0).collect();
        let tail: Vec<f64> = quantiles.iter().map(|p| 50.0 * p.ln()).collect();
        let mirrored: Vec<f64> = tail.iter().map(|v| -v).collect();
        let power = |y: &[f64]| OutputTransform::new(y, Warping::YEO_JOHNSON).power().unwrap();
        assert!(power(&tail) > 1.3 && power(&mirrored) < 0.7);
        assert!((power(&quantiles) - 1.0).abs() < 0.06);
        for warping in [Warping::YEO_JOHNSON, Warping::LogGap { quantile: 0.1 }] {
            let map = OutputTransform::new(&tail, warping);
            let z: Vec<f64> = tail.iter().map(|v| map.apply(*v)).collect();
            assert!(z.windows(2).all(|w| w[0] < w[1]));
            for (y, z) in tail.iter().zip(&z) {
                assert!((map.restore(*z) / y - 1.0).abs() < 1e-9);
            }
            let mean = z.iter().sum::<f64>() / 199.0;
            let variance = z.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / 199.0;
            assert!(mean.abs() < 1e-12 && (variance - 1.0).abs() < 1e-12);
        }
    }

    /// Compares slopes with central differences, which have an error of about 1e-9 here.
    #[test]
    fn slopes_are_those_of_the_map() {
        let outputs: Vec<f64> = (0..40).map(|i| -(0.3 * f64::from(i)).exp()).collect();
        let affine = OutputTransform::new(&outputs, Warping::AFFINE);
        let size = 1.0 / (affine.apply(1.0) - affine.apply(0.0));
        for warping in [
            Warping::AFFINE,
            Warping::YEO_JOHNSON,
            Warping::LogGap { quantile: 0.1 },
            Warping::LogGap { quantile: 0.5 },
        ] {
            let map = OutputTransform::new(&outputs, warping);
            for y in &outputs[5..] {
                let step = 1e-5 * y.abs();
                let slope = (map.apply(y + step) - map.apply(y - step)) / (2.0 * step) * size;
                assert!((map.ln_slope(*y) - slope.ln()).abs() < 1e-7, "{warping:?} at {y}");
            }
        }
    }

    /// Gaps over nine decades are separated evenly, whereas the power transform makes the best
    /// third nearly equal.
    #[test]
    fn decades_of_gaps_are_told_apart() {
        let gaps = (0..10).map(|i| 10_f64.powi(-i));
        let outputs: Vec<f64> = gaps.map(|gap| 5.0 - gap).collect();
        let steps = |warping: Warping| -> Vec<f64> {
            let map = OutputTransform::new(&outputs, warping);
            outputs.windows(2).map(|w| map.apply(w[1]) - map.apply(w[0])).collect()
        };
        let even = steps(Warping::LogGap { quantile: 0.1 });
        assert!(even[..7].iter().all(|step| (step / even[0] - 1.0).abs() < 0.1), "{even:?}");
        assert!(steps(Warping::YEO_JOHNSON)[6] < 1e-3);
    }

    #[test]
    fn few_constant_and_huge_outputs_are_taken() {
        for y in [
            vec![],
            vec![2.0],
            vec![4.0; 5],
            vec![1e308, -1.7e308, 1e307, 0.0],
            vec![0.0, 1e-320, 2e-320],
            vec![1.0, 1.0 + f64::EPSILON, 1.0, -1e15],
        ] {
            for warping in
                [Warping::YEO_JOHNSON, Warping::LogGap { quantile: 0.1 }, Warping::SignedLog]
            {
                let map = OutputTransform::new(&y, warping);
                let fine = |v: &f64| map.apply(*v).is_finite() && map.ln_slope(*v).is_finite();
                assert!(y.iter().all(fine), "{warping:?} of {y:?}");
                assert!(!map.restore(50.0).is_nan());
            }
        }
    }

    /// Ordinary slacks stay separate next to a penalty of any size, and keep their order and sign.
    #[test]
    fn signs_and_small_sizes_survive_penalties() {
        for penalty in [1e3, 1e18, 1e300] {
            let slacks = [-penalty, -22.0, -0.5, 0.0, 0.5, 7.0, 30.0];
            let map = OutputTransform::new(&slacks, Warping::SignedLog);
            let z = slacks.map(|slack| map.apply(slack) - map.apply(0.0));
            assert!(z.windows(2).all(|w| w[1] - w[0] > 1e-3), "{z:?}");
            for (slack, z) in slacks.iter().zip(z) {
                assert!(z.total_cmp(&0.0) == slack.total_cmp(&0.0) || *slack == 0.0);
                let restored = map.restore(map.apply(*slack));
                assert!(slack.abs() > 1e9 || (restored - slack).abs() <= 1e-9 * slack.abs());
            }
            // Compare slopes with central differences, including one beyond the end of the
            // logarithm.
            for slack in [-0.7, 0.4, 30.0, 1e6] {
                let step = 1e-5 * f64::abs(slack);
                let slope = (map.apply(slack + step) - map.apply(slack - step)) / (2.0 * step);
                assert!((map.ln_slope(slack) - slope.ln()).abs() < 1e-4, "{penalty}: {slack}");
            }
        }
    }

    /// Ties at the best output, which are common for counts, do not make δ vanish.
    #[test]
    fn ties_at_the_best_leave_a_gap() {
        let counts: Vec<f64> = (0..40).map(|i| f64::from((i / 8).min(3))).collect();
        let map = OutputTransform::new(&counts, Warping::LogGap { quantile: 0.1 });
        let slope = map.ln_slope(3.0) - map.ln_slope(2.0);
        assert!((slope - 2.0_f64.ln()).abs() < 1e-9, "{slope}");
    }
}
