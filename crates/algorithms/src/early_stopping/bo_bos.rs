//! BO-BOS: GP-UCB over points and epochs, with optimal stopping of each trial.

use fedbo_optim::Points;
use fedbo_streams::{Seed, Stream};

use super::{
    BosProblem, BosRule, BosSettings, EpochGpUcb, EpochGpUcbSettings, LearningCurve,
    TrainedObservation, ValueBounds,
};
use crate::{Domain, Proposal, StrategyError, Surrogate};

/// BO-BOS (thesis Algorithm 4.1): proposals are those of [`EpochGpUcb`]; each trial has a [`BosRule`], solved after its first N₀
/// epochs.
///
/// The incumbent y*_{t−1} is the best value at which a trial ended: of the whole training, or where it was stopped (y_t = y_{t,n_t}).
#[derive(Clone, Debug)]
pub struct BoBos {
    strategy: EpochGpUcb,
    settings: BosSettings,
    incumbent: Option<f64>,
}

impl BoBos {
    /// Without observations; `seed` feeds hyperparameter fits.
    ///
    /// # Errors
    /// If a setting is out of range.
    pub fn new(
        domain: Domain,
        strategy: EpochGpUcbSettings,
        settings: BosSettings,
        seed: Seed,
    ) -> Result<Self, StrategyError> {
        let settings = settings.validate()?;
        if settings.n_epochs != strategy.n_epochs {
            return Err(StrategyError::Setting {
                name: "epochs",
                value: settings.n_epochs.to_string(),
                expected: "as many as the model's",
            });
        }
        Ok(Self {
            strategy: EpochGpUcb::new(domain, strategy, seed)?,
            settings,
            incumbent: None,
        })
    }

    /// Proposes a query; see [`EpochGpUcb::ask`].
    ///
    /// # Errors
    /// As there.
    pub fn ask(&self, pending: &Points, stream: &mut Stream) -> Result<Proposal, StrategyError> {
        self.strategy.ask(pending, stream)
    }

    /// Adds trials that have ended; see [`EpochGpUcb::tell`].
    ///
    /// # Errors
    /// As there.
    pub fn tell(&mut self, observed: &[TrainedObservation]) -> Result<(), StrategyError> {
        self.strategy.tell(observed)?;
        for trial in observed {
            let last = trial.curve.as_ref().map(LearningCurve::last);
            if let Some(end) = trial.complete.or(last) {
                self.incumbent = Some(self.incumbent.map_or(end, |best| best.max(end)));
            }
        }
        Ok(())
    }

    /// The rule of the t-th proposed trial, from its first N₀ values; `None` before any trial has ended, and where
    /// [`BosRule::solve`] finds none: the trial is then trained to the end.
    ///
    /// # Errors
    /// If the process of the curve cannot be fitted.
    ///
    /// # Panics
    /// If the curve is shorter than N₀.
    pub fn rule(
        &self,
        unit: &[f64],
        curve: &LearningCurve,
        t: u64,
        stream: &mut Stream,
    ) -> Result<Option<BosRule>, StrategyError> {
        self.rule_within(self.settings.bounds, unit, curve, t, stream)
    }

    /// The same with other bounds of values than the settings'.
    ///
    /// # Errors
    /// As [`BoBos::rule`].
    ///
    /// # Panics
    /// As [`BoBos::rule`].
    pub fn rule_within(
        &self,
        bounds: ValueBounds,
        unit: &[f64],
        curve: &LearningCurve,
        t: u64,
        stream: &mut Stream,
    ) -> Result<Option<BosRule>, StrategyError> {
        let Some(incumbent) = self.incumbent else {
            return Ok(None);
        };
        let settings = BosSettings {
            bounds,
            ..self.settings
        };
        let stds = self.strategy.stds(unit, settings.stop_std_with_noise);
        let problem = BosProblem {
            curve,
            incumbent,
            t,
            stds: &stds,
        };
        BosRule::solve(&settings, &problem, stream)
    }

    /// How trials are stopped.
    pub fn settings(&self) -> &BosSettings {
        &self.settings
    }

    /// y*: the best value at which a trial ended.
    pub fn incumbent(&self) -> Option<f64> {
        self.incumbent
    }

    /// Its model, over z = [x, n/N].
    pub fn surrogate(&self) -> &Surrogate {
        self.strategy.surrogate()
    }
}
