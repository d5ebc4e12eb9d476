//! Standardization of outputs to mean 0 and variance 1, and the inverse.

use crate::bad_tail::BadTail;

/// The affine map y ↦ (y/s − m)/v, where s = max|y|, m is the mean and v the standard deviation of
/// y/s.
///
/// Dividing by s first keeps outputs near the ends of the floating-point range from overflowing. A
/// robust map first compresses penalties ([`Standardizer::robust`]).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Standardizer {
    tail: BadTail,
    scale: f64,
    mean: f64,
    std: f64,
}

impl Standardizer {
    /// The identity.
    pub const RAW: Self = Self { tail: BadTail::NONE, scale: 1.0, mean: 0.0, std: 1.0 };

    /// Returns the map for these finite outputs (larger is better) after compressing penalties.
    /// Penalties are outputs more than twelve times as far below the best output as the worst
    /// ordinary output, or five times as far if there are several nearly equal ones. Without
    /// penalties, the map equals [`Standardizer::new`].
    ///
    /// With this map, a penalty of any size, such as 1e12 for a crash, leaves the ordinary outputs
    /// separate. Cost: O(n log n).
    pub fn robust(y: &[f64]) -> Self {
        let tail = BadTail::of(y);
        if tail == BadTail::NONE {
            return Self::new(y);
        }
        let drawn_in: Vec<f64> = y.iter().map(|v| tail.apply(*v)).collect();
        Self { tail, ..Self::new(&drawn_in) }
    }

    /// Returns the map for these finite outputs. Constant outputs (spread below 1e-15 of their
    /// magnitude) and an empty list are centred but not scaled.
    pub fn new(y: &[f64]) -> Self {
        let scale = y.iter().fold(0.0_f64, |m, v| m.max(v.abs()));
        if y.is_empty() || scale <= 0.0 {
            return Self::RAW;
        }
        if y.iter().all(|v| v.to_bits() == y[0].to_bits()) {
            // The computed mean would differ from the constant by rounding errors, which must not
            // be amplified.
            return Self { tail: BadTail::NONE, scale, mean: y[0] / scale, std: 1.0 };
        }
        #[expect(
            clippy::cast_precision_loss,
            reason = "numbers of observations are far below 2^53"
        )]
        let n = y.len() as f64;
        let mean = y.iter().map(|v| v / scale / n).sum::<f64>();
        let variance = y.iter().map(|v| (v / scale - mean).powi(2) / n).sum::<f64>();
        let std = if variance > 1e-30 { variance.sqrt() } else { 1.0 };
        Self { tail: BadTail::NONE, scale, mean, std }
    }

    /// Standardizes an output.
    pub fn standardize(&self, y: f64) -> f64 {
        (self.tail.apply(y) / self.scale - self.mean) / self.std
    }

    /// Converts a standard deviation in standardized units to the units of the outputs. Valid for
    /// ordinary outputs.
    pub fn restore_std(&self, std: f64) -> f64 {
        std * self.std * self.scale
    }

    /// Converts a standardized value to the units of the outputs.
    pub fn restore(&self, z: f64) -> f64 {
        self.tail.invert((z * self.std + self.mean) * self.scale)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn standardized_outputs_have_mean_zero_and_variance_one() {
        for y in [
            vec![3.0, 5.0, 10.0],
            vec![1e308, -1.7e308, 1e307],
            vec![1e-320, 2e-320, 5e-324],
            vec![0.0, 1.0, 1e10],
        ] {
            let map = Standardizer::new(&y);
            let z: Vec<f64> = y.iter().map(|v| map.standardize(*v)).collect();
            let mean = z.iter().sum::<f64>() / 3.0;
            let variance = z.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / 3.0;
            assert!(
                mean.abs() < 1e-12 && (variance - 1.0).abs() < 1e-9,
                "{y:?}: {mean} {variance}"
            );
        }
    }

    #[test]
    fn constant_outputs_are_centred_only() {
        for y in [vec![4.0; 5], vec![1e300; 3], vec![0.0; 2], vec![]] {
            let map = Standardizer::new(&y);
            assert!(y.iter().all(|v| map.standardize(*v).abs() < 1e-12));
        }
        // Six times a sixth of a number is not exactly that number.
        for n in 1..30 {
            let map = Standardizer::new(&vec![0.37; n]);
            assert_eq!(map.standardize(0.37).to_bits(), 0.0_f64.to_bits(), "{n}");
        }
    }

    #[test]
    fn restore_undoes_standardize() {
        let map = Standardizer::new(&[3.0, 5.0, 10.0]);
        for v in [-7.0, 0.0, 4.25] {
            assert!((map.restore(map.standardize(v)) - v).abs() < 1e-12);
        }
    }
}
