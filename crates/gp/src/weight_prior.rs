//! A prior over functions, given by the mean and covariance of coefficients, which is learned from
//! several parties by empirical Bayes.

use std::fmt;

use fedbo_optim::Points;

use crate::linalg::{PackedLower, SpdFactor};
use crate::{FunctionBasis, GpError, Kernel, lanes};

/// The part of an output that the shared functions do not explain.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Remainder {
    /// ρ > 0: variance of the party's own function, in addition to the shared ones.
    pub own_variance: f64,
    /// τ² ≥ 0: variance of the level, which is the same at all points.
    pub level_variance: f64,
    /// σ² > 0: variance of the noise.
    pub noise_variance: f64,
}

impl Remainder {
    /// Returns the lower triangle of D = ρ k(X, X) + τ² 1 1ᵀ + σ² I.
    fn covariance(&self, kernel: &Kernel, inputs: &Points) -> PackedLower {
        let mut covariance = kernel.gram(inputs);
        let scale = self.own_variance / kernel.outputscale();
        for i in 0..inputs.len() {
            for entry in covariance.row_mut(i) {
                *entry = scale * *entry + self.level_variance;
            }
            covariance.row_mut(i)[i] += self.noise_variance;
        }
        covariance
    }

    /// Returns D + Ψ Λ Ψᵀ for whitened rows T ψ(x_i), where Λ = TᵀT.
    pub(crate) fn covariance_with(
        &self,
        kernel: &Kernel,
        inputs: &Points,
        whitened: &[Vec<f64>],
    ) -> PackedLower {
        let mut covariance = self.covariance(kernel, inputs);
        for i in 0..inputs.len() {
            for (j, entry) in covariance.row_mut(i).iter_mut().enumerate() {
                *entry += lanes::wide_dot(&whitened[i], &whitened[j]);
            }
        }
        covariance
    }
}

/// The information in observations about the coefficients w in y = ψ(X) w + r(X) + level + noise,
/// where the remainder has covariance D.
///
/// A = Ψᵀ D⁻¹ Ψ,   b = Ψᵀ D⁻¹ y,   so that ln p(y | w) = b·w − ½ wᵀA w + constant
/// Shapes: A r×r, b r.
#[derive(Clone, PartialEq)]
pub struct WeightStatistics {
    precision: PackedLower,
    information: Vec<f64>,
}

impl fmt::Debug for WeightStatistics {
    /// Prints only lengths, so that no information about an objective reaches a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WeightStatistics {{ {} coefficients }}", self.rank())
    }
}

impl WeightStatistics {
    /// Computes the statistics of outputs y (n) at inputs X (n×d) in the party's own units, in
    /// which outputs are divided by a scale s. s is the most likely scale under the prior w ~ N(0,
    /// I), or the scale of the coefficients if that is larger.
    ///
    /// s² = max(yᵀ (Ψ Ψᵀ + D)⁻¹ y / n, ‖w̄‖²/(r − tr P)),   P = (I + A)⁻¹,   w̄ = P Ψᵀ D⁻¹ y
    ///
    /// The first term falls as 1/n for smooth outputs, because their residuals are far below the
    /// agreed noise. The second term keeps the mean square of the coefficients at most 1 for every
    /// n. Also returns the level and scale of the outputs, where
    ///
    /// level = τ² 1ᵀ (Ψ Ψᵀ + D)⁻¹ y
    ///
    /// is the mean of the level under the same prior. The units are `None` if the scale would be 0.
    ///
    /// `kernel` determines the shape of k. Cost: O(n³ + n² r + n r²).
    ///
    /// # Errors
    /// If D has no Cholesky factor.
    ///
    /// # Panics
    /// If lengths do not match.
    pub fn of_observations(
        basis: &FunctionBasis,
        kernel: &Kernel,
        remainder: &Remainder,
        inputs: &Points,
        y: &[f64],
    ) -> Result<(Self, Option<Units>), GpError> {
        assert_eq!(inputs.len(), y.len(), "{} inputs and {} outputs", inputs.len(), y.len());
        let (n, rank) = (y.len(), basis.rank());
        if n == 0 {
            return Ok((Self::none(rank), None));
        }
        let rows = basis.rows(inputs);
        let (mut whitened, mut ones) = (y.to_vec(), vec![1.0; n]);
        let factor = SpdFactor::new(&remainder.covariance_with(kernel, inputs, &rows))?;
        factor.solve_lower(&mut whitened);
        factor.solve_lower(&mut ones);
        let level = remainder.level_variance * lanes::wide_dot(&ones, &whitened);
        #[expect(
            clippy::cast_precision_loss,
            reason = "numbers of observations are far below 2^53"
        )]
        let of_outputs = lanes::wide_dot(&whitened, &whitened) / n as f64;
        let factor = SpdFactor::new(&remainder.covariance(kernel, inputs))?;
        let mut columns: Vec<Vec<f64>> =
            (0..rank).map(|j| rows.iter().map(|row| row[j]).collect()).collect();
        columns.push(y.to_vec());
        factor.solve_lower_columns(&mut columns);
        let y = columns.pop().unwrap_or_default();
        let mut precision = PackedLower::zeros(rank);
        for i in 0..rank {
            for (j, entry) in precision.row_mut(i).iter_mut().enumerate() {
                *entry = lanes::wide_dot(&columns[i], &columns[j]);
            }
        }
        let information = columns.iter().map(|column| lanes::wide_dot(column, &y)).collect();
        let raw = Self { precision, information };
        let (mean, covariance) = WeightPrior::standard(rank).given(&raw)?;
        let known: f64 = (0..rank).map(|i| 1.0 - covariance.row(i)[i]).sum();
        let of_mean = if known > 0.0 { lanes::wide_dot(&mean, &mean) / known } else { 0.0 };
        let size = of_outputs.max(of_mean).sqrt();
        // Outputs that are all 0 have no scale, and indicate that w is near 0.
        let unit = if size > 0.0 { 1.0 / size } else { 0.0 };
        let statistics =
            Self { information: raw.information.iter().map(|v| v * unit).collect(), ..raw };
        Ok((statistics, (size > 0.0).then_some(Units { level, size })))
    }

    /// Rejects statistics that cannot come from observations. This is the case if A is not a
    /// covariance, A is too large for `n_most` observations with noise σ² = `least_noise`, the mean
    /// square of the coefficients exceeds 10 (for honest parties it is at most 1), or b contains
    /// information that A does not.
    ///
    /// tr A ≤ n/σ², because ‖ψ(x)‖² ≤ 1
    ///
    /// w̄ᵀ A⁻¹ b = yᵀ D⁻¹ Ψ (I + A)⁻¹ A⁻¹ Ψᵀ D⁻¹ y ≤ yᵀ (Ψ Ψᵀ + D)⁻¹ y ≤ n
    ///
    /// By the second inequality, b lies in the range of A. Otherwise the evidence has no maximum.
    ///
    /// # Errors
    /// If the statistics fail a check.
    pub fn check(&self, n_most: usize, least_noise: f64) -> Result<(), Implausible> {
        /// Rounding error of an eigenvalue, as a fraction of the largest entry.
        const ROUNDING: f64 = 1e-11;
        const MEAN_SQUARE_MAX: f64 = 10.0;
        let rank = self.rank();
        let diagonal = (0..rank).map(|i| self.precision.row(i)[i]);
        let (mut trace, mut largest) = (0.0, 1.0);
        for entry in diagonal {
            trace += entry;
            largest = f64::max(largest, entry);
        }
        #[expect(
            clippy::cast_precision_loss,
            reason = "numbers of observations are far below 2^53"
        )]
        let n_most = n_most as f64;
        if trace.is_nan() || trace > n_most / least_noise {
            return Err(Implausible::TooMuch);
        }
        let mut lifted = self.precision.clone();
        for i in 0..rank {
            lifted.row_mut(i)[i] += ROUNDING * largest;
        }
        let factor = SpdFactor::new(&lifted).ok().filter(|factor| factor.jitter() <= 0.0);
        let factor = factor.ok_or(Implausible::NoCovariance)?;
        let mean = self.mean().map_err(|_| Implausible::NoCovariance)?;
        let mut exact = self.information.clone();
        factor.solve(&mut exact);
        let known = lanes::wide_dot(&exact, &mean);
        if known.is_nan() || known > n_most {
            return Err(Implausible::TooLarge);
        }
        #[expect(clippy::cast_precision_loss, reason = "ranks are far below 2^53")]
        let mean_square = lanes::wide_dot(&mean, &mean) / rank.max(1) as f64;
        if mean_square <= MEAN_SQUARE_MAX { Ok(()) } else { Err(Implausible::TooLarge) }
    }

    /// Returns the statistics of an empty set of observations.
    pub fn none(rank: usize) -> Self {
        Self { precision: PackedLower::zeros(rank), information: vec![0.0; rank] }
    }

    /// Returns the number of coefficients r.
    pub fn rank(&self) -> usize {
        self.information.len()
    }

    /// Returns the numbers for a message: b (r), followed by the lower triangle of A by rows
    /// (r(r+1)/2).
    pub fn numbers(&self) -> Vec<f64> {
        let rows = (0..self.rank()).flat_map(|i| self.precision.row(i));
        self.information.iter().chain(rows).copied().collect()
    }

    /// Returns the length of [`WeightStatistics::numbers`].
    pub fn n_numbers(rank: usize) -> usize {
        rank + rank * (rank + 1) / 2
    }

    /// Parses the numbers of a message. A party can send arbitrary numbers, so use
    /// [`WeightStatistics::check`].
    ///
    /// # Errors
    /// If the length is not [`WeightStatistics::n_numbers`], or a number is not finite.
    pub fn from_numbers(rank: usize, numbers: &[f64]) -> Result<Self, GpError> {
        let expected = Self::n_numbers(rank);
        if numbers.len() != expected {
            return Err(GpError::Length {
                what: "statistics of coefficients",
                found: numbers.len(),
                expected,
            });
        }
        if let Some(index) = numbers.iter().position(|v| !v.is_finite()) {
            return Err(GpError::NotFinite { index });
        }
        let (information, mut rest) = numbers.split_at(rank);
        let mut precision = PackedLower::zeros(rank);
        for i in 0..rank {
            let row;
            (row, rest) = rest.split_at(i + 1);
            precision.row_mut(i).copy_from_slice(row);
        }
        Ok(Self { precision, information: information.to_vec() })
    }

    /// Returns the mean of w given these statistics under the prior N(0, I): the content of a
    /// message with r numbers.
    ///
    /// # Errors
    /// If I + A is not positive definite.
    pub fn mean(&self) -> Result<Vec<f64>, GpError> {
        let standard = WeightPrior::standard(self.rank());
        Ok(standard.given(self)?.0)
    }
}

/// The level and scale of a party's outputs: y = level + s (ψ(x)·w + r(x) + noise).
#[derive(Clone, Copy, PartialEq)]
pub struct Units {
    /// The output if all other terms are 0.
    pub level: f64,
    /// s > 0.
    pub size: f64,
}

/// A reason for rejecting statistics that cannot come from observations. Contains none of their
/// numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Implausible {
    /// The matrix A has a negative eigenvalue.
    #[error("no observations have these statistics: their matrix is not positive semidefinite")]
    NoCovariance,
    /// The matrix A is too large for the maximum number of observations.
    #[error("the statistics contain more information than any party can have observed")]
    TooMuch,
    /// The coefficients are too large for outputs in the party's own units.
    #[error("the coefficients are too large for outputs in the party's own units")]
    TooLarge,
}

/// The prior w ~ N(m, Λ): the part that the functions in a federation have in common.
#[derive(Clone, PartialEq)]
pub struct WeightPrior {
    /// m (r).
    mean: Vec<f64>,
    /// Λ as a lower triangle.
    covariance: PackedLower,
}

impl fmt::Debug for WeightPrior {
    /// Prints only lengths.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WeightPrior {{ {} coefficients }}", self.mean.len())
    }
}

/// The prior beliefs about m and Λ before any message.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WeightPriorSettings {
    /// ν₀ > 0: weight of the belief Λ = I, as an equivalent number of parties.
    pub covariance_weight: f64,
    /// κ₀ ≥ 0: weight of the belief m = 0, as an equivalent number of parties.
    pub mean_weight: f64,
    /// Maximum number of steps of expectation-maximization.
    pub n_steps: u32,
    /// Minimum gain of a step in the objective. The iteration ends after a step with a smaller
    /// gain.
    pub least_gain: f64,
}

impl Default for WeightPriorSettings {
    fn default() -> Self {
        Self { covariance_weight: 10.0, mean_weight: 1.0, n_steps: 15, least_gain: 0.01 }
    }
}

impl WeightPrior {
    /// Returns w ~ N(0, I), the prior without any message.
    pub fn standard(rank: usize) -> Self {
        let mut covariance = PackedLower::zeros(rank);
        for i in 0..rank {
            covariance.row_mut(i)[i] = 1.0;
        }
        Self { mean: vec![0.0; rank], covariance }
    }

    /// Creates w ~ N(m, λ I).
    ///
    /// # Errors
    /// If λ is not positive.
    pub fn with_mean(mean: Vec<f64>, variance: f64) -> Result<Self, GpError> {
        let variance = crate::positive("variance of coefficients", variance)?;
        let mut prior = Self::standard(mean.len());
        for i in 0..mean.len() {
            prior.covariance.row_mut(i)[i] = variance;
        }
        Ok(Self { mean, ..prior })
    }

    /// Returns m.
    pub fn mean(&self) -> &[f64] {
        &self.mean
    }

    /// Returns Λ as a lower triangle.
    pub fn covariance(&self) -> &PackedLower {
        &self.covariance
    }

    /// Fits (m, Λ) to the messages of N parties by expectation-maximization, starting from (0, I).
    ///
    /// P_n = (Λ⁻¹ + A_n)⁻¹,   μ_n = P_n (Λ⁻¹ m + b_n)
    ///
    /// m ← Σ μ_n/(N + κ₀),   Λ ← (ν₀ I + κ₀ m mᵀ + Σ [(μ_n − m)(μ_n − m)ᵀ + P_n])/(ν₀ + N)
    ///
    /// No step decreases the penalized evidence Σ ln p(y_n | m, Λ) − ½ ν₀ (ln |Λ| + tr Λ⁻¹) − ½ κ₀
    /// mᵀΛ⁻¹m. Cost: O(N r³) per step.
    ///
    /// # Errors
    /// If Λ has no Cholesky factor, or if statistics yield no posterior under (m, Λ). The
    /// statistics of real observations always yield one.
    pub fn fit(
        parties: &[&WeightStatistics],
        rank: usize,
        settings: &WeightPriorSettings,
    ) -> Result<Self, GpError> {
        let mut prior = Self::standard(rank);
        let mut reached = f64::NEG_INFINITY;
        for _ in 0..settings.n_steps {
            let (next, objective) = prior.step(parties, settings)?;
            if objective - reached < settings.least_gain {
                break;
            }
            (prior, reached) = (next, objective);
        }
        Ok(prior)
    }

    /// Returns the prior after one step, and the objective before the step.
    fn step(
        &self,
        parties: &[&WeightStatistics],
        settings: &WeightPriorSettings,
    ) -> Result<(Self, f64), GpError> {
        let rank = self.mean.len();
        let precision = Precision::of(self)?;
        let mut total = Self { mean: vec![0.0; rank], covariance: PackedLower::zeros(rank) };
        let (mut means, mut evidence) = (Vec::with_capacity(parties.len()), 0.0);
        for party in parties {
            let posterior = precision.given(party)?;
            evidence += posterior.evidence;
            for i in 0..rank {
                total.mean[i] += posterior.mean[i];
                add(total.covariance.row_mut(i), 1.0, posterior.covariance.row(i));
            }
            means.push(posterior.mean);
        }
        let penalty = settings.covariance_weight * (precision.log_determinant + precision.trace())
            + settings.mean_weight * precision.mean_square;
        #[expect(clippy::cast_precision_loss, reason = "numbers of parties are far below 2^53")]
        let n = means.len() as f64;
        for value in &mut total.mean {
            *value /= n + settings.mean_weight;
        }
        let scale = 1.0 / (n + settings.covariance_weight);
        for i in 0..rank {
            let row = total.covariance.row_mut(i);
            row[i] += settings.covariance_weight;
            add(row, settings.mean_weight * total.mean[i], &total.mean[..=i]);
            for mean in &means {
                let off = mean[i] - total.mean[i];
                for (j, entry) in row.iter_mut().enumerate() {
                    *entry += off * (mean[j] - total.mean[j]);
                }
            }
            row.iter_mut().for_each(|entry| *entry *= scale);
        }
        Ok((total, evidence - 0.5 * penalty))
    }

    /// Returns the mean and covariance of w given a party's observations.
    ///
    /// # Errors
    /// If Λ or Λ⁻¹ + A has no Cholesky factor.
    pub fn given(&self, party: &WeightStatistics) -> Result<(Vec<f64>, PackedLower), GpError> {
        let posterior = Precision::of(self)?.given(party)?;
        Ok((posterior.mean, posterior.covariance))
    }

    /// Returns ln p(y | m, Λ) − ln p(y | w = 0) for a party's observations, which is the evidence
    /// up to a constant that does not depend on the prior.
    ///
    /// # Errors
    /// Same as [`WeightPrior::given`].
    pub fn evidence(&self, party: &WeightStatistics) -> Result<f64, GpError> {
        Ok(Precision::of(self)?.given(party)?.evidence)
    }
}

/// Λ⁻¹ and related quantities of a prior.
struct Precision {
    inverse: PackedLower,
    /// Λ⁻¹ m.
    weighted_mean: Vec<f64>,
    /// mᵀ Λ⁻¹ m.
    mean_square: f64,
    /// ln |Λ|.
    log_determinant: f64,
}

/// The distribution of w given a party's observations.
struct Given {
    mean: Vec<f64>,
    covariance: PackedLower,
    evidence: f64,
}

impl Precision {
    fn of(prior: &WeightPrior) -> Result<Self, GpError> {
        let factor = SpdFactor::new(&prior.covariance)?;
        let mut weighted_mean = prior.mean.clone();
        factor.solve(&mut weighted_mean);
        Ok(Self {
            inverse: factor.inverse(),
            mean_square: lanes::wide_dot(&weighted_mean, &prior.mean),
            weighted_mean,
            log_determinant: factor.log_determinant(),
        })
    }

    fn trace(&self) -> f64 {
        (0..self.inverse.size()).map(|i| self.inverse.row(i)[i]).sum()
    }

    /// Returns the distribution of w given a party's observations, and ln p(y) = −½ ln |Λ| − ½ ln
    /// |Λ⁻¹ + A| + ½ hᵀP h − ½ mᵀΛ⁻¹m with h = Λ⁻¹m + b, relative to w = 0.
    fn given(&self, party: &WeightStatistics) -> Result<Given, GpError> {
        let rank = self.weighted_mean.len();
        let mut sum = self.inverse.clone();
        for i in 0..rank {
            add(sum.row_mut(i), 1.0, party.precision.row(i));
        }
        let factor = SpdFactor::new(&sum)?;
        let pull: Vec<f64> =
            self.weighted_mean.iter().zip(&party.information).map(|(a, b)| a + b).collect();
        let mut mean = pull.clone();
        factor.solve(&mut mean);
        let fit = lanes::wide_dot(&pull, &mean) - self.mean_square;
        let evidence = 0.5 * (fit - self.log_determinant - factor.log_determinant());
        if !evidence.is_finite() {
            return Err(GpError::NotFinite { index: 0 });
        }
        Ok(Given { mean, covariance: factor.inverse(), evidence })
    }
}

fn add(to: &mut [f64], factor: f64, what: &[f64]) {
    for (to, what) in to.iter_mut().zip(what) {
        *to += factor * what;
    }
}
