//! BO-BOS: GP-UCB over points and epochs, with optimal stopping of each trial.

use fedbo_gp::{DecayAverage, DecayNoise};
use fedbo_optim::Points;
use fedbo_streams::{Seed, Stream};

use super::{EpochGpUcb, EpochGpUcbSettings, LearningCurve, TrainedObservation};
use crate::{Domain, Proposal, StrategyError, Surrogate};

mod optimal_stopping;
mod options;
mod rule;
mod settings;

pub use optimal_stopping::{
    CellPaths, CellRule, Decision, DecisionTable, SparseCells, StoppingLosses, solve,
};
pub use options::BoBosOptions;
pub use rule::{BosAnswer, BosProblem, BosRule, EpochRules};
pub use settings::{Average, BosSettings, CurveBelief, Grid, IncumbentMargin, ValueBounds};

/// BO-BOS (thesis Algorithm 4.1). Proposals come from [`EpochGpUcb`]. Each trial has its own
/// [`BosRule`], which is solved after the trial's first N₀ epochs.
///
/// The incumbent y*_{t−1} is the best last value of any trial: the value at the end of training, or
/// at the epoch at which the trial was stopped (y_t = y_{t,n_t}).
#[derive(Clone, Debug)]
pub struct BoBos {
    strategy: EpochGpUcb,
    settings: BosSettings,
    incumbent: Option<f64>,
}

impl BoBos {
    /// Creates BO-BOS without observations. `seed` is used for hyperparameter fits.
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
        StrategyError::ensure(
            settings.n_epochs == strategy.n_epochs,
            "epochs",
            settings.n_epochs,
            "the number of epochs of the model",
        )?;
        Ok(Self { strategy: EpochGpUcb::new(domain, strategy, seed)?, settings, incumbent: None })
    }

    /// Proposes a query; see [`EpochGpUcb::ask`].
    ///
    /// # Errors
    /// Same as [`EpochGpUcb::ask`].
    pub fn ask(&self, pending: &Points, stream: &mut Stream) -> Result<Proposal, StrategyError> {
        self.strategy.ask(pending, stream)
    }

    /// Adds finished trials; see [`EpochGpUcb::tell`].
    ///
    /// # Errors
    /// Same as [`EpochGpUcb::tell`].
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

    /// Solves the rule of the t-th proposed trial from its first N₀ values. Returns `None` before
    /// any trial has finished, or if [`BosRule::solve`] finds no rule; the trial must then be
    /// trained to the end.
    ///
    /// # Errors
    /// If no process can be fitted to the curve.
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
        self.rule_within(self.settings.bounds(), unit, curve, t, stream)
    }

    /// Like [`BoBos::rule`], but with different value bounds from those in the settings.
    ///
    /// # Errors
    /// Same as [`BoBos::rule`].
    ///
    /// # Panics
    /// Same as [`BoBos::rule`].
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
        let settings = self.settings.with_bounds(bounds);
        let stds = self.strategy.stds(unit, settings.stop_std_with_noise);
        let problem = BosProblem { curve, incumbent, t, stds: &stds };
        BosRule::solve(&settings, &problem, stream)
    }

    /// Returns the settings of the stopping problem.
    pub fn settings(&self) -> &BosSettings {
        &self.settings
    }

    /// Returns y*, the best last value of any trial, or `None` if there is none.
    pub fn incumbent(&self) -> Option<f64> {
        self.incumbent
    }

    /// Returns the model over z = [x, s(n)], where s is the strategy's
    /// [`EpochScale`](super::EpochScale).
    pub fn surrogate(&self) -> &Surrogate {
        self.strategy.surrogate()
    }
}

/// Returns the expected final value of a stopped training run of N = `n_epochs` epochs.
///
/// The expected value is the mean of f([x, N]), averaged over the curve's processes and clamped to
/// the bounds. Returns `None` for a complete run, or if a value of the curve is outside the bounds.
///
/// Passing this value to the model as an observation at epoch N (see [`TrainedObservation`]) keeps
/// the model from proposing the same region again. In the thesis, the model receives only the
/// reported values.
///
/// # Errors
/// If no process can be fitted to the curve.
pub fn expected_end(
    curve: &LearningCurve,
    bounds: ValueBounds,
    n_epochs: usize,
) -> Result<Option<f64>, StrategyError> {
    let errors: Vec<f64> = curve.values().iter().map(|v| bounds.error(*v)).collect();
    let is_within = |error: &f64| (0.0..=1.0).contains(error);
    if errors.len() >= n_epochs || !errors.iter().all(is_within) {
        return Ok(None);
    }
    let laws = DecayAverage::fit(&errors, DecayNoise::Fitted)?.continuations(&errors, n_epochs)?;
    let ends = laws.iter().map(|(weight, law)| weight * law.mean()[law.n_epochs() - 1]);
    Ok(Some(bounds.value(ends.sum::<f64>().clamp(0.0, 1.0))))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Errors fall as 0.6 exp(−n/8) + 0.2 and reach 0.201 at epoch 50. The expected end of a trial
    /// that is stopped after 20 epochs, at 0.249, is close to 0.201. Accuracies and losses give
    /// mirrored results.
    #[test]
    fn the_expected_end_lies_where_the_curve_goes() {
        let errors: Vec<f64> = (1..=20).map(|n| 0.6 * (-f64::from(n) / 8.0).exp() + 0.2).collect();
        let bounds = ValueBounds { low: 0.0, high: 1.0 };
        let of = |values: Vec<f64>, bounds| {
            let curve = LearningCurve::new(values);
            expected_end(&curve, bounds, 50).unwrap().unwrap()
        };
        let accuracy = of(errors.iter().map(|e| 1.0 - e).collect(), bounds);
        assert!((0.76..0.83).contains(&accuracy), "{accuracy}");
        let negative = ValueBounds { low: -1.0, high: 0.0 };
        let loss = of(errors.iter().map(|e| -e).collect(), negative);
        assert!((loss + 1.0 - accuracy).abs() < 1e-9, "{loss}");
    }

    #[test]
    fn a_whole_training_and_one_beyond_the_bounds_have_none() {
        let bounds = ValueBounds { low: 0.0, high: 1.0 };
        let end = |values: Vec<f64>| expected_end(&LearningCurve::new(values), bounds, 5).unwrap();
        assert_eq!(end(vec![0.5; 5]), None);
        assert_eq!(end(vec![0.5, 1.5, 0.5]), None);
        assert!(end(vec![0.5, 0.55, 0.56]).is_some());
    }
}
