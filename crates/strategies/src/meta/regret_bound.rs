//! The regret bound of robust meta-learning (thesis Theorem 7.1) and its parameters.
//!
//! The bound differs from the theorem as printed in one constant: C_1 is 8/ln(1 + σ⁻²), as proved
//! in Lemma D.8, and not 8/(1 + σ⁻²).

/// Returns τ = 2 ln(3 |X| M/δ), the square of a meta-task's UCB multiplier.
pub fn meta_multiplier_squared(n_points: usize, n_tasks: usize, failure_prob: f64) -> f64 {
    2.0 * (3.0 * number(n_points) * number(n_tasks) / failure_prob).ln()
}

/// Returns α_i = N_i/σ² (2 √N_i √(2σ² ln(6N_i/δ)) + d_i √N_i), a bound on the effect of meta-task i
/// on the acquisition function.
pub fn task_error(
    n_meta_obs: usize,
    function_gap: f64,
    noise_variance: f64,
    failure_prob: f64,
) -> f64 {
    let n = number(n_meta_obs);
    let noise = (2.0 * noise_variance * (6.0 * n / failure_prob).ln()).sqrt();
    n / noise_variance * n.sqrt() * (2.0 * noise + function_gap)
}

/// The terms of the bound after T queries.
#[derive(Clone, Debug, PartialEq)]
pub struct RegretBound {
    /// α = Σ_i ω_i α_i.
    pub weighted_error: f64,
    /// √τ.
    pub meta_ucb_multiplier: f64,
    /// √β_T.
    pub ucb_multiplier: f64,
    /// γ_T, in nats.
    pub information_gain: f64,
    /// σ².
    pub noise_variance: f64,
}

impl RegretBound {
    /// Returns the bound for the shares ν_1, …, ν_T. With probability 1 − δ, R_T ≤ 2(α + √τ) Σ_t
    /// ν_t + √(C_1 T (1 − ν_T)² β_T γ_T).
    pub fn at(&self, shares: &[f64]) -> f64 {
        let last = shares.last().copied().unwrap_or(1.0);
        let c1 = 8.0 / (1.0 / self.noise_variance).ln_1p();
        let exploration = c1
            * number(shares.len())
            * ((1.0 - last) * self.ucb_multiplier).powi(2)
            * self.information_gain;
        let transfer = 2.0 * (self.weighted_error + self.meta_ucb_multiplier);
        transfer * shares.iter().sum::<f64>() + exploration.sqrt()
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
fn number(count: usize) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computed by hand for N = 4, d = 0.5, σ² = 0.25, δ = 0.1 and two steps with shares 1 and 0.5.
    #[test]
    fn parameters_and_bound_are_those_of_the_theorem() {
        assert!((meta_multiplier_squared(50, 4, 0.1) - 2.0 * 6000.0_f64.ln()).abs() < 1e-12);
        let by_hand = 16.0 * (4.0 * (0.5 * 240.0_f64.ln()).sqrt() + 1.0);
        assert!((task_error(4, 0.5, 0.25, 0.1) - by_hand).abs() < 1e-9);
        let bound = RegretBound {
            weighted_error: 3.0,
            meta_ucb_multiplier: 2.0,
            ucb_multiplier: 4.0,
            information_gain: 1.5,
            noise_variance: 0.25,
        };
        let by_hand = 10.0 * 1.5 + (8.0 / 5.0_f64.ln() * 2.0 * 4.0 * 1.5).sqrt();
        assert!((bound.at(&[1.0, 0.5]) - by_hand).abs() < 1e-12);
    }
}
