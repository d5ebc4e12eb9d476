//! GP-UCB: queries the point with the largest upper confidence bound.

use fedbo_optim::Points;
use fedbo_space::Space;
use fedbo_streams::{Seed, Stream};
use serde::{Deserialize, Serialize};

use crate::acquisition::upper_bound;
use crate::proposer::Proposer;
use crate::{
    Domain, Maximizer, Observation, OutputOption, Proposal, Repeats, Setup, Strategy,
    StrategyError, StrategyOptions, Surrogate, SurrogateSettings, UcbMultiplier,
};

/// Options of `gp-ucb`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GpUcbOptions {
    /// β_t, the multiplier of the standard deviation.
    pub ucb_multiplier: UcbMultiplier,
    /// Transform applied to outputs before they are modelled. Always Yeo–Johnson if trials report
    /// during training.
    #[serde(default = "OutputOption::of_stored_without")]
    pub output_transform: OutputOption,
}

impl Default for GpUcbOptions {
    /// β_t = 2 at every step, about the 97.5 % quantile of the standard normal distribution
    /// (scikit-optimize uses 1.96). The theoretical values explore too much at the scale of
    /// practical studies; Srinivas et al. (2010) divide them by 5 in their experiments.
    fn default() -> Self {
        Self {
            ucb_multiplier: UcbMultiplier::Constant(2.0),
            output_transform: OutputOption::default(),
        }
    }
}

impl StrategyOptions for GpUcbOptions {
    fn make(&self, setup: &Setup<'_>) -> Result<Box<dyn Strategy>, StrategyError> {
        let settings = GpUcbSettings {
            surrogate: setup.surrogate().with_outputs(self.output_transform),
            ucb_multiplier: self.ucb_multiplier,
            ..GpUcbSettings::for_study(setup.dim(), setup.noisy)
        };
        let strategy = GpUcb::new(setup.domain(), settings, setup.seed)?;
        Ok(Box::new(strategy))
    }

    fn epoch_bound(&self) -> Option<UcbMultiplier> {
        Some(self.ucb_multiplier)
    }
}

/// Settings of a [`GpUcb`] strategy.
#[derive(Clone, Debug)]
pub struct GpUcbSettings {
    /// The surrogate; its sampler is not used.
    pub surrogate: SurrogateSettings,
    /// Search for the maximum of the bound.
    pub maximizer: Maximizer,
    /// β_t, the multiplier of the standard deviation.
    pub ucb_multiplier: UcbMultiplier,
    /// Rule for proposing points again.
    pub repeats: Repeats,
}

impl GpUcbSettings {
    /// Returns the defaults for a single-party study, with β_t as in [`GpUcbOptions::default`].
    ///
    /// # Panics
    /// If `dim` is 0.
    pub fn for_study(dim: usize, noisy: bool) -> Self {
        Self {
            surrogate: SurrogateSettings::for_study(dim, noisy),
            maximizer: Maximizer::of_acquisition(dim),
            ucb_multiplier: GpUcbOptions::default().ucb_multiplier,
            repeats: Repeats::for_study(noisy),
        }
    }
}

/// The upper confidence bound of a Gaussian process (Srinivas et al. 2010):
///
/// x_t = argmax μ_{t−1}(x) + β_t σ_{t−1}(x)
///
/// Running trials count as observations at their posterior means, so that μ stays the same and σ
/// shrinks around them (GP-BUCB, Desautels et al. 2014). A query costs O(n²) per point that the
/// search evaluates.
#[derive(Clone, Debug)]
pub struct GpUcb {
    proposer: Proposer,
    ucb_multiplier: UcbMultiplier,
    /// Points that cover the domain, for γ_t.
    cover: Points,
}

impl GpUcb {
    /// Creates a strategy without observations. `seed` is used for hyperparameter fits.
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
        let surrogate = self.proposer.surrogate();
        let posterior = surrogate.posterior();
        let beta = self.ucb_multiplier.at(
            (surrogate.len() + pending.len()) as u64 + 1,
            posterior.kernel(),
            posterior.noise_variance(),
            &self.cover,
        );
        let hallucinated;
        let posterior = if pending.is_empty() {
            posterior
        } else {
            let modelled = Proposer::modelled(pending);
            let means = posterior.mean_variances(&modelled).0;
            hallucinated = posterior.clone().extended(&modelled, &means)?;
            &hallucinated
        };
        let predictor = posterior.predictor();
        let bound = upper_bound(&predictor, beta);
        self.proposer.propose_acquisition(&bound, pending, stream)
    }

    fn tell(&mut self, observed: &[Observation]) -> Result<(), StrategyError> {
        self.proposer.tell(observed)
    }

    fn restrict(&mut self, part: Option<&Space>) -> Result<(), StrategyError> {
        self.proposer.restrict(part)
    }

    fn surrogate(&self) -> Option<&Surrogate> {
        Some(self.proposer.surrogate())
    }
}
