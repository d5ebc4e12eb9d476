//! The distance of a meta-task from the target, bounded by the target's posterior (thesis section
//! 7.5.1).

use fedbo_gp::Posterior;

use super::GpTask;
use super::comparison::Exchange;

/// The way to summarize the distances at a task's inputs as a single number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GapSummary {
    /// The largest distance: the bound of Lemma 7.1.
    Max,
    /// The mean distance, which the thesis uses in practice (section 7.6, D.2.3) because noise
    /// dominates the largest distance.
    Mean,
}

/// Settings of the bound on the function gap d_i = max_j |f(x_{i,j}) − f_i(x_{i,j})|.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GapBound {
    /// Summary of the distances.
    pub summary: GapSummary,
    /// δ' in the term for the noise of the meta-observations; `None` omits this term. With equal
    /// noise variances, the term is the same for all tasks and cancels in their weights (thesis eq.
    /// (7.4)).
    pub failure_prob: Option<f64>,
}

impl GapBound {
    /// Returns the settings of the bound in Lemma 7.1.
    pub fn lemma(failure_prob: f64) -> Self {
        Self { summary: GapSummary::Max, failure_prob: Some(failure_prob) }
    }

    /// Returns the settings of the thesis' experiments: the mean, without the noise term.
    pub fn practical() -> Self {
        Self { summary: GapSummary::Mean, failure_prob: None }
    }

    /// Computes d̄_i for every task from the target's posterior and β (Lemma 7.1). β is the
    /// multiplier of the standard deviation, the square root of the β in the thesis. Cost: O(n² Σ
    /// N_i).
    ///
    /// d̄_i = √(2σ_i² ln(2 Σ_k N_k/δ')) + max_j max(|y_{i,j} − U_j|, |y_{i,j} − L_j|),   U_j, L_j = μ(x_{i,j}) ± β σ(x_{i,j})
    ///
    /// The inner maximum is |y_{i,j} − μ| + β σ. σ_i² is the noise variance of the model of task i;
    /// the thesis uses one variance for all tasks.
    pub fn of(self, target: &Posterior, beta: f64, tasks: &[GpTask]) -> Vec<f64> {
        self.exchanged(target, beta, tasks, &Exchange::NONE)
    }

    /// Like [`GapBound::of`], in common units.
    pub(super) fn exchanged(
        self,
        target: &Posterior,
        beta: f64,
        tasks: &[GpTask],
        exchange: &Exchange,
    ) -> Vec<f64> {
        let n_observations: usize = tasks.iter().map(|task| task.outputs().len()).sum();
        tasks
            .iter()
            .map(|task| {
                let (means, variances) = target.mean_variances(task.inputs());
                let distances = task.outputs().iter().zip(means).zip(variances);
                let distances = distances.map(|((y, mean), variance)| {
                    let y = exchange.task_factor * y + exchange.task_shift;
                    let mean = exchange.target_factor * mean + exchange.target_shift;
                    (y - mean).abs() + beta * exchange.target_std_factor * variance.sqrt()
                });
                exchange.task_factor * self.noise_term(task, n_observations)
                    + self.summarize(distances)
            })
            .collect()
    }

    #[expect(clippy::cast_precision_loss, reason = "numbers of observations are far below 2^53")]
    fn noise_term(self, task: &GpTask, n_observations: usize) -> f64 {
        let Some(failure_prob) = self.failure_prob else {
            return 0.0;
        };
        let variance = task.predictor().posterior().noise_variance();
        (2.0 * variance * (2.0 * n_observations as f64 / failure_prob).ln()).sqrt()
    }

    fn summarize(self, distances: impl ExactSizeIterator<Item = f64>) -> f64 {
        match self.summary {
            GapSummary::Max => distances.fold(0.0, f64::max),
            GapSummary::Mean => {
                #[expect(
                    clippy::cast_precision_loss,
                    reason = "numbers of observations are far below 2^53"
                )]
                let n = distances.len() as f64;
                distances.sum::<f64>() / n
            }
        }
    }
}
