//! The accuracy with which a model ranks the target's observations, and the resulting weights.

use fedbo_gp::linalg::{PackedLower, SpdFactor};
use fedbo_gp::{GpError, Posterior};
use fedbo_optim::Points;
use fedbo_streams::Stream;

use super::TaskModel;

/// The target's observations in ascending order of their outputs, for comparison with the order of
/// a model's values.
///
/// Values f *misrank* a pair (j, k) of observations if [f_j < f_k] ≠ [y_j < y_k] (Feurer et al.
/// 2018). Both orders of a pair count, as in the paper. Unlike in the paper, pairs of equal outputs
/// are excluded, because they contain no information about the order and would add the same number
/// to the loss of every model except the target's.
#[derive(Clone, Debug)]
pub(super) struct Ranked {
    /// Index of each observation in the original order.
    order: Vec<usize>,
    inputs: Points,
    outputs: Vec<f64>,
    /// For each observation, the index of the first observation with a larger output.
    above: Vec<usize>,
    /// For each observation, the index of the first observation with the same output. All earlier
    /// observations have smaller outputs.
    level: Vec<usize>,
}

impl Ranked {
    pub(super) fn new(inputs: &Points, outputs: &[f64]) -> Self {
        let mut order: Vec<usize> = (0..outputs.len()).collect();
        order.sort_by(|a, b| outputs[*a].total_cmp(&outputs[*b]));
        let sorted: Vec<f64> = order.iter().map(|index| outputs[*index]).collect();
        Self {
            inputs: Points::from_rows(inputs.dim(), order.iter().map(|index| inputs.row(*index))),
            above: sorted.iter().map(|y| sorted.partition_point(|other| other <= y)).collect(),
            level: sorted.iter().map(|y| sorted.partition_point(|other| other < y)).collect(),
            outputs: sorted,
            order,
        }
    }

    /// Returns the inputs, in ascending order of the outputs.
    pub(super) fn inputs(&self) -> &Points {
        &self.inputs
    }

    /// Returns the number of ordered pairs of observations with different outputs.
    pub(super) fn n_pairs(&self) -> usize {
        let n = self.above.len();
        2 * self.above.iter().map(|above| n - above).sum::<usize>()
    }

    /// Counts the ordered pairs that `values` misranks. `values` contains one value per
    /// observation, in ascending order of the outputs. Cost: O(t²).
    pub(super) fn misranked(&self, values: &[f64]) -> u32 {
        let mut count = 0;
        for (value, above) in values.iter().zip(&self.above) {
            // y_j, the output for `value`, is smaller than y_k. (j, k) is misranked unless f_j <
            // f_k, and (k, j) is misranked if f_k < f_j.
            count += count_of(&values[*above..], |other| {
                u64::from(other <= value) + u64::from(other < value)
            });
        }
        narrow(count)
    }

    /// Returns the fraction of the ordered pairs that `values` misranks, in `[0, 1]`: on average
    /// 1/2 for an unrelated model, whatever the number of pairs, and 0 if there are no pairs.
    #[expect(clippy::cast_precision_loss, reason = "numbers of pairs are far below 2^53")]
    pub(super) fn misranked_share(&self, values: &[f64]) -> f64 {
        f64::from(self.misranked(values)) / self.n_pairs().max(1) as f64
    }

    /// Returns √(number of ordered pairs (j, k) with [y_j > y_k] ≠ [f_j > f_k])/(n(n − 1)),
    /// including pairs of equal outputs. The result is at most 1/√(n(n − 1)).
    #[expect(clippy::cast_precision_loss, reason = "numbers of pairs are far below 2^53")]
    pub(super) fn vanishing_distance(&self, values: &[f64]) -> f64 {
        let n = values.len();
        let mut count = 0_usize;
        for j in 0..n {
            for k in 0..n {
                let (own, other) = (self.outputs[j] > self.outputs[k], values[j] > values[k]);
                count += usize::from(own != other);
            }
        }
        (count as f64).sqrt() / (n * n.saturating_sub(1)).max(1) as f64
    }

    /// Returns the ranking losses of samples from a task's joint posterior at the target's inputs.
    /// Cost: O(t³ + S t²).
    ///
    /// # Errors
    /// If the task's posterior is not finite.
    pub(super) fn joint_losses(
        &self,
        task: &dyn TaskModel,
        n_samples: usize,
        stream: &mut Stream,
    ) -> Result<Vec<u32>, GpError> {
        let (mean, covariance) = task.joint(&self.inputs);
        let spread = Spread::of(&covariance)?;
        let draws = (0..n_samples).map(|_| {
            let mut values = spread.draw(stream);
            for (value, mean) in values.iter_mut().zip(&mean) {
                *value += mean;
            }
            self.misranked(&values)
        });
        Ok(draws.collect())
    }

    /// Returns ranking losses with fresh and independent draws of both values for every pair, as in
    /// the authors' code. A sample is then not a single function, so the losses concentrate around
    /// their mean and a smooth model looks worse than it is. Cost: O(S t²).
    ///
    /// Only the order of a pair's values matters, so the order is drawn directly: P(f_j ≥ f_k) =
    /// Φ((μ_j − μ_k)/√(σ_j² + σ_k²)).
    pub(super) fn independent_losses(
        &self,
        task: &dyn TaskModel,
        n_samples: usize,
        stream: &mut Stream,
    ) -> Vec<u32> {
        let (means, variances) = task.mean_variances(&self.inputs);
        let mut chances = Vec::with_capacity(self.n_pairs() / 2);
        for (j, above) in self.above.iter().enumerate() {
            for k in *above..means.len() {
                let std = (variances[j] + variances[k]).sqrt();
                let gap = means[j] - means[k];
                chances.push(if std > 0.0 {
                    0.5 * libm::erfc(-gap / std * std::f64::consts::FRAC_1_SQRT_2)
                } else {
                    f64::from(u8::from(gap >= 0.0))
                });
            }
        }
        let draws = (0..n_samples).map(|_| {
            let of_pair = |chance: &f64| {
                u64::from(stream.uniform() < *chance) + u64::from(stream.uniform() < *chance)
            };
            narrow(chances.iter().map(of_pair).sum())
        });
        draws.collect()
    }

    /// Returns the ranking losses of the target's own leave-one-out posteriors f_{−j}, with
    /// unchanged hyperparameters. A pair (j, k) compares f_{−j}(x_j), which does not depend on y_j,
    /// with f_{−j}(x_k) (Feurer et al. 2018). Cost: O(t³ + S t²).
    ///
    /// # Errors
    /// If the prior covariance is not finite.
    pub(super) fn own_losses(
        &self,
        posterior: &Posterior,
        n_samples: usize,
        stream: &mut Stream,
    ) -> Result<Vec<u32>, GpError> {
        let own = LeaveOneOut::new(self, posterior);
        let prior = Spread::of(&posterior.kernel().gram(&self.inputs))?;
        let noise_std = own.ridge.sqrt();
        let draws = (0..n_samples).map(|_| {
            let prior = prior.draw(stream);
            let noise = prior.iter().map(|_| noise_std * stream.normal()).collect();
            own.misranked(self, &own.draw(&prior, noise))
        });
        Ok(draws.collect())
    }
}

/// The leave-one-out posteriors of a Gaussian process, with observations in ascending order of the
/// outputs.
///
/// By Matheron's rule and the partitioned inverse of K + s² I, one draw of the prior f₀ and the
/// noise ε ~ N(0, s²) yields one function from every leave-one-out posterior. With A = (K + s²
/// I)⁻¹, α = A (y − f₀(X) − ε), g = y − ε − s² α:
///
/// f_{−j}(x_k) = g_k + s² A_kj α_j/A_jj for k ≠ j,   f_{−j}(x_j) = g_j − (1/A_jj − s²) α_j
///
/// S draws of all t functions therefore cost O(t³ + S t²). s² is the noise variance plus the jitter
/// in the Cholesky factor.
struct LeaveOneOut<'a> {
    outputs: &'a [f64],
    ridge: f64,
    /// A, t×t row-major.
    inverse: Vec<f64>,
}

/// The results of one draw of f₀ and ε.
struct HeldOut {
    /// g.
    fitted: Vec<f64>,
    /// s² α_j/A_jj.
    shifts: Vec<f64>,
    /// f_{−j}(x_j).
    held_out: Vec<f64>,
}

impl<'a> LeaveOneOut<'a> {
    fn new(ranked: &'a Ranked, posterior: &Posterior) -> Self {
        let n = ranked.order.len();
        let packed = posterior.factor().inverse();
        let mut inverse = Vec::with_capacity(n * n);
        for a in &ranked.order {
            for b in &ranked.order {
                inverse.push(packed.row(*a.max(b))[*a.min(b)]);
            }
        }
        Self {
            outputs: &ranked.outputs,
            ridge: posterior.noise_variance() + posterior.factor().jitter(),
            inverse,
        }
    }

    fn draw(&self, prior: &[f64], noise: Vec<f64>) -> HeldOut {
        let n = self.outputs.len();
        let residual: Vec<f64> = (0..n).map(|i| self.outputs[i] - prior[i] - noise[i]).collect();
        let mut drawn = HeldOut {
            fitted: Vec::with_capacity(n),
            shifts: Vec::with_capacity(n),
            held_out: Vec::with_capacity(n),
        };
        for (j, row) in self.inverse.chunks_exact(n).enumerate() {
            let alpha: f64 = row.iter().zip(&residual).map(|(a, r)| a * r).sum();
            let fitted = self.outputs[j] - noise[j] - self.ridge * alpha;
            drawn.fitted.push(fitted);
            drawn.shifts.push(self.ridge * alpha / row[j]);
            let held_out = fitted - (1.0 / row[j] - self.ridge) * alpha;
            drawn.held_out.push(held_out);
        }
        drawn
    }

    fn misranked(&self, ranked: &Ranked, drawn: &HeldOut) -> u32 {
        let n = drawn.fitted.len();
        let mut count = 0;
        for (j, row) in self.inverse.chunks_exact(n).enumerate() {
            let (value, shift) = (drawn.held_out[j], drawn.shifts[j]);
            let others = |range: std::ops::Range<usize>| {
                let fitted = drawn.fitted[range.clone()].iter();
                fitted.zip(&row[range]).map(|(g, a)| g + shift * a)
            };
            let below = others(0..ranked.level[j]).map(|other| u64::from(value < other));
            let above = others(ranked.above[j]..n).map(|other| u64::from(value >= other));
            count += below.sum::<u64>() + above.sum::<u64>();
        }
        narrow(count)
    }
}

/// A Gaussian distribution with mean 0 from which to sample.
enum Spread {
    Factor(SpdFactor),
    /// The covariance is only rounding error.
    None(usize),
}

impl Spread {
    /// Jitters to try after those of the factorization, relative to the mean variance. If values
    /// are known very well, such as a task's values at points observed without noise, their
    /// covariance is mostly rounding error.
    const WIDE_JITTERS: [f64; 3] = [1e-4, 1e-2, 1.0];

    /// # Errors
    /// If the covariance is not finite.
    fn of(covariance: &PackedLower) -> Result<Self, GpError> {
        let n = covariance.size();
        let sum: f64 = (0..n).map(|i| covariance.row(i)[i]).sum();
        if n == 0 || sum <= 0.0 {
            return Ok(Self::None(n));
        }
        let mut last = match SpdFactor::new(covariance) {
            Ok(factor) => return Ok(Self::Factor(factor)),
            Err(error) => error,
        };
        #[expect(
            clippy::cast_precision_loss,
            reason = "numbers of observations are far below 2^53"
        )]
        let mean = sum / n as f64;
        for jitter in Self::WIDE_JITTERS {
            let mut widened = covariance.clone();
            for i in 0..n {
                widened.row_mut(i)[i] += jitter * mean;
            }
            match SpdFactor::new(&widened) {
                Ok(factor) => return Ok(Self::Factor(factor)),
                Err(error) => last = error,
            }
        }
        Err(last.into())
    }

    fn draw(&self, stream: &mut Stream) -> Vec<f64> {
        match self {
            Self::Factor(factor) => factor.multiply_lower(&stream.normals(factor.size())),
            Self::None(n) => vec![0.0; *n],
        }
    }
}

/// Weights of the target and of every task.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ModelWeights {
    pub(super) target: f64,
    pub(super) tasks: Vec<f64>,
}

impl ModelWeights {
    /// Returns the fraction of samples in which each model has the smallest loss (Feurer et al.
    /// 2018). The target wins ties, as in the paper; other ties are split.
    ///
    /// With `guards`, a task is ignored if its median loss is above the 95 % quantile of the
    /// target's losses. As in the paper, this keeps many bad tasks from diluting the weights.
    #[expect(clippy::cast_precision_loss, reason = "numbers of samples are far below 2^53")]
    pub(super) fn by_vote(own: &[u32], of_tasks: &[Vec<u32>], guards: bool) -> Self {
        let limit = if guards { quantile(own, 0.95) } else { f64::INFINITY };
        let taking_part: Vec<usize> =
            (0..of_tasks.len()).filter(|task| quantile(&of_tasks[*task], 0.5) <= limit).collect();
        let mut weights = Self { target: 0.0, tasks: vec![0.0; of_tasks.len()] };
        let share = 1.0 / own.len() as f64;
        for (sample, own) in own.iter().enumerate() {
            let losses = taking_part.iter().map(|task| of_tasks[*task][sample]);
            let least = losses.min().unwrap_or(u32::MAX);
            if *own <= least {
                weights.target += share;
                continue;
            }
            let winners = || {
                let all = taking_part.iter();
                all.filter(|task| of_tasks[**task][sample] == least)
            };
            let part = share / winners().count() as f64;
            for task in winners() {
                weights.tasks[*task] += part;
            }
        }
        weights
    }
}

/// Returns a quantile, interpolated linearly between order statistics.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "numbers of samples are far below 2^53"
)]
fn quantile(losses: &[u32], share: f64) -> f64 {
    let mut sorted = losses.to_vec();
    sorted.sort_unstable();
    let position = share * (sorted.len().max(1) - 1) as f64;
    let below = position as usize;
    let at = |index: usize| f64::from(sorted.get(index).copied().unwrap_or(0));
    let above = (below + 1).min(sorted.len().max(1) - 1);
    at(below) + position.fract() * (at(above) - at(below))
}

fn count_of(values: &[f64], counted: impl Fn(&f64) -> u64) -> u64 {
    values.iter().map(counted).sum()
}

fn narrow(count: u64) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX) // with more than 46 000 observations
}

#[cfg(test)]
mod tests;
