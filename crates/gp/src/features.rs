//! Random Fourier features: a finite feature map whose inner products approximate a kernel.

use fedbo_optim::{Points, sobol};
use fedbo_streams::Stream;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::lanes::{self, padded};
use crate::{Family, GpError, Kernel, parallel, positive};

/// The distribution of the features' length scales.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LengthscaleLaw {
    /// The same ℓ for every feature. The map approximates a single kernel.
    Fixed(f64),
    /// ln ℓ ~ N(ln median, spread²), drawn for each feature. The map approximates the mixture ∫ k_ℓ
    /// p(ℓ) dℓ, so parties do not need to know the right length scale.
    LogNormal {
        /// Median length scale.
        median: f64,
        /// Standard deviation of ln ℓ.
        spread: f64,
    },
}

/// The method for choosing a map's frequencies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FeatureSampling {
    /// Independent draws with uniform phases (FTS appendix A).
    #[default]
    Random,
    /// Frequencies at scrambled Sobol points, mapped through the quantiles of their distribution
    /// (Yang et al. 2014). Each frequency has two phases b and b + π/2, so that ‖φ(x)‖ is constant
    /// before normalization. The expectation is the same as for independent draws, and the error is
    /// smaller for few features and dimensions
    /// (`cargo run --release -p fedbo-gp --example features`).
    QuasiRandom,
}

/// The data that parties share to obtain the same [`FeatureMap`], which they draw from equal
/// streams.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct FeatureDescription {
    /// Number of features M.
    pub n_features: usize,
    /// Input dimension d.
    pub dim: usize,
    /// Kernel family.
    pub family: Family,
    /// Distribution of the length scales.
    pub lengthscale: LengthscaleLaw,
    /// The method for choosing frequencies.
    #[serde(default)]
    pub sampling: FeatureSampling,
}

impl FeatureDescription {
    /// Describes M random features of squared exponential kernels.
    pub fn random(n_features: usize, dim: usize, lengthscale: LengthscaleLaw) -> Self {
        let (family, sampling) = (Family::SquaredExponential, FeatureSampling::Random);
        Self { n_features, dim, family, lengthscale, sampling }
    }

    /// Like [`FeatureDescription::random`], but with frequencies from a low-discrepancy sequence,
    /// which need fewer features for the same accuracy.
    pub fn quasi_random(n_features: usize, dim: usize, lengthscale: LengthscaleLaw) -> Self {
        Self {
            sampling: FeatureSampling::QuasiRandom,
            ..Self::random(n_features, dim, lengthscale)
        }
    }

    /// Returns the default for parties that share a map on `[0,1]`^d: 100 random features of
    /// squared exponential kernels with a mixture of length scales.
    ///
    /// # Panics
    /// If `dim` is 0.
    pub fn for_parties(dim: usize) -> Self {
        assert!(dim > 0, "a map without coordinates");
        let median = default_lengthscale(dim);
        Self::random(100, dim, LengthscaleLaw::LogNormal { median, spread: 0.5 })
    }
}

/// Returns 0.3 √d, the initial length scale.
#[must_use]
pub fn default_lengthscale(dim: usize) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "input dimensions are far below 2^53")]
    let root = (dim as f64).sqrt();
    0.3 * root
}

/// The fingerprint of a feature map: the SHA-256 hash of its shape and all frequencies and phases.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct MapHash(pub [u8; 32]);

impl std::fmt::Display for MapHash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl std::fmt::Debug for MapHash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{self}")
    }
}

/// Normalized random cosine features (FTS appendix A).
///
/// φ(x)_i ∝ cos(s_i·x + b_i),   ‖φ(x)‖² = a²,   E[φ(x)·φ(x')] ≈ k(x, x')
///
/// Shapes: frequencies s M×d, phases b M, φ(x) M. The paper's factor √(2/M) cancels in the
/// normalization.
#[derive(Clone, Debug)]
pub struct FeatureMap {
    dim: usize,
    n_features: usize,
    outputscale: f64,
    /// Frequencies by coordinate, each padded to whole lanes.
    frequencies: Vec<f64>,
    phases: Vec<f64>,
    /// Largest magnitude of the phases, followed by the largest magnitude of each coordinate's
    /// frequencies. Together they bound every angle.
    largest: Vec<f64>,
    hash: MapHash,
}

impl FeatureMap {
    /// Draws the map for a description, with signal variance 1: s_i = z_i/ℓ_i with z_i from the
    /// unit spectral density of the family, b_i ~ U[0, 2π).
    ///
    /// # Errors
    /// If a length scale is not positive, the spread is negative, or M is 0.
    pub fn draw(description: &FeatureDescription, stream: &mut Stream) -> Result<Self, GpError> {
        let (median, spread) = match description.lengthscale {
            LengthscaleLaw::Fixed(lengthscale) => (positive("lengthscale", lengthscale)?, 0.0),
            LengthscaleLaw::LogNormal { median, spread } => {
                (positive("lengthscale median", median)?, spread)
            }
        };
        if !(spread.is_finite() && spread >= 0.0) {
            return Err(GpError::Hyperparameter {
                name: "lengthscale spread",
                value: spread,
                expected: "of at least 0",
            });
        }
        let (m, dim) = (description.n_features, description.dim);
        let mut frequencies = Vec::with_capacity(m * dim);
        let mut phases = Vec::with_capacity(m);
        match description.sampling {
            FeatureSampling::Random => {
                for _ in 0..m {
                    let lengthscale = if spread > 0.0 {
                        median * (spread * stream.normal()).exp()
                    } else {
                        median
                    };
                    let lengthscale = positive("lengthscale", lengthscale)?;
                    unit_frequency(description.family, dim, stream, |z| {
                        frequencies.push(z / lengthscale)
                    });
                    phases.push(std::f64::consts::TAU * stream.uniform());
                }
            }
            FeatureSampling::QuasiRandom => {
                // The length scale uses the first coordinate, which a small number of points covers
                // best.
                let points = sobol(dim + 1, m.div_ceil(2), stream.bits());
                for point in points.rows() {
                    let lengthscale = median * (spread * normal_quantile(point[0])).exp();
                    let lengthscale = positive("lengthscale", lengthscale)?;
                    let scale = tail_scale(description.family, stream) / lengthscale;
                    let row: Vec<f64> =
                        point[1..].iter().map(|u| scale * normal_quantile(*u)).collect();
                    let phase = std::f64::consts::TAU * stream.uniform();
                    for shift in [0.0, std::f64::consts::FRAC_PI_2] {
                        if phases.len() < m {
                            frequencies.extend_from_slice(&row);
                            phases.push(phase + shift);
                        }
                    }
                }
            }
        }
        Self::new(dim, &frequencies, &phases, 1.0)
    }

    /// Draws a map for a kernel, including its length scales and signal variance.
    ///
    /// # Errors
    /// If M is 0.
    pub fn for_kernel(
        kernel: &Kernel,
        n_features: usize,
        stream: &mut Stream,
    ) -> Result<Self, GpError> {
        let dim = kernel.dim();
        let mut frequencies = Vec::with_capacity(n_features * dim);
        let mut phases = Vec::with_capacity(n_features);
        for _ in 0..n_features {
            let mut j = 0;
            unit_frequency(kernel.family(), dim, stream, |z| {
                frequencies.push(z / kernel.lengthscales()[j]);
                j += 1;
            });
            phases.push(std::f64::consts::TAU * stream.uniform());
        }
        Self::new(dim, &frequencies, &phases, kernel.outputscale())
    }

    /// Creates a map from frequencies (row-major M×d), phases (M) and the signal variance a².
    ///
    /// # Errors
    /// If M is 0, lengths do not match, or a number is not finite.
    pub fn new(
        dim: usize,
        frequencies: &[f64],
        phases: &[f64],
        outputscale: f64,
    ) -> Result<Self, GpError> {
        let n_features = phases.len();
        positive("outputscale", outputscale)?;
        if n_features == 0 {
            return Err(GpError::Hyperparameter {
                name: "number of features",
                value: 0.0,
                expected: "of at least 1",
            });
        }
        if frequencies.len() != n_features * dim {
            return Err(GpError::Length {
                what: "frequencies",
                found: frequencies.len(),
                expected: n_features * dim,
            });
        }
        if let Some(index) = frequencies.iter().chain(phases).position(|v| !v.is_finite()) {
            return Err(GpError::NotFinite { index });
        }
        let stride = padded(n_features);
        let mut by_coordinate = vec![0.0; dim * stride];
        for (i, row) in frequencies.chunks_exact(dim).enumerate() {
            for (j, s) in row.iter().enumerate() {
                by_coordinate[j * stride + i] = *s;
            }
        }
        let mut all_phases = phases.to_vec();
        all_phases.resize(stride, 0.0);
        let mut largest = vec![max_abs(&all_phases)];
        largest.extend(by_coordinate.chunks_exact(stride).map(max_abs));
        let hash = fingerprint(dim, outputscale, frequencies, phases);
        Ok(Self {
            dim,
            n_features,
            outputscale,
            frequencies: by_coordinate,
            phases: all_phases,
            largest,
            hash,
        })
    }

    /// Returns the number of features M.
    pub fn n_features(&self) -> usize {
        self.n_features
    }

    /// Returns the input dimension d.
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// Returns the signal variance a² = ‖φ(x)‖².
    pub fn outputscale(&self) -> f64 {
        self.outputscale
    }

    /// Returns the map's fingerprint, which is included in every message computed with the map.
    pub fn hash(&self) -> MapHash {
        self.hash
    }

    /// Returns the length of feature vectors, including padding.
    pub(crate) fn stride(&self) -> usize {
        self.phases.len()
    }

    /// Returns φ(x) (M).
    pub fn features(&self, x: &[f64]) -> Vec<f64> {
        let mut phi = vec![0.0; self.stride()];
        self.features_to(x, &mut phi);
        phi.truncate(self.n_features);
        phi
    }

    /// Returns Φ, with one row φ(x_i) per point, row-major with [`FeatureMap::stride`] numbers per
    /// row (padded with 0).
    pub(crate) fn feature_rows(&self, points: &Points) -> Vec<f64> {
        let mut rows = vec![0.0; points.len() * self.stride()];
        for (x, phi) in points.rows().zip(rows.chunks_exact_mut(self.stride())) {
            self.features_to(x, phi);
        }
        rows
    }

    fn features_to(&self, x: &[f64], phi: &mut [f64]) {
        lanes::vectorized! {
            fn work(map: &FeatureMap, x: &[f64], phi: &mut [f64]) {
                map.features_into(x, phi);
            }
        }
        work(self, x, phi);
    }

    /// Returns φ(x)·ω at every point, for a padded weight vector.
    pub(crate) fn weighted_sums(&self, points: &Points, weights: &[f64]) -> Vec<f64> {
        lanes::vectorized! {
            fn work(map: &FeatureMap, points: &[f64], weights: &[f64], sums: &mut [f64]) {
                let mut buffer = vec![0.0; map.stride()];
                for (x, sum) in points.chunks_exact(map.dim()).zip(sums) {
                    *sum = map.weighted_sum(x, weights, &mut buffer);
                }
            }
        }
        let is_large = points.len() * self.n_features() >= parallel::LARGE * parallel::LARGE;
        parallel::map_points(is_large, points, |points, sums| work(self, points, weights, sums))
    }

    #[inline(always)]
    pub(crate) fn features_into(&self, x: &[f64], phi: &mut [f64]) {
        self.cosines_into(x, phi);
        let factor = self.normalizer(lanes::dot(phi, phi));
        for c in phi {
            *c *= factor;
        }
    }

    /// Computes cos(s_i·x + b_i), and 0 in the padding.
    #[inline(always)]
    fn cosines_into(&self, x: &[f64], cosines: &mut [f64]) {
        let bound = self.angles_into(x, cosines);
        lanes::cos(cosines, bound);
        cosines[self.n_features..].fill(0.0);
    }

    /// Returns a/√(Σ cos²), or 0 if all cosines vanish, so that φ is the zero vector instead of
    /// NaN.
    #[inline(always)]
    fn normalizer(&self, square_sum: f64) -> f64 {
        if square_sum > 0.0 { (self.outputscale / square_sum).sqrt() } else { 0.0 }
    }

    /// Computes s_i·x + b_i. Returns a bound on the magnitudes.
    #[inline(always)]
    fn angles_into(&self, x: &[f64], angles: &mut [f64]) -> f64 {
        let stride = self.stride();
        let mut bound = self.largest[0];
        for (j, xj) in x.iter().enumerate() {
            let frequencies = &self.frequencies[j * stride..(j + 1) * stride];
            if j == 0 {
                for ((a, b), s) in angles.iter_mut().zip(&self.phases).zip(frequencies) {
                    *a = b + xj * s;
                }
            } else {
                lanes::add_scaled(angles, *xj, frequencies);
            }
            bound += xj.abs() * self.largest[j + 1];
        }
        bound
    }

    /// Returns φ(x)·ω for a padded weight vector. `buffer` must have [`FeatureMap::stride`]
    /// numbers.
    #[inline(always)]
    pub(crate) fn weighted_sum(&self, x: &[f64], weights: &[f64], buffer: &mut [f64]) -> f64 {
        self.cosines_into(x, buffer);
        let (sum, square_sum) = lanes::dot_and_square(buffer, weights);
        sum * self.normalizer(square_sum)
    }

    /// Returns φ(x)·ω and adds its gradient in x to `gradient`.
    ///
    /// With c_i = cos(s_i·x + b_i), u = Σ ω_i c_i, v = Σ c_i²:
    /// f = a u/√v,   ∂f/∂x_j = a/√v Σ_i s_ij sin_i (c_i u/v − ω_i)
    #[inline(always)]
    pub(crate) fn weighted_sum_gradient(
        &self,
        x: &[f64],
        weights: &[f64],
        cosines: &mut [f64],
        sines: &mut [f64],
        gradient: &mut [f64],
    ) -> f64 {
        let bound = self.angles_into(x, cosines);
        lanes::sin_cos(cosines, sines, bound);
        cosines[self.n_features..].fill(0.0);
        let (u, v) = lanes::dot_and_square(cosines, weights);
        let factor = self.normalizer(v);
        if factor <= 0.0 {
            return 0.0;
        }
        let ratio = u / v;
        for ((s, c), w) in sines.iter_mut().zip(cosines.iter()).zip(weights) {
            *s *= c * ratio - w;
        }
        let stride = self.stride();
        for (j, g) in gradient.iter_mut().enumerate() {
            *g += factor * lanes::dot(sines, &self.frequencies[j * stride..(j + 1) * stride]);
        }
        u * factor
    }
}

/// Draws from the spectral density of the family at unit length scale: N(0, I), or a Student-t with
/// 2ν degrees of freedom for Matérn-ν (Rasmussen & Williams 2006, eq. (4.15)).
fn unit_frequency(family: Family, dim: usize, stream: &mut Stream, mut push: impl FnMut(f64)) {
    let scale = tail_scale(family, stream);
    for _ in 0..dim {
        push(scale * stream.normal());
    }
}

/// Draws the factor that turns a normal vector into a draw from the unit spectral density of the
/// family: 1, or the factor of Student's t.
fn tail_scale(family: Family, stream: &mut Stream) -> f64 {
    match family {
        Family::SquaredExponential => 1.0,
        Family::Matern32 => (3.0 / stream.chi_squared(3.0)).sqrt(),
        Family::Matern52 => (5.0 / stream.chi_squared(5.0)).sqrt(),
    }
}

/// Returns Φ⁻¹(u), found by bisection of the standard normal distribution function. u is kept at
/// least 2⁻⁴⁰ away from 0 and 1, so the result is within 7 standard deviations of 0.
fn normal_quantile(u: f64) -> f64 {
    const EDGE: f64 = 1.0 / (1_u64 << 40) as f64;
    let u = u.clamp(EDGE, 1.0 - EDGE);
    let (mut low, mut high) = (-8.0, 8.0);
    while high - low > 1e-14 * (1.0 + f64::abs(low)) {
        let middle = 0.5 * (low + high);
        if 0.5 * libm::erfc(-middle * std::f64::consts::FRAC_1_SQRT_2) < u {
            low = middle;
        } else {
            high = middle;
        }
    }
    0.5 * (low + high)
}

fn max_abs(values: &[f64]) -> f64 {
    values.iter().fold(0.0, |m, v| m.max(v.abs()))
}

fn fingerprint(dim: usize, outputscale: f64, frequencies: &[f64], phases: &[f64]) -> MapHash {
    let mut hasher = Sha256::new();
    hasher.update(b"fedbo feature map 1\0");
    hasher.update((phases.len() as u64).to_le_bytes());
    hasher.update((dim as u64).to_le_bytes());
    for number in std::iter::once(&outputscale).chain(frequencies).chain(phases) {
        hasher.update(number.to_le_bytes());
    }
    MapHash(hasher.finalize().into())
}
