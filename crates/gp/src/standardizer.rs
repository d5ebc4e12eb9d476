//! Outputs brought to mean 0 and variance 1, and back.

/// The affine map y ↦ (y/s − m)/v with s = max|y|, m the mean and v the standard deviation of y/s.
///
/// Dividing by s first keeps outputs near the ends of the floating-point range from overflowing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Standardizer {
    scale: f64,
    mean: f64,
    std: f64,
}

impl Standardizer {
    /// The map that leaves outputs as they are.
    pub const RAW: Self = Self { scale: 1.0, mean: 0.0, std: 1.0 };

    /// The map for these finite outputs. Constant outputs (spread below 1e-15 of their size) and an empty list are
    /// centred, not stretched.
    pub fn new(y: &[f64]) -> Self {
        let scale = y.iter().fold(0.0_f64, |m, v| m.max(v.abs()));
        if y.is_empty() || scale <= 0.0 {
            return Self::RAW;
        }
        if y.iter().all(|v| v.to_bits() == y[0].to_bits()) {
            // Their mean would be one of them up to rounding, which is no difference to work with.
            return Self { scale, mean: y[0] / scale, std: 1.0 };
        }
        #[expect(
            clippy::cast_precision_loss,
            reason = "numbers of observations are far below 2^53"
        )]
        let n = y.len() as f64;
        let mean = y.iter().map(|v| v / scale / n).sum::<f64>();
        let variance = y.iter().map(|v| (v / scale - mean).powi(2) / n).sum::<f64>();
        let std = if variance > 1e-30 { variance.sqrt() } else { 1.0 };
        Self { scale, mean, std }
    }

    /// y in standard units.
    pub fn standardize(&self, y: f64) -> f64 {
        (y / self.scale - self.mean) / self.std
    }

    /// A standard deviation in standard units back in the outputs' own.
    pub fn restore_std(&self, std: f64) -> f64 {
        std * self.std * self.scale
    }

    /// A standardized value back in the outputs' own units.
    pub fn restore(&self, z: f64) -> f64 {
        (z * self.std + self.mean) * self.scale
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
        // Six times a sixth of a number is not the number.
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
