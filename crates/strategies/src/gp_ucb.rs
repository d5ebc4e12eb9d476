//! GP-UCB: query where the upper confidence bound is largest.

use fedbo_gp::Predictor;
use fedbo_optim::{Function, Points};
use fedbo_streams::{Seed, Stream};

use crate::proposer::Proposer;
use crate::{
    Domain, Maximizer, Observation, Proposal, Repeats, Strategy, StrategyError, Surrogate,
    SurrogateSettings, UcbMultiplier,
};

/// Settings of a [`GpUcb`] strategy.
#[derive(Clone, Debug)]
pub struct GpUcbSettings {
    /// The surrogate; its sampler is not used.
    pub surrogate: SurrogateSettings,
    /// The search for the bound's maximum.
    pub maximizer: Maximizer,
    /// β_t; it multiplies the standard deviation.
    pub ucb_multiplier: UcbMultiplier,
    /// Repeated points.
    pub repeats: Repeats,
}

impl GpUcbSettings {
    /// Defaults for one party's study; β is 2 at every step, about the 97.5 % quantile of the standard normal
    /// distribution (scikit-optimize takes 1.96). The values of theory explore too much at the scale of practical studies
    /// (Srinivas et al. 2010 divide them by 5 in their experiments).
    ///
    /// # Panics
    /// If `dim` is 0.
    pub fn for_study(dim: usize, noisy: bool) -> Self {
        Self {
            surrogate: SurrogateSettings::for_study(dim, noisy),
            maximizer: Maximizer::of_acquisition(dim),
            ucb_multiplier: UcbMultiplier::Constant(2.0),
            repeats: Repeats::for_study(noisy),
        }
    }
}

/// The upper confidence bound of a Gaussian process (Srinivas et al. 2010):
///
/// x_t = argmax μ_{t−1}(x) + β_t σ_{t−1}(x)
///
/// Running trials enter as observations of their own posterior mean, so that μ stays and σ shrinks around them
/// (GP-BUCB, Desautels et al. 2014). Cost of a query: O(n²) for each of the points that the search evaluates.
#[derive(Clone, Debug)]
pub struct GpUcb {
    proposer: Proposer,
    ucb_multiplier: UcbMultiplier,
    /// Points that cover the domain, for γ_t.
    cover: Points,
}

impl GpUcb {
    /// A strategy without observations; `seed` feeds hyperparameter fits.
    ///
    /// # Errors
    /// If a setting is out of range.
    pub fn new(domain: Domain, settings: GpUcbSettings, seed: Seed) -> Result<Self, StrategyError> {
        let proposer = Proposer::new(
            domain,
            settings.surrogate,
            settings.maximizer,
            settings.repeats,
            false,
            seed,
        )?;
        Ok(Self {
            ucb_multiplier: settings.ucb_multiplier.validate()?,
            cover: proposer.domain().cover(),
            proposer,
        })
    }
}

impl Strategy for GpUcb {
    fn ask(&self, pending: &Points, stream: &mut Stream) -> Result<Proposal, StrategyError> {
        self.proposer.open(pending)?;
        let posterior = self.proposer.surrogate().posterior();
        let beta = self.ucb_multiplier.at(
            (posterior.len() + pending.len()) as u64 + 1,
            posterior.kernel(),
            posterior.noise_variance(),
            &self.cover,
        );
        let hallucinated;
        let posterior = if pending.is_empty() {
            posterior
        } else {
            let means = posterior.mean_variances(pending).0;
            hallucinated = posterior.clone().extended(pending, &means)?;
            &hallucinated
        };
        let bound = UpperBound {
            predictor: &posterior.predictor(),
            beta,
        };
        self.proposer.propose_acquisition(&bound, pending, stream)
    }

    fn tell(&mut self, observed: &[Observation]) -> Result<(), StrategyError> {
        self.proposer.tell(observed)
    }

    fn surrogate(&self) -> Option<&Surrogate> {
        Some(self.proposer.surrogate())
    }
}

/// μ(x) + β σ(x).
pub(crate) struct UpperBound<'a> {
    pub(crate) predictor: &'a Predictor<'a>,
    pub(crate) beta: f64,
}

impl Function for UpperBound<'_> {
    fn dim(&self) -> usize {
        self.predictor.posterior().kernel().dim()
    }

    fn values(&self, points: &Points) -> Vec<f64> {
        let (means, variances) = self.predictor.posterior().mean_variances(points);
        means
            .iter()
            .zip(variances)
            .map(|(mean, variance)| mean + self.beta * variance.sqrt())
            .collect()
    }

    /// ∇μ + β ∇σ²/(2σ); where σ² is lost to rounding its slope is taken as 0.
    fn value_gradient(&self, point: &[f64], gradient: &mut [f64]) -> f64 {
        let prediction = self.predictor.predict(point);
        let std = prediction.variance().sqrt();
        let slope = if std > 0.0 { -self.beta / std } else { 0.0 };
        let weights = prediction.whitened().iter().map(|v| slope * v).collect();
        prediction.gradient(1.0, weights, gradient);
        prediction.mean() + self.beta * std
    }
}

#[cfg(test)]
mod tests {
    use fedbo_gp::{Family, Kernel, Posterior};
    use fedbo_testkit::{test_stream, uniform_points};

    use super::*;

    /// Central differences with a step of 1e-5, whose error is about 1e-8; the batch agrees with single points.
    #[test]
    fn values_and_gradients_of_the_bound_agree() {
        let kernel = Kernel::new(Family::Matern52, vec![0.3, 0.7], 1.3).unwrap();
        let inputs = uniform_points(12, 2, &mut test_stream(1));
        let y = inputs.rows().map(|x| (5.0 * x[0]).sin() + x[1]).collect();
        let posterior = Posterior::new(kernel, 1e-4, inputs, y).unwrap();
        let bound = UpperBound {
            predictor: &posterior.predictor(),
            beta: 1.5,
        };
        let points = uniform_points(20, 2, &mut test_stream(2));
        for (x, value) in points.rows().zip(bound.values(&points)) {
            let mut gradient = [0.0; 2];
            assert!((bound.value_gradient(x, &mut gradient) - value).abs() < 1e-10);
            for j in 0..2 {
                let at = |step: f64| {
                    let mut near = x.to_vec();
                    near[j] += step;
                    bound.value_gradient(&near, &mut [0.0; 2])
                };
                let slope = (at(1e-5) - at(-1e-5)) / 2e-5;
                assert!((gradient[j] - slope).abs() < 1e-5, "{gradient:?}, {slope}");
            }
        }
    }
}
