//! Bayesian linear regression on random features: the posterior from which messages are drawn.

use fedbo_optim::{Function, Points};
use fedbo_streams::Stream;

use crate::linalg::{PackedLower, SpdFactor, gram_of_columns, gram_of_rows};
use crate::{FeatureMap, GpError, lanes};

/// The form in which a [`WeightPosterior`] is stored. The two forms are equivalent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Factor of Σ = ΦᵀΦ + σ²I (M×M), for t ≥ M.
    Primal,
    /// Factor of ΦΦᵀ + σ²I (t×t), for t < M.
    Dual,
}

/// The posterior over the weights ω of f(x) = φ(x)·ω under the prior N(0, I) (FTS eqs. (2) and
/// (3)).
///
/// ω | y ~ N(ν, σ² Σ⁻¹), Σ = ΦᵀΦ + σ² I, ν = Σ⁻¹ Φᵀ y Shapes: Φ t×M, y t, ν M. Cost: O(t M min(t,
/// M) + min(t, M)³).
///
/// Deviations: a failed factorization is an error, whereas the authors' DP-FTS-DE code draws a
/// uniform random vector in this case. Draws use triangular solves of a Cholesky factor, whereas
/// the authors form Σ⁻¹.
#[derive(Clone, Debug)]
pub struct WeightPosterior<'a> {
    map: &'a FeatureMap,
    noise_variance: f64,
    /// Φ row-major, with padded rows.
    feature_rows: Vec<f64>,
    y: Vec<f64>,
    form: Form,
    factor: SpdFactor,
    mean: Vec<f64>,
}

impl<'a> WeightPosterior<'a> {
    /// Conditions on inputs (t×d) and outputs (t) in the smaller form.
    ///
    /// # Errors
    /// If σ² is not positive, an observation is not finite, or the factorization fails.
    pub fn new(
        map: &'a FeatureMap,
        noise_variance: f64,
        inputs: &Points,
        y: &[f64],
    ) -> Result<Self, GpError> {
        let form = if y.len() < map.n_features() { Form::Dual } else { Form::Primal };
        Self::in_form(form, map, noise_variance, inputs, y)
    }

    /// Conditions in the given form. Both forms give the same distribution.
    ///
    /// # Errors
    /// Same as [`WeightPosterior::new`].
    pub fn in_form(
        form: Form,
        map: &'a FeatureMap,
        noise_variance: f64,
        inputs: &Points,
        y: &[f64],
    ) -> Result<Self, GpError> {
        assert_eq!(inputs.len(), y.len(), "{} inputs and {} outputs", inputs.len(), y.len());
        crate::positive("noise variance", noise_variance)?;
        for (index, (x, y)) in inputs.rows().zip(y).enumerate() {
            if !(y.is_finite() && x.iter().all(|v| v.is_finite())) {
                return Err(GpError::NotFinite { index });
            }
        }
        let feature_rows = map.feature_rows(inputs);
        let (stride, m) = (map.stride(), map.n_features());
        let mut gram = match form {
            Form::Primal => gram_of_columns(&feature_rows, stride, m),
            Form::Dual => gram_of_rows(&feature_rows, stride, m),
        };
        for i in 0..gram.size() {
            gram.row_mut(i)[i] += noise_variance;
        }
        let factor = SpdFactor::new(&gram)?;
        let mut posterior = Self {
            map,
            noise_variance,
            feature_rows,
            y: y.to_vec(),
            form,
            factor,
            mean: Vec::new(),
        };
        posterior.mean = match form {
            Form::Primal => {
                let mut nu = posterior.transpose_times(&posterior.y);
                posterior.factor.solve(&mut nu[..m]);
                nu
            }
            Form::Dual => {
                let mut coefficients = posterior.y.clone();
                posterior.factor.solve(&mut coefficients);
                posterior.transpose_times(&coefficients)
            }
        };
        posterior.mean.truncate(m);
        Ok(posterior)
    }

    /// Returns ν (M).
    pub fn mean(&self) -> &[f64] {
        &self.mean
    }

    /// Returns the covariance σ² Σ⁻¹ of the weights, M×M row-major and symmetric. Up to the shared
    /// factor σ², RGPE and TAF send this matrix along with ν (FTS section 3.2). In the dual form it
    /// is computed as I − Vᵀ V with V = L⁻¹ Φ. Cost: O(M³), or O(t² M + t M²).
    pub fn covariance(&self) -> Vec<f64> {
        let m = self.map.n_features();
        let lower = match self.form {
            Form::Primal => self.factor.inverse(),
            Form::Dual => {
                let (t, stride) = (self.y.len(), self.map.stride());
                let mut columns: Vec<Vec<f64>> = (0..m)
                    .map(|j| (0..t).map(|i| self.feature_rows[i * stride + j]).collect())
                    .collect();
                self.factor.solve_lower_columns(&mut columns);
                let mut lower = PackedLower::zeros(m);
                for i in 0..m {
                    for (j, entry) in lower.row_mut(i).iter_mut().enumerate() {
                        let prior = if i == j { 1.0 } else { 0.0 };
                        *entry = prior - lanes::wide_dot(&columns[i], &columns[j]);
                    }
                }
                lower
            }
        };
        let scale = match self.form {
            Form::Primal => self.noise_variance,
            Form::Dual => 1.0,
        };
        let mut covariance = vec![0.0; m * m];
        for i in 0..m {
            for (j, entry) in lower.row(i).iter().enumerate() {
                covariance[i * m + j] = scale * entry;
                covariance[j * m + i] = scale * entry;
            }
        }
        covariance
    }

    /// Returns the form in use.
    pub fn form(&self) -> Form {
        self.form
    }

    /// Returns the factor of the matrix in the current form, with its jitter.
    pub fn factor(&self) -> &SpdFactor {
        &self.factor
    }

    /// Returns Φᵀ c, including padding.
    fn transpose_times(&self, coefficients: &[f64]) -> Vec<f64> {
        lanes::vectorized! {
            fn work(sum: &mut [f64], coefficients: &[f64], rows: &[f64]) {
                for (c, row) in coefficients.iter().zip(rows.chunks_exact(sum.len())) {
                    lanes::add_scaled(sum, *c, row);
                }
            }
        }
        let mut sum = vec![0.0; self.map.stride()];
        work(&mut sum[..], coefficients, &self.feature_rows);
        sum
    }

    /// Draws M weights ω ~ N(ν, β² σ² Σ⁻¹). β = 1 is the posterior itself.
    ///
    /// Primal: ω = ν + βσ L⁻ᵀ z with Σ = L Lᵀ, cost O(M²). Dual, by Matheron's rule: ω = ν + β(ω₀ −
    /// Φᵀ(ΦΦᵀ + σ²I)⁻¹(Φω₀ + σε)) with ω₀ ~ N(0, I) and ε ~ N(0, I), cost O(t M).
    pub fn sample(&self, beta: f64, stream: &mut Stream) -> Vec<f64> {
        let m = self.map.n_features();
        let noise_std = self.noise_variance.sqrt();
        let deviation = match self.form {
            Form::Primal => {
                let mut z = stream.normals(m);
                self.factor.solve_upper(&mut z);
                z.iter_mut().for_each(|v| *v *= noise_std);
                z
            }
            Form::Dual => {
                let mut prior = stream.normals(m);
                prior.resize(self.map.stride(), 0.0);
                let rows = self.feature_rows.chunks_exact(self.map.stride());
                let mut residual: Vec<f64> = rows
                    .map(|row| lanes::wide_dot(row, &prior) + noise_std * stream.normal())
                    .collect();
                self.factor.solve(&mut residual);
                let correction = self.transpose_times(&residual);
                prior.iter().zip(&correction).map(|(w, c)| w - c).take(m).collect()
            }
        };
        self.mean.iter().zip(&deviation).map(|(mean, d)| mean + beta * d).collect()
    }
}

/// The function φ(x)·ω for a weight vector ω, such as the content of a message.
#[derive(Clone, Debug)]
pub struct WeightSpaceSample<'a> {
    map: &'a FeatureMap,
    weights: Vec<f64>,
}

impl<'a> WeightSpaceSample<'a> {
    /// Creates the function with weights ω (M numbers).
    ///
    /// # Errors
    /// If the number of weights is not M, or a weight is not finite.
    pub fn new(map: &'a FeatureMap, weights: &[f64]) -> Result<Self, GpError> {
        if weights.len() != map.n_features() {
            return Err(GpError::Length {
                what: "weight sample",
                found: weights.len(),
                expected: map.n_features(),
            });
        }
        if let Some(index) = weights.iter().position(|w| !w.is_finite()) {
            return Err(GpError::NotFinite { index });
        }
        let mut weights = weights.to_vec();
        weights.resize(map.stride(), 0.0);
        Ok(Self { map, weights })
    }
}

impl Function for WeightSpaceSample<'_> {
    fn dim(&self) -> usize {
        self.map.dim()
    }

    fn values(&self, points: &Points) -> Vec<f64> {
        self.map.weighted_sums(points, &self.weights)
    }

    fn value_gradient(&self, point: &[f64], gradient: &mut [f64]) -> f64 {
        lanes::vectorized! {
            fn work(map: &FeatureMap, x: &[f64], weights: &[f64], gradient: &mut [f64]) -> f64 {
                let mut buffer = vec![0.0; 2 * map.stride()];
                let (cosines, sines) = buffer.split_at_mut(map.stride());
                map.weighted_sum_gradient(x, weights, cosines, sines, gradient)
            }
        }
        gradient.fill(0.0);
        work(self.map, point, &self.weights[..], gradient)
    }
}
