//! All observations of all parties under one Gaussian process.

use fedbo_gp::linalg::{PackedLower, SpdFactor};
use fedbo_gp::{GpError, Kernel, Posterior, Predictor};
use fedbo_optim::{Function, Points, sobol};
use fedbo_strategies::{SharedPriorSettings, log_expected_improvement};

/// Number of points that represent the common function, in the final model and while
/// hyperparameters are fitted.
const N_COMMON: usize = 200;
const N_COMMON_IN_FIT: usize = 100;
/// Number of other parties used in the fit of hyperparameters, with 400 outputs in total.
const N_FITTED: usize = 8;
/// Candidate values of hyperparameters, selected by the largest evidence: ρ, σ², and factors of the
/// given length scales and signal variance.
const GRID: [&[f64]; 4] = [
    &[0.0, 0.2, 0.4, 0.6, 0.8, 0.9, 0.95, 0.99],
    &[1e-6, 1e-3, 1e-2, 0.03, 0.1, 0.2],
    &[0.5, 0.7, 1.0, 1.4, 2.0, 2.8],
    &[0.5, 1.0, 2.0, 4.0],
];
/// Initial values, and number of coordinatewise maximization passes over the four hyperparameters.
const START: [f64; 4] = [0.8, 1e-2, 1.0, 1.0];
const N_PASSES: usize = 2;
/// Relative rounding error of the latent function's variance, as a share of the signal variance.
const LEAST_VARIANCE: f64 = 1e-14;

/// Statistics of the others' observations, for a party without observations of its own.
///
/// The model is the intrinsic model of coregionalization (Bonilla et al. 2007) with one
/// correlation. Party n's function is f_n = √ρ g + √(1 − ρ) h_n, with g and all h_n ~ GP(0, k), so
/// that
///
/// cov(f_n(x), f_m(x')) = k(x, x') (ρ + (1 − ρ)·[n = m])
///
/// Outputs are in each party's own units. The length scales and signal variance of k are taken from
/// the parties' own fits, up to one factor each. Both factors, ρ and the noise σ² maximize the
/// evidence on a grid, one after another: a rough function without noise for a single party is a
/// smooth common function with noise for all parties together.
///
/// The exact posterior would cost O((N n)²) per point. Here parties learn about each other through
/// g at m points Z of a Sobol sequence. This is the partially independent conditional (Snelson &
/// Ghahramani 2007) with the parties as blocks. With q(x) = √ρ L⁻¹ k(Z, x), L Lᵀ = k(Z, Z),
///
/// f_n(x) = q(x)·w + r_n(x),   w ~ N(0, I) for all,   r_n ~ GP(0, k(x, x') − q(x)·q(x')) for each
///
/// This is the exact model within each party, and between parties if Z determines g. The others
/// give w ~ N(μ, (I + A)⁻¹), (I + A) μ = b, with A = Σ Q_nᵀ D_n⁻¹ Q_n, b = Σ Q_nᵀ D_n⁻¹ y_n,
/// D_n = k(X_n, X_n) − Q_n Q_nᵀ + σ² I. Cost: O(N n m² + m³) per value of ρ.
pub(super) struct Pooled {
    /// Computes L⁻¹ k(Z, x) and its gradient. The predictor's outputs are 0.
    common: Predictor<'static>,
    noise_variance: f64,
    others: Coefficients,
}

/// The coefficients w given the others, for one ρ.
struct Coefficients {
    /// ρ.
    share: f64,
    /// μ.
    mean: Vec<f64>,
    /// I + A.
    precision: SpdFactor,
    /// ln p of the others' outputs.
    evidence: f64,
}

impl Pooled {
    /// Creates the statistics of the others' observations, with the average kernel of their own
    /// fits.
    ///
    /// # Errors
    /// If a covariance has no Cholesky factor.
    pub(super) fn new(kernel: &Kernel, others: &[&Posterior]) -> Result<Self, GpError> {
        let fitted = &others[..others.len().min(N_FITTED)];
        let evidence = |chosen: &[f64; 4]| {
            let common = common(&scaled(kernel, chosen)?, N_COMMON_IN_FIT)?;
            Ok::<_, GpError>(Coefficients::new(&common, chosen[1], chosen[0], fitted)?.evidence)
        };
        let mut chosen = START;
        let mut best = evidence(&chosen)?;
        for place in (0..N_PASSES).flat_map(|_| 0..GRID.len()) {
            for value in GRID[place] {
                let mut tried = chosen;
                tried[place] = *value;
                let found = evidence(&tried)?;
                if found > best {
                    (chosen, best) = (tried, found);
                }
            }
        }
        let [share, noise_variance, ..] = chosen;
        Self::given(&scaled(kernel, &chosen)?, noise_variance, share, others)
    }

    /// Creates the statistics with given hyperparameters.
    fn given(
        kernel: &Kernel,
        noise_variance: f64,
        share: f64,
        others: &[&Posterior],
    ) -> Result<Self, GpError> {
        let common = common(kernel, N_COMMON)?;
        let others = Coefficients::new(&common, noise_variance, share, others)?;
        Ok(Self { common: common.into_predictor(), noise_variance, others })
    }

    fn kernel(&self) -> &Kernel {
        self.common.posterior().kernel()
    }

    /// Returns q(x), from L⁻¹ k(Z, x), and (I + A)^(−½) q(x).
    fn both(&self, whitened: &[f64]) -> (Vec<f64>, Vec<f64>) {
        let q: Vec<f64> = whitened.iter().map(|v| self.others.share.sqrt() * v).collect();
        let mut t = q.clone();
        self.others.precision.solve_lower(&mut t);
        (q, t)
    }
}

/// Returns a posterior whose whitened covariances with x are L⁻¹ k(Z, x) for m points Z.
fn common(kernel: &Kernel, m: usize) -> Result<Posterior, GpError> {
    Posterior::new(kernel.clone(), 0.0, sobol(kernel.dim(), m, 0), vec![0.0; m])
}

/// Returns the kernel with the chosen factors.
fn scaled(kernel: &Kernel, [_, _, of_lengths, of_variance]: &[f64; 4]) -> Result<Kernel, GpError> {
    let lengthscales = kernel.lengthscales().iter().map(|length| length * of_lengths);
    Kernel::new(kernel.family(), lengthscales.collect(), kernel.outputscale() * of_variance)
}

impl Coefficients {
    /// Computes the coefficients from the others' outputs, with their evidence
    ///
    /// Σ ln N(y_n; 0, D_n) + ½ b·μ − ½ ln |I + A|
    fn new(
        common: &Posterior,
        noise_variance: f64,
        share: f64,
        others: &[&Posterior],
    ) -> Result<Self, GpError> {
        let m = common.len();
        let mut precision = PackedLower::zeros(m);
        (0..m).for_each(|i| precision.row_mut(i)[i] = 1.0);
        let (mut information, mut evidence) = (vec![0.0; m], 0.0);
        for other in others {
            let mut rows: Vec<Vec<f64>> = Vec::with_capacity(other.len());
            common.predict_each(other.inputs(), |_, _, whitened| {
                rows.push(whitened.iter().map(|v| share.sqrt() * v).collect());
            });
            let mut rest = common.kernel().gram(other.inputs());
            for (i, q) in rows.iter().enumerate() {
                let row = rest.row_mut(i);
                row.iter_mut().zip(&rows).for_each(|(entry, p)| *entry -= dot(q, p));
                row[i] += noise_variance;
            }
            let factor = SpdFactor::new(&rest)?;
            let mut y = other.outputs().to_vec();
            factor.solve_lower(&mut y);
            #[expect(clippy::cast_precision_loss, reason = "numbers of observations")]
            let constant = y.len() as f64 * (2.0 * std::f64::consts::PI).ln();
            evidence -= 0.5 * (dot(&y, &y) + factor.log_determinant() + constant);
            // Rows of D_n^(−½) Q_n.
            for i in 0..rows.len() {
                let (done, row) = rows.split_at_mut(i);
                let (row, lower) = (&mut row[0], factor.lower().row(i));
                for (weight, known) in lower.iter().zip(done) {
                    row.iter_mut().zip(known).for_each(|(entry, known)| *entry -= weight * *known);
                }
                row.iter_mut().for_each(|entry| *entry /= lower[i]);
            }
            for (row, y) in rows.iter().zip(&y) {
                information.iter_mut().zip(row).for_each(|(sum, q)| *sum += q * y);
                for (i, q) in row.iter().enumerate() {
                    let sums = precision.row_mut(i).iter_mut().zip(row);
                    sums.for_each(|(sum, p)| *sum += q * p);
                }
            }
        }
        let precision = SpdFactor::new(&precision)?;
        let mut mean = information.clone();
        precision.solve(&mut mean);
        evidence += 0.5 * (dot(&information, &mean) - precision.log_determinant());
        Ok(Self { share, mean, precision, evidence })
    }
}

/// ln Σ_s π_s EI_s(x) of the party's own function, given its own outputs as well. Before the
/// party's first output, the value is the mean given the others.
///
/// As in the shared prior, the party's outputs are y = s (level + f + e) with an unknown scale s
/// among those of [`SharedPriorSettings::default_for`], level ~ N(0, τ²), and π_s ∝ p(y | s). With
/// K = Q (I + A)⁻¹ Qᵀ + D + τ² 1 1ᵀ for its own inputs X, and c(x) the covariance of f(x) with
/// them,
///
/// mean_s(x) = s q(x)·μ + c(x)·K⁻¹(y − s Q μ),   var_s(x) = s² (c(x, x) − c(x)·K⁻¹ c(x))
pub(super) struct PooledImprovement<'a> {
    pooled: &'a Pooled,
    /// Computes k(X, x) and its gradient. The predictor's outputs are 0.
    own: Predictor<'static>,
    /// ((I + A)⁻¹ − I) q for each own input: c(x) = k(X, x) + (these rows)·q(x) + τ² 1.
    rows: Vec<Vec<f64>>,
    /// K.
    factor: SpdFactor,
    level_variance: f64,
    sizes: Vec<Size>,
    /// The party's own best output.
    best: Option<f64>,
}

/// One of the candidate scales of the outputs.
struct Size {
    size: f64,
    /// ln π_s.
    log_weight: f64,
    /// K⁻¹(y − s Q μ).
    alpha: Vec<f64>,
}

/// f(x) at one point.
struct At {
    mean: f64,
    q: Vec<f64>,
    t: Vec<f64>,
    /// c(x).
    cross: Vec<f64>,
    /// K⁻¹ c(x).
    solved: Vec<f64>,
    /// var_s(x)/s².
    variance: f64,
}

impl<'a> PooledImprovement<'a> {
    /// Creates the acquisition function from the party's own observations.
    ///
    /// # Errors
    /// If a covariance has no Cholesky factor.
    pub(super) fn new(
        pooled: &'a Pooled,
        inputs: &Points,
        outputs: &[f64],
    ) -> Result<Self, GpError> {
        let kernel = pooled.kernel();
        let settings = SharedPriorSettings::default_for(kernel.dim(), false);
        let level_variance = if outputs.is_empty() { 0.0 } else { settings.level_variance };
        let (mut values, mut rows, mut prior) = (Vec::new(), Vec::new(), Vec::new());
        for x in inputs.rows() {
            let found = pooled.common.predict(x);
            let (q, mut row) = pooled.both(found.whitened());
            pooled.others.precision.solve_upper(&mut row);
            row.iter_mut().zip(&q).for_each(|(entry, q)| *entry -= q);
            prior.push(dot(&q, &pooled.others.mean));
            rows.push(row);
            values.push(q);
        }
        let mut covariance = kernel.gram(inputs);
        for (i, q) in values.iter().enumerate() {
            let row = covariance.row_mut(i);
            for (entry, other) in row.iter_mut().zip(&rows) {
                *entry += dot(other, q) + level_variance;
            }
            row[i] += pooled.noise_variance;
        }
        let factor = SpdFactor::new(&covariance)?;
        #[expect(clippy::cast_precision_loss, reason = "numbers of observations")]
        let n = outputs.len() as f64;
        let mut sizes: Vec<Size> = Vec::with_capacity(settings.sizes.len());
        for size in settings.sizes {
            let rest = outputs.iter().zip(&prior).map(|(y, prior)| y - size * prior);
            let mut alpha: Vec<f64> = rest.collect();
            factor.solve_lower(&mut alpha);
            let log_weight = -0.5 * dot(&alpha, &alpha) / size.powi(2) - n * size.ln();
            factor.solve_upper(&mut alpha);
            sizes.push(Size { size, log_weight, alpha });
        }
        let total = log_sum(sizes.iter().map(|size| size.log_weight));
        sizes.iter_mut().for_each(|size| size.log_weight -= total);
        let own = Posterior::new(
            kernel.clone(),
            pooled.noise_variance,
            inputs.clone(),
            vec![0.0; inputs.len()],
        )?;
        let best = outputs.iter().copied().reduce(f64::max);
        let own = own.into_predictor();
        Ok(Self { pooled, own, rows, factor, level_variance, sizes, best })
    }

    fn at(&self, of_common: &[f64], of_own: &[f64]) -> At {
        let (q, t) = self.pooled.both(of_common);
        // k(X, x) from L_X⁻¹ k(X, x).
        let mut cross = self.own.posterior().factor().multiply_lower(of_own);
        for (entry, row) in cross.iter_mut().zip(&self.rows) {
            *entry += dot(row, &q) + self.level_variance;
        }
        let mut solved = cross.clone();
        self.factor.solve(&mut solved);
        let outputscale = self.pooled.kernel().outputscale();
        let variance = outputscale - dot(&q, &q) + dot(&t, &t) + self.level_variance;
        let variance = variance - dot(&cross, &solved);
        let mean = dot(&q, &self.pooled.others.mean);
        At { mean, q, t, cross, solved, variance }
    }

    /// Returns the value, its derivatives with respect to mean_s(x) for each s, and its derivative
    /// with respect to var_s(x)/s².
    fn score(&self, at: &At) -> (f64, Vec<f64>, f64) {
        let Some(best) = self.best else {
            return (at.mean, Vec::new(), 0.0);
        };
        let least = LEAST_VARIANCE * self.pooled.kernel().outputscale();
        let std = at.variance.max(least).sqrt();
        let terms = self.sizes.iter().map(|of| {
            let mean = of.size * at.mean + dot(&at.cross, &of.alpha);
            let score = log_expected_improvement(mean, of.size * std, best);
            (of.log_weight + score.value, of.size, score)
        });
        let terms: Vec<_> = terms.collect();
        let value = log_sum(terms.iter().map(|term| term.0));
        let shares = terms.iter().map(|(log, size, score)| ((log - value).exp(), size, score));
        let (mut of_means, mut of_std) = (Vec::with_capacity(terms.len()), 0.0);
        for (share, size, score) in shares {
            of_means.push(share * score.d_mean);
            of_std += share * size * score.d_std;
        }
        let of_variance = if at.variance > least { 0.5 * of_std / std } else { 0.0 };
        (value, of_means, of_variance)
    }
}

impl Function for PooledImprovement<'_> {
    fn dim(&self) -> usize {
        self.pooled.kernel().dim()
    }

    fn values(&self, points: &Points) -> Vec<f64> {
        let mut of_own: Vec<Vec<f64>> = Vec::with_capacity(points.len());
        self.own.posterior().predict_each(points, |_, _, whitened| of_own.push(whitened.to_vec()));
        let mut values = Vec::with_capacity(points.len());
        let mut of_own = of_own.iter();
        self.pooled.common.posterior().predict_each(points, |_, _, whitened| {
            let own = of_own.next().map_or(&[][..], Vec::as_slice);
            values.push(self.score(&self.at(whitened, own)).0);
        });
        values
    }

    /// Computes the gradient. With e = Σ_s ∂/∂mean_s α_s − 2 ∂/∂var K⁻¹ c, c = k(X, x) + R q + τ² 1
    /// and t = (I + A)^(−½) q, it is
    ///
    /// e·∇k(X, x) + (Σ_s s ∂/∂mean_s μ + 2 ∂/∂var ((I + A)^(−½)ᵀ t − q) + Rᵀe)·∇q
    fn value_gradient(&self, point: &[f64], gradient: &mut [f64]) -> f64 {
        let (common, own) = (self.pooled.common.predict(point), self.own.predict(point));
        let at = self.at(common.whitened(), own.whitened());
        let (value, of_means, of_variance) = self.score(&at);
        let of_mean = match self.best {
            None => 1.0,
            Some(_) => of_means.iter().zip(&self.sizes).map(|(d, of)| d * of.size).sum(),
        };
        let mut e: Vec<f64> = at.solved.iter().map(|v| -2.0 * of_variance * v).collect();
        for (weight, of) in of_means.iter().zip(&self.sizes) {
            e.iter_mut().zip(&of.alpha).for_each(|(e, alpha)| *e += weight * alpha);
        }
        let mut of_q: Vec<f64> = self.pooled.others.mean.iter().map(|mu| of_mean * mu).collect();
        let mut known = at.t;
        self.pooled.others.precision.solve_upper(&mut known);
        for ((sum, known), q) in of_q.iter_mut().zip(&known).zip(&at.q) {
            *sum += 2.0 * of_variance * (known - q);
        }
        for (e, row) in e.iter().zip(&self.rows) {
            of_q.iter_mut().zip(row).for_each(|(sum, entry)| *sum += e * entry);
        }
        let scale = self.pooled.others.share.sqrt();
        let of_common = of_q.iter().map(|q| scale * q).collect();
        common.gradient(0.0, of_common, gradient);
        // L_Xᵀ e, because the gradient is available for L_X⁻¹ k(X, x).
        let lower = self.own.posterior().factor().lower();
        let mut of_own = vec![0.0; e.len()];
        for (i, e) in e.iter().enumerate() {
            of_own.iter_mut().zip(lower.row(i)).for_each(|(sum, entry)| *sum += e * entry);
        }
        let mut part = vec![0.0; gradient.len()];
        own.gradient(0.0, of_own, &mut part);
        gradient.iter_mut().zip(part).for_each(|(sum, part)| *sum += part);
        value
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Returns ln Σ exp.
fn log_sum(terms: impl Iterator<Item = f64> + Clone) -> f64 {
    let top = terms.clone().fold(f64::NEG_INFINITY, f64::max);
    top + terms.map(|term| (term - top).exp()).sum::<f64>().ln()
}

#[cfg(test)]
mod tests;
