//! The decisions of an arm: the next point, and whether to continue its training.

use fedbo_rivals::{Boca, CurvePredictionRule};
use fedbo_strategies::early_stopping::{
    BoBos, BosRule, EpochGpUcb, LearningCurve, StoppingRule, TrainedObservation, TrainedTrial,
    Training, expected_end,
};
use fedbo_strategies::{GpUcb, Observation, Points, Proposal, RandomSearch, Source, Strategy};
use fedbo_streams::{Purpose, Seed, Stream};

use super::arms::ToldEnd;

/// A trial to train.
pub(super) struct TrainingTrial {
    pub(super) unit: Vec<f64>,
    pub(super) source: Source,
    /// Maximum number of epochs.
    pub(super) n_epochs: usize,
}

/// Asks `propose` for trial `number` and its number of epochs, without pending trials.
fn asked(
    seed: Seed,
    dim: usize,
    number: u64,
    propose: impl FnOnce(&Points, &mut Stream) -> anyhow::Result<(Proposal, usize)>,
) -> anyhow::Result<TrainingTrial> {
    let mut stream = seed.stream(Purpose::PROPOSAL, number, 0);
    let (proposal, n_epochs) = propose(&Points::new(dim), &mut stream)?;
    Ok(TrainingTrial { unit: proposal.unit, source: proposal.source, n_epochs })
}

/// A running trial.
pub(super) struct Running {
    pub(super) number: u64,
    /// Number of the trial, counted from 1 after the initial points.
    pub(super) t: u64,
    pub(super) unit: Vec<f64>,
    /// The values so far, to be maximized.
    pub(super) curve: LearningCurve,
}

/// The decisions of an arm.
pub(super) trait Tuner {
    /// Returns the next trial.
    fn ask(&mut self, number: u64) -> anyhow::Result<TrainingTrial>;

    /// Returns true if the trial should stop after the last epoch of its curve.
    fn stops(&mut self, trial: &Running, others: &[TrainedTrial]) -> anyhow::Result<bool>;

    /// Reports a trial that has ended. `others` are the trials before it.
    fn tell(
        &mut self,
        number: u64,
        ended: &TrainedObservation,
        others: &[TrainedTrial],
    ) -> anyhow::Result<()>;
}

/// A source of points.
pub(super) enum Proposals {
    /// Random search.
    Random(RandomSearch),
    /// GP-UCB over complete training runs.
    Final(GpUcb),
    /// GP-UCB over points and epochs.
    Epochs(EpochGpUcb),
}

/// Proposals with a rule that uses only curves, or without a rule.
pub(super) struct CurveRuleTuner {
    pub(super) proposals: Proposals,
    pub(super) rule: Option<Box<dyn StoppingRule>>,
    pub(super) dim: usize,
    pub(super) n_epochs: usize,
    pub(super) seed: Seed,
}

impl Tuner for CurveRuleTuner {
    fn ask(&mut self, number: u64) -> anyhow::Result<TrainingTrial> {
        asked(self.seed, self.dim, number, |none, stream| {
            let proposal = match &self.proposals {
                Proposals::Random(search) => search.ask(none, stream)?,
                Proposals::Final(strategy) => strategy.ask(none, stream)?,
                Proposals::Epochs(strategy) => strategy.ask(none, stream)?,
            };
            Ok((proposal, self.n_epochs))
        })
    }

    fn stops(&mut self, trial: &Running, others: &[TrainedTrial]) -> anyhow::Result<bool> {
        let Some(rule) = &self.rule else {
            return Ok(false);
        };
        Ok(rule.judge(&trained(trial), others).stops())
    }

    fn tell(
        &mut self,
        _: u64,
        ended: &TrainedObservation,
        _: &[TrainedTrial],
    ) -> anyhow::Result<()> {
        let last = ended.curve.as_ref().map(LearningCurve::last);
        let observation =
            || Observation::new(ended.unit.clone(), ended.complete.or(last), ended.source.clone());
        match &mut self.proposals {
            Proposals::Random(search) => search.tell(&[observation()])?,
            Proposals::Final(strategy) => strategy.tell(&[observation()])?,
            Proposals::Epochs(strategy) => strategy.tell(std::slice::from_ref(ended))?,
        }
        Ok(())
    }
}

/// Returns the trial in the form that rules use.
fn trained(trial: &Running) -> TrainedTrial {
    TrainedTrial { number: trial.number, curve: trial.curve.clone(), training: Training::Running }
}

/// GP-UCB over complete training runs, with the predicted final value as the value of a stopped
/// trial (Domhan et al. 2015).
pub(super) struct Predicted {
    pub(super) strategy: GpUcb,
    pub(super) rule: CurvePredictionRule,
    pub(super) dim: usize,
    pub(super) n_epochs: usize,
    pub(super) seed: Seed,
}

impl Tuner for Predicted {
    fn ask(&mut self, number: u64) -> anyhow::Result<TrainingTrial> {
        asked(self.seed, self.dim, number, |none, stream| {
            Ok((self.strategy.ask(none, stream)?, self.n_epochs))
        })
    }

    fn stops(&mut self, trial: &Running, others: &[TrainedTrial]) -> anyhow::Result<bool> {
        Ok(self.rule.judge(&trained(trial), others).stops())
    }

    fn tell(
        &mut self,
        number: u64,
        ended: &TrainedObservation,
        others: &[TrainedTrial],
    ) -> anyhow::Result<()> {
        let value = match (ended.complete, &ended.curve) {
            (Some(value), _) => Some(value),
            (None, Some(curve)) => {
                let trial =
                    TrainedTrial { number, curve: curve.clone(), training: Training::Stopped };
                Some(self.rule.expected_final_value(&trial, others))
            }
            (None, None) => None,
        };
        Ok(self.strategy.tell(&[Observation::new(
            ended.unit.clone(),
            value,
            ended.source.clone(),
        )])?)
    }
}

/// BO-BOS.
pub(super) struct Bos {
    pub(super) bo_bos: BoBos,
    pub(super) dim: usize,
    pub(super) seed: Seed,
    /// The value at epoch N that the model is told for a stopped trial.
    pub(super) told_end: ToldEnd,
    /// Number and rule of the running trial.
    pub(super) rule: Option<(u64, Option<BosRule>)>,
}

impl Tuner for Bos {
    fn ask(&mut self, number: u64) -> anyhow::Result<TrainingTrial> {
        asked(self.seed, self.dim, number, |none, stream| {
            Ok((self.bo_bos.ask(none, stream)?, self.bo_bos.settings().n_epochs))
        })
    }

    fn stops(&mut self, trial: &Running, _: &[TrainedTrial]) -> anyhow::Result<bool> {
        if trial.curve.n_epochs() < self.bo_bos.settings().first_epochs() {
            return Ok(false);
        }
        if self.rule.as_ref().is_none_or(|(of, _)| *of != trial.number) {
            let mut stream = self.seed.stream(fedbo_strategies::EARLY_STOPPING, trial.number, 0);
            let rule = self.bo_bos.rule(&trial.unit, &trial.curve, trial.t, &mut stream)?;
            self.rule = Some((trial.number, rule));
        }
        let rule = self.rule.as_ref().and_then(|(_, rule)| rule.as_ref());
        let answer = rule.and_then(|rule| rule.answer(&trial.curve));
        Ok(answer.is_some_and(|answer| answer.stops))
    }

    fn tell(
        &mut self,
        _: u64,
        ended: &TrainedObservation,
        _: &[TrainedTrial],
    ) -> anyhow::Result<()> {
        let mut ended = ended.clone();
        if let (None, Some(curve)) = (ended.complete, &ended.curve) {
            let settings = self.bo_bos.settings();
            ended.expected_end = match self.told_end {
                ToldEnd::Nothing => None,
                ToldEnd::Expected => expected_end(curve, settings.bounds(), settings.n_epochs)?,
                ToldEnd::Last => Some(curve.last()),
            };
        }
        Ok(self.bo_bos.tell(&[ended])?)
    }
}

/// The placebo of a rule: stops at BO-BOS's stopping epochs, but for other trials.
pub(super) struct PlaceboRule {
    pub(super) strategy: EpochGpUcb,
    /// Stopping epochs of the trials after the initial ones, which are used cyclically.
    pub(super) ends: Vec<usize>,
    pub(super) dim: usize,
    pub(super) seed: Seed,
}

impl Tuner for PlaceboRule {
    fn ask(&mut self, number: u64) -> anyhow::Result<TrainingTrial> {
        asked(self.seed, self.dim, number, |none, stream| {
            Ok((self.strategy.ask(none, stream)?, self.strategy.n_epochs()))
        })
    }

    fn stops(&mut self, trial: &Running, _: &[TrainedTrial]) -> anyhow::Result<bool> {
        let index = usize::try_from(trial.t - 1)? % self.ends.len().max(1);
        let end = self.ends.get(index);
        Ok(end.is_some_and(|end| trial.curve.n_epochs() >= *end))
    }

    fn tell(
        &mut self,
        _: u64,
        ended: &TrainedObservation,
        _: &[TrainedTrial],
    ) -> anyhow::Result<()> {
        Ok(self.strategy.tell(std::slice::from_ref(ended))?)
    }
}

/// BOCA: the acquisition determines the number of epochs of each trial.
pub(super) struct MultiFidelity {
    pub(super) boca: Boca,
    pub(super) dim: usize,
    pub(super) seed: Seed,
}

impl Tuner for MultiFidelity {
    fn ask(&mut self, number: u64) -> anyhow::Result<TrainingTrial> {
        asked(self.seed, self.dim, number, |none, stream| Ok(self.boca.ask(none, stream)?))
    }

    fn stops(&mut self, _: &Running, _: &[TrainedTrial]) -> anyhow::Result<bool> {
        Ok(false)
    }

    fn tell(
        &mut self,
        _: u64,
        ended: &TrainedObservation,
        _: &[TrainedTrial],
    ) -> anyhow::Result<()> {
        Ok(self.boca.tell(std::slice::from_ref(ended))?)
    }
}
