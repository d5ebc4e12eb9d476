//! Weights of meta-tasks by follow-the-regularized-leader (thesis section 7.5.2).

use super::GpTask;
use crate::StrategyError;

/// The rule for the weights ω of meta-tasks.
#[derive(Clone, Debug, PartialEq)]
pub enum TaskWeighting {
    /// ω_i ∝ exp(−rate Σ_s d̄_{i,s}): the update from the thesis' experiments, the right-hand form
    /// of eq. (7.4), which treats all N_i as equal.
    Online {
        /// η N^{3/2}, in the reciprocal units of the gaps; 1 in the thesis.
        rate: f64,
    },
    /// ω_i ∝ exp(−η Σ_s l_{i,s}): the left-hand form of eq. (7.4), for unequal N_i, with l_{i,s} =
    /// 2 N_i^{3/2} √(2σ_i² ln(6N_i/δ)) + d̄_{i,s} N_i^{3/2}.
    OnlineExact {
        /// η N^{3/2}, where N is the largest N_i, so that the rates of both forms agree if all N_i
        /// are equal.
        rate: f64,
        /// δ.
        failure_prob: f64,
    },
    /// ω_i = 1/M at all times: the control of Fig. 7.1a in the thesis.
    Uniform,
}

impl TaskWeighting {
    fn validate(self) -> Result<Self, StrategyError> {
        let fail = |name, value: f64, expected| Err(StrategyError::setting(name, value, expected));
        match self {
            Self::Online { rate } | Self::OnlineExact { rate, .. }
                if !(rate.is_finite() && rate >= 0.0) =>
            {
                fail("task_weight_rate", rate, "a finite number of at least 0")
            }
            Self::OnlineExact { failure_prob, .. }
                if !(failure_prob > 0.0 && failure_prob < 1.0) =>
            {
                let expected = "a number between 0 and 1, ends excluded";
                fail("failure_prob", failure_prob, expected)
            }
            valid => Ok(valid),
        }
    }
}

/// Cap on the exponents. A task that reaches the cap has weight 0 relative to any task below it.
const LARGEST_EXPONENT: f64 = 1e300;

/// The weights of M meta-tasks after a number of estimates of their gaps, which solve thesis eq.
/// (7.3):
///
/// ω = argmin_{ω' in the simplex} Σ_s ω'·l_s + η⁻¹ Σ_i ω'_i ln ω'_i
#[derive(Clone, Debug)]
pub struct TaskWeights {
    weighting: TaskWeighting,
    /// η times the cumulative loss of each task.
    exponents: Vec<f64>,
}

impl TaskWeights {
    /// Creates uniform weights, for the time before any estimate.
    ///
    /// # Errors
    /// If a parameter is out of range.
    pub fn new(weighting: TaskWeighting, n_tasks: usize) -> Result<Self, StrategyError> {
        Ok(Self { weighting: weighting.validate()?, exponents: vec![0.0; n_tasks] })
    }

    /// Adds an estimate of all gaps.
    ///
    /// # Panics
    /// If the number of gaps differs from the number of tasks.
    #[expect(clippy::cast_precision_loss, reason = "numbers of observations are far below 2^53")]
    pub fn observe(&mut self, gap_bounds: &[f64], tasks: &[GpTask]) {
        assert_eq!(gap_bounds.len(), self.exponents.len());
        let largest = tasks.iter().map(|task| task.outputs().len()).max();
        let largest = largest.unwrap_or(1) as f64;
        for ((exponent, gap), task) in self.exponents.iter_mut().zip(gap_bounds).zip(tasks) {
            // Capped, so that the difference of two exponents is never NaN.
            *exponent = LARGEST_EXPONENT.min(
                *exponent
                    + match self.weighting {
                        TaskWeighting::Uniform => 0.0,
                        TaskWeighting::Online { rate } => rate * gap,
                        TaskWeighting::OnlineExact { rate, failure_prob } => {
                            let n = task.outputs().len() as f64;
                            let variance = task.predictor().posterior().noise_variance();
                            let noise =
                                2.0 * (2.0 * variance * (6.0 * n / failure_prob).ln()).sqrt();
                            rate * (n / largest).powf(1.5) * (noise + gap)
                        }
                    },
            );
        }
    }

    /// Returns ω, which sums to 1.
    pub fn weights(&self) -> Vec<f64> {
        let least = self.exponents.iter().copied().fold(f64::INFINITY, f64::min);
        let powers: Vec<f64> = self.exponents.iter().map(|e| (least - e).exp()).collect();
        let total: f64 = powers.iter().sum();
        powers.into_iter().map(|power| power / total).collect()
    }
}
