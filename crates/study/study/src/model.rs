//! The pure part of a study: maps the finished trials, in order, to the next point.

use std::collections::BTreeSet;

use fedbo_optim::Points;
use fedbo_space::Space;
use fedbo_storage::{LastCorrection, Told, Trial};
use fedbo_strategies::early_stopping::{EpochGpUcb, EpochGpUcbSettings};
use fedbo_strategies::meta::{Transfer, WarmStart};
use fedbo_strategies::{
    Domain, Earlier, Maker, Observation, Proposal, Repeats, Setup, SobolSearch, Source, Strategy,
    StrategyError,
};
use fedbo_streams::{Purpose, Seed, Stream};

use crate::early_stopping::ToldTrials;
use crate::{Definition, MetaError, StudyError};

/// A strategy and its initial design, after all trials up to a position in completion order.
///
/// A model's state and proposals are functions of the definition and the ordered finished trials,
/// bit for bit and independent of batches. A study therefore resumes after an interruption as if it
/// had not been interrupted.
pub(crate) struct Model {
    definition: Definition,
    space: Space,
    seed: Seed,
    initial: SobolSearch,
    strategy: ModelStrategy,
    /// The best points of old studies that have not been evaluated yet. They are proposed first.
    first: Vec<Vec<f64>>,
    /// The points of discarded initial trials that no other trial has evaluated. The initial design
    /// proposes them again.
    vacant: Vec<Vec<f64>>,
    /// The part of the space with the given values of the next query, if any.
    part: Option<Space>,
    n_told: u64,
    /// The last correction of the finished trials when they were added.
    last_correction: Option<LastCorrection>,
    /// Number of finished trials that do not count towards the limit.
    n_uncounted: u64,
    n_values: usize,
}

/// Function that creates a fresh instance of the user-defined strategy.
pub(crate) type OwnStrategy = dyn Fn() -> Box<dyn Strategy> + Send + Sync;

/// The part of the model that proposes.
enum ModelStrategy {
    /// Proposes from final values.
    Final(Box<dyn Strategy>),
    /// Proposes from learning curves, for trials that report during training.
    Epochs(Box<EpochStrategy>),
}

/// A strategy that models epochs, and the trials that it was given.
struct EpochStrategy {
    strategy: EpochGpUcb,
    told_trials: ToldTrials,
}

impl ModelStrategy {
    fn ask(&self, pending: &Points, stream: &mut Stream) -> Result<Proposal, StudyError> {
        Ok(match self {
            Self::Final(strategy) => strategy.ask(pending, stream)?,
            Self::Epochs(epochs) => epochs.strategy.ask(pending, stream)?,
        })
    }

    fn restrict(&mut self, part: Option<&Space>) -> Result<(), StrategyError> {
        match self {
            Self::Final(strategy) => strategy.restrict(part),
            Self::Epochs(epochs) => epochs.strategy.restrict(part),
        }
    }
}

/// Minimum number of values for a useful surrogate.
const VALUES_MIN: usize = 2;

impl Model {
    pub(crate) fn new(
        definition: &Definition,
        own: Option<&OwnStrategy>,
    ) -> Result<Self, StudyError> {
        let space = definition.check()?;
        let seed = Seed::new(definition.seed);
        Ok(Self {
            first: first_points(definition, &space)?,
            initial: SobolSearch::new(space.clone(), Repeats::for_study(definition.noisy), seed)?,
            strategy: chooser(definition, own, &space, seed)?,
            definition: definition.clone(),
            space,
            seed,
            vacant: Vec::new(),
            part: None,
            n_told: 0,
            last_correction: None,
            n_uncounted: 0,
            n_values: 0,
        })
    }

    /// Returns the number of finished trials in the model.
    pub(crate) fn n_told(&self) -> u64 {
        self.n_told
    }

    /// Returns the last correction that the model takes into account.
    pub(crate) fn last_correction(&self) -> Option<LastCorrection> {
        self.last_correction
    }

    /// Sets the last correction that the next finished trials take into account.
    pub(crate) fn set_last_correction(&mut self, last_correction: Option<LastCorrection>) {
        self.last_correction = last_correction;
    }

    /// Returns the number of finished trials in the model that do not count towards the limit.
    pub(crate) fn n_uncounted(&self) -> u64 {
        self.n_uncounted
    }

    /// Returns the number of trials in the model, including retries of failed ones.
    pub(crate) fn n_known(&self) -> usize {
        usize::try_from(self.n_told).unwrap_or(usize::MAX)
    }

    /// Returns the influence of old studies on the next query, in the units of the models.
    pub(crate) fn transfer(&self) -> Option<Transfer> {
        match &self.strategy {
            ModelStrategy::Final(strategy) => strategy.transfer(),
            ModelStrategy::Epochs(_) => None,
        }
    }

    /// Adds the next finished trials, in completion order.
    ///
    /// A failure is skipped if one of the trials is its retry. A discarded trial is skipped, too. If
    /// a batch contains a retry, the
    /// caller must therefore add the batch to a new model, together with all earlier trials.
    pub(crate) fn absorb(&mut self, told: &[Trial]) -> Result<(), StudyError> {
        let n_told = told.len() as u64;
        let n_uncounted = n_uncounted(told);
        for trial in told.iter().filter(|each| each.is_discarded() && each.origin() == "initial") {
            self.vacant.push(self.space.encode(&trial.point)?);
        }
        let current: Vec<Trial>;
        let told = if n_uncounted == 0 {
            told
        } else {
            let retried = retried(told);
            let counts = |trial: &&Trial| !retried.contains(&trial.number) && !trial.is_discarded();
            current = told.iter().filter(counts).cloned().collect();
            &current
        };
        let observations = told
            .iter()
            .map(|trial| {
                Ok(Observation {
                    unit: self.space.encode(&trial.point)?,
                    // Strategies without a surrogate ignore the value. A trial stopped early did
                    // not fail.
                    value: trial
                        .value()
                        .or(trial.last_report().map(|report| report.value))
                        .filter(|_| !matches!(trial.told(), Some(Told::Failed { .. })))
                        .map(|value| self.definition.direction.to_maximize(value)),
                    further: self.definition.further(trial)?,
                    // The initial design is weighted as a whole, before the first query.
                    source: match trial.origin() {
                        "initial" => Source::Initial,
                        _ => Source::Own,
                    },
                })
            })
            .collect::<Result<Vec<_>, StudyError>>()?;
        let is_new = |unit: &Vec<f64>| !observations.iter().any(|o| is_same_point(&o.unit, unit));
        self.first.retain(is_new);
        self.vacant.retain(is_new);
        match &mut self.strategy {
            ModelStrategy::Final(strategy) => strategy.tell(&observations)?,
            ModelStrategy::Epochs(epochs) => {
                let EpochStrategy { strategy, told_trials } = epochs.as_mut();
                let n_known = told_trials.len();
                told_trials.absorb(told);
                strategy.tell(&told_trials.observations(n_known..told_trials.len())?)?;
            }
        }
        self.initial.tell(&observations)?;
        self.n_told += n_told;
        self.n_uncounted += n_uncounted;
        self.n_values += observations.iter().filter(|o| o.value.is_some()).count();
        Ok(())
    }

    /// Like [`Model::propose`], with the given values of a part of the space.
    ///
    /// # Errors
    /// Same as [`Model::propose`]. Also fails if the strategy cannot propose with given values.
    pub(crate) fn propose_in(
        &mut self,
        part: Option<&Space>,
        number: u64,
        open: &[Trial],
        attempt: u32,
    ) -> Result<Proposal, StudyError> {
        self.restrict(part)?;
        let proposed = self.propose(number, open, attempt);
        self.restrict(None)?;
        proposed
    }

    fn restrict(&mut self, part: Option<&Space>) -> Result<(), StudyError> {
        self.strategy.restrict(part).map_err(|error| match error {
            StrategyError::NoGivenValues => {
                StudyError::NoGivenValues { strategy: self.definition.strategy.name() }
            }
            other => other.into(),
        })?;
        self.initial.restrict(part)?;
        self.part = part.cloned();
        Ok(())
    }

    /// Proposes the point of trial `number` while the `open` trials have no value yet.
    ///
    /// `attempt` counts the earlier proposals for this number that duplicated a trial. After the
    /// first attempt, the point is random.
    pub(crate) fn propose(
        &self,
        number: u64,
        open: &[Trial],
        attempt: u32,
    ) -> Result<Proposal, StudyError> {
        let mut pending = Points::new(self.space.dim());
        for trial in open {
            pending.push(&self.space.encode(&trial.point)?);
        }
        let mut stream = self.seed.stream(Purpose::PROPOSAL, number, u64::from(attempt));
        if attempt > 0 {
            let space = self.part.as_ref().unwrap_or(&self.space);
            let unit = Domain::Space(space.clone()).random(&mut stream);
            let source = Source::Random;
            return Ok(Proposal { unit, source });
        }
        // These points do not have the given values.
        let mut first = self.first.iter().filter(|_| self.part.is_none());
        if let Some(unit) = first.find(|best| !pending.rows().any(|row| is_same_point(row, best))) {
            return Ok(Proposal { unit: unit.clone(), source: Source::MetaTasks });
        }
        if !self.definition.strategy.has_surrogate() {
            return self.asked(&pending, &mut stream);
        }
        let n_uncounted = self.n_uncounted + n_uncounted(open);
        let is_initial = number.saturating_sub(n_uncounted) < self.definition.n_initial as u64
            || self.n_values < VALUES_MIN.min(self.definition.n_initial);
        if is_initial {
            let is_free = |unit: &&Vec<f64>| {
                self.part.is_none() && !pending.rows().any(|row| is_same_point(row, unit))
            };
            let unit = match self.vacant.iter().find(is_free) {
                Some(unit) => unit.clone(),
                None => self.initial.ask(&pending, &mut stream)?.unit,
            };
            let source = Source::Initial;
            return Ok(Proposal { unit, source });
        }
        self.asked(&pending, &mut stream)
    }

    /// Returns the strategy's query after checking that it is a point of the unit cube. A
    /// user-defined strategy can return anything.
    fn asked(&self, pending: &Points, stream: &mut Stream) -> Result<Proposal, StudyError> {
        let proposal = self.strategy.ask(pending, stream)?;
        let is_point = proposal.unit.len() == self.space.dim()
            && proposal.unit.iter().all(|c| (0.0..=1.0).contains(c));
        match is_point {
            true => Ok(proposal),
            false => Err(StudyError::NoPoint {
                strategy: self.definition.strategy.name(),
                unit: proposal.unit,
                dim: self.space.dim(),
            }),
        }
    }
}

/// Returns the number of trials that do not count towards a study's limit: retries of failed trials,
/// and discarded trials.
pub(crate) fn n_uncounted(trials: &[Trial]) -> u64 {
    let is_uncounted = |trial: &&Trial| trial.retry_of().is_some() || trial.is_discarded();
    trials.iter().filter(is_uncounted).count() as u64
}

/// Returns the numbers of the trials that another one of these trials retries.
pub(crate) fn retried(trials: &[Trial]) -> BTreeSet<u64> {
    let retries = trials.iter().filter(|trial| !trial.is_discarded());
    retries.filter_map(Trial::retry_of).collect()
}

fn chooser(
    definition: &Definition,
    own: Option<&OwnStrategy>,
    space: &Space,
    seed: Seed,
) -> Result<ModelStrategy, StudyError> {
    let setup = Setup { space, noisy: definition.noisy, seed, outcomes: definition.outcomes() };
    // Trials that report during training are modelled over points and epochs, by strategies that
    // have a bound for this model.
    if let (Some(spec), Some(ucb_multiplier)) =
        (&definition.early_stopping, definition.strategy.epoch_bound())
    {
        let settings = EpochGpUcbSettings {
            ucb_multiplier,
            ..EpochGpUcbSettings::for_study(space, definition.noisy, spec.epochs as usize)
        };
        return Ok(ModelStrategy::Epochs(Box::new(EpochStrategy {
            strategy: EpochGpUcb::new(setup.domain(), settings, seed)?,
            told_trials: ToldTrials::new(definition)?,
        })));
    }
    let strategy = strategy(definition, own, &setup)?;
    Ok(ModelStrategy::Final(match &definition.archive {
        None => strategy,
        Some(archive) => archive.before(definition, space, strategy)?,
    }))
}

/// Returns the best points of old studies, which are evaluated first.
fn first_points(definition: &Definition, space: &Space) -> Result<Vec<Vec<f64>>, StudyError> {
    let meta = definition.meta.as_ref();
    let Some(meta) = meta.filter(|meta| meta.settings.warm_start > 0) else {
        return Ok(Vec::new());
    };
    let tasks = meta.tasks(space, definition.direction)?;
    let best = WarmStart::best_points(&tasks, space.dim(), meta.settings.warm_start);
    Ok(best.rows().map(<[f64]>::to_vec).collect())
}

/// Returns true if two encodings are the same point, up to the rounding error of a conversion to
/// parameter units and back.
fn is_same_point(a: &[f64], b: &[f64]) -> bool {
    a.iter().zip(b).all(|(a, b)| (a - b).abs() <= 1e-9)
}

fn strategy(
    definition: &Definition,
    own: Option<&OwnStrategy>,
    setup: &Setup<'_>,
) -> Result<Box<dyn Strategy>, StudyError> {
    match definition.strategy.options() {
        Maker::Alone(options) => Ok(options.make(setup)?),
        Maker::Meta(options) => {
            let Some(meta) = &definition.meta else {
                let strategy = definition.strategy.name();
                return Err(MetaError::NoStudies { strategy }.into());
            };
            let earlier = Earlier {
                tasks: &meta.tasks(setup.space, definition.direction)?,
                scale: meta.settings.scale.output_scale(),
                belief: meta.settings.belief()?,
                noisy: meta.has_noise(),
            };
            Ok(options.make(setup, &earlier)?)
        }
        Maker::Own(_) => match own {
            Some(make) => Ok(make()),
            None => {
                let name = definition.name.clone();
                Err(StudyError::OwnStrategy { name })
            }
        },
    }
}
