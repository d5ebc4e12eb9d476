//! A posterior over weights, given by a mean and a covariance: a complete model of a function that
//! can be sent in a message.

use std::fmt;
use std::sync::Arc;

use fedbo_optim::Points;

use crate::linalg::{PackedLower, SpdFactor};
use crate::{FeatureMap, FunctionBasis, GpError, WeightPrior, WeightStatistics, lanes};

/// The Gaussian process f(x) = (φ(x) − c)·ω with ω ~ N(ν, C), on a feature map that the sender and
/// the receiver share (FTS section 3.2).
///
/// mean(x) = φ(x)·ν − c·ν,   var(x) = ‖T φ(x) − T c‖²,   C = Tᵀ T
/// Shapes: ν M, C M×M, T k×M, φ(x) M. Cost: O(k M) per point.
///
/// [`WeightMoments::new`] uses all M weights (k = M) and c = 0. [`WeightMoments::of_statistics`]
/// uses k = r shared functions.
#[derive(Clone)]
pub struct WeightMoments {
    map: Arc<FeatureMap>,
    /// ν, including padding.
    mean: Vec<f64>,
    /// T.
    root: Root,
    /// c·ν.
    mean_offset: f64,
    /// T c.
    offsets: Vec<f64>,
}

/// The rows of T.
#[derive(Clone)]
enum Root {
    /// Lower triangular.
    Lower(PackedLower),
    /// Rows of M numbers, including padding.
    Rows(Vec<Vec<f64>>),
}

impl Root {
    #[inline(always)]
    fn row(&self, i: usize) -> &[f64] {
        match self {
            Self::Lower(lower) => lower.row(i),
            Self::Rows(rows) => &rows[i],
        }
    }
}

impl fmt::Debug for WeightMoments {
    /// Prints only lengths, so that no weights reach a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WeightMoments {{ {} features }}", self.map.n_features())
    }
}

impl WeightMoments {
    /// Creates the model from ν (M) and C = σ² Σ⁻¹ (M×M row-major, of which only the lower triangle
    /// is read), with c = 0. Cost: O(M³).
    ///
    /// The paper sends Σ⁻¹ instead of C. The two are equivalent because all agents know σ². The
    /// entries of C stay below the prior variance 1, however small σ² is.
    ///
    /// # Errors
    /// If a length does not match the map, a number is not finite, or C is not positive definite.
    pub fn new(map: Arc<FeatureMap>, mean: &[f64], covariance: &[f64]) -> Result<Self, GpError> {
        let m = map.n_features();
        for (what, numbers, expected) in
            [("weight mean", mean, m), ("weight covariance", covariance, m * m)]
        {
            if numbers.len() != expected {
                return Err(GpError::Length { what, found: numbers.len(), expected });
            }
            if let Some(index) = numbers.iter().position(|v| !v.is_finite()) {
                return Err(GpError::NotFinite { index });
            }
        }
        // With rows and columns in reverse order, C = L Lᵀ, so that T_ij = L_{M−1−j, M−1−i} and
        // products read the rows of T.
        let mut reversed = PackedLower::zeros(m);
        for i in 0..m {
            for (j, entry) in reversed.row_mut(i).iter_mut().enumerate() {
                *entry = covariance[(m - 1 - j) * m + (m - 1 - i)];
            }
        }
        let lower = SpdFactor::new(&reversed)?;
        let mut factor = PackedLower::zeros(m);
        for i in 0..m {
            for (j, entry) in factor.row_mut(i).iter_mut().enumerate() {
                *entry = lower.lower().row(m - 1 - j)[m - 1 - i];
            }
        }
        let mut mean = mean.to_vec();
        mean.resize(map.stride(), 0.0);
        Ok(Self { map, mean, root: Root::Lower(factor), mean_offset: 0.0, offsets: vec![0.0; m] })
    }

    /// Creates the function that a party's statistics A, b describe, with mean 0 and spread 1 over
    /// the cube:
    ///
    /// f(x) = (ψ(x) − ψ̄)·w/s,   w ~ N(w̄, P),   P = (I + A)⁻¹,   w̄ = P b
    ///
    /// ψ̄ = E_x ψ(x),   s² = E_w Var_x[ψ(x)·w] = w̄ᵀ S w̄ + tr(S P),   S = diag(γ) − ψ̄ ψ̄ᵀ
    ///
    /// This is the sender's posterior under w ~ N(0, I). The mean and scale are chosen as if
    /// outputs were standardized over points of the whole cube, because statistics contain neither
    /// the sender's inputs nor its units. The remainder is omitted, because the statistics do not
    /// describe it. Here C = R P Rᵀ/s². Cost: O(r³ + M r²).
    ///
    /// # Errors
    /// If I + A is not positive definite, or the function does not vary over the cube.
    ///
    /// # Panics
    /// If the statistics and the basis differ in the number of functions.
    pub fn of_statistics(
        basis: &FunctionBasis,
        statistics: &WeightStatistics,
    ) -> Result<Self, GpError> {
        assert_eq!(statistics.rank(), basis.rank(), "statistics of other functions");
        let (rank, centre) = (basis.rank(), basis.means());
        let (mean, covariance) = WeightPrior::standard(rank).given(statistics)?;
        let level = lanes::wide_dot(centre, &mean);
        let of_mean = basis.variances().iter().zip(&mean).map(|(gamma, w)| gamma * w * w);
        let mut square = of_mean.sum::<f64>() - level * level;
        for i in 0..rank {
            let row = covariance.row(i);
            square += (basis.variances()[i] - centre[i] * centre[i]) * row[i];
            let off: f64 = row[..i].iter().zip(centre).map(|(p, c)| p * c).sum();
            square -= 2.0 * centre[i] * off;
        }
        let size = crate::positive("square of the spread of a party's function", square)?.sqrt();
        // P/s² = L Lᵀ, so the rows of T = Lᵀ Rᵀ are R times the columns of L.
        let lower = SpdFactor::new(&covariance)?;
        let (mut rows, mut offsets) = (Vec::with_capacity(rank), Vec::with_capacity(rank));
        for j in 0..rank {
            let column: Vec<f64> = (0..rank)
                .map(|i| if i < j { 0.0 } else { lower.lower().row(i)[j] / size })
                .collect();
            offsets.push(lanes::wide_dot(centre, &column));
            rows.push(basis.padded_weights(&column));
        }
        let mean: Vec<f64> = mean.iter().map(|w| w / size).collect();
        Ok(Self {
            mean: basis.padded_weights(&mean),
            map: basis.shared_map(),
            root: Root::Rows(rows),
            mean_offset: level / size,
            offsets,
        })
    }

    /// Returns the feature map.
    pub fn map(&self) -> &FeatureMap {
        &self.map
    }

    /// Returns the means (m) and variances (m) of f at m points.
    pub fn mean_variances(&self, points: &Points) -> (Vec<f64>, Vec<f64>) {
        lanes::vectorized! {
            fn work(moments: &WeightMoments, points: &Points) -> (Vec<f64>, Vec<f64>) {
                let mut phi = vec![0.0; moments.map.stride()];
                let (mut means, mut variances) = (Vec::new(), Vec::new());
                for x in points.rows() {
                    moments.map.features_into(x, &mut phi);
                    means.push(lanes::dot(&phi, &moments.mean) - moments.mean_offset);
                    variances.push(moments.variance(&phi));
                }
                (means, variances)
            }
        }
        work(self, points)
    }

    /// Returns ‖T φ − T c‖².
    #[inline(always)]
    fn variance(&self, phi: &[f64]) -> f64 {
        let mut sum = 0.0;
        for i in 0..self.offsets.len() {
            let v = self.whitened(i, phi);
            sum += v * v;
        }
        sum
    }

    /// Returns entry i of T φ − T c.
    #[inline(always)]
    fn whitened(&self, i: usize, phi: &[f64]) -> f64 {
        let row = self.root.row(i);
        lanes::dot(row, &phi[..row.len()]) - self.offsets[i]
    }

    /// Returns the mean and the variance of f at x (d), and writes their gradients. Cost: O(k M + M
    /// d).
    ///
    /// # Panics
    /// If `x` or a gradient does not have length d.
    pub fn predict(
        &self,
        x: &[f64],
        mean_gradient: &mut [f64],
        variance_gradient: &mut [f64],
    ) -> (f64, f64) {
        lanes::vectorized! {
            fn work(
                moments: &WeightMoments,
                x: &[f64],
                mean_gradient: &mut [f64],
                variance_gradient: &mut [f64],
            ) -> (f64, f64) {
                let map = &moments.map;
                let mut buffer = vec![0.0; 3 * map.stride()];
                let (phi, rest) = buffer.split_at_mut(map.stride());
                let (sines, weights) = rest.split_at_mut(map.stride());
                map.features_into(x, phi);
                // C (φ − c) = Tᵀ (T φ − T c), row by row of T.
                let mut variance = 0.0;
                for i in 0..moments.offsets.len() {
                    let (v, row) = (moments.whitened(i, phi), moments.root.row(i));
                    variance += v * v;
                    lanes::add_scaled(&mut weights[..row.len()], v, row);
                }
                mean_gradient.fill(0.0);
                let mean = map.weighted_sum_gradient(x, &moments.mean, phi, sines, mean_gradient);
                // ∇‖T φ − T c‖² = 2 ∇(φ·w), where w = C (φ − c) is held fixed.
                variance_gradient.fill(0.0);
                map.weighted_sum_gradient(x, weights, phi, sines, variance_gradient);
                for slope in variance_gradient {
                    *slope *= 2.0;
                }
                (mean - moments.mean_offset, variance)
            }
        }
        let dim = self.map.dim();
        assert_eq!((x.len(), mean_gradient.len(), variance_gradient.len()), (dim, dim, dim));
        work(self, x, mean_gradient, variance_gradient)
    }

    /// Returns the joint distribution of f at m points: the mean (m) and the lower triangle of the
    /// covariance. Cost: O(k M m + k m²).
    pub fn joint(&self, points: &Points) -> (Vec<f64>, PackedLower) {
        let features = self.map.feature_rows(points);
        let (mut means, mut whitened) = (Vec::new(), Vec::new());
        for phi in features.chunks_exact(self.map.stride()) {
            means.push(lanes::wide_dot(phi, &self.mean) - self.mean_offset);
            whitened.push(self.whiten(phi));
        }
        let mut covariance = PackedLower::zeros(points.len());
        for i in 0..points.len() {
            for (j, entry) in covariance.row_mut(i).iter_mut().enumerate() {
                *entry = lanes::wide_dot(&whitened[i], &whitened[j]);
            }
        }
        (means, covariance)
    }
    /// Returns T φ − T c (k).
    fn whiten(&self, phi: &[f64]) -> Vec<f64> {
        lanes::vectorized! {
            fn work(moments: &WeightMoments, phi: &[f64]) -> Vec<f64> {
                (0..moments.offsets.len()).map(|i| moments.whitened(i, phi)).collect()
            }
        }
        work(self, phi)
    }
}
