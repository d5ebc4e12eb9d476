//! Outputs brought nearer to a normal distribution.

use crate::Standardizer;

/// Powers that are compared, evenly spaced.
const N_POWERS: u32 = 60;
/// Of these, how many steps apart the first are that are tried: the likelihood has one maximum.
const STRIDE: usize = 5;

/// Standardized outputs through the Yeo–Johnson power transform, standardized again (Yeo & Johnson 2000):
///
/// ψ(z) = ((1 + z)^λ − 1)/λ for z ≥ 0,   ψ(z) = −((1 − z)^(2−λ) − 1)/(2 − λ) for z < 0
///
/// with the logarithm where a power is 0. λ = 1 is the identity; a larger one draws in bad outputs far below the rest,
/// which would else set the scale of all that is learned of the good ones (Cowen-Rivers et al. 2022). It
/// increases strictly, so that the order of outputs stays.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OutputTransform {
    before: Standardizer,
    power: f64,
    after: Standardizer,
}

impl OutputTransform {
    /// The transform for these finite outputs, with the λ within `bounds` under which they are most likely a normal sample:
    ///
    /// max_λ −n/2 ln var ψ(z) + (λ − 1) Σ_i sign(z_i) ln(1 + |z_i|)
    ///
    /// λ = 1 for fewer than three outputs or constant ones. Cost O(n).
    ///
    /// # Panics
    /// If the bounds are not in order.
    pub fn new(y: &[f64], bounds: (f64, f64)) -> Self {
        assert!(bounds.0 <= bounds.1, "bounds {bounds:?} of a power");
        let before = Standardizer::new(y);
        let z: Vec<f64> = y.iter().map(|v| before.standardize(*v)).collect();
        let power = if z.len() < 3 { 1.0 } else { most_likely_power(&z, bounds) };
        let powered: Vec<f64> = z.iter().map(|v| yeo_johnson(*v, power)).collect();
        Self { before, power, after: Standardizer::new(&powered) }
    }

    /// λ.
    pub fn power(&self) -> f64 {
        self.power
    }

    /// The transformed output.
    pub fn apply(&self, y: f64) -> f64 {
        self.after.standardize(yeo_johnson(self.before.standardize(y), self.power))
    }

    /// The output whose transformed value is z. For λ in `[0, 2]` every z has one; else, beyond the range of ψ, the answer
    /// is that of a value at its end, far outside the outputs.
    pub fn restore(&self, z: f64) -> f64 {
        self.before.restore(inverse_yeo_johnson(self.after.restore(z), self.power))
    }
}

/// The most likely of [`N_POWERS`] + 1 evenly spaced powers: every [`STRIDE`]-th is tried, then those beside the best.
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

/// ψ(z) from the sign of z and ln(1 + |z|).
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

    /// The definition, term by term.
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

    /// Outputs with a long lower tail get a power above 1, with an upper tail below 1, and a symmetric list about 1; the
    /// transformed ones have mean 0, variance 1 and the order of the outputs.
    #[test]
    fn a_tail_is_drawn_in() {
        let quantiles: Vec<f64> = (1..200).map(|i| f64::from(i) / 200.0).collect();
        let tail: Vec<f64> = quantiles.iter().map(|p| 50.0 * p.ln()).collect();
        let mirrored: Vec<f64> = tail.iter().map(|v| -v).collect();
        let power = |y: &[f64]| OutputTransform::new(y, (0.0, 2.0)).power();
        assert!(power(&tail) > 1.3 && power(&mirrored) < 0.7);
        assert!((power(&quantiles) - 1.0).abs() < 0.06);
        let map = OutputTransform::new(&tail, (0.0, 2.0));
        let z: Vec<f64> = tail.iter().map(|v| map.apply(*v)).collect();
        assert!(z.windows(2).all(|w| w[0] < w[1]));
        for (y, z) in tail.iter().zip(&z) {
            assert!((map.restore(*z) / y - 1.0).abs() < 1e-9);
        }
        let mean = z.iter().sum::<f64>() / 199.0;
        let variance = z.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / 199.0;
        assert!(mean.abs() < 1e-12 && (variance - 1.0).abs() < 1e-12);
    }

    #[test]
    fn few_constant_and_huge_outputs_are_taken() {
        for y in [
            vec![],
            vec![2.0],
            vec![4.0; 5],
            vec![1e308, -1.7e308, 1e307, 0.0],
            vec![0.0, 1e-320, 2e-320],
        ] {
            let map = OutputTransform::new(&y, (0.0, 2.0));
            assert!(y.iter().all(|v| map.apply(*v).is_finite()), "{y:?}");
        }
    }
}
