//! A study: ask for trials, tell how they ended, look at what was found.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use fedbo_space::{Direction, Point, Space};
use fedbo_storage::{
    AddOutcome, MemoryStorage, NewTrial, Report, ReportOutcome, Snapshot, Stop, Storage,
    StorageError, StudyKey, StudyRecord, TellAuthority, TellOutcome, Told, Trial, Worker,
};
use fedbo_strategies::{Strategy, StrategyError};

use crate::early_stopping::RuleEvaluator;
use crate::meta::Units;
use crate::model::{Model, OwnStrategy, n_retries};
use crate::pace::Pace;
use crate::{Definition, Insight, MetaSpec, StrategySpec, StudyError, Surface, TransferStep};

/// Attempts at most: of proposals whose point is there already, and of changes of several trials that were overtaken.
pub(crate) const ATTEMPTS_MAX: u32 = 100;

/// One party's study over a storage. Cheap to share between threads; any number of processes may work on one study.
///
/// Asks of one process happen one after another, so that each knows the others' open trials.
pub struct Study {
    storage: Arc<dyn Storage>,
    key: StudyKey,
    definition: Definition,
    space: Space,
    /// Made where the first proposal needs it: to look at a study, no model of old ones is fitted.
    model: Mutex<Option<Model>>,
    /// The caller's own strategy, where the definition leaves queries to it.
    own: Option<Arc<OwnStrategy>>,
    /// The judge of trials, which holds their reports; made where the first verdict needs it.
    judge: Mutex<Option<RuleEvaluator>>,
}

impl fmt::Debug for Study {
    /// The study's name and place: observations stay out of logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Study")
            .field("name", &self.definition.name)
            .field("storage", &self.storage)
            .finish_non_exhaustive()
    }
}

/// The result of asking.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "made once a trial, and mostly of the large kind")]
pub enum AskOutcome {
    /// A trial to evaluate.
    Trial(Trial),
    /// The study has as many trials as it may, and none of them is free.
    Full {
        /// Trials that others evaluate, or that are held by hand.
        open: Vec<Trial>,
    },
}

impl Study {
    /// A study in this process's memory.
    ///
    /// # Errors
    /// If the definition is not valid.
    pub fn in_memory(definition: &Definition) -> Result<Self, StudyError> {
        Self::open(Arc::new(MemoryStorage::new()), definition)
    }

    /// Creates a study, or goes on with the one that is stored under its name.
    ///
    /// # Errors
    /// If the definition is not valid, another one is stored under this name, or the storage fails.
    pub fn open(storage: Arc<dyn Storage>, definition: &Definition) -> Result<Self, StudyError> {
        prepared(definition)?; // nothing that cannot be used is stored
        let record = storage.create(&definition.name, &definition.to_text())?;
        let study = Self::from_record(storage, &record)?;
        match study.definition.difference(definition) {
            Some(differs) => Err(differs),
            None => Ok(study),
        }
    }

    /// A study that is stored; the only one if none is named.
    ///
    /// # Errors
    /// If there is no such study, or the storage fails.
    pub fn load(storage: Arc<dyn Storage>, name: Option<&str>) -> Result<Self, StudyError> {
        let records = storage.studies()?;
        let known = || match records.as_slice() {
            [] => "no study".to_owned(),
            some => {
                let names: Vec<String> = some.iter().map(|r| format!("{:?}", r.name)).collect();
                names.join(", ")
            }
        };
        let record = match (name, records.as_slice()) {
            (Some(name), _) => records
                .iter()
                .find(|record| record.name == name)
                .ok_or_else(|| StudyError::NoStudy { name: name.to_owned(), known: known() })?,
            (None, [only]) => only,
            (None, _) => return Err(StudyError::WhichStudy { known: known() }),
        };
        Self::from_record(storage, record)
    }

    fn from_record(storage: Arc<dyn Storage>, record: &StudyRecord) -> Result<Self, StudyError> {
        let definition = Definition::from_text(&record.name, &record.definition)?;
        let (space, model) = prepared(&definition)?;
        Ok(Self {
            key: record.key,
            space,
            model: Mutex::new(model),
            own: None,
            judge: Mutex::new(None),
            storage,
            definition,
        })
    }

    /// Lets a strategy of the caller's own choose the queries of a study whose definition says so ([`StrategySpec::Own`]).
    ///
    /// `strategy` was told nothing yet: copies of it are told all that the storage knows, in the order of telling, and are asked for what
    /// follows the initial design ([`Definition::initial`]). So a study of it goes on after an interruption like every other, if what the
    /// strategy asks for is a function of what it was told and of the stream that it is given.
    ///
    /// ```
    /// use fedbo_strategies::{Observation, Points, Proposal, Source, Strategy, StrategyError};
    /// use fedbo_space::ParameterSpec;
    /// use fedbo_streams::Stream;
    /// use fedbo_study::{Definition, StrategySpec, Study};
    ///
    /// /// Queries a point near the best one so far.
    /// #[derive(Clone, Default)]
    /// struct HillClimber {
    ///     best: Option<(Vec<f64>, f64)>,
    /// }
    ///
    /// impl Strategy for HillClimber {
    ///     fn ask(&self, _pending: &Points, stream: &mut Stream) -> Result<Proposal, StrategyError> {
    ///         let centre = self.best.as_ref().map_or([0.5, 0.5].as_slice(), |(unit, _)| unit);
    ///         let mut near = |c: &f64| (c + 0.1 * stream.normal()).clamp(0.0, 1.0);
    ///         let unit = centre.iter().map(&mut near).collect();
    ///         Ok(Proposal { unit, source: Source::Own })
    ///     }
    ///
    ///     fn tell(&mut self, observed: &[Observation]) -> Result<(), StrategyError> {
    ///         for trial in observed {
    ///             let Some(value) = trial.value else { continue };
    ///             if self.best.as_ref().is_none_or(|(_, best)| value > *best) {
    ///                 self.best = Some((trial.unit.clone(), value));
    ///             }
    ///         }
    ///         Ok(())
    ///     }
    /// }
    ///
    /// let definition = Definition::new("hill")
    ///     .parameter("x", ParameterSpec::float(-2.0, 2.0))
    ///     .parameter("y", ParameterSpec::float(-2.0, 2.0))
    ///     .strategy(StrategySpec::own())
    ///     .minimize();
    /// let study = Study::in_memory(&definition)?.with_strategy(HillClimber::default())?;
    /// study.optimize(60, |point| Ok(point.number("x").powi(2) + point.number("y").powi(2)))?;
    /// let best = study.best()?.expect("a trial with a value");
    /// assert!(best.value().is_some_and(|value| value < 0.05));
    /// # Ok::<(), fedbo_study::StudyError>(())
    /// ```
    ///
    /// # Errors
    /// If the study's definition names another strategy.
    pub fn with_strategy(
        mut self,
        strategy: impl Strategy + Clone + Sync + 'static,
    ) -> Result<Self, StudyError> {
        let named = self.definition.strategy;
        if named != StrategySpec::own() {
            return Err(StudyError::NotOwnStrategy {
                name: self.definition.name.clone(),
                strategy: named.name(),
            });
        }
        self.own = Some(Arc::new(move || Box::new(strategy.clone())));
        self.model = Mutex::new(None);
        Ok(self)
    }

    /// Returns its definition.
    pub fn definition(&self) -> &Definition {
        &self.definition
    }

    /// Its search space.
    pub fn space(&self) -> &Space {
        &self.space
    }

    /// Returns the direction in which values are better.
    pub fn direction(&self) -> Direction {
        self.definition.direction
    }

    /// The next trial, held by hand until it is told: a waiting one, or a new proposal.
    ///
    /// # Errors
    /// If no query can be proposed, or the storage fails.
    pub fn ask(&self) -> Result<Trial, StudyError> {
        match self.ask_as(&Worker::by_hand(), None, None)? {
            AskOutcome::Trial(trial) => Ok(trial),
            AskOutcome::Full { .. } => unreachable!("a study without a limit is never full"),
        }
    }

    /// `n` trials at once: each takes into account that the others are open.
    ///
    /// # Errors
    /// As for [`Study::ask`]; what was asked for before the error stays asked for.
    pub fn ask_many(&self, n: usize) -> Result<Vec<Trial>, StudyError> {
        (0..n).map(|_| self.ask()).collect()
    }

    /// The next trial for `worker`, whose it is for `lease` (`None`: until told), if the study may have more than it has:
    /// a waiting trial or one whose holder is gone, else a new proposal.
    ///
    /// # Errors
    /// If no query can be proposed, or the storage fails.
    pub fn ask_as(
        &self,
        worker: &Worker,
        lease: Option<Duration>,
        limit: Option<u64>,
    ) -> Result<AskOutcome, StudyError> {
        match self.ask_unless_stopped(worker, lease, limit, None, &|| true)? {
            ControlFlow::Continue(asked) => Ok(asked),
            ControlFlow::Break(_) => unreachable!("who asks outside a run heeds no stop"),
        }
    }

    /// The same for a run that knew of the first `known_stops` stops when it began; `Break` with a later one. `None` heeds no stop.
    /// While other processes add their trials first, it waits and tries again as long as `goes_on` returns true.
    ///
    /// # Errors
    /// As for [`Study::ask_as`].
    pub fn ask_unless_stopped(
        &self,
        worker: &Worker,
        lease: Option<Duration>,
        limit: Option<u64>,
        known_stops: Option<u64>,
        goes_on: &dyn Fn() -> bool,
    ) -> Result<ControlFlow<Stop, AskOutcome>, StudyError> {
        let mut duplicates = 0;
        let mut pace = Pace::new();
        while duplicates < ATTEMPTS_MAX {
            let mut slot = self.model();
            pace.begin();
            match self.storage.claim_unless_stopped(self.key, worker, lease, known_stops)? {
                ControlFlow::Continue(None) => {}
                ControlFlow::Continue(Some(trial)) => {
                    return Ok(ControlFlow::Continue(AskOutcome::Trial(trial)));
                }
                ControlFlow::Break(stop) => return Ok(ControlFlow::Break(stop)),
            }
            let began = Instant::now();
            let model = self.built(&mut slot)?;
            let snapshot = self.storage.snapshot(self.key, model.n_told())?;
            // A failed trial whose point is evaluated again does not count.
            let n_retries =
                model.n_retries() + n_retries(&snapshot.told) + n_retries(&snapshot.open);
            let limit = limit.map(|limit| limit.saturating_add(n_retries));
            if limit.is_some_and(|limit| snapshot.n_trials >= limit) {
                let open = snapshot.open;
                return Ok(ControlFlow::Continue(AskOutcome::Full { open }));
            }
            self.take_in(model, &snapshot.told)?;
            let proposal = model.propose(snapshot.n_trials, &snapshot.open, duplicates)?;
            let point = self.space.decode(&proposal.unit);
            let new = NewTrial {
                ask_seconds: began.elapsed().as_secs_f64(),
                holder: Some((worker.clone(), lease)),
                unique: !self.definition.noisy,
                number: Some(snapshot.n_trials),
                limit,
                ..NewTrial::new(encoding(&self.space, &point)?, point, proposal.source.to_string())
            };
            let added = match self.storage.add_unless_stopped(self.key, &new, known_stops)? {
                ControlFlow::Continue(added) => added,
                ControlFlow::Break(stop) => return Ok(ControlFlow::Break(stop)),
            };
            match added {
                AddOutcome::Trial(trial) => {
                    return Ok(ControlFlow::Continue(AskOutcome::Trial(trial)));
                }
                // A range of so few floats that different coordinates mean the same: random points from here on.
                AddOutcome::Duplicate { .. } => duplicates += 1,
                // Somebody else asked meanwhile: again, with their trial among the open ones.
                AddOutcome::Overtaken | AddOutcome::Full => {
                    drop(slot);
                    pace.overtaken(goes_on)?;
                }
            }
        }
        let n_points = self.model().as_ref().map_or(0, Model::n_known);
        Err(StrategyError::Exhausted { n_points }.into())
    }

    /// Tells the value of a trial that is held by hand, or that nobody holds.
    ///
    /// # Errors
    /// If the value is not finite, the trial is somebody else's or has ended in another way, or the storage fails.
    pub fn tell(&self, number: u64, value: f64) -> Result<TellOutcome, StudyError> {
        self.tell_as(TellAuthority::Hand, number, &Told::Value(value))
    }

    /// Tells the numbers of such a trial, in the order of [`Definition::number_names`].
    ///
    /// # Errors
    /// As for [`Study::tell`], or if they are not as many as the study has.
    pub fn tell_numbers(&self, number: u64, numbers: Vec<f64>) -> Result<TellOutcome, StudyError> {
        self.tell_as(TellAuthority::Hand, number, &Told::with_numbers(numbers))
    }

    /// Tells that such a trial failed, and why.
    ///
    /// # Errors
    /// As for [`Study::tell`].
    pub fn tell_failed(&self, number: u64, message: &str) -> Result<TellOutcome, StudyError> {
        let told = Told::Failed { kind: "reported".to_owned(), message: message.to_owned() };
        self.tell_as(TellAuthority::Hand, number, &told)
    }

    /// Tells how a trial ended. When it returns, the ending is as durable as the storage makes it.
    ///
    /// # Errors
    /// As for [`Study::tell`].
    pub fn tell_as(
        &self,
        teller: TellAuthority<'_>,
        number: u64,
        told: &Told,
    ) -> Result<TellOutcome, StudyError> {
        match told {
            Told::Value(_) | Told::Numbers(_) => self.definition.check_numbers(told.numbers())?,
            Told::Stopped { value, .. } if !value.is_finite() => {
                return Err(StudyError::NotFinite { value: *value });
            }
            Told::Stopped { .. } | Told::Failed { .. } => {}
        }
        Ok(self.storage.finish(self.key, number, teller, told)?)
    }

    /// Adds a point of the caller's own; it waits for the next worker who asks.
    ///
    /// # Errors
    /// If it is not in the space, is a trial already (unless the study is noisy), or the storage fails.
    pub fn enqueue(&self, point: &Point) -> Result<Trial, StudyError> {
        let point = self.space.normalize(point)?;
        let new = NewTrial {
            unique: !self.definition.noisy,
            ..NewTrial::new(encoding(&self.space, &point)?, point, "enqueued")
        };
        match self.storage.add(self.key, &new)? {
            AddOutcome::Trial(trial) => Ok(trial),
            AddOutcome::Duplicate { number } => Err(StudyError::Duplicate { number }),
            AddOutcome::Overtaken | AddOutcome::Full => {
                unreachable!("neither a number nor a limit was given")
            }
        }
    }

    /// Adds trials that were evaluated elsewhere, with their numbers: all of them, or none. Their points may be those of others.
    pub(crate) fn add_imported(&self, trials: &[(Point, Vec<f64>)]) -> Result<(), StudyError> {
        let told = |(point, numbers): &(Point, Vec<f64>)| {
            let new = NewTrial {
                holder: Some((Worker::by_hand(), None)),
                ..NewTrial::new(encoding(&self.space, point)?, point.clone(), "imported")
            };
            Ok((new, Told::with_numbers(numbers.clone())))
        };
        let told = trials.iter().map(told).collect::<Result<Vec<_>, StudyError>>()?;
        Ok(self.storage.add_told(self.key, &told)?)
    }

    /// Puts the point of a failed trial in line once more, as a new trial, which waits for the next worker who asks. The failure
    /// stays in the record; once the new trial is told, it does not count any more: not for the model, and not for the number of
    /// trials.
    ///
    /// # Errors
    /// If the trial did not fail or is tried again already, or the storage fails.
    pub fn retry(&self, number: u64) -> Result<Trial, StudyError> {
        let trials = self.trials()?;
        let n_trials = trials.len() as u64;
        let trial = trials.iter().find(|trial| trial.number == number);
        let trial = trial.ok_or(StorageError::NoTrial { number, n_trials })?;
        if !matches!(trial.told(), Some(Told::Failed { .. })) {
            let state = trial.state.word();
            return Err(StudyError::NotFailed { number, state });
        }
        let mut later = trials.iter();
        if let Some(by) = later.find(|later| later.retry_of() == Some(number)) {
            let by = by.number;
            return Err(StudyError::TriedAgain { number, by });
        }
        let mut waiting = self.enqueue_retries(|trial| trial.number == number)?;
        match waiting.pop() {
            Some(trial) => Ok(trial),
            // Somebody else put it in line at the same moment, which the next look shows.
            None => self.retry(number),
        }
    }

    /// The same for all failed trials that are not tried again yet; the new trials, in the order of the failed ones.
    ///
    /// # Errors
    /// If the storage fails.
    pub fn retry_failed(&self) -> Result<Vec<Trial>, StudyError> {
        self.enqueue_retries(|_| true)
    }

    /// The same for those of these trials that failed and are not tried again yet.
    ///
    /// # Errors
    /// If the storage fails.
    pub fn retry_those(&self, numbers: &BTreeSet<u64>) -> Result<Vec<Trial>, StudyError> {
        self.enqueue_retries(|trial| numbers.contains(&trial.number))
    }

    /// Stops the study: each [`Study::run`] of it that goes on now, in any process, begins no further trial, and ends once those that it
    /// evaluates are told. A run that begins later, and whoever asks outside a run, is not concerned. `by` says what program was used.
    ///
    /// # Errors
    /// If the storage fails.
    pub fn stop(&self, by: &str) -> Result<Stop, StudyError> {
        Ok(self.storage.stop(self.key, by)?)
    }

    /// The last stop; `None` if nobody ever stopped the study.
    ///
    /// # Errors
    /// If the storage fails.
    pub fn last_stop(&self) -> Result<Option<Stop>, StudyError> {
        Ok(self.storage.last_stop(self.key)?)
    }

    fn enqueue_retries(&self, is_meant: impl Fn(&Trial) -> bool) -> Result<Vec<Trial>, StudyError> {
        let mut added: Vec<Trial> = Vec::new();
        for _ in 0..ATTEMPTS_MAX {
            let trials = self.trials()?;
            let retried: BTreeSet<u64> = trials.iter().filter_map(Trial::retry_of).collect();
            let mut number = trials.len() as u64;
            let mut overtaken = false;
            for trial in &trials {
                let is_failed = matches!(trial.told(), Some(Told::Failed { .. }));
                if !is_failed || retried.contains(&trial.number) || !is_meant(trial) {
                    continue;
                }
                let new = NewTrial {
                    encoding: encoding(&self.space, &trial.point)?,
                    point: trial.point.clone(),
                    source: trial.source_of_retry(),
                    ask_seconds: 0.0,
                    holder: None,
                    unique: false,
                    // Whoever else does the same at this moment gets the number, or is overtaken: no trial is tried again twice.
                    number: Some(number),
                    limit: None,
                };
                match self.storage.add(self.key, &new)? {
                    AddOutcome::Trial(trial) => added.push(trial),
                    AddOutcome::Overtaken | AddOutcome::Full | AddOutcome::Duplicate { .. } => {
                        overtaken = true;
                        break;
                    }
                }
                number += 1;
            }
            if !overtaken {
                return Ok(added);
            }
        }
        Err(StudyError::Overtaken { attempts: ATTEMPTS_MAX })
    }

    /// Lets a trial that is held by hand wait for somebody else.
    ///
    /// # Errors
    /// If it is somebody else's or has ended, or the storage fails.
    pub fn release_trial(&self, number: u64) -> Result<(), StudyError> {
        self.release_trial_as(TellAuthority::Hand, number)
    }

    /// Lets a trial wait for somebody else, whose holder or whose person says so.
    ///
    /// # Errors
    /// As for [`Study::release_trial`].
    pub fn release_trial_as(
        &self,
        teller: TellAuthority<'_>,
        number: u64,
    ) -> Result<(), StudyError> {
        Ok(self.storage.release_trial(self.key, number, teller)?)
    }

    pub(crate) fn keep_report(
        &self,
        number: u64,
        teller: TellAuthority<'_>,
        report: Report,
    ) -> Result<ReportOutcome, StorageError> {
        self.storage.report(self.key, number, teller, report)
    }

    /// Returns the trials that were told after the given place in the order of telling, and those that are open.
    pub(crate) fn snapshot(&self, after: u64) -> Result<Snapshot, StorageError> {
        self.storage.snapshot(self.key, after)
    }

    /// The same; of the reports of open trials in `from_epochs`, by number, only those from this epoch on.
    pub(crate) fn snapshot_from(
        &self,
        after: u64,
        from_epochs: &BTreeMap<u64, u32>,
    ) -> Result<Snapshot, StorageError> {
        self.storage.snapshot_from(self.key, after, from_epochs)
    }

    pub(crate) fn judges(&self) -> MutexGuard<'_, Option<RuleEvaluator>> {
        // What is taken in is complete before it could panic.
        self.judge.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lengthens the lease of all that a worker holds to `lease` from now. Of what others hold by now, nothing changes.
    ///
    /// # Errors
    /// If the storage fails.
    pub fn renew(&self, worker: &Worker, lease: Duration) -> Result<(), StudyError> {
        Ok(self.storage.renew(self.key, &worker.id, lease)?)
    }

    /// Returns the contradictions between the stored trials and the study's definition, trial by trial: points that are
    /// not in its space, and more or fewer numbers than it names.
    ///
    /// # Errors
    /// If the storage fails.
    pub fn check(&self) -> Result<Vec<String>, StudyError> {
        let n_numbers = self.definition.number_names().len();
        let problem = |trial: &Trial| match self.space.normalize(&trial.point) {
            _ if trial.value().is_some() && trial.numbers().len() != n_numbers => {
                let found = trial.numbers().len();
                Some(format!("it has {found} numbers, and the study names {n_numbers}"))
            }
            Ok(point) if point == trial.point => None,
            Ok(_) => Some("its parameters are not in the space's order and types".to_owned()),
            Err(error) => Some(error.to_string()),
        };
        let trials = self.trials()?;
        let problems = trials.iter().filter_map(|trial| problem(trial).map(|what| (trial, what)));
        Ok(problems.map(|(trial, what)| format!("trial {}: {what}", trial.number)).collect())
    }

    /// Trials that have not ended, in the order of asking.
    ///
    /// # Errors
    /// If the storage fails.
    pub fn open_trials(&self) -> Result<Vec<Trial>, StudyError> {
        Ok(self.storage.snapshot(self.key, u64::MAX >> 1)?.open)
    }

    /// All trials in the order of asking.
    ///
    /// # Errors
    /// If the storage fails.
    pub fn trials(&self) -> Result<Vec<Trial>, StudyError> {
        Ok(self.storage.trials(self.key)?)
    }

    /// The feasible trial with the best value, the earliest of equals; `None` while there is no such trial.
    ///
    /// # Errors
    /// If the study has several objectives, or the storage fails.
    pub fn best(&self) -> Result<Option<Trial>, StudyError> {
        if self.definition.outcomes().n_objectives > 1 {
            return Err(StudyError::SeveralObjectives { name: self.definition.name.clone() });
        }
        Ok(self.best_trials()?.pop())
    }

    /// The feasible trials that no other one dominates, in the order of asking, of equal ones the earliest; with one objective the best trial
    /// alone. Empty while no trial is feasible.
    ///
    /// # Errors
    /// If the storage fails.
    pub fn best_trials(&self) -> Result<Vec<Trial>, StudyError> {
        let trials = self.trials()?;
        Ok(self.definition.best_trials(&trials).into_iter().cloned().collect())
    }

    /// Returns the insight that a surrogate gives into all that was told; `None` while there are fewer than two values.
    /// It is fitted anew, so it also serves studies whose strategy has none.
    ///
    /// # Errors
    /// If the storage or the surrogate fails.
    pub fn insight(&self) -> Result<Option<Insight>, StudyError> {
        Insight::of(&self.definition, &self.space, self.trials()?)
    }

    /// The same for one of several objectives, by its place, without regard to constraints.
    ///
    /// # Errors
    /// As for [`Study::insight`].
    ///
    /// # Panics
    /// If the study has no such objective.
    pub fn insight_of(&self, objective: usize) -> Result<Option<Insight>, StudyError> {
        if self.definition.objectives.is_empty() {
            return self.insight();
        }
        let trials = self.trials()?;
        let (definition, alone) = self.definition.of_objective(objective, trials.clone());
        let mut insight = Insight::of(&definition, &self.space, alone)?;
        if let Some(insight) = &mut insight
            && let Some(whole) =
                trials.into_iter().find(|trial| trial.number == insight.best_by_mean.number)
        {
            insight.best_by_mean = whole; // with all its numbers
        }
        Ok(insight)
    }

    /// Returns the surrogate over the parameters `x` and `y`, with all others as in [`Insight::best_by_mean`]; `None` while
    /// there are fewer than two values. It is fitted anew. Cost O(n³ + m n²) for n values and m ≤ 625 points.
    ///
    /// # Errors
    /// If the space has no such parameters, or the storage or the surrogate fails.
    pub fn surface(&self, x: &str, y: &str) -> Result<Option<Surface>, StudyError> {
        Surface::of(&self.definition, &self.space, self.trials()?, [x, y])
    }

    /// Returns the influence of old studies on the next query; `None` if the study has none. Fits their models if that
    /// was not done yet.
    ///
    /// # Errors
    /// If the storage or a model fails.
    pub fn transfer(&self) -> Result<Option<TransferStep>, StudyError> {
        let Some(meta) = self.learned_from() else {
            return Ok(None);
        };
        let mut slot = self.model();
        let model = self.built(&mut slot)?;
        let snapshot = self.storage.snapshot(self.key, model.n_told())?;
        self.take_in(model, &snapshot.told)?;
        let units = Units::of(meta);
        let n_told = model.n_told();
        Ok(model.transfer().map(|transfer| units.step(n_told, transfer)))
    }

    /// The same before the first trial and after each that was told, in the order of telling: computed anew from what is stored.
    ///
    /// # Errors
    /// If the storage or a model fails.
    pub fn transfer_history(&self) -> Result<Option<Vec<TransferStep>>, StudyError> {
        let Some(meta) = self.learned_from() else {
            return Ok(None);
        };
        let units = Units::of(meta);
        let mut model = self.new_model()?;
        let told = self.storage.snapshot(self.key, 0)?.told;
        let mut steps = Vec::with_capacity(told.len() + 1);
        steps.extend(model.transfer().map(|transfer| units.step(0, transfer)));
        for (index, trial) in told.iter().enumerate() {
            if trial.retry_of().is_some() {
                model = self.new_model()?;
                model.absorb(&told[..=index])?;
            } else {
                model.absorb(std::slice::from_ref(trial))?;
            }
            let n_told = model.n_told();
            steps.extend(model.transfer().map(|transfer| units.step(n_told, transfer)));
        }
        Ok(Some(steps))
    }

    /// Lets a model know what was told since. A failure counts until a trial that evaluated its point again is told: then the model
    /// is made anew without it, so that it stays a function of what was told, however that was batched.
    fn take_in(&self, model: &mut Model, told: &[Trial]) -> Result<(), StudyError> {
        if told.iter().all(|trial| trial.retry_of().is_none()) {
            return model.absorb(told);
        }
        let mut all = self.storage.snapshot(self.key, 0)?.told;
        all.truncate(model.n_known().saturating_add(told.len()));
        *model = self.new_model()?;
        model.absorb(&all)
    }

    /// The old studies, if the strategy learns from them; the best of their points may be tried first all the same.
    fn learned_from(&self) -> Option<&MetaSpec> {
        let meta = self.definition.meta.as_ref()?;
        self.definition.strategy.requires_old_studies().then_some(meta)
    }

    fn built<'a>(&self, slot: &'a mut Option<Model>) -> Result<&'a mut Model, StudyError> {
        Ok(match slot {
            Some(model) => model,
            empty => empty.insert(self.new_model()?),
        })
    }

    /// A model that knows nothing yet.
    fn new_model(&self) -> Result<Model, StudyError> {
        Model::new(&self.definition, self.own.as_deref())
    }

    fn model(&self) -> MutexGuard<'_, Option<Model>> {
        // A panic while proposing leaves the model as it was: what is told is taken in as a whole or not at all.
        self.model.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Bytes that are equal for points that mean the same trial: its coordinates, with one zero.
pub(crate) fn encoding(space: &Space, point: &Point) -> Result<Vec<u8>, StudyError> {
    let unit = space.encode(point)?;
    Ok(unit.iter().flat_map(|v| (v + 0.0).to_le_bytes()).collect())
}

/// The space of a definition that can be used, and its model if that takes no fit.
fn prepared(definition: &Definition) -> Result<(Space, Option<Model>), StudyError> {
    let space = definition.check()?;
    let model = match (&definition.meta, definition.strategy) {
        (Some(_), _) | (_, StrategySpec::Own(_)) => None,
        (None, _) => Some(Model::new(definition, None)?),
    };
    Ok((space, model))
}
