//! Agents' messages: functions drawn from a posterior, represented by weights of the shared
//! features.

use fedbo_gp::{FeatureMap, Standardizer, WeightPosterior};
use fedbo_streams::Stream;

use crate::{StrategyError, Surrogate};

/// The content of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageContent {
    /// ω ~ N(ν, σ²Σ⁻¹), the agent's posterior (FTS eqs. (2) and (3)).
    Posterior,
    /// ω = ν, the posterior mean. Since nothing is drawn, an average over agents or rounds contains
    /// no sampling noise.
    Mean,
    /// ω = 0: no information, so a release contains only noise. Used as the placebo for a noisy
    /// mechanism.
    Zero,
    /// ω ~ N(0, I): a draw from the prior, without information. Used in the placebo control arm.
    Placebo,
}

/// σ² in the weight posterior.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum MessageNoise {
    /// A fixed variance in the units of the outputs in the message; 1e-6 in the paper (D.2.2).
    Given(f64),
    /// The noise variance of the agent's own surrogate, converted to the units of the outputs in
    /// the message, but at least `floor`.
    Own {
        /// Lower bound, in the units of the outputs in the message.
        floor: f64,
    },
}

/// Settings of an agent's messages.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MessageSettings {
    /// The content of messages.
    pub content: MessageContent,
    /// σ².
    pub noise_variance: MessageNoise,
    /// True if each agent standardizes its own outputs (default), false for raw outputs (the
    /// paper's setting).
    pub standardize: bool,
}

impl Default for MessageSettings {
    /// Samples from the posterior of standardized outputs, with the noise variance of the agent's
    /// surrogate, but at least 1e-4.
    fn default() -> Self {
        Self {
            content: MessageContent::Posterior,
            noise_variance: MessageNoise::Own { floor: 1e-4 },
            standardize: true,
        }
    }
}

impl MessageSettings {
    /// Checks the noise variance.
    ///
    /// # Errors
    /// If the noise variance is not a finite number above 0.
    pub fn validate(self) -> Result<Self, StrategyError> {
        let (MessageNoise::Given(variance) | MessageNoise::Own { floor: variance }) =
            self.noise_variance;
        if variance.is_normal() && variance > 0.0 {
            Ok(self)
        } else {
            Err(StrategyError::setting(
                "message noise variance",
                variance,
                "a finite number above 0",
            ))
        }
    }

    /// Draws the M weights of a message.
    ///
    /// # Errors
    /// If the weight posterior cannot be built, or a weight is not finite.
    pub fn draw(
        &self,
        map: &FeatureMap,
        surrogate: &Surrogate,
        stream: &mut Stream,
    ) -> Result<Vec<f64>, StrategyError> {
        if self.content == MessageContent::Placebo {
            return Ok(stream.normals(map.n_features()));
        }
        if self.content == MessageContent::Zero {
            return Ok(vec![0.0; map.n_features()]);
        }
        let standardizer = if self.standardize {
            Standardizer::robust(surrogate.outputs())
        } else {
            Standardizer::RAW
        };
        let y: Vec<f64> =
            surrogate.outputs().iter().map(|v| standardizer.standardize(*v)).collect();
        let noise_variance = match self.noise_variance {
            MessageNoise::Given(variance) => variance,
            MessageNoise::Own { floor } => {
                let own = surrogate.posterior().noise_variance();
                let unit = || Standardizer::robust(surrogate.outputs()).restore_std(1.0);
                let converted = match (surrogate.standardizes(), self.standardize) {
                    (true, false) => own * unit() * unit(),
                    (false, true) => own / unit() / unit(),
                    _ => own,
                };
                converted.max(floor).min(f64::MAX)
            }
        };
        let posterior = WeightPosterior::new(map, noise_variance, surrogate.inputs(), &y)?;
        let weights = match self.content {
            MessageContent::Mean => posterior.mean().to_vec(),
            _ => posterior.sample(1.0, stream),
        };
        if weights.iter().all(|w| w.is_finite()) {
            Ok(weights)
        } else {
            Err(StrategyError::MessageOverflow)
        }
    }
}
