//! Stopping by extrapolation: a trial stops if it is unlikely to beat the best one.

use fedbo_streams::{Purpose, Seed};

use super::{CurvePrediction, CurvePredictor, CurveSampling};
use fedbo_strategies::StrategyError;
use fedbo_strategies::early_stopping::{StopReason, StoppingRule, TrainedTrial, Training, Verdict};

/// Settings of a [`CurvePredictionRule`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CurvePredictionSettings {
    /// Number N of epochs of a complete trial.
    pub n_epochs: usize,
    /// Number of epochs between predictions, at least 1.
    pub interval: usize,
    /// Minimum number of epochs for a prediction. With fewer epochs, the prior would determine the
    /// prediction instead of the curve.
    pub epochs_min: usize,
    /// δ in (0, 1): a trial stops if the probability that it ends at or above the best one is below
    /// δ.
    pub prob_min: f64,
    /// The lowest and highest possible value, such as (0, 1) for accuracies. `None` uses the range
    /// of all values that trials have reported so far.
    pub range: Option<(f64, f64)>,
    /// The amount of sampling.
    pub sampling: CurveSampling,
}

impl CurvePredictionSettings {
    /// Returns the default settings: a prediction every 2 epochs (Dai 2021, appendix A.4) from the
    /// fourth on, δ = 0.05 (Domhan et al. 2015), and values of any range.
    pub fn for_epochs(n_epochs: usize) -> Self {
        Self {
            n_epochs,
            interval: 2,
            epochs_min: 4,
            prob_min: 0.05,
            range: None,
            sampling: CurveSampling::default(),
        }
    }
}

/// The predictive termination criterion (Domhan et al. 2015, section 3): a trial stops after epoch
/// n if
///
/// P(y_N ≥ ŷ | y_1, …, y_n) < δ,
///
/// where ŷ is the best final value of the complete trials. No trial stops until one is complete,
/// and a trial that has already reached ŷ does not stop. The surrogate uses E\[f(N)\] as the value
/// of a stopped trial: [`CurvePredictionRule::expected_final_value`]. Cost: see [`CurvePredictor`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CurvePredictionRule {
    settings: CurvePredictionSettings,
    seed: Seed,
}

impl CurvePredictionRule {
    /// Creates a rule. The rule draws from `seed` with [`Purpose::PROPOSAL`], by trial and epoch,
    /// so it needs a seed of its own.
    ///
    /// # Errors
    /// If a setting is out of range.
    pub fn new(settings: CurvePredictionSettings, seed: Seed) -> Result<Self, StrategyError> {
        let range = settings.range.unwrap_or((0.0, 1.0));
        CurvePredictor::new(settings.n_epochs, range, settings.sampling)?;
        StrategyError::ensure(settings.interval > 0, "interval", settings.interval, "at least 1")?;
        StrategyError::ensure(
            settings.prob_min > 0.0 && settings.prob_min < 1.0,
            "prob_min",
            settings.prob_min,
            "a number above 0 and below 1",
        )?;
        Ok(Self { settings, seed })
    }

    /// Predicts the end of a trial from its reports.
    ///
    /// Returns `None` if all values so far are equal and no range is given. Equal arguments give
    /// equal predictions.
    pub fn predict(
        &self,
        trial: &TrainedTrial,
        others: &[TrainedTrial],
    ) -> Option<CurvePrediction> {
        let range = self.settings.range.unwrap_or_else(|| {
            let curves = others.iter().map(|other| &other.curve);
            let values = curves.chain([&trial.curve]).flat_map(|c| c.values());
            values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| {
                (low.min(*v), high.max(*v))
            })
        });
        let predictor =
            CurvePredictor::new(self.settings.n_epochs, range, self.settings.sampling).ok()?;
        let epoch = trial.curve.n_epochs() as u64;
        let mut stream = self.seed.stream(Purpose::PROPOSAL, trial.number, epoch);
        Some(predictor.predict(&trial.curve, &mut stream))
    }

    /// Returns E\[f(N)\], used as the value of a stopped trial, or the trial's last value if no
    /// prediction is possible.
    pub fn expected_final_value(&self, trial: &TrainedTrial, others: &[TrainedTrial]) -> f64 {
        self.predict(trial, others).map_or(trial.curve.last(), |prediction| prediction.mean())
    }
}

impl StoppingRule for CurvePredictionRule {
    fn judge(&self, trial: &TrainedTrial, others: &[TrainedTrial]) -> Verdict {
        let epoch = trial.curve.n_epochs();
        let settings = &self.settings;
        let is_due = epoch.is_multiple_of(settings.interval) && epoch >= settings.epochs_min;
        if !is_due || epoch >= settings.n_epochs {
            return Verdict::Continue;
        }
        let complete = others.iter().filter(|other| other.training == Training::Complete);
        let best = complete.map(|other| other.curve.last()).reduce(f64::max);
        let Some(best) = best else {
            return Verdict::Continue;
        };
        if trial.curve.values().iter().any(|value| *value >= best) {
            return Verdict::Continue;
        }
        let Some(prediction) = self.predict(trial, others) else {
            return Verdict::Continue;
        };
        let prob = prediction.prob_at_least(best);
        if prob < settings.prob_min {
            Verdict::Stop {
                because: StopReason::BelowBest {
                    epoch,
                    best,
                    probability: prob,
                    expected: prediction.mean(),
                    std: prediction.std(),
                },
            }
        } else {
            Verdict::Continue
        }
    }
}
