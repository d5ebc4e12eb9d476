//! The error of random features: the difference between φ(x)·φ(x') and the kernel.

use fedbo_optim::{Points, sobol};

use crate::{Family, FeatureDescription, FeatureMap, GpError, Kernel, LengthscaleLaw};

/// Number of quadrature nodes on either side of the median of ln ℓ, spaced 0.1 standard deviations
/// apart.
const N_NODES: i32 = 80;
/// Approximate number of feature values that a measurement on the unit cube computes for one end of
/// all pairs.
const N_VALUES: usize = 1 << 22;

impl FeatureDescription {
    /// Returns σ_p² = E‖s‖², the mean squared norm of a frequency. This is d c E[ℓ⁻²], where c is 1
    /// for the squared exponential, 3 for Matérn-3/2 and 5/3 for Matérn-5/2, and E[ℓ⁻²] = e^(2
    /// spread²)/median² for a log-normal distribution. The unit is the inverse square of the unit
    /// of x.
    #[must_use]
    pub fn mean_square_frequency(&self) -> f64 {
        let of_family = match self.family {
            Family::SquaredExponential => 1.0,
            // Student's t with 2ν degrees of freedom has variance ν/(ν − 1).
            Family::Matern32 => 3.0,
            Family::Matern52 => 5.0 / 3.0,
        };
        let (median, spread) = self.lengthscale.median_and_spread();
        float(self.dim) * of_family * (2.0 * spread * spread).exp() / (median * median)
    }

    /// Returns an upper bound on P(sup |φ(x)·φ(x') − k(x, x')| ≥ ε) over the unit cube, for
    /// features with independent frequencies: 2⁸ (σ_p diam/ε)² exp(−M ε²/(4 (d + 2))), diam = √d
    /// (Rahimi & Recht 2007, Claim 1). The bound is vacuous above 1.
    ///
    /// The claim applies to maps before normalization with an error that depends only on x − x'.
    /// This is the case if each frequency has two phases a quarter turn apart (Sutherland &
    /// Schneider 2015). Quasi-random frequencies are not independent, so the bound does not apply
    /// to them. [`FeatureError`] measures the error of any map.
    #[must_use]
    pub fn uniform_error_probability(&self, error: f64) -> f64 {
        self.log_probability(error).exp()
    }

    /// Returns the smallest ε that [`FeatureDescription::uniform_error_probability`] guarantees
    /// with probability 1 − δ, which is O(√(d ln M/M)). Kernel values are in `[0, 1]` and products
    /// of features in `[−1, 1]`, so a bound of 2 or more is vacuous, and a bound near 1 is weak.
    ///
    /// # Panics
    /// If `failure_prob`, δ, is not between 0 and 1.
    #[must_use]
    pub fn uniform_error(&self, failure_prob: f64) -> f64 {
        assert!(
            failure_prob > 0.0 && failure_prob < 1.0,
            "δ = {failure_prob} is not a probability"
        );
        let (mut low, mut high) = (-50.0_f64, 50.0_f64); // ln ε: the probability falls with ε
        while high - low > 1e-12 {
            let middle = 0.5 * (low + high);
            if self.log_probability(middle.exp()) > failure_prob.ln() {
                low = middle;
            } else {
                high = middle;
            }
        }
        high.exp()
    }

    fn log_probability(&self, error: f64) -> f64 {
        let dim = float(self.dim);
        let ratio = self.mean_square_frequency() * dim / (error * error);
        let exponent = float(self.n_features) * error * error / (4.0 * (dim + 2.0));
        256.0_f64.ln() + ratio.ln() - exponent
    }
}

impl LengthscaleLaw {
    fn median_and_spread(self) -> (f64, f64) {
        match self {
            Self::Fixed(lengthscale) => (lengthscale, 0.0),
            Self::LogNormal { median, spread } => (median, spread),
        }
    }
}

/// The kernel that a map approximates: k_ℓ, or ∫ k_ℓ p(ℓ) dℓ by the trapezoidal rule in ln ℓ.
struct Mixture(Vec<(Kernel, f64)>);

impl Mixture {
    fn of(description: &FeatureDescription) -> Result<Self, GpError> {
        let (median, spread) = description.lengthscale.median_and_spread();
        let one =
            |lengthscale| Kernel::isotropic(description.family, description.dim, lengthscale, 1.0);
        if spread <= 0.0 {
            return Ok(Self(vec![(one(median)?, 1.0)]));
        }
        let node = |i: i32| {
            let t = 0.1 * f64::from(i);
            let density = (-0.5 * t * t).exp() / std::f64::consts::TAU.sqrt();
            Ok((one(median * (spread * t).exp())?, 0.1 * density))
        };
        (-N_NODES..=N_NODES).map(node).collect::<Result<_, _>>().map(Self)
    }

    fn value(&self, x: &[f64], z: &[f64]) -> f64 {
        self.0.iter().map(|(kernel, weight)| weight * kernel.value(x, z)).sum()
    }
}

/// The measured error of a map: φ(x)·φ(x') − k(x, x') over pairs of points, for signal variance 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FeatureError {
    /// The largest absolute error.
    pub max: f64,
    /// The root mean square error, about 1/√M for independent frequencies.
    pub rms: f64,
    /// The root mean square of k(x, x') itself over the same pairs.
    pub kernel_rms: f64,
}

impl FeatureError {
    /// Measures the error over pairs. A row contains one pair: the d coordinates of x, then those
    /// of x'. `map` must have been drawn from `description`.
    ///
    /// # Errors
    /// If a length scale in the description is out of range.
    ///
    /// # Panics
    /// If there are no pairs, or dimensions differ.
    pub fn measure(
        map: &FeatureMap,
        description: &FeatureDescription,
        pairs: &Points,
    ) -> Result<Self, GpError> {
        let dim = map.dim();
        assert_eq!(description.dim, dim, "the description is of another map");
        assert_eq!(pairs.dim(), 2 * dim, "a pair has twice the coordinates of a point");
        assert!(!pairs.is_empty(), "an error is measured over at least one pair");
        let kernel = Mixture::of(description)?;
        let (mut max, mut squares, mut kernel_squares) = (0.0_f64, 0.0, 0.0);
        for pair in pairs.rows() {
            let (x, z) = pair.split_at(dim);
            let (phi, psi) = (map.features(x), map.features(z));
            let product: f64 = phi.iter().zip(&psi).map(|(a, b)| a * b).sum();
            let expected = kernel.value(x, z);
            let error = product / map.outputscale() - expected;
            max = max.max(error.abs());
            squares += error * error;
            kernel_squares += expected * expected;
        }
        let n = float(pairs.len());
        Ok(Self { max, rms: (squares / n).sqrt(), kernel_rms: (kernel_squares / n).sqrt() })
    }

    /// Measures the error over pairs of independent uniform points of the unit cube. The pairs come
    /// from a Sobol sequence in 2d coordinates. There are 8192 pairs, or fewer for more than 512
    /// features, but at least 256. If length scales are so small that few pairs are close,
    /// `kernel_rms` is inaccurate.
    ///
    /// # Errors
    /// Same as [`FeatureError::measure`].
    pub fn on_unit_cube(
        map: &FeatureMap,
        description: &FeatureDescription,
    ) -> Result<Self, GpError> {
        let n_pairs = (N_VALUES / map.n_features()).clamp(256, 8192);
        Self::measure(map, description, &sobol(2 * map.dim(), n_pairs, 0))
    }

    /// Returns the error relative to the kernel. Above 1, the map is less accurate than the
    /// constant 0.
    #[must_use]
    pub fn relative(&self) -> f64 {
        self.rms / self.kernel_rms
    }
}

#[expect(clippy::cast_precision_loss, reason = "numbers of features and points are far below 2^53")]
fn float(n: usize) -> f64 {
    n as f64
}
