//! The pure part of a study: from what was told, in order, to the next point.

use std::collections::BTreeSet;

use fedbo_optim::Points;
use fedbo_space::Space;
use fedbo_storage::{Told, Trial};
use fedbo_strategies::early_stopping::{EpochGpUcb, EpochGpUcbSettings};
use fedbo_strategies::meta::{Transfer, WarmStart};
use fedbo_strategies::{
    Domain, Earlier, Maker, Observation, Proposal, Repeats, Setup, SobolSearch, Source, Strategy,
};
use fedbo_streams::{Purpose, Seed, Stream};

use crate::early_stopping::ToldTrials;
use crate::{Definition, MetaError, StudyError};

/// A strategy with its initial design, told everything up to a place in the order of telling.
///
/// Its state and its proposals are functions of the definition and of the told trials in order, to the bit, however they were
/// batched: so a study goes on after an interruption as if there had been none.
pub(crate) struct Model {
    definition: Definition,
    space: Space,
    seed: Seed,
    initial: SobolSearch,
    strategy: ModelStrategy,
    /// The best points of old studies, which are tried first, those aside that were tried already.
    first: Vec<Vec<f64>>,
    n_told: u64,
    /// Those of them that evaluated the point of a failed trial again.
    n_retries: u64,
    n_values: usize,
}

/// Makes a strategy of the caller's own that was told nothing yet.
pub(crate) type OwnStrategy = dyn Fn() -> Box<dyn Strategy> + Send + Sync;

/// The part of the model that proposes.
enum ModelStrategy {
    /// From final values.
    Final(Box<dyn Strategy>),
    /// From curves, where trials report as they train.
    Epochs(Box<EpochStrategy>),
}

/// A strategy that models epochs, and what it was told.
struct EpochStrategy {
    strategy: EpochGpUcb,
    tellings: ToldTrials,
}

impl ModelStrategy {
    fn ask(&self, pending: &Points, stream: &mut Stream) -> Result<Proposal, StudyError> {
        Ok(match self {
            Self::Final(strategy) => strategy.ask(pending, stream)?,
            Self::Epochs(epochs) => epochs.strategy.ask(pending, stream)?,
        })
    }
}

/// Values without which a surrogate says nothing.
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
            n_told: 0,
            n_retries: 0,
            n_values: 0,
        })
    }

    /// Returns the number of tellings that it knows.
    pub(crate) fn n_told(&self) -> u64 {
        self.n_told
    }

    /// Returns the number of known tellings of trials that evaluated the point of a failed one again.
    pub(crate) fn n_retries(&self) -> u64 {
        self.n_retries
    }

    /// Returns the number of trials that it knows, those that evaluated the point of a failed one again included.
    pub(crate) fn n_known(&self) -> usize {
        usize::try_from(self.n_told).unwrap_or(usize::MAX)
    }

    /// Returns the influence of old studies on its next query, in the models' units.
    pub(crate) fn transfer(&self) -> Option<Transfer> {
        match &self.strategy {
            ModelStrategy::Final(strategy) => strategy.transfer(),
            ModelStrategy::Epochs(_) => None,
        }
    }

    /// Takes in the trials that were told next, in the order of telling. A failure is left out if one of them evaluated its point
    /// again: so who takes in such a trial begins with a new model and takes in everything.
    pub(crate) fn absorb(&mut self, told: &[Trial]) -> Result<(), StudyError> {
        let n_told = told.len() as u64;
        let retried: BTreeSet<u64> = told.iter().filter_map(Trial::retry_of).collect();
        let standing: Vec<Trial>;
        let told = if retried.is_empty() {
            told
        } else {
            let stands = |trial: &&Trial| !retried.contains(&trial.number);
            standing = told.iter().filter(stands).cloned().collect();
            &standing
        };
        let observations = told
            .iter()
            .map(|trial| {
                Ok(Observation {
                    unit: self.space.encode(&trial.point)?,
                    // Strategies without a surrogate do not look at it; a trial that was stopped did not fail.
                    value: trial
                        .value()
                        .or(trial.last_report().map(|report| report.value))
                        .filter(|_| !matches!(trial.told(), Some(Told::Failed { .. })))
                        .map(|value| self.definition.direction.to_maximize(value)),
                    further: self.definition.further(trial)?,
                    // What the initial design shows is weighed as a whole, before the first query.
                    source: match trial.origin() {
                        "initial" => Source::Initial,
                        _ => Source::Own,
                    },
                })
            })
            .collect::<Result<Vec<_>, StudyError>>()?;
        self.first.retain(|best| !observations.iter().any(|o| is_same_point(&o.unit, best)));
        match &mut self.strategy {
            ModelStrategy::Final(strategy) => strategy.tell(&observations)?,
            ModelStrategy::Epochs(epochs) => {
                let EpochStrategy { strategy, tellings } = epochs.as_mut();
                let n_known = tellings.len();
                tellings.absorb(told);
                strategy.tell(&tellings.observations(n_known..tellings.len())?)?;
            }
        }
        self.initial.tell(&observations)?;
        self.n_told += n_told;
        self.n_retries += retried.len() as u64;
        self.n_values += observations.iter().filter(|o| o.value.is_some()).count();
        Ok(())
    }

    /// The point of trial `number` while `open` trials have no value yet. `attempt` counts from 0 how often a point of this
    /// number turned out to be a trial already; after the first it is a random one.
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
        let mut stream = self.seed.stream(Purpose::Proposal, number, u64::from(attempt));
        if attempt > 0 {
            let unit = Domain::Space(self.space.clone()).random(&mut stream);
            let source = Source::Random;
            return Ok(Proposal { unit, source });
        }
        let mut first = self.first.iter();
        if let Some(unit) = first.find(|best| !pending.rows().any(|row| is_same_point(row, best))) {
            return Ok(Proposal { unit: unit.clone(), source: Source::MetaTasks });
        }
        if !self.definition.strategy.has_surrogate() {
            return self.asked(&pending, &mut stream);
        }
        let n_retries = self.n_retries + n_retries(open);
        let is_initial = number.saturating_sub(n_retries) < self.definition.n_initial as u64
            || self.n_values < VALUES_MIN.min(self.definition.n_initial);
        if is_initial {
            let unit = self.initial.ask(&pending, &mut stream)?.unit;
            let source = Source::Initial;
            return Ok(Proposal { unit, source });
        }
        self.asked(&pending, &mut stream)
    }

    /// The strategy's query, which is a point of the unit cube: that of the caller's own might not be.
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

/// Returns the number of these trials that evaluate the point of a failed one again.
pub(crate) fn n_retries(trials: &[Trial]) -> u64 {
    let retries = trials.iter().filter(|trial| trial.retry_of().is_some());
    retries.count() as u64
}

fn chooser(
    definition: &Definition,
    own: Option<&OwnStrategy>,
    space: &Space,
    seed: Seed,
) -> Result<ModelStrategy, StudyError> {
    let setup = Setup { space, noisy: definition.noisy, seed, outcomes: definition.outcomes() };
    // Trials that report as they train are modelled over points and epochs, by strategies that know such a bound.
    if let (Some(spec), Some(ucb_multiplier)) =
        (&definition.early_stopping, definition.strategy.epoch_bound())
    {
        let settings = EpochGpUcbSettings {
            ucb_multiplier,
            ..EpochGpUcbSettings::for_study(space, definition.noisy, spec.epochs as usize)
        };
        return Ok(ModelStrategy::Epochs(Box::new(EpochStrategy {
            strategy: EpochGpUcb::new(setup.domain(), settings, seed)?,
            tellings: ToldTrials::new(definition)?,
        })));
    }
    let strategy = strategy(definition, own, &setup)?;
    Ok(ModelStrategy::Final(match &definition.archive {
        None => strategy,
        Some(archive) => archive.before(definition, space, strategy)?,
    }))
}

/// The best points of old studies that are tried first.
fn first_points(definition: &Definition, space: &Space) -> Result<Vec<Vec<f64>>, StudyError> {
    let meta = definition.meta.as_ref();
    let Some(meta) = meta.filter(|meta| meta.settings.warm_start > 0) else {
        return Ok(Vec::new());
    };
    let tasks = meta.tasks(space, definition.direction)?;
    let best = WarmStart::best_points(&tasks, space.dim(), meta.settings.warm_start);
    Ok(best.rows().map(<[f64]>::to_vec).collect())
}

/// Returns true if coordinates are those of one point, but for the rounding on the way through a parameter's own units.
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
