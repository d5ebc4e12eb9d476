//! The distribution P_N over agents, from which the message for a query is drawn.

use fedbo_gp::{FeatureMap, GpError, WeightSpaceSample};
use fedbo_optim::Function;
use fedbo_protocol::Inbox;
use fedbo_strategies::{StrategyError, Surrogate, in_range};

/// The distribution over the other agents, restricted to those with a message in the inbox and
/// renormalized.
#[derive(Clone, Debug, PartialEq)]
pub enum AgentSampling {
    /// Equal probabilities, which is the natural choice without prior knowledge (FTS section 3.1).
    Uniform,
    /// Weights given for each agent index. Agents beyond the end of the list have probability 0.
    Given(Vec<f64>),
    /// Learned from the agent's own observations. The paper leaves this to future work.
    ///
    /// P_N\[n\] ∝ exp(c √t τ_n),   τ_n = (concordant − discordant) / (t(t−1)/2)
    ///
    /// where τ_n is Kendall's rank correlation between the message's values φ(x_i)·ω_n and the
    /// agent's own outputs y_i, over all pairs of its t observations (ties count as neither). For
    /// an unrelated message, √t τ_n has a standard deviation of about 2/3, so P_N stays close to
    /// uniform with few observations and becomes sharper with more. The correlation depends only on
    /// the order of values, so agents can measure in different units.
    Learned {
        /// c ≥ 0.
        sharpness: f64,
    },
}

impl AgentSampling {
    /// Checks the parameters.
    ///
    /// # Errors
    /// If a probability or the sharpness is negative or not finite, or all probabilities are 0.
    pub fn validate(self) -> Result<Self, StrategyError> {
        let fail = |value: String, expected| {
            Err(StrategyError::setting("agent_sampling", value, expected))
        };
        match &self {
            Self::Given(list)
                if !list.iter().all(|p| p.is_finite() && *p >= 0.0)
                    || list.iter().sum::<f64>() <= 0.0 =>
            {
                fail(format!("{list:?}"), "finite weights of at least 0, not all 0")
            }
            Self::Learned { sharpness } if !(sharpness.is_finite() && *sharpness >= 0.0) => {
                fail(sharpness.to_string(), "a finite sharpness of at least 0")
            }
            _ => Ok(self),
        }
    }

    /// Returns the unnormalized probability of every sender in the inbox.
    pub(crate) fn probabilities(
        &self,
        inbox: &Inbox,
        map: &FeatureMap,
        surrogate: &Surrogate,
    ) -> Result<Vec<(u32, f64)>, GpError> {
        match self {
            Self::Uniform => Ok(inbox.iter().map(|(sender, _)| (sender, 1.0)).collect()),
            Self::Given(list) => {
                let weight = |sender: u32| list.get(sender as usize).copied().unwrap_or(0.0);
                Ok(inbox.iter().map(|(sender, _)| (sender, weight(sender))).collect())
            }
            Self::Learned { sharpness } => {
                #[expect(
                    clippy::cast_precision_loss,
                    reason = "numbers of observations are far below 2^53"
                )]
                let root = (surrogate.len() as f64).sqrt();
                let scored = inbox.iter().map(|(sender, weights)| {
                    let predicted =
                        WeightSpaceSample::new(map, &in_range(weights))?.values(surrogate.inputs());
                    Ok((sender, sharpness * root * kendall_tau(&predicted, surrogate.outputs())))
                });
                let scored: Vec<(u32, f64)> = scored.collect::<Result<_, GpError>>()?;
                let top = scored.iter().map(|(_, score)| *score).fold(f64::NEG_INFINITY, f64::max);
                Ok(scored
                    .into_iter()
                    .map(|(sender, score)| (sender, (score - top).exp()))
                    .collect())
            }
        }
    }
}

/// Returns Kendall's τ_a: (concordant − discordant pairs) / pairs; 0 for fewer than two values.
fn kendall_tau(a: &[f64], b: &[f64]) -> f64 {
    let (mut balance, mut pairs) = (0_i64, 0_i64);
    for i in 0..a.len() {
        for j in 0..i {
            let product = sign(a[i] - a[j]) * sign(b[i] - b[j]);
            balance += product;
            pairs += 1;
        }
    }
    #[expect(clippy::cast_precision_loss, reason = "numbers of pairs are far below 2^53")]
    let tau = balance as f64 / pairs.max(1) as f64;
    tau
}

fn sign(v: f64) -> i64 {
    i64::from(v > 0.0) - i64::from(v < 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kendall_tau_counts_pairs() {
        let a = [1.0, 2.0, 3.0, 4.0];
        assert!((kendall_tau(&a, &[10.0, 20.0, 30.0, 40.0]) - 1.0).abs() < 1e-15);
        assert!((kendall_tau(&a, &[4.0, 3.0, 2.0, 1.0]) + 1.0).abs() < 1e-15);
        assert!((kendall_tau(&a, &[1.0, 2.0, 4.0, 3.0]) - 4.0 / 6.0).abs() < 1e-15); // 5 concordant, 1 discordant
        assert!(kendall_tau(&a, &[7.0; 4]).abs() < 1e-15);
        assert!(kendall_tau(&[1.0], &[1.0]).abs() < 1e-15);
    }

    #[test]
    fn parameters_out_of_range_are_refused() {
        for bad in [
            AgentSampling::Given(vec![0.5, -0.5]),
            AgentSampling::Given(vec![0.0, 0.0]),
            AgentSampling::Learned { sharpness: f64::NAN },
        ] {
            assert!(bad.validate().is_err());
        }
    }
}
